package checkpoint

import (
	"slices"

	"cutwater/messages"
)

// View is the statistics as a message. The subtasks of the checkpoint detail come
// with it wherever that one stands; of a large job they are long, so those of the
// others do not.
func (s *Statistics) View(detail uint64) *messages.CheckpointsView {
	v := &messages.CheckpointsView{
		Counts: &messages.CheckpointCounts{
			Restored: uint64(s.Counts.Restored), Total: uint64(s.Counts.Total), InProgress: uint64(s.Counts.InProgress),
			Completed: uint64(s.Counts.Completed), Failed: uint64(s.Counts.Failed), Aborted: uint64(s.Counts.Aborted),
		},
		DurationMs:      s.Summary.DurationMs.View(),
		CheckpointBytes: s.Summary.CheckpointBytes.View(),
		StateBytes:      s.Summary.StateBytes.View(),
		ProcessedBytes:  s.Summary.ProcessedBytes.View(),
		PersistedBytes:  s.Summary.PersistedBytes.View(),
		LatestCompleted: s.LatestCompleted.view(detail),
		LatestFailed:    s.LatestFailed.view(detail),
		LatestSavepoint: s.LatestSavepoint.view(detail),
	}
	for i := range s.History {
		v.History = append(v.History, s.History[i].view(detail))
	}
	if r := s.LatestRestored; r != nil {
		v.LatestRestored = &messages.RestoredView{Checkpoint: r.Checkpoint, Savepoint: r.Savepoint, Location: r.Location, RestoredMs: r.RestoredMs}
	}
	return v
}

// View is the series as a message.
func (s *Series) View() *messages.SeriesView {
	sorted := slices.Sorted(slices.Values(s.window))
	return &messages.SeriesView{
		Count: uint64(s.Count), Min: s.Min, Max: s.Max, Avg: s.Avg(),
		P50: percentile(sorted, 50), P90: percentile(sorted, 90), P95: percentile(sorted, 95), P99: percentile(sorted, 99), P999: percentile(sorted, 99.9),
	}
}

var stateOf = [...]messages.CheckpointState{
	StatusInProgress: messages.CheckpointState_CHECKPOINT_IN_PROGRESS,
	StatusCompleted:  messages.CheckpointState_CHECKPOINT_COMPLETED,
	StatusFailed:     messages.CheckpointState_CHECKPOINT_FAILED,
	StatusAborted:    messages.CheckpointState_CHECKPOINT_ABORTED,
}

func (s *CheckpointStats) view(detail uint64) *messages.CheckpointView {
	if s == nil {
		return nil
	}
	v := &messages.CheckpointView{
		Checkpoint: s.Checkpoint, Type: s.Type, State: stateOf[s.Status],
		TriggeredMs: s.TriggeredMs, LatestAckMs: s.LatestAckMs, EndedMs: s.EndedMs, DurationMs: s.DurationMs(),
		Location: s.Location, Discarded: s.Discarded, Reason: s.Reason, Cause: s.Cause, Unaligned: s.Unaligned,
		Sums: &messages.CheckpointSums{
			Subtasks: uint64(len(s.Subtasks)), Acknowledged: uint64(s.Acknowledged),
			CheckpointBytes: s.CheckpointBytes, StateBytes: s.StateBytes, ProcessedBytes: s.ProcessedBytes, PersistedBytes: s.PersistedBytes,
		},
	}
	for i := range s.Subtasks {
		sub := &s.Subtasks[i]
		if n := len(v.Vertices); n == 0 || v.Vertices[n-1].Vertex != sub.Task.GetVertex() {
			v.Vertices = append(v.Vertices, &messages.VertexCheckpointView{Vertex: sub.Task.GetVertex(), LatestAckMs: -1, Sums: &messages.CheckpointSums{}})
		}
		sub.addTo(v.Vertices[len(v.Vertices)-1])
		if s.Checkpoint == detail {
			v.Subtasks = append(v.Subtasks, &messages.SubtaskCheckpointView{
				Task: sub.Task, Acknowledged: sub.Acknowledged, Finished: sub.Finished, AckMs: sub.AckMs, Metrics: sub.Metrics,
			})
		}
	}
	return v
}

// addTo counts the subtask in its vertex.
func (s *SubtaskStats) addTo(v *messages.VertexCheckpointView) {
	v.Sums.Subtasks++
	if s.Acknowledged {
		v.Sums.Acknowledged++
	}
	if s.Metrics == nil {
		return
	}
	v.LatestAckMs = max(v.LatestAckMs, s.AckMs)
	v.Sums.CheckpointBytes += s.Metrics.CheckpointBytes
	v.Sums.StateBytes += s.Metrics.FullStateBytes
	v.Sums.ProcessedBytes += s.Metrics.AlignmentProcessedBytes
	v.Sums.PersistedBytes += s.Metrics.AlignmentPersistedBytes
}
