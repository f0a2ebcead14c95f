package coordinator

import (
	"strings"
	"testing"

	"cutwater/messages"
	"cutwater/protocol/job"
)

// poison is a message whose handling panics: its fields cannot be read.
var poison = (*messages.TaskStateChanged)(nil)

func (r *rig) fallen() []Fallen {
	var all []Fallen
	for _, e := range r.events {
		if f, ok := e.(Fallen); ok {
			all = append(all, f)
		}
	}
	return all
}

// running leads the job to its first completed checkpoint.
func (r *rig) running() {
	r.t.Helper()
	r.Settle()
	r.report(messages.TaskState_TASK_RUNNING)
	r.Advance(100)
	trigger := last[*messages.TriggerCheckpoint](r)
	r.deliver(&messages.AcknowledgeCheckpoint{Fence: trigger.Fence, Task: trigger.Task, Checkpoint: trigger.Checkpoint, Metrics: &messages.CheckpointMetrics{}})
	if n := len(r.record().Completed); n != 1 {
		r.t.Fatalf("%d checkpoints are complete, want 1", n)
	}
}

// A coordinator that panics is replaced by one with a higher epoch on record, which
// takes the running task over and leads the job to its end.
func TestSuccessor(t *testing.T) {
	r := newRig(t)
	r.running()
	r.deliver(poison)
	f := r.fallen()
	if len(f) != 1 || f[0].GivenUp || f[0].Life != 1 || !strings.Contains(f[0].Cause, "nil pointer") || !strings.Contains(f[0].Stack, "taskStateChanged") {
		t.Fatalf("fallen: %v", f)
	}
	if strings.Contains(f[0].String(), "\n") {
		t.Errorf("the event is not one line: %s", f[0])
	}
	d, ask := last[*messages.Deploy](r), last[*messages.AdoptTasks](r)
	if ask.Fence.Epoch != 2 || r.record().Epoch != 2 || ask.Fence.Attempt != d.Fence.Attempt || ask.Completed != 1 || ask.Coordinator != r.record().Coordinator {
		t.Fatalf("asked %v, epoch %d on record", ask, r.record().Epoch)
	}
	r.deliver(&messages.AdoptableTasks{Fence: ask.Fence, Node: "n2", Tasks: []*messages.AdoptableTask{{Task: d.Task, Attempt: d.Fence.Attempt, Fingerprint: d.Fingerprint}}})
	r.deliver(&messages.TaskAccount{Fence: ask.Fence, Task: d.Task, State: messages.TaskState_TASK_RUNNING, Completed: 1})
	if r.status != messages.JobStatus_RUNNING || last[*messages.Deploy](r) != d {
		t.Fatalf("the job is %s, deployed %v", r.status, last[*messages.Deploy](r).Fence)
	}
	r.Advance(100)
	if next := last[*messages.TriggerCheckpoint](r); next.Checkpoint != 2 || next.Fence.Epoch != 2 || next.Fence.Attempt != d.Fence.Attempt {
		t.Fatalf("triggered %v", next)
	}
	r.deliver(&messages.TaskStateChanged{Fence: ask.Fence, Task: d.Task, State: messages.TaskState_TASK_FINISHED})
	if len(r.ends) != 1 || r.ends[0] != nil || r.record().Status != messages.JobStatus_FINISHED {
		t.Fatalf("ended %v, on record %v", r.ends, r.record().Status)
	}
}

// Where the task is gone, the successor restores the newest completed checkpoint. So
// does the one after it, which asks for no tasks: they may be why the first one fell.
func TestSuccessorRestores(t *testing.T) {
	r := newRig(t)
	r.running()
	r.deliver(poison)
	r.deliver(&messages.AdoptableTasks{Fence: last[*messages.AdoptTasks](r).Fence, Node: "n2"})
	for epoch := uint64(2); epoch <= 3; epoch++ {
		d := last[*messages.Deploy](r)
		if d.Fence.Epoch != epoch || r.record().Epoch != epoch || d.Restore.GetCheckpoint() != 1 {
			t.Fatalf("deployed under epoch %d (on record %d) from checkpoint %d, want %d and 1", d.Fence.Epoch, r.record().Epoch, d.Restore.GetCheckpoint(), epoch)
		}
		r.report(messages.TaskState_TASK_RUNNING)
		if epoch == 2 {
			r.deliver(poison)
		}
	}
	if ask := last[*messages.AdoptTasks](r); ask.Fence.Epoch != 2 {
		t.Errorf("asked %v", ask)
	}
}

// Answers and timers that a fallen coordinator asked for do not reach its
// successor, which numbers its own from 1 as well.
func TestSuccessorHearsNothingOfItsPredecessor(t *testing.T) {
	r := newRig(t)
	r.Turns() // StartEpoch is outstanding
	if len(r.Work) != 1 {
		t.Fatalf("%d pieces of work are outstanding, want 1", len(r.Work))
	}
	old := r.Work[0]
	r.Work = nil
	r.System.Deliver("n1|coordinator/"+testJob, poison)
	r.Turns() // the successor asks for an epoch too
	old()     // the answer to the first one: epoch 1
	r.deliver(&messages.TimerFired{Key: "job/tick", Generation: 1<<generationBits | 1})
	if d := last[*messages.Deploy](r); d.Fence.Epoch != 2 {
		t.Fatalf("deployed under epoch %d, which was the predecessor's", d.Fence.Epoch)
	}
}

