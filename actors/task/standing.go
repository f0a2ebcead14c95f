package task

import (
	"fmt"
	"maps"
	"slices"

	"cutwater/messages"
	"cutwater/protocol/barrier"
	"cutwater/protocol/checkpoint"
)

// standing answers, for people, what the task does about a checkpoint that waits for
// it. That it answers at all says that it is not in the middle of a record.
func (t *Task) standing(m *messages.StandingQuery) {
	if t.current(m.Fence) {
		cause, doing := t.doing(m.Checkpoint)
		t.toCoordinator(&messages.Standing{Fence: t.fence, Task: m.Task, Checkpoint: m.Checkpoint, Doing: doing, Cause: cause})
	}
}

// doing says what keeps the task from acknowledging a checkpoint.
func (t *Task) doing(id uint64) (messages.WaitCause, string) {
	call := t.calls.oldest()
	switch {
	case t.now == messages.TaskState_TASK_INITIALIZING:
		return messages.WaitCause_WAIT_START, "it restores its state"
	case slices.Contains(t.sub.InProgress(), id):
		return messages.WaitCause_WAIT_STORAGE, "its state is being written to the checkpoint storage"
	case t.sub.LatestCheckpoint() >= id:
		return messages.WaitCause_WAIT_ACKNOWLEDGEMENT, "it has done its part, and its acknowledgement was lost"
	case t.out.starved > 0:
		return messages.WaitCause_WAIT_CREDIT, fmt.Sprintf("it waits for room on %d of %d output channels; the first leads to %s",
			t.out.starved, len(t.out.channels), t.out.firstStarving())
	case call != "":
		return messages.WaitCause_WAIT_OPERATOR, "it waits for an answer to: " + call
	case len(t.in.channels) == 0:
		return messages.WaitCause_WAIT_TASK, "the trigger was lost, or waits for the step in hand"
	case t.gate.Phase() != barrier.WaitingForFirstBarrier:
		return messages.WaitCause_WAIT_CHECKPOINT, "it waits for the barrier on some of its input channels, and has it from others"
	}
	return messages.WaitCause_WAIT_CHECKPOINT, "no barrier has come on its input channels"
}

// waits is what is known of an output channel without room. It holds up no checkpoint,
// and would go on in silence.
type waits struct {
	channel  int    // the first output channel that has no room
	returned uint32 // what its receiver had consumed then
	sinceMs  int64  // monotonic; 0: none waits
	told     bool
}

// lookAtWaits says what the task has waited for for longer than a checkpoint should
// take: work that is not answered, a commit for example, or room in the input of
// another task. Of each there is an event, once. It is called each second.
func (t *Task) lookAtWaits() (cause messages.WaitCause, waiting string) {
	patience, now := checkpoint.LateMs(t.deploy.Settings.GetCheckpointing()), t.monotonicMs()
	for _, op := range slices.Sorted(maps.Keys(t.calls.open)) {
		c := t.calls.open[op]
		age := now - c.sinceMs
		if age < patience {
			continue
		}
		if waiting == "" {
			cause, waiting = messages.WaitCause_WAIT_OPERATOR, fmt.Sprintf("%s has had no answer for %d ms", c.name, age)
		}
		if !c.told {
			c.told = true
			t.event(c.name, "unanswered", fmt.Sprintf("it is under way for %d ms, and what it waits for has not answered", age))
		}
	}
	w := &t.waits
	channel := slices.IndexFunc(t.out.channels, func(c outputChannel) bool { return c.starving() })
	switch {
	case channel < 0:
		*w = waits{}
	case w.sinceMs == 0 || w.channel != channel || w.returned != t.out.channels[channel].returned:
		*w = waits{channel: channel, returned: t.out.channels[channel].returned, sinceMs: max(now, 1)}
	case now-w.sinceMs >= patience:
		to := t.out.channels[channel].route.To()
		if waiting == "" {
			cause, waiting = messages.WaitCause_WAIT_CREDIT, fmt.Sprintf("%s has taken nothing from it for %d ms", to, now-w.sinceMs)
		}
		if !w.told && t.chain != nil {
			w.told = true
			t.event(t.chain.Operators[0].Uid(), "blocked", fmt.Sprintf("for %d ms there was no room for its output, and nothing was taken by %s: "+
				"that task is busy, or gives no credit", now-w.sinceMs, to))
		}
	}
	return cause, waiting
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
