package job

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"cutwater/messages"
)

// lives starts a job of two tasks, a source and what it feeds, and runs it.
func lives(t *testing.T, tolerable uint32) *world {
	t.Helper()
	w := newWorld()
	w.graph = &messages.JobGraph{Name: "test", Parallelism: 1, Operators: []*messages.OperatorSpec{{Uid: "src", Source: true},
		{Uid: "sums", Keyed: true, Inputs: []*messages.OperatorInput{{Uid: "src", Partitioning: messages.Partitioning_HASH}}}}}
	w.settings = &messages.JobSettings{
		Checkpointing: &messages.CheckpointConfig{IntervalMs: 100, MinPauseMs: 100, NumRetained: 1, MaxConcurrent: 1, TimeoutMs: 60_000,
			AfterTasksFinish: true, TolerableFailures: tolerable},
		Restart: DefaultRestart(),
	}
	w.apply(&messages.MetadataCommand{Command: &messages.MetadataCommand_RegisterJob{RegisterJob: &messages.RegisterJob{Job: testJob, Name: "test"}}})
	marked(t, w)
	return w
}

func (w *world) all(s messages.TaskState) {
	for _, name := range w.order {
		w.step(w.state(w.deployed[name], s, ""))
	}
	w.answerAll()
}

func (w *world) acknowledge(d *messages.Deploy, checkpoint uint64) {
	w.step(&messages.AcknowledgeCheckpoint{Fence: d.Fence, Task: d.Task, Checkpoint: checkpoint, Metrics: &messages.CheckpointMetrics{}})
	w.answerAll()
}

// pass lets time pass; what is asked for is answered.
func (w *world) pass(ms int64) {
	for end := w.nowMs + ms; w.nowMs < end; {
		w.advance(min(50, end-w.nowMs))
		w.answerAll()
	}
}

func (w *world) counts() string { return fmt.Sprintf("%+v", w.master.Stats().Counts) }

// A02 (Reduction): a worker that was lost under a pending checkpoint left "checkpoint in
// progress" for ever. Here the checkpoint is aborted with the attempt, the next one
// completes, and an acknowledgement of the old one is discarded, with an event.
func TestBugLog_A02_TaskLostWhilePending(t *testing.T) {
	w := lives(t, 0)
	w.all(messages.TaskState_TASK_RUNNING)
	w.pass(200)
	if w.master.Stats().Counts.InProgress != 1 {
		t.Fatalf("no checkpoint is pending: %s", w.counts())
	}
	old := w.deployed[w.order[1]]
	w.acknowledge(w.deployed[w.order[0]], 1)
	w.step(w.state(w.deployed[w.order[0]], messages.TaskState_TASK_FAILED, "its node is lost"))
	w.step(w.state(old, messages.TaskState_TASK_CANCELED, ""))
	w.answerAll()
	w.pass(100)
	w.all(messages.TaskState_TASK_RUNNING)
	w.pass(200)
	w.out.Reset()
	w.acknowledge(old, 1)
	if log := w.out.String(); !strings.Contains(log, "DISCARDED") {
		t.Errorf("a late acknowledgement was not discarded: %s", log)
	}
	for _, name := range w.order {
		w.acknowledge(w.deployed[name], 2)
	}
	if c := w.master.Stats().Counts; c.Completed != 1 || w.store.Job(testJob).LastCompleted != 2 {
		t.Errorf("checkpoint 2 did not complete: %s", w.counts())
	}
}

// A06 (FLINK-36512): checkpoints that were refused while tasks started counted as failures.
// Here twenty of them while the tasks are deployed cost neither a failure nor a restart,
// although no failure is tolerated.
func TestBugLog_A06_TriggeredWhileDeploying(t *testing.T) {
	w := lives(t, 0)
	for n := range uint64(20) {
		w.step(&messages.RequestCheckpoint{Job: testJob, Request: n + 1, Type: messages.CheckpointType_CHECKPOINT})
		w.pass(20)
	}
	if c := w.master.Stats().Counts; c.Failed != 0 || w.master.Restarts() != 0 {
		t.Errorf("%d failures, %d restarts", c.Failed, w.master.Restarts())
	}
	w.all(messages.TaskState_TASK_RUNNING)
	w.pass(300)
	for _, name := range w.order {
		w.acknowledge(w.deployed[name], w.store.Job(testJob).LastCheckpoint)
	}
	if c := w.master.Stats().Counts; c.Completed != 1 || w.master.Restarts() != 0 {
		t.Errorf("afterwards: %s, %d restarts", w.counts(), w.master.Restarts())
	}
}

// A09 (risingwave #7082): late answers of one failure each began a recovery. Here a
// hundred reports of an attempt that is over are dropped, and nothing is deployed.
func TestBugLog_A09_OldFailures(t *testing.T) {
	w := lives(t, 0)
	w.all(messages.TaskState_TASK_RUNNING)
	old := w.deployed[w.order[0]]
	w.step(w.state(old, messages.TaskState_TASK_FAILED, "a disk"))
	w.step(w.state(w.deployed[w.order[1]], messages.TaskState_TASK_CANCELED, ""))
	w.answerAll()
	w.pass(100)
	w.all(messages.TaskState_TASK_RUNNING)
	attempt, restarts, stale := w.master.Attempt(), w.master.Restarts(), w.master.Stale()
	for range 100 {
		w.step(w.state(old, messages.TaskState_TASK_FAILED, "a disk"))
		w.answerAll()
	}
	if w.master.Attempt() != attempt || w.master.Restarts() != restarts || restarts != 1 || w.master.Status() != messages.JobStatus_RUNNING {
		t.Errorf("attempt %d, then %d; %d restarts; the job is %v", attempt, w.master.Attempt(), w.master.Restarts(), w.master.Status())
	}
	if got := w.master.Stale() - stale; got != 100 {
		t.Errorf("%d were dropped and counted, want 100", got)
	}
}

