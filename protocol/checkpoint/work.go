package checkpoint

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"cutwater/messages"
	"cutwater/protocol"
)

// operation is work that was asked for and not answered yet.
type operation struct {
	kind operationKind
	// trigger is set while the request has no id yet, pending afterwards.
	trigger *trigger
	pending *pendingCheckpoint
	// name is the uid of an operator coordinator or the name of a hook.
	name string
	// forget is what is deleted once the store has forgotten it.
	forget []*completedCheckpoint
	// whole: a whole checkpoint is being deleted.
	whole bool
}

type operationKind uint8

const (
	allocateID operationKind = iota
	prepareLocation
	snapshotCoordinator
	runHook
	writeMetadata
	recordCompletion
	readJob
	forgetCheckpoints
	discardState
)

// retryMs is how long the coordinator waits before it asks the metadata store
// again what became of a command.
const retryMs = 500

// maxForgets is how often a job that has ended asks the metadata store again to
// forget its checkpoints.
const maxForgets = 20

// ask adds work to the effects.
func (c *Coordinator) ask(o operation, task proto.Message) {
	id := c.config.Ops.Next()
	c.operations[id] = o
	c.fx.Work = append(c.fx.Work, protocol.Work{Op: id, Task: task})
}

// Owns reports whether the operation was asked for by this coordinator and is
// not answered yet.
func (c *Coordinator) Owns(op uint64) bool {
	_, ok := c.operations[op]
	return ok
}

// workDone hands an answer to the step that waits for it.
func (c *Coordinator) workDone(m *messages.WorkDone) {
	o, ok := c.operations[m.Op]
	if !ok {
		c.emit(Dropped{fmt.Sprintf("the answer of operation %d", m.Op), "nobody waits for it"})
		return
	}
	delete(c.operations, m.Op)
	switch {
	case m.GetMetadata().GetOutcome() == messages.MetadataOutcome_STALE_EPOCH:
		c.becomeFenced()
		return
	case c.life == fenced:
		return
	}
	switch o.kind {
	case allocateID:
		c.idAllocated(o.trigger, m)
	case prepareLocation:
		c.locationPrepared(o.pending, m)
	case snapshotCoordinator:
		c.coordinatorSnapshotted(o.pending, o.name, m)
	case runHook:
		c.hookRan(o.pending, o.name, m)
	case writeMetadata:
		c.metadataWritten(o.pending, m)
	case recordCompletion:
		c.completionAnswered(o.pending, m)
	case readJob:
		c.jobRead(o.pending, m)
	case forgetCheckpoints:
		c.forgotten(o.forget, m)
	case discardState:
		c.discarded(o.whole, m)
	}
}

// applied splits a store's answer in three: applied, refused for a reason, or
// neither is known.
func applied(m *messages.WorkDone) (ok, unknown bool, failure string) {
	r := m.GetMetadata()
	switch {
	case m.Failure != "":
		return false, true, m.Failure
	case r.GetOutcome() == messages.MetadataOutcome_APPLIED, r.GetOutcome() == messages.MetadataOutcome_ALREADY_RECORDED:
		return true, false, ""
	case r == nil, r.Outcome == messages.MetadataOutcome_UNKNOWN:
		return false, true, r.GetFailure()
	}
	return false, false, fmt.Sprintf("%s: %s", r.Outcome, r.Failure)
}

// outcomeUnknown notes that the metadata store did not say what became of a command.
func (c *Coordinator) outcomeUnknown(what, failure string) {
	if c.unanswered == "" {
		c.unansweredMs = c.nowMs
	}
	c.unanswered = what + ": " + failure
	c.emit(OutcomeUnknown{What: what, Failure: failure})
}

// becomeFenced stops everything at once. Nothing is deleted and no task is
// notified: the other coordinator may have restored from what this one made.
func (c *Coordinator) becomeFenced() {
	if c.life == fenced {
		return
	}
	c.life = fenced
	c.stopTimer()
	why := ErrFenced.Error()
	for _, r := range c.decider.drain() {
		c.failRequest(r, messages.FailureReason_CHECKPOINT_COORDINATOR_SHUTDOWN, why)
	}
	if c.trigger != nil && c.trigger.pending == nil {
		c.failRequest(c.trigger.request, messages.FailureReason_CHECKPOINT_COORDINATOR_SHUTDOWN, why)
	}
	for _, p := range c.pending {
		c.cancelTimer(timeoutKey(p.id))
		p.phase = aborted
		c.stats.failed(p.stats, c.nowMs, messages.FailureReason_CHECKPOINT_COORDINATOR_SHUTDOWN, why, p.missing == 0)
		c.emit(Aborted{p.id, messages.FailureReason_CHECKPOINT_COORDINATOR_SHUTDOWN, why, p.stats.Status == StatusFailed})
		c.answer(p.request, p.id, "", messages.FailureReason_CHECKPOINT_COORDINATOR_SHUTDOWN, why)
	}
	c.pending, c.finalizing = nil, nil
	c.endTrigger()
	c.cancelTimer(retryKey)
	c.fx.Fail = ErrFenced
}
