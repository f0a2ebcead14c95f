package api

import (
	"net/http"
	"path"

	"cutwater/messages"
)

// checkpointRoutes are Flink's about checkpoints.
func checkpointRoutes() []route {
	return []route{
		get("/jobs/{job}/checkpoints", "Counts, summary and the newest checkpoints of a job.", (*call).checkpoints),
		get("/jobs/{job}/checkpoints/config", "How checkpoints are taken.", (*call).checkpointConfig),
		get("/jobs/{job}/checkpoints/details/{checkpoint}", "One checkpoint of the history.", (*call).checkpointDetails),
		get("/jobs/{job}/checkpoints/details/{checkpoint}/subtasks/{vertex}", "A vertex's part in it, by subtask.", (*call).checkpointSubtasks),
	}
}

// Checkpoints is Flink's CheckpointingStatistics.
type Checkpoints struct {
	Counts  CheckpointCounts  `json:"counts"`
	Summary CheckpointSummary `json:"summary"`
	Latest  LatestCheckpoints `json:"latest"`
	History []Checkpoint      `json:"history"`
}

// CheckpointCounts counts checkpoints. Flink has no aborted ones: they are among the
// failed.
type CheckpointCounts struct {
	Restored   uint64 `json:"restored"`
	Total      uint64 `json:"total"`
	InProgress uint64 `json:"in_progress"`
	Completed  uint64 `json:"completed"`
	Failed     uint64 `json:"failed"`
	// Aborted is how many of the failed ones nobody needed any more.
	Aborted uint64 `json:"aborted"`
}

// CheckpointSummary is over the completed checkpoints.
type CheckpointSummary struct {
	CheckpointedSize  Stats `json:"checkpointed_size"`
	StateSize         Stats `json:"state_size"`
	Duration          Stats `json:"end_to_end_duration"`
	AlignmentBuffered Stats `json:"alignment_buffered"`
	Processed         Stats `json:"processed_data"`
	Persisted         Stats `json:"persisted_data"`
}

// Stats is Flink's StatsSummaryDto.
type Stats struct {
	Min  int64  `json:"min"`
	Max  int64  `json:"max"`
	Avg  int64  `json:"avg"`
	P50  Double `json:"p50"`
	P90  Double `json:"p90"`
	P95  Double `json:"p95"`
	P99  Double `json:"p99"`
	P999 Double `json:"p999"`
}

func statsOf(s *messages.SeriesView) Stats {
	if s.GetCount() == 0 {
		return Stats{P50: nan, P90: nan, P95: nan, P99: nan, P999: nan}
	}
	return Stats{s.Min, s.Max, s.Avg, Double(s.P50), Double(s.P90), Double(s.P95), Double(s.P99), Double(s.P999)}
}

// LatestCheckpoints are the newest of each kind, or null.
type LatestCheckpoints struct {
	Completed *Checkpoint         `json:"completed"`
	Savepoint *Checkpoint         `json:"savepoint"`
	Failed    *Checkpoint         `json:"failed"`
	Restored  *RestoredCheckpoint `json:"restored"`
}

// RestoredCheckpoint is the one that the job last started from.
type RestoredCheckpoint struct {
	ID         uint64 `json:"id"`
	RestoredMs int64  `json:"restore_timestamp"`
	Savepoint  bool   `json:"is_savepoint"`
	Path       string `json:"external_path,omitempty"`
}

// Checkpoint is Flink's CheckpointStatistics in its three forms, told apart by
// ClassName: completed, failed or in_progress.
type Checkpoint struct {
	ClassName string `json:"className"`
	CheckpointPart
	Savepoint       bool                      `json:"is_savepoint"`
	SavepointFormat string                    `json:"savepointFormat,omitempty"`
	TriggeredMs     int64                     `json:"trigger_timestamp"`
	Type            string                    `json:"checkpoint_type"`
	Tasks           map[string]CheckpointPart `json:"tasks"`
	// Of a completed one.
	Path      string `json:"external_path,omitempty"`
	Discarded *bool  `json:"discarded,omitempty"`
	// Of a failed one.
	FailedMs *int64 `json:"failure_timestamp,omitempty"`
	Failure  string `json:"failure_message,omitempty"`
}

// CheckpointPart is what Flink shows of a checkpoint as of a vertex's part in it.
type CheckpointPart struct {
	ID                uint64 `json:"id"`
	Status            string `json:"status"`
	LatestAckMs       int64  `json:"latest_ack_timestamp"`
	CheckpointedSize  uint64 `json:"checkpointed_size"`
	StateSize         uint64 `json:"state_size"`
	DurationMs        int64  `json:"end_to_end_duration"`
	AlignmentBuffered int64  `json:"alignment_buffered"`
	Processed         uint64 `json:"processed_data"`
	Persisted         uint64 `json:"persisted_data"`
	Subtasks          uint64 `json:"num_subtasks"`
	Acknowledged      uint64 `json:"num_acknowledged_subtasks"`
}

