package apitest

import (
	"math"

	"cutwater/messages"
)

// Jobs of Sample.
const (
	// Running runs, and has a view with everything in it.
	Running = "000000000000000000000000000000a1"
	// Finished has only its record.
	Finished = "000000000000000000000000000000a2"
	// Failed has only its record.
	Failed = "000000000000000000000000000000a3"
	// Created waits for its first coordinator.
	Created = "000000000000000000000000000000a4"
	// Unchecked runs without checkpoints.
	Unchecked = "000000000000000000000000000000a5"
)

const startMs = 1_700_000_000_000

// Sample returns a backend with a job of each kind.
func Sample() *Backend {
	b := NewBackend()
	b.Node.Jobs = []string{Running, Unchecked}
	b.Others = append(b.Others, NewBackend().Node)
	b.Others[0].ID, b.Others[0].Name, b.Others[0].Leader = "ff", "ff.3", false
	graph := &messages.JobGraph{Name: "flights", Parallelism: 2, MaxParallelism: 128, Operators: []*messages.OperatorSpec{
		{Uid: "flights", Kind: "source", Source: true, Bounded: true},
		{Uid: "daily", Kind: "window", Keyed: true, Inputs: []*messages.OperatorInput{{Uid: "flights", Partitioning: messages.Partitioning_HASH}}},
		{Uid: "out", Kind: "sink", Sink: true, Inputs: []*messages.OperatorInput{{Uid: "daily", Partitioning: messages.Partitioning_FORWARD}}},
	}}
	settings := &messages.JobSettings{
		Backend: "heap", Restart: &messages.RestartConfig{Kind: messages.RestartKind_EXPONENTIAL_DELAY},
		Checkpointing: &messages.CheckpointConfig{IntervalMs: 1000, TimeoutMs: 600_000, MaxConcurrent: 1, NumRetained: 3, Storage: "filesystem", Dir: "/chk"},
	}
	record := func(job, name string, status messages.JobStatus) *messages.JobRecord {
		r := &messages.JobRecord{Job: job, Name: name, Status: status, Incarnation: 1, Epoch: 1, Graph: graph, Settings: settings,
			CreatedMs: startMs, ChangedMs: startMs + 5000, Coordinator: b.Node.Name + "|coordinator/" + job}
		b.Records = append(b.Records, r)
		return r
	}
	record(Running, "flights", messages.JobStatus_RUNNING)
	record(Finished, "finished", messages.JobStatus_FINISHED).Completed = []*messages.CompletedCheckpoint{
		{Checkpoint: 1, Epoch: 1, TimestampMs: startMs, CompletedMs: startMs + 10, Location: "chk-1", StateBytes: 100},
		{Checkpoint: 2, Epoch: 1, TimestampMs: startMs, CompletedMs: startMs + 10, Location: "/save/savepoint-2", Savepoint: true},
	}
	record(Failed, "failed", messages.JobStatus_FAILED).Failure = "the disk is full"
	created := record(Created, "created", messages.JobStatus_CREATED)
	created.Epoch, created.Coordinator = 0, ""
	unchecked := record(Unchecked, "unchecked", messages.JobStatus_RUNNING)
	unchecked.Settings = &messages.JobSettings{Backend: "heap", Checkpointing: &messages.CheckpointConfig{}}
	b.Views[Running] = view(Running, b.Node.Name)
	b.Views[Unchecked] = &messages.JobView{Job: Unchecked, Name: "unchecked", Status: messages.JobStatus_RUNNING, NowMs: startMs}
	return b
}

