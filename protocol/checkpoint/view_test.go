package checkpoint

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"cutwater/messages"
	"cutwater/protocol"
)

// A view says of each checkpoint what the statistics say, summed by vertex; its
// subtasks come with the one that is asked for, wherever that one stands, and what
// never was stays away.
func TestView(t *testing.T) {
	var s statsTracker
	nothing := s.snapshot()
	if v := nothing.View(1); v.LatestCompleted != nil || v.LatestFailed != nil || v.LatestSavepoint != nil || v.LatestRestored != nil || len(v.History) != 0 {
		t.Errorf("of nothing there is %v", v)
	}
	task := func(vertex string, subtask uint32) Execution {
		return Execution{Task: &messages.TaskId{Vertex: vertex, Subtask: subtask}}
	}
	p := &plan{tasks: []Execution{task("a", 0), task("a", 1), task("b", 0)}}
	first := s.pending(1, messages.CheckpointType_CHECKPOINT, 10, p)
	first.report(0, 20, &messages.CheckpointMetrics{CheckpointBytes: 7, FullStateBytes: 70, AlignmentProcessedBytes: 700, AlignmentPersistedBytes: 7000})
	first.report(1, 15, &messages.CheckpointMetrics{CheckpointBytes: 1})
	first.report(2, 30, nil)
	s.completed(first, 40, "chk-1")
	second := s.pending(2, messages.CheckpointType_CHECKPOINT, 50, p)
	second.report(2, 55, &messages.CheckpointMetrics{CheckpointBytes: 3})
	s.failed(second, 60, messages.FailureReason_CHECKPOINT_EXPIRED, "too slow", false)
	s.restored(&messages.CompletedCheckpoint{Checkpoint: 1, Savepoint: true, Location: "chk-1"}, 70)
	all := s.snapshot()
	v := all.View(1)

	want := &messages.CheckpointView{
		Checkpoint: 1, Type: messages.CheckpointType_CHECKPOINT, State: messages.CheckpointState_CHECKPOINT_COMPLETED,
		TriggeredMs: 10, LatestAckMs: 30, EndedMs: 40, DurationMs: 30, Location: "chk-1",
		Sums: &messages.CheckpointSums{Subtasks: 3, Acknowledged: 3, CheckpointBytes: 8, StateBytes: 70, ProcessedBytes: 700, PersistedBytes: 7000},
		Vertices: []*messages.VertexCheckpointView{
			{Vertex: "a", LatestAckMs: 20, Sums: &messages.CheckpointSums{Subtasks: 2, Acknowledged: 2, CheckpointBytes: 8, StateBytes: 70, ProcessedBytes: 700, PersistedBytes: 7000}},
			{Vertex: "b", LatestAckMs: -1, Sums: &messages.CheckpointSums{Subtasks: 1, Acknowledged: 1}},
		},
	}
	got := proto.Clone(v.LatestCompleted).(*messages.CheckpointView)
	if len(got.Subtasks) != 3 || got.Subtasks[0].Metrics.GetCheckpointBytes() != 7 || got.Subtasks[2].Task.GetVertex() != "b" || !got.Subtasks[2].Acknowledged {
		t.Errorf("the subtasks of checkpoint 1 are %v", got.Subtasks)
	}
	if got.Subtasks = nil; !proto.Equal(got, want) {
		t.Errorf("checkpoint 1 is\n%v, want\n%v", got, want)
	}
	last := v.LatestFailed
	if len(last.Subtasks) != 0 || last.State != messages.CheckpointState_CHECKPOINT_FAILED || last.Cause != "too slow" || last.Sums.Acknowledged != 1 ||
		last.Vertices[0].Sums.Acknowledged != 0 || last.Vertices[1].LatestAckMs != 55 {
		t.Errorf("checkpoint 2 is %v", last)
	}
	if r := v.LatestRestored; r.GetCheckpoint() != 1 || !r.Savepoint || r.Location != "chk-1" || r.RestoredMs != 70 {
		t.Errorf("restored was %v", r)
	}
	if c := v.Counts; c.Total != 2 || c.Completed != 1 || c.Failed != 1 || c.Restored != 1 || c.InProgress != 0 {
		t.Errorf("the counts are %v", c)
	}
	for _, h := range v.History {
		if (len(h.Subtasks) == 3) != (h.Checkpoint == 1) {
			t.Errorf("checkpoint %d comes with %d subtasks", h.Checkpoint, len(h.Subtasks))
		}
	}
	if d := v.DurationMs; len(v.History) != 2 || d.Count != 1 || d.Max != 30 || d.P99 != 30 {
		t.Errorf("%d checkpoints, and durations %v", len(v.History), d)
	}
}

// The metadata store is said to be silent since it was first asked in vain, with the
// newest reason.
func TestUnansweredSince(t *testing.T) {
	c := New(Config{Job: "j", Epoch: 1, Ops: &protocol.Ops{}, Settings: &messages.CheckpointConfig{MaxConcurrent: 1, NumRetained: 1}})
	for _, nowMs := range []int64{5, 10} {
		c.nowMs = nowMs
		c.outcomeUnknown("the allocation", fmt.Sprint("no leader at ", nowMs))
	}
	if since, why := c.Unanswered(); since != 5 || why != "the allocation: no leader at 10" {
		t.Errorf("unanswered since %d: %s", since, why)
	}
}