func partOf(id uint64, status string, latestAckMs, durationMs int64, s *messages.CheckpointSums) CheckpointPart {
	return CheckpointPart{
		ID: id, Status: status, LatestAckMs: latestAckMs, DurationMs: durationMs,
		CheckpointedSize: s.GetCheckpointBytes(), StateSize: s.GetStateBytes(), Processed: s.GetProcessedBytes(), Persisted: s.GetPersistedBytes(),
		Subtasks: s.GetSubtasks(), Acknowledged: s.GetAcknowledged(),
	}
}

// forms are ClassName and status of a checkpoint by its state.
var forms = map[messages.CheckpointState][2]string{
	messages.CheckpointState_CHECKPOINT_IN_PROGRESS: {"in_progress", "IN_PROGRESS"},
	messages.CheckpointState_CHECKPOINT_COMPLETED:   {"completed", "COMPLETED"},
	messages.CheckpointState_CHECKPOINT_FAILED:      {"failed", "FAILED"},
	messages.CheckpointState_CHECKPOINT_ABORTED:     {"failed", "FAILED"},
}

// checkpointOf shows a checkpoint; nil stays nil.
func checkpointOf(s *jobState, v *messages.CheckpointView) *Checkpoint {
	if v == nil {
		return nil
	}
	form := forms[v.State]
	c := &Checkpoint{
		ClassName: form[0], TriggeredMs: v.TriggeredMs, Type: "CHECKPOINT", Tasks: map[string]CheckpointPart{},
		CheckpointPart: partOf(v.Checkpoint, form[1], v.LatestAckMs, v.DurationMs, v.Sums),
	}
	switch v.Type {
	case messages.CheckpointType_SAVEPOINT:
		c.Savepoint, c.SavepointFormat, c.Type = true, "CANONICAL", "SAVEPOINT"
	case messages.CheckpointType_SAVEPOINT_SUSPEND, messages.CheckpointType_SAVEPOINT_TERMINATE:
		c.Savepoint, c.SavepointFormat, c.Type = true, "CANONICAL", "SYNC_SAVEPOINT"
	default:
		if v.Unaligned {
			c.Type = "UNALIGNED_CHECKPOINT"
		}
	}
	for _, part := range v.Vertices {
		c.Tasks[flinkID(part.Vertex)] = vertexPart(v, part)
	}
	switch c.ClassName {
	case "completed":
		discarded := v.Discarded
		c.Path, c.Discarded = s.externalPath(v.Location, c.Savepoint), &discarded
	case "failed":
		ended := v.EndedMs
		c.FailedMs, c.Failure = &ended, v.Reason.String()
		if v.Cause != "" {
			c.Failure += ": " + v.Cause
		}
	}
	return c
}

// vertexPart is a vertex's part: completed as soon as all of its subtasks have
// acknowledged, unless the checkpoint failed.
func vertexPart(v *messages.CheckpointView, part *messages.VertexCheckpointView) CheckpointPart {
	status := forms[v.State][1]
	if v.State == messages.CheckpointState_CHECKPOINT_IN_PROGRESS && part.Sums.GetAcknowledged() == part.Sums.GetSubtasks() {
		status = "COMPLETED"
	}
	duration := int64(0)
	if part.LatestAckMs >= 0 {
		duration = max(0, part.LatestAckMs-v.TriggeredMs)
	}
	return partOf(v.Checkpoint, status, part.LatestAckMs, duration, part.Sums)
}

// externalPath is where a checkpoint lies; empty where it is in no folder.
func (s *jobState) externalPath(location string, savepoint bool) string {
	c := s.record.GetSettings().GetCheckpointing()
	switch {
	case location == "" || savepoint || path.IsAbs(location):
		return location
	case c.GetStorage() == "coordinator" || c.GetDir() == "":
		return ""
	}
	return path.Join(c.Dir, s.record.Job, location)
}

// checkpointed reads the job of the path, which takes checkpoints.
func (c *call) checkpointed(checkpoint uint64) (*jobState, error) {
	s, err := c.job(checkpoint)
	if err == nil && s.record.GetSettings().GetCheckpointing().GetIntervalMs() == 0 {
		return nil, refuse(http.StatusNotFound, "checkpointing is not enabled for job %s: its checkpointing.interval is 0", s.record.Job)
	}
	return s, err
}

