package subtask

import (
	"fmt"

	"cutwater/messages"
	"cutwater/protocol"
	"cutwater/protocol/barrier"
)

// snapshot is a checkpoint from its trigger to the end of its asynchronous part.
type snapshot struct {
	trigger barrier.Trigger
	// finished: it was taken after the end of data, with nothing left to read.
	finished bool
	// sinceMs is when the current part started; syncMs how long the synchronous
	// part took, known once async is true.
	sinceMs, syncMs int64
	async           bool
}

func (s *snapshot) checkpoint() uint64 { return s.trigger.Checkpoint }

// CheckpointState handles a checkpoint that is due: the gate's trigger, or at a
// source what the coordinator's TriggerCheckpoint says. NowMs is of a monotonic
// clock.
//
// The steps are PrepareBarrier, BroadcastBarrier, SyncSnapshot; or
// BroadcastCancel, if the checkpoint was aborted before or the task does not run;
// or none, if the checkpoint is not newer than the last one. A source that a
// savepoint stops is told StopSource first, and the others follow its EndOfData.
func (s *Subtask) CheckpointState(nowMs int64, t *barrier.Trigger) *Actions {
	s.begin()
	switch {
	case t.Checkpoint <= s.last:
		// Out of order, or repeated: it was answered or given up.
	case s.phase == Closed:
		s.see(t.Checkpoint)
		s.decline(t.Checkpoint, messages.FailureReason_CHECKPOINT_DECLINED_TASK_CLOSING, "the task is closed")
	case !s.takesCheckpoints():
		reason := messages.FailureReason_CHECKPOINT_DECLINED_TASK_NOT_READY
		if s.phase != Initializing {
			reason = messages.FailureReason_CHECKPOINT_DECLINED_TASK_CLOSING
		}
		s.see(t.Checkpoint)
		s.actions.add(BroadcastCancel{t.Checkpoint})
		s.decline(t.Checkpoint, reason, fmt.Sprintf("the task is %v", s.phase))
	case s.ending.mustStopFirst(s, t):
		s.ending.deferred = append(s.ending.deferred, deferred{*t, nowMs})
		if len(s.ending.deferred) == 1 {
			s.actions.add(StopSource{Drain: drains(t.Options)})
		}
	default:
		s.take(nowMs, t)
	}
	return s.actions
}

// take starts the checkpoint, if it is newer and was not aborted.
func (s *Subtask) take(nowMs int64, t *barrier.Trigger) {
	if t.Checkpoint <= s.last {
		return // a trigger that was deferred twice
	}
	aborted := s.see(t.Checkpoint)
	if err := s.ending.meet(t); err != nil {
		s.fail(err)
		return
	}
	if aborted {
		s.actions.add(BroadcastCancel{t.Checkpoint})
		if stops(t.Options) {
			s.fail(&StopError{t.Checkpoint, "it was aborted before it reached this task"})
		}
		return
	}
	s.ending.taken(s, t.Checkpoint)
	broadcast := BroadcastBarrier{t.Checkpoint, t.TimestampMs, t.AgeMs, t.Options}
	snap := snapshot{trigger: *t, finished: s.ending.drained, sinceMs: nowMs}
	if s.DeployedFinished {
		s.actions.add(broadcast)
		s.acknowledge(&snap, nil, Sizes{}, 0)
		return
	}
	s.snapshots = append(s.snapshots, snap)
	s.actions.add(PrepareBarrier{t.Checkpoint}, broadcast, SyncSnapshot{t.Checkpoint, t.Options})
}

// SyncDone says that the synchronous part ended well.
func (s *Subtask) SyncDone(nowMs int64, checkpoint uint64) *Actions {
	s.begin()
	snap := s.find(checkpoint)
	if snap == nil {
		protocol.Assert(false, "the synchronous part of checkpoint %d ended, which is not under way", checkpoint)
	}
	snap.async = true
	snap.syncMs = nowMs - snap.sinceMs
	snap.sinceMs = nowMs
	s.actions.add(StartAsync{checkpoint})
	return s.actions
}