// What panics again and again ends the job FAILED, with one sentence, and no
// checkpoint is deleted.
func TestGivesUpAfterManyFalls(t *testing.T) {
	r := newRig(t)
	for range maxFalls + 1 {
		r.Settle()
		r.deliver(poison)
	}
	r.Settle()
	f := r.fallen()
	if len(f) != maxFalls+1 || !f[maxFalls].GivenUp {
		t.Fatalf("fallen: %v", f)
	}
	rec := r.record()
	if rec.Status != messages.JobStatus_FAILED || rec.Epoch != maxFalls+2 || len(r.ends) != 1 || r.ends[0] != nil {
		t.Fatalf("on record %v, epoch %d, ended %v", rec.Status, rec.Epoch, r.ends)
	}
	if !strings.Contains(rec.Failure, "nil pointer") || strings.Contains(rec.Failure, "\n") {
		t.Errorf("failure: %s", rec.Failure)
	}
	if r.failure == nil || r.failure.Error() != rec.Failure {
		t.Errorf("the status says %v, the record %s", r.failure, rec.Failure)
	}
}

// Falls that lie far apart are each followed by a successor.
func TestRareFallsAreForgiven(t *testing.T) {
	r := newRig(t)
	for range 3 * maxFalls {
		r.Settle()
		r.deliver(poison)
		r.Advance(fallsWithinMs)
	}
	if len(r.ends) != 0 || r.record().Epoch != 3*maxFalls+1 {
		t.Fatalf("ended %v, epoch %d", r.ends, r.record().Epoch)
	}
}

// One that falls even while it records the failure has no successor, and whoever
// waits for the job's end is told.
func TestFallWhileGivingUp(t *testing.T) {
	r := newRig(t)
	r.changed = func() { panic("always") }
	r.Settle()
	if len(r.ends) != 1 || r.ends[0] == nil || !strings.Contains(r.ends[0].Error(), "always") {
		t.Fatalf("ended %v", r.ends)
	}
	if got := len(r.fallen()); got != maxFalls+2 {
		t.Errorf("%d coordinators fell, want %d", got, maxFalls+2)
	}
}

// A coordinator that falls after the end is on record has nobody to follow it.
func TestFallAfterTheEnd(t *testing.T) {
	r := newRig(t)
	r.Settle()
	r.report(messages.TaskState_TASK_RUNNING)
	r.changed = func() {
		if r.status == messages.JobStatus_FINISHED {
			panic("late\nand more")
		}
	}
	r.report(messages.TaskState_TASK_FINISHED)
	if len(r.ends) != 1 || r.ends[0] != nil || r.record().Status != messages.JobStatus_FINISHED || r.record().Epoch != 1 {
		t.Fatalf("ended %v, on record %v", r.ends, r.record())
	}
	if f := r.fallen(); len(f) != 1 || !f[0].Ended || f[0].GivenUp || f[0].Cause != "late" {
		t.Errorf("fallen: %+v", f)
	}
}

// A node that stops starts no successor.
func TestNoSuccessorOnAStoppedNode(t *testing.T) {
	r := newRig(t)
	r.Settle()
	r.System.Deliver("n1|coordinator/"+testJob, poison)
	r.Turn() // in which it falls
	r.System.StopAll()
	r.Settle()
	if len(r.ends) != 1 || r.ends[0] == nil || r.record().Epoch != 1 {
		t.Fatalf("ended %v, epoch %d", r.ends, r.record().Epoch)
	}
}

// A coordinator that starts where one of its job has been does not take that one's
// answers and timers for its own, although both count from 1.
func TestAnswersOfAnEarlierCoordinator(t *testing.T) {
	r := newRig(t)
	address := job.CoordinatorAddress("n1", testJob)
	r.Turns()
	late := r.Work
	if r.Work = nil; len(late) != 1 {
		t.Fatalf("the first coordinator has asked for %d operations, want its epoch", len(late))
	}
	r.System.Stop(address)
	r.Turns()
	if err := Spawn(r.System, r.config); err != nil {
		t.Fatal(err)
	}
	r.Turns()
	own := r.Work
	r.Work = nil
	late[0]()
	r.Turns()
	r.deliver(&messages.TimerFired{Key: "checkpoint", Generation: 1<<generationBits | 1})
	if len(r.Work) > 0 || len(r.Sent) > 0 {
		t.Errorf("the second coordinator acts on what the first one asked for: %d operations, sent %v", len(r.Work), r.Sent)
	}
	r.Work = own
	r.Settle()
	if d := last[*messages.Deploy](r); d.Fence.Epoch != 2 || r.record().Epoch != 2 {
		t.Errorf("deployed under epoch %d, on record %d, want 2", d.Fence.Epoch, r.record().Epoch)
	}
}
