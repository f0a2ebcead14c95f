package api

import "cutwater/messages"

// VertexDetails is Flink's JobVertexDetailsInfo.
type VertexDetails struct {
	ID             string         `json:"id"`
	SlotSharing    string         `json:"slotSharingGroupId"`
	Name           string         `json:"name"`
	MaxParallelism int64          `json:"maxParallelism"`
	Parallelism    int64          `json:"parallelism"`
	Status         string         `json:"status"`
	StartMs        int64          `json:"start-time"`
	EndMs          int64          `json:"end-time"`
	DurationMs     int64          `json:"duration"`
	Tasks          map[string]int `json:"tasks"`
	Metrics        IOMetrics      `json:"metrics"`
}

// IOMetrics is Flink's IOMetricsInfo. What is not known is 0 and not complete.
type IOMetrics struct {
	ReadBytes            int64  `json:"read-bytes"`
	ReadBytesComplete    bool   `json:"read-bytes-complete"`
	WriteBytes           int64  `json:"write-bytes"`
	WriteBytesComplete   bool   `json:"write-bytes-complete"`
	ReadRecords          int64  `json:"read-records"`
	ReadRecordsComplete  bool   `json:"read-records-complete"`
	WriteRecords         int64  `json:"write-records"`
	WriteRecordsComplete bool   `json:"write-records-complete"`
	BackPressuredMs      int64  `json:"accumulated-backpressured-time"`
	IdleMs               int64  `json:"accumulated-idle-time"`
	BusyMs               Double `json:"accumulated-busy-time"`
}

// add counts what a task has said. A source tells more often what it has read than all
// else.
func (m *IOMetrics) add(v *messages.Vertex, t *messages.TaskView) {
	records, bytes := t.Report.GetRecordsIn(), t.Report.GetBytesIn()
	if v.Source {
		records, bytes = max(records, t.RecordsRead), max(bytes, t.BytesRead)
	}
	m.ReadRecords += int64(records)
	m.ReadBytes += int64(bytes)
	m.WriteRecords += int64(t.Report.GetRecordsOut())
	m.WriteBytes += int64(t.Report.GetBytesOut())
	m.BackPressuredMs += t.Report.GetBackPressuredMs()
}

func vertexDetails(s *jobState, v *messages.Vertex) VertexDetails {
	tasks := s.tasksOf(v.Id)
	d := VertexDetails{
		ID: flinkID(v.Id), SlotSharing: flinkID("default"), Name: vertexName(v), MaxParallelism: int64(v.MaxParallelism),
		Parallelism: int64(v.Parallelism), StartMs: -1, EndMs: -1, DurationMs: -1, Tasks: countStates(tasks),
		Metrics: IOMetrics{BusyMs: nan},
	}
	d.Tasks["CREATED"] += int(v.Parallelism) - len(tasks)
	d.Status = vertexStatus(d.Tasks, int(v.Parallelism))
	ended := len(tasks) > 0
	known := len(tasks) == int(v.Parallelism) // records of jobs do not say what tasks did
	for _, t := range tasks {
		if t.DeployedMs > 0 && (d.StartMs < 0 || t.DeployedMs < d.StartMs) {
			d.StartMs = t.DeployedMs
		}
		if t.State == messages.TaskState_TASK_FINISHED || t.State == messages.TaskState_TASK_CANCELED || t.State == messages.TaskState_TASK_FAILED {
			d.EndMs = max(d.EndMs, t.SinceMs)
		} else {
			ended = false
		}
		d.Metrics.add(v, t)
		known = known && t.Report != nil
	}
	if !ended || d.EndMs == 0 {
		d.EndMs = -1
	}
	m := &d.Metrics
	m.ReadBytesComplete, m.ReadRecordsComplete, m.WriteBytesComplete, m.WriteRecordsComplete = known, known, known, known
	switch {
	case d.StartMs < 0:
	case d.EndMs < 0:
		d.DurationMs = max(0, s.nowMs-d.StartMs)
	default:
		d.DurationMs = max(0, d.EndMs-d.StartMs)
	}
	return d
}

// vertexStatus is how a vertex stands (Flink:
// ExecutionJobVertex.getAggregateJobVertexState).
func vertexStatus(tasks map[string]int, parallelism int) string {
	for _, state := range []string{"FAILED", "CANCELING", "CANCELED", "INITIALIZING", "DEPLOYING", "RUNNING"} {
		if tasks[state] > 0 {
			return state
		}
	}
	switch tasks["FINISHED"] {
	case 0:
		return "CREATED"
	case parallelism:
		return "FINISHED"
	}
	return "RUNNING"
}