// SyncFailed says that PrepareBarrier or SyncSnapshot failed: the task fails,
// since its operators may be in the middle of something.
func (s *Subtask) SyncFailed(checkpoint uint64, err error) *Actions {
	s.begin()
	s.remove(checkpoint)
	s.actions.add(CancelAsync{checkpoint})
	s.fail(fmt.Errorf("checkpoint %d: the snapshot of %s/%d failed: %w",
		checkpoint, s.Task.GetVertex(), s.Task.GetSubtask(), err))
	return s.actions
}

// Sizes is what a snapshot measures.
type Sizes struct {
	// CheckpointBytes were written for this checkpoint.
	CheckpointBytes uint64
	// FullStateBytes is the size of the whole state that it describes.
	FullStateBytes uint64
}

// AsyncDone says that the snapshot is durable. It is acknowledged, unless the
// checkpoint was aborted or the task closed meanwhile: then it is discarded.
func (s *Subtask) AsyncDone(nowMs int64, checkpoint uint64, t *messages.TaskSnapshot, sizes Sizes) *Actions {
	s.begin()
	snap := s.find(checkpoint)
	if snap == nil || !snap.async {
		if t != nil {
			s.actions.add(DiscardSnapshot{checkpoint, t})
		}
		return s.actions
	}
	s.acknowledge(snap, t, sizes, nowMs-snap.sinceMs)
	s.remove(checkpoint)
	s.finishIfDone()
	return s.actions
}

// AsyncFailed says that the asynchronous part failed: the rest of it is
// cancelled, the checkpoint declined, and the task goes on. Reason is
// CHECKPOINT_ASYNC_EXCEPTION unless something more precise is known. It is silent
// if the checkpoint was aborted or the task closed meanwhile.
func (s *Subtask) AsyncFailed(checkpoint uint64, reason messages.FailureReason, cause string) *Actions {
	s.begin()
	if s.find(checkpoint) == nil {
		return s.actions
	}
	s.remove(checkpoint)
	s.actions.add(CancelAsync{checkpoint})
	s.decline(checkpoint, reason, cause)
	s.finishIfDone()
	return s.actions
}

func (s *Subtask) acknowledge(snap *snapshot, t *messages.TaskSnapshot, sizes Sizes, asyncMs int64) {
	s.remember(snap.checkpoint())
	if stateless(t) {
		t = nil
	}
	m := snap.trigger.Metrics
	s.actions.add(Send{&messages.AcknowledgeCheckpoint{
		Fence:      s.Fence,
		Task:       s.Task,
		Checkpoint: snap.checkpoint(),
		Metrics: &messages.CheckpointMetrics{
			CheckpointBytes:         sizes.CheckpointBytes,
			FullStateBytes:          sizes.FullStateBytes,
			SyncMs:                  snap.syncMs,
			AsyncMs:                 asyncMs,
			AlignmentMs:             m.AlignmentMs,
			AlignmentProcessedBytes: m.AlignmentBytes,
			StartDelayMs:            m.StartDelayMs,
		},
		Snapshot:         t,
		TaskFinished:     snap.finished,
		DeployedFinished: s.DeployedFinished,
	}})
}

// stateless reports that no operator of the snapshot has state.
func stateless(t *messages.TaskSnapshot) bool {
	for _, o := range t.GetOperators() {
		if o.Keyed != nil || o.Lists != nil {
			return false
		}
	}
	return true
}

func (s *Subtask) find(checkpoint uint64) *snapshot {
	for i := range s.snapshots {
		if s.snapshots[i].checkpoint() == checkpoint {
			return &s.snapshots[i]
		}
	}
	return nil
}

// remove ends the snapshot and reports whether it was under way.
func (s *Subtask) remove(checkpoint uint64) bool {
	for i := range s.snapshots {
		if s.snapshots[i].checkpoint() == checkpoint {
			s.snapshots = append(s.snapshots[:i], s.snapshots[i+1:]...)
			return true
		}
	}
	return false
}