func (c *call) checkpoints() (Checkpoints, error) {
	s, err := c.checkpointed(0)
	if err != nil {
		return Checkpoints{}, err
	}
	v := s.view.Checkpoints
	n := v.GetCounts()
	answer := Checkpoints{
		Counts: CheckpointCounts{Restored: n.GetRestored(), Total: n.GetTotal(), InProgress: n.GetInProgress(), Completed: n.GetCompleted(),
			Failed: n.GetFailed() + n.GetAborted(), Aborted: n.GetAborted()},
		Summary: CheckpointSummary{
			CheckpointedSize: statsOf(v.GetCheckpointBytes()), StateSize: statsOf(v.GetStateBytes()), Duration: statsOf(v.GetDurationMs()),
			AlignmentBuffered: statsOf(nil), Processed: statsOf(v.GetProcessedBytes()), Persisted: statsOf(v.GetPersistedBytes()),
		},
		Latest: LatestCheckpoints{Completed: checkpointOf(s, v.GetLatestCompleted()), Savepoint: checkpointOf(s, v.GetLatestSavepoint()),
			Failed: checkpointOf(s, v.GetLatestFailed())},
		History: []Checkpoint{},
	}
	if r := v.GetLatestRestored(); r != nil {
		answer.Latest.Restored = &RestoredCheckpoint{ID: r.Checkpoint, RestoredMs: r.RestoredMs, Savepoint: r.Savepoint, Path: s.externalPath(r.Location, r.Savepoint)}
	}
	for _, h := range v.GetHistory() {
		answer.History = append(answer.History, *checkpointOf(s, h))
	}
	return answer, nil
}

// CheckpointConfig is Flink's CheckpointConfigInfo. Times are in ms.
type CheckpointConfig struct {
	Mode                 string          `json:"mode"`
	IntervalMs           int64           `json:"interval"`
	TimeoutMs            int64           `json:"timeout"`
	MinPauseMs           int64           `json:"min_pause"`
	MaxConcurrent        int64           `json:"max_concurrent"`
	Externalization      Externalization `json:"externalization"`
	StateBackend         string          `json:"state_backend"`
	Storage              string          `json:"checkpoint_storage"`
	Unaligned            bool            `json:"unaligned_checkpoints"`
	TolerableFailures    int64           `json:"tolerable_failed_checkpoints"`
	AlignedTimeoutMs     int64           `json:"aligned_checkpoint_timeout"`
	AfterTasksFinish     bool            `json:"checkpoints_after_tasks_finish"`
	Changelog            bool            `json:"state_changelog_enabled"`
	ChangelogIntervalMs  int64           `json:"changelog_periodic_materialization_interval"`
	Incremental          bool            `json:"incremental"`
	Retained             int64           `json:"num_retained"`
	Directory            string          `json:"directory"`
	SavepointDirectory   string          `json:"savepoint_directory"`
	InlineThresholdBytes uint64          `json:"inline_threshold_bytes"`
}

// Externalization says what becomes of checkpoints when the job ends.
type Externalization struct {
	Enabled              bool `json:"enabled"`
	DeleteOnCancellation bool `json:"delete_on_cancellation"`
}

func (c *call) checkpointConfig() (CheckpointConfig, error) {
	s, err := c.checkpointed(0)
	if err != nil {
		return CheckpointConfig{}, err
	}
	k := s.record.Settings.Checkpointing
	mode := "exactly_once"
	if k.AtLeastOnce {
		mode = "at_least_once"
	}
	return CheckpointConfig{
		Mode: mode, IntervalMs: k.IntervalMs, TimeoutMs: k.TimeoutMs, MinPauseMs: k.MinPauseMs, MaxConcurrent: int64(k.MaxConcurrent),
		Externalization: Externalization{Enabled: k.Retention != messages.Retention_RETAIN_NEVER && k.Retention != messages.Retention_RETENTION_UNSPECIFIED,
			DeleteOnCancellation: k.Retention != messages.Retention_RETAIN_ON_CANCELLATION},
		StateBackend: s.record.Settings.Backend, Storage: k.Storage, Unaligned: k.Unaligned, TolerableFailures: int64(k.TolerableFailures),
		AlignedTimeoutMs: k.AlignedTimeoutMs, AfterTasksFinish: k.AfterTasksFinish, Incremental: k.Incremental, Retained: int64(k.NumRetained),
		Directory: k.Dir, SavepointDirectory: k.SavepointDir, InlineThresholdBytes: k.InlineThresholdBytes,
	}, nil
}

// checkpoint reads the job and the checkpoint of the path.
func (c *call) checkpoint() (*jobState, *messages.CheckpointView, error) {
	id, err := checkpointID(c.params["checkpoint"])
	if err != nil {
		return nil, nil, err
	}
	s, err := c.checkpointed(id)
	if err != nil {
		return nil, nil, err
	}
	v := s.view.Checkpoints
	for _, h := range append(v.GetHistory(), v.GetLatestCompleted(), v.GetLatestSavepoint(), v.GetLatestFailed()) {
		if h.GetCheckpoint() == id {
			return s, h, nil
		}
	}
	return nil, nil, refuse(http.StatusNotFound, "checkpoint %d of job %s is not in the history; GET /jobs/%s/checkpoints lists what is", id, s.record.Job, s.record.Job)
}

func (c *call) checkpointDetails() (Checkpoint, error) {
	s, v, err := c.checkpoint()
	if err != nil {
		return Checkpoint{}, err
	}
	return *checkpointOf(s, v), nil
}
