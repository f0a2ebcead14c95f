package checkpoint

import (
	"slices"

	"cutwater/messages"
)

// historySize is how many checkpoints the history shows (Flink:
// web.checkpoints.history).
const historySize = 10

// Statistics is what Flink's checkpoint page shows of a job. It is a copy that
// later steps do not change.
type Statistics struct {
	Counts  Counts
	Summary Summary
	// History holds the newest checkpoints, newest first, running ones included.
	History []CheckpointStats
	// The newest of each kind, or nil.
	LatestCompleted, LatestFailed, LatestSavepoint *CheckpointStats
	LatestRestored                                 *RestoredStats
}

// Counts counts checkpoints of this coordinator. Total is the sum of the last four,
// and includes requests that ended before they got an id. Flink counts what is
// Aborted here as failed.
type Counts struct{ Restored, Total, InProgress, Completed, Failed, Aborted int }

// Summary summarises the completed checkpoints.
type Summary struct {
	DurationMs, CheckpointBytes, StateBytes, ProcessedBytes, PersistedBytes Series
}

// CheckpointStatus is a checkpoint's status on the page.
type CheckpointStatus uint8

const (
	// StatusInProgress: it has an id and no outcome.
	StatusInProgress CheckpointStatus = iota
	// StatusCompleted: it can be restored.
	StatusCompleted
	// StatusFailed: it was aborted because something does not work.
	StatusFailed
	// StatusAborted: it was given up because nobody needs it any more or the job was
	// not there for it: a newer one completed, or tasks ended. Nothing is wrong.
	StatusAborted
)

// String returns Flink's name; Flink has no ABORTED, and calls it FAILED.
func (s CheckpointStatus) String() string {
	return [...]string{"IN_PROGRESS", "COMPLETED", "FAILED", "ABORTED"}[s]
}

// CheckpointStats is one checkpoint on the page.
type CheckpointStats struct {
	Checkpoint  uint64
	Type        messages.CheckpointType
	Status      CheckpointStatus
	TriggeredMs int64
	// LatestAckMs is the time of the newest acknowledgement, -1 without one.
	LatestAckMs int64
	// EndedMs is when it completed or failed.
	EndedMs int64
	// Location is set when it completed. Discarded: it was deleted since.
	Location  string
	Discarded bool
	// Reason and Cause are set when it failed or was aborted.
	Reason messages.FailureReason
	Cause  string
	// Sums over the acknowledged subtasks: written by this checkpoint, held by
	// it, processed and persisted during alignment.
	CheckpointBytes, StateBytes, ProcessedBytes, PersistedBytes uint64
	// Unaligned: a subtask took it unaligned.
	Unaligned bool
	// Acknowledged counts Subtasks that acknowledged or had finished before.
	Acknowledged int
	// Subtasks stand in plan order.
	Subtasks []SubtaskStats
}

// DurationMs is the time from the trigger to the end, or so far to the newest
// acknowledgement.
func (s *CheckpointStats) DurationMs() int64 {
	if s.Status == StatusInProgress {
		return max(0, s.LatestAckMs-s.TriggeredMs)
	}
	return max(0, s.EndedMs-s.TriggeredMs) // the clock may have been set back
}

// SubtaskStats is one subtask's part in a checkpoint.
type SubtaskStats struct {
	Task         *messages.TaskId
	Acknowledged bool
	// Finished: the task had finished before the checkpoint.
	Finished bool
	// AckMs is when it acknowledged; Metrics is what it reported, or nil.
	AckMs   int64
	Metrics *messages.CheckpointMetrics
}

// RestoredStats is the checkpoint that the job started from.
type RestoredStats struct {
	Checkpoint uint64
	Savepoint  bool
	Location   string
	// RestoredMs is when, 0 if that is not known.
	RestoredMs int64
}

// statsTracker follows the checkpoints (Flink: CheckpointStatsTracker). It
// decides nothing.
type statsTracker struct {
	counts  Counts
	summary Summary
	// history is oldest first; latest ones may have left it.
	history                                  []*CheckpointStats
	lastCompleted, lastFailed, lastSavepoint *CheckpointStats
	lastRestored                             *RestoredStats
}

// pending starts to follow a checkpoint. Tasks that had finished count as
// acknowledged.
func (t *statsTracker) pending(id uint64, kind messages.CheckpointType, nowMs int64, p *plan) *CheckpointStats {
	s := &CheckpointStats{Checkpoint: id, Type: kind, TriggeredMs: nowMs, LatestAckMs: -1, Subtasks: make([]SubtaskStats, len(p.tasks))}
	for i, task := range p.tasks {
		finished := task.State == messages.TaskState_TASK_FINISHED
		s.Subtasks[i] = SubtaskStats{Task: task.Task, Acknowledged: finished, Finished: finished}
		if finished {
			s.Subtasks[i].AckMs = nowMs
			s.Acknowledged++
		}
	}
	t.counts.Total++
	t.counts.InProgress++
	t.history = append(t.history, s)
	if len(t.history) > historySize {
		t.history = slices.Delete(t.history, 0, 1)
	}
	return s
}

