package checkpoint

import (
	"testing"

	"cutwater/messages"
)

// Row 166: a snapshot of the statistics does not change with what comes later.
func TestStatisticsAreCopies(t *testing.T) {
	var s statsTracker
	p := &plan{tasks: []Execution{{Task: &messages.TaskId{Vertex: "a"}}}}
	first := s.pending(1, messages.CheckpointType_CHECKPOINT, 10, p)
	s.restored(&messages.CompletedCheckpoint{Checkpoint: 1}, 5)
	before := s.snapshot()
	first.report(0, 20, &messages.CheckpointMetrics{CheckpointBytes: 7})
	s.completed(first, 30, "chk-1")
	s.restored(&messages.CompletedCheckpoint{Checkpoint: 2}, 50)
	if h := before.History[0]; h.Status != StatusInProgress || h.CheckpointBytes != 0 || h.Subtasks[0].Acknowledged {
		t.Errorf("the history changed: %+v", h)
	}
	if before.LatestRestored.Checkpoint != 1 || before.LatestCompleted != nil || before.Counts.Completed != 0 {
		t.Errorf("the snapshot changed: %+v", before)
	}
	done := s.snapshot()
	s.discarded(1)
	s.summary.DurationMs.add(1000)
	if done.LatestCompleted.Discarded || done.History[0].Discarded || done.Summary.DurationMs.Percentile(100) != 20 {
		t.Errorf("the snapshot changed: %+v", done)
	}
	if now := s.snapshot(); !now.LatestCompleted.Discarded || !now.History[0].Discarded {
		t.Errorf("the discarded checkpoint does not show: %+v", now)
	}
}

// A task reports once, even if its first report was empty.
func TestReportOnce(t *testing.T) {
	s := CheckpointStats{Subtasks: make([]SubtaskStats, 1)}
	s.report(0, 10, nil)
	s.report(0, 20, &messages.CheckpointMetrics{CheckpointBytes: 7})
	if s.Acknowledged != 1 || s.LatestAckMs != 10 || s.CheckpointBytes != 0 {
		t.Errorf("the second report counts: %+v", s)
	}
}