// view is what a coordinator says of a job that runs after a failure.
func view(job, node string) *messages.JobView {
	source, daily := "flights-00000001", "daily-00000002"
	v := &messages.JobView{
		Job: job, Name: "flights", NowMs: startMs + 60_000, Node: node, Epoch: 1, Incarnation: 1, Attempt: 2, Restarts: 1,
		Status: messages.JobStatus_RUNNING, Failure: "operator \"daily\" failed: <boom>", Stale: 3,
		StatusTimes: []*messages.StatusTime{{Status: messages.JobStatus_CREATED, AtMs: startMs}, {Status: messages.JobStatus_RUNNING, AtMs: startMs + 5000}},
		Plan: &messages.ExecutionPlan{
			Vertices: []*messages.Vertex{
				{Id: source, Operators: []string{"flights"}, Parallelism: 2, MaxParallelism: 128, Source: true},
				{Id: daily, Operators: []string{"daily", "out"}, Parallelism: 2, MaxParallelism: 128},
			},
			Edges: []*messages.PlanEdge{{Id: 1, From: source, To: daily, FromUid: "flights", ToUid: "daily", Partitioning: messages.Partitioning_HASH}},
		},
		Exceptions: []*messages.ExceptionView{
			{AtMs: startMs + 4000, Attempt: 1, Task: &messages.TaskId{Vertex: daily, Subtask: 1}, Node: node, Uid: "daily",
				Message: "operator \"daily\" failed: <boom>\nsecond line", Stack: "goroutine 1"},
			{AtMs: startMs + 1000, Attempt: 1, Message: "the metadata store does not answer"},
		},
	}
	for subtask := range uint32(2) {
		v.Tasks = append(v.Tasks, &messages.TaskView{Task: &messages.TaskId{Vertex: source, Subtask: subtask}, Node: node, State: messages.TaskState_TASK_RUNNING,
			SinceMs: startMs + 5000, DeployedMs: startMs + 4500, RecordsRead: 1000, BytesRead: 50_000, RemainingBytes: 7,
			Report: &messages.TaskReport{RecordsIn: 900, BytesIn: 45_000, RecordsOut: 900, BytesOut: 30_000, BackPressuredMs: 250}})
	}
	for subtask := range uint32(2) {
		v.Tasks = append(v.Tasks, &messages.TaskView{Task: &messages.TaskId{Vertex: daily, Subtask: subtask}, Node: node, State: messages.TaskState_TASK_RUNNING,
			SinceMs: startMs + 5000, DeployedMs: startMs + 4500, Report: &messages.TaskReport{RecordsIn: 880, BytesIn: 29_000, RestoredLocalBytes: 300, RestoredRemoteBytes: 20}})
	}
	nan, values := &messages.SeriesView{P50: math.NaN(), P90: math.NaN(), P95: math.NaN(), P99: math.NaN(), P999: math.NaN()},
		&messages.SeriesView{Count: 2, Min: 1, Max: 3, Avg: 2, P50: 2, P90: 3, P95: 3, P99: 3, P999: 3}
	checkpoint := func(id uint64, kind messages.CheckpointType, state messages.CheckpointState, acknowledged uint64) *messages.CheckpointView {
		c := &messages.CheckpointView{Checkpoint: id, Type: kind, State: state, TriggeredMs: startMs + 10_000, LatestAckMs: startMs + 10_050,
			EndedMs: startMs + 10_060, DurationMs: 60, Sums: &messages.CheckpointSums{Subtasks: 4, Acknowledged: acknowledged, CheckpointBytes: 10, StateBytes: 20}}
		for i, vertex := range []string{source, daily} {
			c.Vertices = append(c.Vertices, &messages.VertexCheckpointView{Vertex: vertex, LatestAckMs: startMs + 10_050, Sums: &messages.CheckpointSums{Subtasks: 2,
				Acknowledged: min(2, max(acknowledged, 2*uint64(i))-2*uint64(i))}})
			for subtask := range uint32(2) {
				s := &messages.SubtaskCheckpointView{Task: &messages.TaskId{Vertex: vertex, Subtask: subtask}}
				if uint64(2*i)+uint64(subtask) < acknowledged {
					s.Acknowledged, s.AckMs = true, startMs+10_050
					s.Metrics = &messages.CheckpointMetrics{CheckpointBytes: 3, FullStateBytes: 5, SyncMs: 1, AsyncMs: 2, AlignmentMs: 4, StartDelayMs: 6}
				}
				c.Subtasks = append(c.Subtasks, s)
			}
		}
		return c
	}
	running := checkpoint(9, messages.CheckpointType_CHECKPOINT, messages.CheckpointState_CHECKPOINT_IN_PROGRESS, 3)
	running.EndedMs = 0
	completed := checkpoint(8, messages.CheckpointType_FULL_CHECKPOINT, messages.CheckpointState_CHECKPOINT_COMPLETED, 4)
	completed.Location, completed.Unaligned = "chk-8", true
	failed := checkpoint(7, messages.CheckpointType_CHECKPOINT, messages.CheckpointState_CHECKPOINT_FAILED, 1)
	failed.Reason, failed.Cause = messages.FailureReason_CHECKPOINT_EXPIRED, "2 of 4 tasks did not acknowledge"
	savepoint := checkpoint(6, messages.CheckpointType_SAVEPOINT, messages.CheckpointState_CHECKPOINT_COMPLETED, 4)
	savepoint.Location = "/save/savepoint-000000-6"
	aborted := checkpoint(5, messages.CheckpointType_CHECKPOINT, messages.CheckpointState_CHECKPOINT_ABORTED, 0)
	aborted.Reason, aborted.LatestAckMs = messages.FailureReason_CHECKPOINT_SUBSUMED, -1
	v.Checkpoints = &messages.CheckpointsView{
		Counts:     &messages.CheckpointCounts{Restored: 1, Total: 9, InProgress: 1, Completed: 6, Failed: 1, Aborted: 1},
		DurationMs: values, CheckpointBytes: values, StateBytes: values, ProcessedBytes: nan, PersistedBytes: nan,
		History:         []*messages.CheckpointView{running, completed, failed, savepoint, aborted},
		LatestCompleted: completed, LatestFailed: failed, LatestSavepoint: savepoint,
		LatestRestored: &messages.RestoredView{Checkpoint: 3, Location: "chk-3", RestoredMs: startMs + 4400},
	}
	return v
}
