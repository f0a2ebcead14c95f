package api

import (
	"net/http"
	"strconv"

	"cutwater/messages"
	"cutwater/protocol/checkpoint"
)

// CheckpointSubtasks is Flink's TaskCheckpointStatisticsWithSubtaskDetails.
type CheckpointSubtasks struct {
	CheckpointPart
	Summary  SubtaskSummary      `json:"summary"`
	Subtasks []CheckpointSubtask `json:"subtasks"`
}

// SubtaskSummary is over the subtasks that acknowledged. Times are in ms.
type SubtaskSummary struct {
	CheckpointedSize Stats            `json:"checkpointed_size"`
	StateSize        Stats            `json:"state_size"`
	Duration         Stats            `json:"end_to_end_duration"`
	Checkpoint       PhaseSummary     `json:"checkpoint_duration"`
	Alignment        AlignmentSummary `json:"alignment"`
	StartDelay       Stats            `json:"start_delay"`
}

// PhaseSummary is about the two phases of a snapshot.
type PhaseSummary struct {
	Sync  Stats `json:"sync"`
	Async Stats `json:"async"`
}

// AlignmentSummary is about the wait for the barriers of other channels.
type AlignmentSummary struct {
	Buffered  Stats `json:"buffered"`
	Processed Stats `json:"processed"`
	Persisted Stats `json:"persisted"`
	Duration  Stats `json:"duration"`
}

// CheckpointSubtask is Flink's SubtaskCheckpointStatistics in its two forms: of a
// subtask that has not acknowledged only the first three members are there.
type CheckpointSubtask struct {
	ClassName string `json:"className"`
	Index     uint32 `json:"index"`
	Status    string `json:"status"`
	*SubtaskDetails
}

// SubtaskDetails is what a subtask reported. Times are in ms.
type SubtaskDetails struct {
	AckMs            int64     `json:"ack_timestamp"`
	DurationMs       int64     `json:"end_to_end_duration"`
	CheckpointedSize uint64    `json:"checkpointed_size"`
	StateSize        uint64    `json:"state_size"`
	Checkpoint       Phases    `json:"checkpoint"`
	Alignment        Alignment `json:"alignment"`
	StartDelayMs     int64     `json:"start_delay"`
	Unaligned        bool      `json:"unaligned_checkpoint"`
	Aborted          bool      `json:"aborted"`
	// The node of the task in the current attempt, which Flink does not show.
	Endpoint    string `json:"endpoint"`
	TaskManager string `json:"taskmanager-id"`
}

// Phases are the durations of a snapshot's phases.
type Phases struct {
	SyncMs  int64 `json:"sync"`
	AsyncMs int64 `json:"async"`
}

// Alignment is a subtask's wait for the barriers of other channels.
type Alignment struct {
	Buffered   uint64 `json:"buffered"`
	Processed  uint64 `json:"processed"`
	Persisted  uint64 `json:"persisted"`
	DurationMs int64  `json:"duration"`
}

func checkpointID(s string) (uint64, error) {
	id, err := strconv.ParseUint(s, 10, 64)
	if err != nil || id == 0 {
		return 0, refuse(http.StatusBadRequest, "%q is no checkpoint id: that is a whole number from 1 on", s)
	}
	return id, nil
}

func (c *call) checkpointSubtasks() (CheckpointSubtasks, error) {
	s, v, err := c.checkpoint()
	if err != nil {
		return CheckpointSubtasks{}, err
	}
	vertex, err := s.vertex(c.params["vertex"])
	if err != nil {
		return CheckpointSubtasks{}, err
	}
	answer := CheckpointSubtasks{
		CheckpointPart: partOf(v.Checkpoint, forms[v.State][1], -1, 0, &messages.CheckpointSums{Subtasks: uint64(vertex.Parallelism)}),
		Subtasks:       []CheckpointSubtask{},
	}
	for _, part := range v.Vertices {
		if part.Vertex == vertex.Id {
			answer.CheckpointPart = vertexPart(v, part)
		}
	}
	var acknowledged []SubtaskDetails
	for _, sub := range v.Subtasks {
		if sub.Task.GetVertex() != vertex.Id {
			continue
		}
		if !sub.Acknowledged && sub.Metrics == nil {
			answer.Subtasks = append(answer.Subtasks, CheckpointSubtask{"pending", sub.Task.GetSubtask(), "pending_or_failed", nil})
			continue
		}
		d := subtaskDetails(s, v, sub)
		acknowledged = append(acknowledged, d)
		answer.Subtasks = append(answer.Subtasks, CheckpointSubtask{"completed", sub.Task.GetSubtask(), "completed", &d})
	}
	answer.Summary = summarize(acknowledged)
	return answer, nil
}

func subtaskDetails(s *jobState, v *messages.CheckpointView, sub *messages.SubtaskCheckpointView) SubtaskDetails {
	m := sub.Metrics
	d := SubtaskDetails{
		AckMs: sub.AckMs, DurationMs: max(0, sub.AckMs-v.TriggeredMs), CheckpointedSize: m.GetCheckpointBytes(), StateSize: m.GetFullStateBytes(),
		Checkpoint:   Phases{m.GetSyncMs(), m.GetAsyncMs()},
		Alignment:    Alignment{0, m.GetAlignmentProcessedBytes(), m.GetAlignmentPersistedBytes(), m.GetAlignmentMs()},
		StartDelayMs: m.GetStartDelayMs(), Unaligned: m.GetUnaligned(), Aborted: !sub.Acknowledged,
	}
	for _, t := range s.tasksOf(sub.Task.GetVertex()) {
		if t.Task.GetSubtask() == sub.Task.GetSubtask() {
			d.Endpoint, d.TaskManager = t.Node, t.Node
		}
	}
	return d
}

func summarize(subtasks []SubtaskDetails) SubtaskSummary {
	over := func(value func(*SubtaskDetails) int64) Stats {
		values := make([]int64, len(subtasks))
		for i := range subtasks {
			values[i] = value(&subtasks[i])
		}
		series := checkpoint.NewSeries(values...)
		return statsOf(series.View())
	}
	return SubtaskSummary{
		CheckpointedSize: over(func(d *SubtaskDetails) int64 { return int64(d.CheckpointedSize) }),
		StateSize:        over(func(d *SubtaskDetails) int64 { return int64(d.StateSize) }),
		Duration:         over(func(d *SubtaskDetails) int64 { return d.DurationMs }),
		Checkpoint: PhaseSummary{
			Sync:  over(func(d *SubtaskDetails) int64 { return d.Checkpoint.SyncMs }),
			Async: over(func(d *SubtaskDetails) int64 { return d.Checkpoint.AsyncMs }),
		},
		Alignment: AlignmentSummary{
			Buffered:  over(func(*SubtaskDetails) int64 { return 0 }),
			Processed: over(func(d *SubtaskDetails) int64 { return int64(d.Alignment.Processed) }),
			Persisted: over(func(d *SubtaskDetails) int64 { return int64(d.Alignment.Persisted) }),
			Duration:  over(func(d *SubtaskDetails) int64 { return d.Alignment.DurationMs }),
		},
		StartDelay: over(func(d *SubtaskDetails) int64 { return d.StartDelayMs }),
	}
}
