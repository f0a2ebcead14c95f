package checkpoint

import (
	"slices"

	"cutwater/messages"
	"cutwater/protocol"
)

// abort ends a checkpoint that will never complete: its requester and its tasks
// are told, its state is deleted. The tasks also learn the latest completed
// checkpoint, which heals a notification that got lost.
func (c *Coordinator) abort(p *pendingCheckpoint, reason messages.FailureReason, cause string, fromTask bool) {
	protocol.Assert(p.phase <= collecting || p.phase == finalizing &&
		(reason == messages.FailureReason_FINALIZE_CHECKPOINT_FAILURE || reason == messages.FailureReason_CHECKPOINT_SUBSUMED && !p.writing),
		"checkpoint %d is %s and cannot be aborted because of %s", p.id, p.phase, reason)
	protocol.Assert(reason != messages.FailureReason_CHECKPOINT_SUBSUMED || !isSavepoint(p.kind), "savepoint %d was subsumed", p.id)
	files := ownFiles(p.id, p.states()...)
	c.remove(p, aborted)
	c.cancelTimer(timeoutKey(p.id))
	c.stats.failed(p.stats, c.nowMs, reason, cause, p.missing == 0)
	c.emit(Aborted{p.id, reason, cause, p.stats.Status == StatusFailed})
	c.answer(p.request, p.id, "", reason, cause)
	for _, i := range p.plan.await {
		t := p.plan.tasks[i]
		c.send(t.Address, &messages.NotifyCheckpointAborted{
			Fence: c.fence(t.Attempt), Task: t.Task, Checkpoint: p.id,
			LatestCompleted: c.Latest().GetCheckpoint(), TimestampMs: p.timestampMs,
		})
	}
	id := p.id
	if isSavepoint(p.kind) {
		id = 0
	}
	c.clean(id, c.unreferenced(files), reason.String())
	c.collectShared()
	c.countFailure(p.id, p.kind, reason, cause, fromTask)
}

// remove takes a checkpoint that is over out of the pending ones.
func (c *Coordinator) remove(p *pendingCheckpoint, end phase) {
	is := func(o *pendingCheckpoint) bool { return o == p }
	c.pending = slices.DeleteFunc(c.pending, is)
	c.finalizing = slices.DeleteFunc(c.finalizing, is)
	if c.trigger != nil && c.trigger.pending == p {
		c.endTrigger()
	}
	p.phase = end
	c.ended.add(p)
}

// failEarly ends a request that was started and got no id.
func (c *Coordinator) failEarly(r *request, reason messages.FailureReason, cause string) {
	c.stats.failedEarly(reason)
	c.failRequest(r, reason, cause)
	c.countFailure(0, r.kind, reason, cause, false)
}

// failRequest ends a request.
func (c *Coordinator) failRequest(r *request, reason messages.FailureReason, cause string) {
	c.emit(RequestFailed{r.kind, reason, cause, !harmless(reason, false)})
	c.answer(r, 0, "", reason, cause)
}

// answer tells whoever asked for the checkpoint.
func (c *Coordinator) answer(r *request, id uint64, location string, reason messages.FailureReason, cause string) {
	if !r.answered {
		return
	}
	c.send(Requester, &messages.CheckpointOutcome{
		Job: c.config.Job, Request: r.reply, Checkpoint: id, Location: location, Reason: reason, Cause: cause,
	})
}

// countFailure lets the job fail if that was one failure too many. A savepoint
// that fails on this side is its requester's affair; a stop-with-savepoint that
// a task refused has left tasks waiting, which only a restart frees.
func (c *Coordinator) countFailure(id uint64, kind messages.CheckpointType, reason messages.FailureReason, cause string, fromTask bool) {
	switch {
	case (!fromTask || preFlight(reason)) && isSavepoint(kind):
		return
	case isSynchronous(kind): // a task refused it
	case !c.failures.failed(id, reason):
		return
	}
	c.fx.Fail = &IntolerableError{Checkpoint: id, Reason: reason, Cause: cause, Tolerable: c.settings.TolerableFailures, Savepoint: isSynchronous(kind)}
}

// discardSnapshot deletes the files of an acknowledgement that came for nothing.
func (c *Coordinator) discardSnapshot(m *messages.AcknowledgeCheckpoint, reason string) {
	c.clean(0, c.unreferenced(ownFiles(m.Checkpoint, m.GetSnapshot().GetOperators()...)), reason)
}

// unreferenced leaves out the files that a retained checkpoint shares or that a
// pending one has acknowledged.
func (c *Coordinator) unreferenced(files []*messages.StateHandle) []*messages.StateHandle {
	held := c.acknowledgedFiles()
	return slices.DeleteFunc(files, func(h *messages.StateHandle) bool {
		return held[h.GetFile().Path] || c.registry.has(h.GetFile().Path)
	})
}

// acknowledgedFiles returns the paths of all files that pending checkpoints name
// so far.
func (c *Coordinator) acknowledgedFiles() map[string]bool {
	held := make(map[string]bool)
	for _, p := range c.pending {
		for _, h := range filesOf(p.states(), anySegment) {
			held[h.GetFile().Path] = true
		}
	}
	return held
}

// deleteCompleted deletes the directory of a checkpoint that has left the store,
// if it is the job's to delete.
func (c *Coordinator) deleteCompleted(e *completedCheckpoint, reason string) {
	if e.discardable() {
		c.stats.discarded(e.record.Checkpoint)
		if e.ownDirectory() {
			c.clean(e.record.Checkpoint, nil, reason)
		}
	}
}

// collectShared deletes the shared files that are not needed any more, unless it is
// not known what a retained checkpoint needs.
func (c *Coordinator) collectShared() {
	if c.store.unread() {
		return
	}
	c.clean(0, c.registry.collect(c.oldestPending(), c.acknowledgedFiles()), "no checkpoint names it")
}

// clean asks for the deletion of a checkpoint's directory, unless it is 0, and
// of files. While more directories are being deleted than checkpoints may be
// pending, no checkpoint starts.
func (c *Coordinator) clean(checkpoint uint64, files []*messages.StateHandle, reason string) {
	if checkpoint == 0 && len(files) == 0 {
		return
	}
	if checkpoint != 0 {
		c.cleaning++
	}
	c.ask(operation{kind: discardState, whole: checkpoint != 0}, &messages.DiscardState{
		Job: c.config.Job, Checkpoint: checkpoint, Handles: files, Reason: reason,
	})
}

// discarded ends a deletion. Nothing depends on it but space.
func (c *Coordinator) discarded(whole bool, m *messages.WorkDone) {
	if whole {
		c.cleaning--
	}
	if m.Failure != "" {
		c.emit(DiscardFailed{m.Failure})
	}
}
