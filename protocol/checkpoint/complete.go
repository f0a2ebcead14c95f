package checkpoint

import (
	"fmt"
	"slices"

	"cutwater/messages"
)

// finalizeIfAcknowledged begins to finalize a checkpoint whose tasks were asked
// and have all acknowledged.
func (c *Coordinator) finalizeIfAcknowledged(p *pendingCheckpoint) {
	if p.phase != collecting || p.missing > 0 {
		return
	}
	if err := p.checkUnionLists(); err != nil {
		c.abort(p, messages.FailureReason_CHECKPOINT_DECLINED_TASK_CLOSING, err.Error(), false)
		return
	}
	p.phase = finalizing
	c.cancelTimer(timeoutKey(p.id))
	c.finalizing = append(c.finalizing, p)
	c.emit(Finalizing{p.id})
}

// finalizeNext writes the metadata of the first that is finalizing. One at a
// time: so what a completion subsumes is known when it is proposed, and a
// completion whose outcome is unknown is never overtaken by a later one.
func (c *Coordinator) finalizeNext() {
	if len(c.finalizing) == 0 || c.finalizing[0].writing {
		return
	}
	p := c.finalizing[0]
	p.writing = true
	c.ask(operation{kind: writeMetadata, pending: p}, &messages.WriteMetadata{Metadata: c.assemble(p), Target: p.target})
}

// metadataWritten proposes the completion: only what is durable may be recorded.
// A plain savepoint is complete now: it commits nothing and no job recovers from
// it by itself, so the metadata store need not know it.
func (c *Coordinator) metadataWritten(p *pendingCheckpoint, m *messages.WorkDone) {
	w := m.GetMetadataWritten()
	if m.Failure != "" || w == nil {
		c.finalizeFailed(p, "the metadata was not written: "+m.Failure)
		return
	}
	p.record = &messages.CompletedCheckpoint{
		Checkpoint: p.id, Epoch: c.config.Epoch, TimestampMs: p.timestampMs, CompletedMs: c.nowMs,
		Savepoint: isSavepoint(p.kind), Location: w.Location, MetadataSize: w.Size, MetadataHash: w.Hash,
		StateBytes: p.stats.StateBytes, Metadata: w.Content,
	}
	if p.kind == messages.CheckpointType_SAVEPOINT {
		c.complete(p)
		return
	}
	p.subsumed = c.store.subsumedBy(&completedCheckpoint{record: p.record, synchronous: isSynchronous(p.kind)})
	c.proposeCompletion(p)
}

// proposeCompletion asks the metadata store to record it. Asking again is safe:
// a completion that is recorded already is a success.
func (c *Coordinator) proposeCompletion(p *pendingCheckpoint) {
	c.ask(operation{kind: recordCompletion, pending: p}, &messages.Propose{Command: &messages.MetadataCommand{
		Command: &messages.MetadataCommand_RecordCompletion{RecordCompletion: &messages.RecordCompletion{
			Job: c.config.Job, Epoch: c.config.Epoch, Checkpoint: p.record, Subsumed: ids(p.subsumed),
		}},
	}})
}

// completionAnswered completes the checkpoint, fails it, or asks what happened.
func (c *Coordinator) completionAnswered(p *pendingCheckpoint, m *messages.WorkDone) {
	ok, unknown, failure := applied(m)
	switch {
	case ok:
		c.complete(p)
	case unknown:
		c.outcomeUnknown(completionOf(p), failure)
		c.ask(operation{kind: readJob, pending: p}, &messages.ReadJob{Job: c.config.Job})
	default:
		c.finalizeFailed(p, "the completion was not recorded: "+failure)
	}
}

