package task

import (
	"fmt"
	"slices"

	"cutwater/messages"
	"cutwater/protocol/barrier"
)

// standing answers, for people, what the task does about a checkpoint that waits for
// it. That it answers at all says that it is not in the middle of a record.
func (t *Task) standing(m *messages.StandingQuery) {
	if t.current(m.Fence) {
		t.toCoordinator(&messages.Standing{Fence: t.fence, Task: m.Task, Checkpoint: m.Checkpoint, Doing: t.doing(m.Checkpoint)})
	}
}

// doing says what keeps the task from acknowledging a checkpoint.
func (t *Task) doing(checkpoint uint64) string {
	call := t.calls.oldest()
	switch {
	case t.now == messages.TaskState_TASK_INITIALIZING:
		return "it restores its state"
	case slices.Contains(t.sub.InProgress(), checkpoint):
		return "its state is being written to the checkpoint storage"
	case t.sub.LatestCheckpoint() >= checkpoint:
		return "it has done its part, and its acknowledgement was lost"
	case t.out.starved > 0:
		return fmt.Sprintf("it waits for room on %d of %d output channels; the first leads to %s", t.out.starved, len(t.out.channels), t.out.firstStarving())
	case call != "":
		return "it waits for an answer to: " + call
	case len(t.in.channels) == 0:
		return "the trigger was lost, or waits for the step in hand"
	case t.gate.Phase() != barrier.WaitingForFirstBarrier:
		return "it waits for the barrier on some of its input channels, and has it from others"
	}
	return "no barrier has come on its input channels"
}

// firstStarving is where the first channel leads that has no room.
func (o *outputs) firstStarving() string {
	for i := range o.channels {
		if o.channels[i].starving() {
			return string(o.channels[i].route.To())
		}
	}
	return ""
}
