package taskmanager

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"cutwater/actors/system"
	"cutwater/actors/system/systemtest"
	"cutwater/actors/timer"
	"cutwater/messages"
)

// A11 (KAFKA-17098): a time-out between two registries lost a task, which nobody closed.
// Here, whatever comes in which order and however often, each task of a task manager is in
// one place: it runs, and was started once, or how it ended is known; and each that is
// asked for afterwards is answered.
func TestBugLog_A11_TasksAreInOnePlace(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 11))
		r, tm := watched(t)
		known := map[string]*messages.Deploy{}
		for range 60 {
			d := deploy(uint32(1+rng.IntN(4)), fmt.Sprint("v", rng.IntN(3)))
			name := TaskName(d.Fence, d.Task)
			r.fail = nil
			switch rng.IntN(6) {
			case 0, 1:
				known[name] = d
				if rng.IntN(5) == 0 {
					r.fail = fmt.Errorf("no memory")
				}
				r.tell(d)
			case 2:
				known[name] = d
				r.tell(&messages.CancelTask{Fence: d.Fence, Task: d.Task, Coordinator: d.Coordinator})
			case 3:
				r.tell(ended(d.Fence.Attempt, d.Task.Vertex, messages.TaskState_TASK_FAILED))
			case 4:
				r.tell(ended(d.Fence.Attempt, d.Task.Vertex, messages.TaskState_TASK_CANCELED))
			case 5:
				r.Advance(HeartbeatMs)
			}
			r.Settle()
			onePlace(t, seed, tm, r.started, known)
		}
	}
}

// watched is a rig with its task manager.
func watched(t *testing.T) (*rig, *TaskManager) {
	t.Helper()
	r := &rig{Rig: systemtest.New("n1"), tasks: map[string]*fake{}}
	if err := timer.Spawn(r.System); err != nil {
		t.Fatal(err)
	}
	tm := &TaskManager{running: map[string]*task{}, silent: map[string]int{}, ended: map[string]*messages.TaskStateChanged{},
		start: func(_ *system.System, name string, _ *messages.Deploy) error {
			r.started = append(r.started, name)
			return r.fail
		}}
	if _, err := r.System.Spawn(Name, tm, system.NewMailbox(0, nil)); err != nil {
		t.Fatal(err)
	}
	r.Settle()
	return r, tm
}

// onePlace looks at what the task manager keeps.
func onePlace(t *testing.T, seed uint64, tm *TaskManager, started []string, known map[string]*messages.Deploy) {
	t.Helper()
	starts, ordered := map[string]int{}, map[string]int{}
	for _, name := range started {
		starts[name]++
	}
	for _, name := range tm.order {
		ordered[name]++
	}
	for name := range known {
		_, runs := tm.running[name]
		_, over := tm.ended[name]
		if runs == over || runs != (ordered[name] == 1) || starts[name] > 1 || runs && starts[name] != 1 {
			t.Fatalf("seed %d: %s runs: %v, has ended: %v, is listed %d times and was started %d times", seed, name, runs, over, ordered[name], starts[name])
		}
	}
}