// report enters what a subtask measured; late reports of a failed checkpoint
// count for their sums only.
func (s *CheckpointStats) report(task int, nowMs int64, m *messages.CheckpointMetrics) {
	sub := &s.Subtasks[task]
	if sub.Metrics != nil || sub.Acknowledged {
		return
	}
	sub.Metrics, sub.AckMs, s.LatestAckMs = m, nowMs, nowMs
	if s.Status == StatusInProgress {
		sub.Acknowledged = true
		s.Acknowledged++
	}
	s.CheckpointBytes += m.GetCheckpointBytes()
	s.StateBytes += m.GetFullStateBytes()
	s.ProcessedBytes += m.GetAlignmentProcessedBytes()
	s.PersistedBytes += m.GetAlignmentPersistedBytes()
	s.Unaligned = s.Unaligned || m.GetUnaligned()
}

// completed ends a checkpoint well.
func (t *statsTracker) completed(s *CheckpointStats, nowMs int64, location string) {
	s.Status, s.EndedMs, s.Location = StatusCompleted, nowMs, location
	t.counts.InProgress--
	t.counts.Completed++
	t.summary.DurationMs.add(s.DurationMs())
	t.summary.CheckpointBytes.add(int64(s.CheckpointBytes))
	t.summary.StateBytes.add(int64(s.StateBytes))
	t.summary.ProcessedBytes.add(int64(s.ProcessedBytes))
	t.summary.PersistedBytes.add(int64(s.PersistedBytes))
	if isSavepoint(s.Type) {
		t.lastSavepoint = s
	} else {
		t.lastCompleted = s
	}
}

// failed ends a checkpoint badly. Acknowledged: all tasks had their part in it.
func (t *statsTracker) failed(s *CheckpointStats, nowMs int64, reason messages.FailureReason, cause string, acknowledged bool) {
	s.Status, s.EndedMs, s.Reason, s.Cause = StatusFailed, nowMs, reason, cause
	t.counts.InProgress--
	if harmless(reason, acknowledged) {
		s.Status = StatusAborted
		t.counts.Aborted++
		return
	}
	t.counts.Failed++
	t.lastFailed = s
}

// failedEarly counts a request that failed before it had an id.
func (t *statsTracker) failedEarly(reason messages.FailureReason) {
	t.counts.Total++
	if harmless(reason, false) {
		t.counts.Aborted++
	} else {
		t.counts.Failed++
	}
}

// discarded marks a checkpoint that was deleted.
func (t *statsTracker) discarded(id uint64) {
	for _, s := range append(slices.Clone(t.history), t.latest()...) {
		if s.Checkpoint == id {
			s.Discarded = true
		}
	}
}

// restored enters that the job started from a checkpoint.
func (t *statsTracker) restored(r *messages.CompletedCheckpoint, nowMs int64) {
	t.counts.Restored++
	t.lastRestored = &RestoredStats{Checkpoint: r.Checkpoint, Savepoint: r.Savepoint, Location: r.Location, RestoredMs: nowMs}
}

// latest returns the newest ones that there are.
func (t *statsTracker) latest() []*CheckpointStats {
	return slices.DeleteFunc([]*CheckpointStats{t.lastCompleted, t.lastFailed, t.lastSavepoint},
		func(s *CheckpointStats) bool { return s == nil })
}

// snapshot copies everything.
func (t *statsTracker) snapshot() Statistics {
	s := Statistics{
		Counts: t.counts, Summary: t.summary.clone(),
		LatestCompleted: t.lastCompleted.clone(), LatestFailed: t.lastFailed.clone(), LatestSavepoint: t.lastSavepoint.clone(),
	}
	if t.lastRestored != nil {
		restored := *t.lastRestored
		s.LatestRestored = &restored
	}
	for _, c := range slices.Backward(t.history) {
		s.History = append(s.History, *c.clone())
	}
	return s
}

func (s *CheckpointStats) clone() *CheckpointStats {
	if s == nil {
		return nil
	}
	c := *s
	c.Subtasks = slices.Clone(s.Subtasks)
	return &c
}

func (s *Summary) clone() Summary {
	return Summary{s.DurationMs.clone(), s.CheckpointBytes.clone(), s.StateBytes.clone(), s.ProcessedBytes.clone(), s.PersistedBytes.clone()}
}