// A10 (risingwave #14910): a job that was dropped under a pending barrier was half there
// after a crash. Here the coordinator dies after each answer on its way to the end: the
// job is then recorded as cancelled and nothing is deployed, or it runs whole.
func TestBugLog_A10_CancelledWhilePending(t *testing.T) {
	gone, there := 0, 0
	for steps := range 12 {
		w := lives(t, 0)
		w.all(messages.TaskState_TASK_RUNNING)
		w.pass(200)
		w.acknowledge(w.deployed[w.order[0]], 1)
		w.step(&messages.CancelJob{Job: testJob})
		for n := 0; n < steps; n++ { // answers, then reports
			switch {
			case len(w.work) > 0:
				_ = w.done(0, w.perform(w.work[0].Task)) // it cannot fail
			case n%2 == 0:
				w.step(w.state(w.deployed[w.order[0]], messages.TaskState_TASK_CANCELED, ""))
			default:
				w.step(w.state(w.deployed[w.order[1]], messages.TaskState_TASK_CANCELED, ""))
			}
		}
		w.order, w.deployed = nil, map[string]*messages.Deploy{}
		status := w.store.Job(testJob).Status
		marked(t, w)
		w.pass(4000) // nobody answers for the tasks of before
		switch deployed := len(w.order); {
		case status == messages.JobStatus_CANCELED && deployed == 0:
			gone++
		case status != messages.JobStatus_CANCELED && deployed == 2:
			there++
		default:
			t.Errorf("after %d steps the record says %v, and %d of 2 tasks are deployed", steps, status, deployed)
		}
	}
	if gone == 0 || there == 0 {
		t.Errorf("the crash always came before, or after, the end: %d, %d", there, gone)
	}
}

// manyCheckpoints are those of J01; its row asks for 10,000, which take some seconds.
var manyCheckpoints = flag.Int("checkpoints", 2000, "how many checkpoints TestBugLog_J01 takes")

// J01 (arroyo #688): after some hundred checkpoints all were stuck. Here the last of many
// is as the first hundred: it completes in the same steps and leaves as little in memory.
func TestBugLog_J01_ManyCheckpoints(t *testing.T) {
	w := lives(t, 0)
	w.all(messages.TaskState_TASK_RUNNING)
	one := func() {
		before := w.master.Stats().Counts.Completed
		w.out.Reset()
		for w.master.Stats().Counts.InProgress == 0 {
			w.step(&messages.Heartbeat{Node: "n1", Fence: w.master.fence(), Tasks: []*messages.TaskId{w.master.tasks[0].task, w.master.tasks[1].task}})
			w.pass(50)
		}
		id := w.store.Job(testJob).LastCheckpoint
		for _, name := range w.order {
			w.acknowledge(w.deployed[name], id)
		}
		if w.master.Stats().Counts.Completed != before+1 {
			t.Fatalf("checkpoint %d did not complete: %s", id, w.counts())
		}
	}
	for range 100 {
		one()
	}
	early := testing.AllocsPerRun(100, one)
	for w.master.Stats().Counts.Completed < *manyCheckpoints {
		one()
		w.files = map[string]*messages.CheckpointMetadata{} // the disk's
	}
	late := testing.AllocsPerRun(100, one)
	if late > 1.1*early {
		t.Errorf("a checkpoint takes %.0f allocations, and %.0f after %d", early, late, *manyCheckpoints)
	}
	if n := len(w.store.Job(testJob).Completed); n != 1 || w.master.Restarts() != 0 {
		t.Errorf("%d checkpoints are on record; %d restarts", n, w.master.Restarts())
	}
}

// J07 (FLINK-40379): a job whose node died at every cancel changed its size without end.
// There is no rescaling by itself here; the nearest is the restart: a job that fails at
// once every time keeps its size, and waits longer and longer.
func TestBugLog_J07_FailsEveryTime(t *testing.T) {
	w := lives(t, 0)
	plan, failed := w.master.Plan().String(), uint32(0)
	for w.nowMs < 10*60_000 {
		if attempt := w.master.Attempt(); attempt != failed {
			failed = attempt
			for _, name := range w.order {
				w.step(w.state(w.deployed[name], messages.TaskState_TASK_FAILED, "its node died"))
			}
			w.answerAll()
		}
		w.pass(50)
		w.out.Reset()
	}
	// 50 ms x 1.5^n reaches the minute after 18; then there is one a minute.
	if n := w.master.Restarts(); n < 15 || n > 30 {
		t.Errorf("%d restarts in ten minutes", n)
	}
	if w.master.Plan().String() != plan {
		t.Errorf("the plan has changed:\n%s\n%s", plan, w.master.Plan())
	}
	if !strings.Contains(fmt.Sprint(w.master.Failure()), "its node died") {
		t.Errorf("the failure is %v", w.master.Failure())
	}
}
