package checkpoint

import (
	"fmt"

	"cutwater/messages"
)

// Late is a checkpoint that has been under way for longer than it should.
type Late struct {
	// Checkpoint is 0 before it has an id.
	Checkpoint uint64
	AgeMs      int64
	// Why says what it waits for, without the checkpoint's name; where it is tasks,
	// Missing are those that have not acknowledged, in plan order.
	Why     string
	Cause   messages.WaitCause
	Missing []Execution
}

// String is one sentence for people.
func (l *Late) String() string {
	name := "a checkpoint"
	if l.Checkpoint != 0 {
		name = fmt.Sprintf("checkpoint %d", l.Checkpoint)
	}
	return fmt.Sprintf("%s is under way for %d ms: %s", name, l.AgeMs, l.Why)
}

// minLateMs is what a checkpoint may take however short the interval is.
const minLateMs = 1000

// LateMs is how long a checkpoint may be under way until Late tells of it: an interval,
// since the next one is held up then; without an interval half of the timeout.
func LateMs(s *messages.CheckpointConfig) int64 {
	if s.GetIntervalMs() == 0 {
		return s.GetTimeoutMs() / 2
	}
	return max(s.GetIntervalMs(), minLateMs)
}

// Late returns the oldest checkpoint if it is late, or nil. It has no effects.
func (c *Coordinator) Late(nowMs int64) *Late {
	var late *Late
	switch {
	case len(c.pending) > 0:
		p := c.pending[0]
		late = &Late{Checkpoint: p.id, AgeMs: nowMs - p.timestampMs}
		late.Cause, late.Why, late.Missing = p.lacks()
	case c.trigger != nil:
		late = &Late{AgeMs: nowMs - c.trigger.sinceMs, Why: "the metadata store has not given it an id", Cause: messages.WaitCause_WAIT_METADATA}
	}
	if late == nil || late.AgeMs < LateMs(c.settings) {
		return nil
	}
	return late
}

// lacks says what the checkpoint waits for.
func (p *pendingCheckpoint) lacks() (cause messages.WaitCause, why string, missing []Execution) {
	switch {
	case p.phase == triggering:
		return messages.WaitCause_WAIT_STORAGE, "the storage has not made its location, or a source's enumerator or a master hook has not given its state", nil
	case p.phase == finalizing && p.record != nil:
		return messages.WaitCause_WAIT_METADATA, "the metadata store has not recorded it", nil
	case p.phase == finalizing && p.writing:
		return messages.WaitCause_WAIT_STORAGE, "the storage has not written its _metadata", nil
	case p.phase == finalizing:
		return messages.WaitCause_WAIT_CHECKPOINT, "an older one has to be recorded before", nil
	}
	for _, i := range p.plan.await {
		if !p.parts[i].acknowledged {
			missing = append(missing, p.plan.tasks[i])
		}
	}
	return messages.WaitCause_WAIT_TASK, fmt.Sprintf("%d of %d tasks have not acknowledged it", len(missing), len(p.plan.await)), missing
}
