package taskmanager

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"cutwater/actors/system"
	"cutwater/actors/system/systemtest"
	"cutwater/actors/timer"
	"cutwater/internal/leak"
	"cutwater/messages"
	"cutwater/messages/describe"
)

// Nothing that a test starts or opens outlives it.
func TestMain(m *testing.M) { leak.VerifyTestMain(m) }

// fake is what a test puts in the place of a task's actor.
type fake struct{ got []proto.Message }

func (k *fake) Started(*system.Self)    {}
func (k *fake) Stopped()                {}
func (k *fake) Receive(m proto.Message) { k.got = append(k.got, m) }

// rig is a task manager whose coordinators stand on another node.
type rig struct {
	*systemtest.Rig
	started []string
	tasks   map[string]*fake
	fail    error // of the next start
	tm      *TaskManager
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{Rig: systemtest.New("n1"), tasks: map[string]*fake{}}
	if err := timer.Spawn(r.System); err != nil {
		t.Fatal(err)
	}
	var err error
	r.tm, err = Spawn(r.System, func(s *system.System, name string, _ *messages.Deploy) error {
		r.started = append(r.started, name)
		if r.fail != nil {
			return r.fail
		}
		r.tasks[name] = &fake{}
		_, err := s.Spawn(name, r.tasks[name], system.NewMailbox(0, nil))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	r.Settle()
	return r
}

func (r *rig) tell(m proto.Message) { r.Deliver("n1|taskmanager", m) }

func fence(attempt uint32) *messages.Fence {
	return &messages.Fence{Job: "j", Epoch: 1, Attempt: attempt}
}

func deploy(attempt uint32, vertex string) *messages.Deploy {
	return &messages.Deploy{Fence: fence(attempt), Task: &messages.TaskId{Vertex: vertex}, Coordinator: "n2|coordinator/j"}
}

func ended(attempt uint32, vertex string, s messages.TaskState) *messages.TaskStateChanged {
	return &messages.TaskStateChanged{Fence: fence(attempt), Task: &messages.TaskId{Vertex: vertex}, State: s}
}

// Deploy starts a task once; repeated, it changes nothing, and after the end it is
// answered with the end.
func TestDeploy(t *testing.T) {
	r := newRig(t)
	r.tell(deploy(1, "v"))
	r.tell(deploy(1, "v"))
	if len(r.started) != 1 || r.started[0] != "task/j/v/0/1" {
		t.Fatalf("started %v", r.started)
	}
	r.tell(ended(1, "v", messages.TaskState_TASK_FINISHED))
	if got := systemtest.Take[*messages.TaskStateChanged](r.Rig); len(got) != 0 {
		t.Fatalf("reported %v: the task itself does that", got)
	}
	r.tell(deploy(1, "v"))
	got := systemtest.Take[*messages.TaskStateChanged](r.Rig)
	if len(r.started) != 1 || len(got) != 1 || got[0].State != messages.TaskState_TASK_FINISHED {
		t.Fatalf("started %v, reported %v", r.started, got)
	}
	r.tell(deploy(2, "v"))
	if len(r.started) != 2 {
		t.Fatalf("the next attempt was not started: %v", r.started)
	}
}

// A task that cannot start has failed, and says so again when it is deployed again.
func TestStartFails(t *testing.T) {
	r := newRig(t)
	r.fail = errors.New("no such program")
	for range 2 {
		r.tell(deploy(1, "v"))
		got := systemtest.Take[*messages.TaskStateChanged](r.Rig)
		if len(got) != 1 || got[0].State != messages.TaskState_TASK_FAILED || got[0].Failure.Message != "no such program" {
			t.Fatalf("reported %v", got)
		}
	}
	if len(r.started) != 1 {
		t.Fatalf("started %v", r.started)
	}
}

// CancelTask reaches a task that runs; of one that ended it brings the end again.
func TestCancel(t *testing.T) {
	r := newRig(t)
	r.tell(deploy(1, "v"))
	cancel := &messages.CancelTask{Fence: fence(1), Task: &messages.TaskId{Vertex: "v"}, Coordinator: "n2|coordinator/j"}
	r.tell(cancel)
	if k := r.tasks["task/j/v/0/1"]; len(k.got) != 1 || k.got[0] != cancel {
		t.Fatalf("the task got %v", k.got)
	}
	r.tell(ended(1, "v", messages.TaskState_TASK_CANCELED))
	r.tell(cancel)
	if got := systemtest.Take[*messages.TaskStateChanged](r.Rig); len(got) != 1 || got[0].State != messages.TaskState_TASK_CANCELED {
		t.Fatalf("reported %v", got)
	}
}

// A CancelTask that overtakes its Deploy wins: the late Deploy starts nothing.
func TestCancelOvertakesDeploy(t *testing.T) {
	r := newRig(t)
	r.tell(&messages.CancelTask{Fence: fence(1), Task: &messages.TaskId{Vertex: "v"}, Coordinator: "n2|coordinator/j"})
	r.tell(deploy(1, "v"))
	got := systemtest.Take[*messages.TaskStateChanged](r.Rig)
	if len(r.started) != 0 || len(got) != 2 || got[1].State != messages.TaskState_TASK_CANCELED {
		t.Fatalf("started %v, reported %v", r.started, got)
	}
}

// Each second every coordinator with tasks here hears which run, and of which attempts:
// after the restart of a region there are several.
func TestHeartbeat(t *testing.T) {
	r := newRig(t)
	r.Advance(HeartbeatMs)
	if got := systemtest.Take[*messages.Heartbeat](r.Rig); len(got) != 0 {
		t.Fatalf("without tasks it said %v", got)
	}
	r.tell(deploy(1, "old"))
	r.tell(deploy(2, "a"))
	r.tell(deploy(2, "b"))
	other := deploy(5, "c")
	other.Fence.Job, other.Coordinator = "k", "n2|coordinator/k"
	r.tell(other)
	r.Advance(HeartbeatMs)
	got := systemtest.Take[*messages.Heartbeat](r.Rig)
	if len(got) != 2 || got[0].Fence.Attempt != 2 || len(got[0].Tasks) != 3 || !slices.Equal(got[0].Attempts, []uint32{1, 2, 2}) || got[1].Fence.Job != "k" {
		t.Fatalf("said %v", got)
	}
	r.tell(ended(1, "old", messages.TaskState_TASK_CANCELED))
	r.tell(ended(2, "a", messages.TaskState_TASK_FINISHED))
	r.Advance(HeartbeatMs)
	if got := systemtest.Take[*messages.Heartbeat](r.Rig); len(got) != 2 || len(got[0].Tasks) != 1 || got[0].Tasks[0].Vertex != "b" || got[0].Attempts != nil {
		t.Fatalf("after an end it said %v", got)
	}
}

// The tasks of a coordinator that is silent for too long are cancelled, those of
// one that is heard go on.
func TestSilentCoordinator(t *testing.T) {
	r := newRig(t)
	r.tell(deploy(1, "v"))
	other := deploy(1, "v")
	other.Fence.Job, other.Coordinator = "k", "n2|coordinator/k"
	r.tell(other)
	silent, heard := r.tasks["task/j/v/0/1"], r.tasks["task/k/v/0/1"]
	for range CoordinatorTimeoutMs / HeartbeatMs {
		r.tell(&messages.Heartbeat{Node: "n2", Fence: other.Fence})
		r.Advance(HeartbeatMs)
	}
	if len(silent.got) != 0 {
		t.Fatalf("cancelled too early: %v", silent.got)
	}
	r.tell(&messages.Heartbeat{Node: "n2", Fence: other.Fence})
	r.Advance(HeartbeatMs)
	if len(silent.got) != 1 || silent.got[0].(*messages.CancelTask).Fence.Attempt != 1 {
		t.Fatalf("the silent coordinator's task got %v", silent.got)
	}
	if len(heard.got) != 0 {
		t.Fatalf("the other's task got %v", heard.got)
	}
}

// Slots in use are those in which a task runs: subtasks of one number share one, those of
// another job do not, and one whose tasks have ended is free before their actors stop.
func TestSlotsInUse(t *testing.T) {
	r := newRig(t)
	second, other := deploy(1, "a"), deploy(1, "a")
	second.Task.Subtask, other.Fence.Job = 1, "k"
	for i, d := range []*messages.Deploy{deploy(1, "a"), deploy(1, "b"), second, other} {
		r.tell(d)
		if got, want := r.tm.SlotsInUse(), []int{1, 1, 2, 3}[i]; got != want {
			t.Errorf("after %d deployments %d slots are in use, want %d", i+1, got, want)
		}
	}
	r.tell(ended(1, "a", messages.TaskState_TASK_FINISHED))
	if got := r.tm.SlotsInUse(); got != 3 {
		t.Errorf("with one of two tasks in a slot %d are in use, want 3", got)
	}
	r.tell(ended(1, "b", messages.TaskState_TASK_CANCELED))
	if got := r.tm.SlotsInUse(); got != 2 {
		t.Errorf("with none of them %d are in use, want 2", got)
	}
}

// After three seconds without a word of a coordinator the agent is told of its tasks,
// each second until it is heard again.
func TestOrphans(t *testing.T) {
	r := newRig(t)
	agent := &fake{}
	if _, err := r.System.Spawn("agent", agent, system.NewMailbox(0, nil)); err != nil {
		t.Fatal(err)
	}
	r.tell(deploy(1, "v"))
	for range orphanedBeats {
		r.Advance(HeartbeatMs)
	}
	if len(agent.got) != 0 {
		t.Fatalf("the agent was told too early: %v", agent.got)
	}
	r.Advance(HeartbeatMs)
	if len(agent.got) != 1 || agent.got[0].(*messages.Heartbeat).Tasks[0].Vertex != "v" || agent.got[0].(*messages.Heartbeat).Fence.Epoch != 1 {
		t.Fatalf("the agent was told %v", agent.got)
	}
	r.tell(&messages.Heartbeat{Node: "n2", Fence: fence(1)})
	r.Advance(HeartbeatMs)
	if len(agent.got) != 1 {
		t.Fatalf("the agent was told of a coordinator that was heard: %v", agent.got)
	}
}

// A coordinator that takes a job over ends the tasks of the one before where it deploys
// its own; those of its own attempts and of other jobs are left alone.
func TestOvertaken(t *testing.T) {
	r := newRig(t)
	r.tell(deploy(1, "v"))
	other := deploy(1, "v")
	other.Fence.Job = "k"
	r.tell(other)
	for attempt := range uint32(2) {
		next := deploy(10+attempt, "v")
		next.Regional = attempt == 1 // which ends nobody
		next.Fence.Epoch, next.Coordinator = 2, "n3|coordinator/j"
		r.tell(next)
	}
	for name, want := range map[string]string{
		"task/j/v/0/1": "n2|coordinator/j", "task/k/v/0/1": "", "task/j/v/0/10": "", "task/j/v/0/11": "",
	} {
		var got []string
		for _, m := range r.tasks[name].got {
			got = append(got, m.(*messages.CancelTask).Coordinator)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s was cancelled for %v, want %q", name, got, want)
		}
	}
}

// AdoptTasks moves the running tasks of the job to another coordinator, and lists them
// with those of its attempt that have ended; other jobs are left alone. From
// then on the new coordinator gets the heartbeats, and only its silence counts. An older
// one is not answered any more.
func TestAdopt(t *testing.T) {
	r := newRig(t)
	for _, v := range []string{"a", "b"} {
		d := deploy(7, v)
		d.Fingerprint = 42
		r.tell(d)
	}
	r.tell(deploy(6, "old"))
	other := deploy(7, "c")
	other.Fence.Job, other.Coordinator = "k", "n2|coordinator/k"
	r.tell(other)
	r.tell(deploy(5, "older"))
	r.tell(deploy(4, "oldest"))
	r.tell(ended(5, "older", messages.TaskState_TASK_FINISHED))
	r.tell(ended(4, "oldest", messages.TaskState_TASK_FINISHED))
	r.tell(ended(7, "b", messages.TaskState_TASK_FINISHED))
	adopt := func(epoch uint64, coordinator string) string {
		systemtest.Take[proto.Message](r.Rig)
		f := fence(7)
		f.Epoch = epoch
		r.tell(&messages.AdoptTasks{Fence: f, Coordinator: coordinator, Completed: 4, Last: 5, Attempts: []uint32{7, 5}})
		var got []string
		for _, s := range r.Sent {
			got = append(got, string(s.To)+" "+describe.Text(s.Message))
		}
		return strings.Join(got, " ")
	}
	const listed = "node:n1 tasks:[{task:{vertex:a} attempt:7 fingerprint:42} {task:{vertex:old} attempt:6} {task:{vertex:older} attempt:5 ended:TASK_FINISHED} {task:{vertex:b} attempt:7 ended:TASK_FINISHED}]}"
	for range 2 { // repeated, it is answered again
		if got := adopt(3, "n3|coordinator/j"); got != "n3|coordinator/j AdoptableTasks{fence:{job:j epoch:3 attempt:7} "+listed {
			t.Fatalf("answered %s", got)
		}
	}
	if got := adopt(2, "n9|coordinator/j"); got != "" {
		t.Fatalf("an older coordinator was answered %s", got)
	}
	for name, want := range map[string]int{"task/j/a/0/7": 2, "task/j/b/0/7": 0, "task/j/old/0/6": 2, "task/k/c/0/7": 0} {
		if got := r.tasks[name].got; len(got) != want {
			t.Errorf("%s got %v", name, got)
		}
	}
	const told = "NewCoordinator{fence:{job:j epoch:3 attempt:7} coordinator:n3|coordinator/j completed:4 last:5}"
	if got := describe.Text(r.tasks["task/j/a/0/7"].got[0]); got != told {
		t.Errorf("the task was told %s, want %s", got, told)
	}
	if got := r.tasks["task/j/old/0/6"].got[0].(*messages.NewCoordinator); got.Fence.Epoch != 3 || got.Fence.Attempt != 6 {
		t.Errorf("the task of another attempt was told %v", got)
	}
	r.tell(ended(6, "old", messages.TaskState_TASK_CANCELED))
	r.Advance(HeartbeatMs)
	beats := systemtest.Take[*messages.Heartbeat](r.Rig)
	if len(beats) != 2 || beats[0].Fence.Epoch != 3 || len(beats[0].Tasks) != 1 || beats[0].Tasks[0].Vertex != "a" {
		t.Errorf("said %v", beats)
	}
	if r.tell(deploy(9, "a")); r.tasks["task/j/a/0/9"] != nil {
		t.Error("a task of the coordinator before was started")
	}
	next := deploy(8, "a") // of the same new coordinator, after its attempt has failed
	next.Fence.Epoch = 3
	r.tell(next)
	last := r.tasks["task/j/a/0/7"].got[2].(*messages.CancelTask)
	if last.Fence.Epoch != 3 || last.Coordinator != "n3|coordinator/j" {
		t.Errorf("the task that was left behind got %v", last)
	}
}

// Whoever has nothing says so: nobody waits for it.
func TestNothingToAdopt(t *testing.T) {
	r := newRig(t)
	r.tell(&messages.AdoptTasks{Fence: fence(7), Coordinator: "n3|coordinator/j"})
	if got, ok := systemtest.Last[*messages.AdoptableTasks](r.Rig); !ok || got.Node != "n1" || len(got.Tasks) != 0 {
		t.Fatalf("answered %v", got)
	}
}

// A link that is lost is told to every task that runs here; that the node of a
// coordinator is lost is not: its successor takes the tasks over.
func TestLinkLost(t *testing.T) {
	r := newRig(t)
	r.tell(deploy(1, "a"))
	r.tell(deploy(1, "b"))
	r.tell(deploy(1, "c"))
	r.tell(ended(1, "c", messages.TaskState_TASK_FINISHED))
	lost := &messages.LinkLost{Node: "n2", Reason: "the connection broke"}
	r.tell(lost)
	r.tell(&messages.NodeLost{Node: "n2"})
	for name, want := range map[string]int{"task/j/a/0/1": 1, "task/j/b/0/1": 1, "task/j/c/0/1": 0} {
		if got := r.tasks[name].got; len(got) != want || want == 1 && got[0] != lost {
			t.Errorf("%s got %v", name, got)
		}
	}
}

// The memory of ended tasks is bounded; the oldest are forgotten first.
func TestMemoryIsBounded(t *testing.T) {
	r := newRig(t)
	for attempt := range uint32(rememberedEnds + 1) {
		r.tell(&messages.CancelTask{Fence: fence(attempt), Task: &messages.TaskId{Vertex: "v"}, Coordinator: "n2|coordinator/j"})
	}
	r.tell(deploy(0, "v"))
	r.tell(deploy(1, "v"))
	if got := strings.Join(r.started, " "); got != "task/j/v/0/0" {
		t.Fatalf("started %q, want only the one that was forgotten", got)
	}
}