// jobRead decides by the job's record. That a completion is not listed does not
// mean that it failed: the proposal may still be on its way. So it is proposed
// again, until the store says yes or no.
func (c *Coordinator) jobRead(p *pendingCheckpoint, m *messages.WorkDone) {
	r := m.GetJobRecord()
	switch {
	case m.Failure == "" && r != nil && r.Epoch > c.config.Epoch:
		c.becomeFenced()
	case slices.ContainsFunc(r.GetCompleted(), func(d *messages.CompletedCheckpoint) bool {
		return d.Checkpoint == p.id && d.MetadataHash == p.record.MetadataHash
	}):
		c.complete(p)
	default:
		c.arm(retryKey, p, retryMs)
	}
}

// complete ends a checkpoint well. The order is Flink's: store view, requester,
// older checkpoints, and last the notifications, which let sinks commit.
func (c *Coordinator) complete(p *pendingCheckpoint) {
	c.unanswered = ""
	stored := p.kind != messages.CheckpointType_SAVEPOINT
	subsumed := p.subsumed
	if stored {
		c.storeCompleted(p)
	}
	c.remove(p, completed)
	c.failures.succeeded(p.id)
	c.stats.completed(p.stats, c.nowMs, p.record.Location)
	c.completedOnce, c.lastCompletionMs = true, max(c.lastCompletionMs, c.nowMs)
	c.emit(Completed{p.id, p.kind, p.stats.DurationMs(), p.record.StateBytes, ids(subsumed)})
	c.answer(p.request, p.id, p.record.Location, messages.FailureReason_FAILURE_REASON_UNSPECIFIED, "")
	if !stored {
		return
	}
	c.abortSubsumed(p.id)
	for _, i := range p.plan.await {
		t := p.plan.tasks[i]
		c.send(t.Address, &messages.NotifyCheckpointComplete{
			Fence: c.fence(t.Attempt), Task: t.Task, Checkpoint: p.id, TimestampMs: p.timestampMs, Subsumed: newestDiscardable(subsumed),
		})
	}
	for _, e := range subsumed {
		c.deleteCompleted(e, "subsumed")
	}
	c.collectShared()
}

// storeCompleted brings the view up to what the store has just recorded.
func (c *Coordinator) storeCompleted(p *pendingCheckpoint) {
	entry := &completedCheckpoint{record: p.record, synchronous: isSynchronous(p.kind), shared: sharedFiles(p.id, p.states()...)}
	c.registry.register(entry.shared)
	for _, e := range p.subsumed {
		c.registry.unregister(e.shared, c.newest)
	}
	c.store.remove(ids(p.subsumed))
	c.store.add(entry)
	if !isSavepoint(p.kind) {
		c.forceFull = false
	}
}

// abortSubsumed aborts older checkpoints: a newer one makes them useless.
// Savepoints are wanted for themselves. One that is finalizing but whose
// metadata is not on its way yet is subsumed too.
func (c *Coordinator) abortSubsumed(id uint64) {
	for i := 0; i < len(c.pending) && c.pending[i].id < id; {
		if p := c.pending[i]; !isSavepoint(p.kind) {
			c.abort(p, messages.FailureReason_CHECKPOINT_SUBSUMED, "", false)
			continue
		}
		i++
	}
}

// finalizeFailed ends a checkpoint that is certainly not recorded.
func (c *Coordinator) finalizeFailed(p *pendingCheckpoint, cause string) {
	c.unanswered = ""
	c.abort(p, messages.FailureReason_FINALIZE_CHECKPOINT_FAILURE, cause, false)
}

func ids(list []*completedCheckpoint) []uint64 {
	var all []uint64
	for _, e := range list {
		all = append(all, e.record.Checkpoint)
	}
	return all
}

// newestDiscardable is what the tasks are told: from it on they can free what
// they keep for reuse.
func newestDiscardable(list []*completedCheckpoint) uint64 {
	var newest uint64
	for _, e := range list {
		if e.discardable() {
			newest = e.record.Checkpoint
		}
	}
	return newest
}

func completionOf(p *pendingCheckpoint) string {
	return fmt.Sprintf("the completion of checkpoint %d", p.id)
}
