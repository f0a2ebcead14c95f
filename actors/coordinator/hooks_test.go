package coordinator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"cutwater/messages"
	"cutwater/stream/operator"
)

// recorder is a master hook that writes down what it is told.
type recorder struct {
	name  string
	calls *[]string
	fail  error // of Trigger
}

func (h *recorder) Name() string { return h.name }

func (h *recorder) note(format string, args ...any) {
	*h.calls = append(*h.calls, h.name+" "+fmt.Sprintf(format, args...))
}

func (h *recorder) Trigger(_ context.Context, checkpoint uint64) (*operator.HookState, error) {
	h.note("trigger %d", checkpoint)
	if h.name == "stateless" {
		return nil, h.fail
	}
	return &operator.HookState{Version: 3, Data: fmt.Appendf(nil, "at %d", checkpoint)}, h.fail
}

func (h *recorder) Restore(_ context.Context, checkpoint uint64, s *operator.HookState) error {
	if s == nil {
		h.note("restore %d nothing", checkpoint)
	} else {
		h.note("restore %d version %d %s", checkpoint, s.Version, s.Data)
	}
	return nil
}

func (h *recorder) Reset(context.Context) error { h.note("reset"); return nil }
func (h *recorder) Close(context.Context) error { h.note("close"); return nil }

// A program's master hooks are called through the life of its job: reset, one
// trigger a checkpoint, restored after a failure with what they kept, closed at
// the end.
func TestMasterHooks(t *testing.T) {
	var calls []string
	r := newRig(t, &recorder{name: "stateful", calls: &calls}, &recorder{name: "stateless", calls: &calls})
	expect := func(want ...string) {
		t.Helper()
		if got := strings.Join(calls, ", "); got != strings.Join(want, ", ") {
			t.Fatalf("called %s, want %s", got, strings.Join(want, ", "))
		}
		calls = nil
	}
	r.Settle()
	expect("stateful reset", "stateless reset")
	r.report(messages.TaskState_TASK_RUNNING)
	r.Advance(100)
	expect("stateful trigger 1", "stateless trigger 1")
	trigger := last[*messages.TriggerCheckpoint](r)
	r.deliver(&messages.AcknowledgeCheckpoint{Fence: trigger.Fence, Task: trigger.Task, Checkpoint: 1, Metrics: &messages.CheckpointMetrics{}})
	r.report(messages.TaskState_TASK_FAILED)
	r.Advance(1)
	expect("stateful restore 1 version 3 at 1", "stateless restore 1 nothing")
	r.report(messages.TaskState_TASK_RUNNING)
	r.report(messages.TaskState_TASK_FINISHED)
	expect("stateful close", "stateless close")
	if len(r.ends) != 1 || r.ends[0] != nil {
		t.Fatalf("ended %v", r.ends)
	}
}

// A hook that fails fails the checkpoint, and the tasks are not asked.
func TestMasterHookFailsCheckpoint(t *testing.T) {
	var calls []string
	r := newRig(t, &recorder{name: "lease", calls: &calls, fail: errors.New("the lease is gone")})
	r.Settle()
	r.report(messages.TaskState_TASK_RUNNING)
	r.Advance(100)
	for _, s := range r.Sent {
		if _, asked := s.Message.(*messages.TriggerCheckpoint); asked {
			t.Fatal("a task was asked for the checkpoint")
		}
	}
	var said string
	for _, e := range r.events {
		said += e.String() + "\n"
	}
	if !strings.Contains(said, "failed 1 TRIGGER_CHECKPOINT_FAILURE: the master hook lease: the lease is gone") {
		t.Errorf("events:\n%s", said)
	}
}
