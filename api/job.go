package api

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"cutwater/messages"
	"cutwater/protocol/job"
	"cutwater/protocol/metadata"
)

// jobState is all that is known of a job. Its view is never nil: where no
// coordinator answers it is made of the record.
type jobState struct {
	record *messages.JobRecord
	view   *messages.JobView
	nowMs  int64
}

// job reads the job that the path names, with the subtasks of one checkpoint.
func (c *call) job(checkpoint uint64) (*jobState, error) {
	id, err := jobID(c.params["job"])
	if err != nil {
		return nil, err
	}
	record, err := c.Backend.Job(c.ctx, id)
	if err != nil {
		return nil, unknown(id, err)
	}
	return c.state(c.ctx, record, checkpoint)
}

// unknown makes a sentence of ErrUnknownJob.
func unknown(id string, err error) error {
	if errors.Is(err, ErrUnknownJob) {
		return refuse(http.StatusNotFound, "there is no job %s; GET /jobs lists them", id)
	}
	return err
}

// jobID checks an id of a path.
func jobID(s string) (string, error) {
	id := strings.ToLower(s)
	if len(id) != 32 || strings.Trim(id, "0123456789abcdef") != "" {
		return "", refuse(http.StatusBadRequest, "%q is no job id: that is 32 hexadecimal digits", s)
	}
	return id, nil
}

// state adds to a record what the job's coordinator says, if there is one.
func (c *call) state(ctx context.Context, record *messages.JobRecord, checkpoint uint64) (*jobState, error) {
	s := &jobState{record: record, nowMs: c.Now().UnixMilli()}
	view, err := c.view(ctx, record.Job, checkpoint)
	switch {
	case err == nil && metadata.Ended(record.Status) && view.Status != record.Status:
		s.view = proto.CloneOf(view) // the last view is shared
		s.view.Status = record.Status
	case err == nil:
		s.view = view
	case errors.Is(err, ErrNoCoordinator):
		s.view = viewOfRecord(record, "a coordinator starts")
	case errors.Is(err, ErrNoLeader), errors.Is(err, context.DeadlineExceeded):
		s.view = viewOfRecord(record, "the job's coordinator does not answer")
	default:
		return nil, unknown(record.Job, err)
	}
	return s, nil
}

// viewTimeout bounds what a coordinator may take to answer; then the record has to
// do.
const viewTimeout = 5 * time.Second

func (c *call) view(ctx context.Context, job string, checkpoint uint64) (*messages.JobView, error) {
	ctx, cancel := context.WithTimeout(ctx, viewTimeout)
	defer cancel()
	return c.Backend.View(ctx, job, checkpoint)
}

// maxAsked bounds how many coordinators a request asks at once.
const maxAsked = 16

// states are all jobs, oldest first.
func (c *call) states() ([]*jobState, error) {
	records, err := c.Backend.Jobs(c.ctx)
	if err != nil {
		return nil, err
	}
	records = byAge(records)
	states, errs := make([]*jobState, len(records)), make([]error, len(records))
	var wg sync.WaitGroup
	slots := make(chan struct{}, maxAsked)
	for i, r := range records {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			states[i], errs[i] = c.state(c.ctx, r, 0)
		})
	}
	wg.Wait()
	return states, errors.Join(errs...)
}

// byAge are the records, oldest first.
func byAge(records []*messages.JobRecord) []*messages.JobRecord {
	return slices.SortedFunc(slices.Values(records), func(a, b *messages.JobRecord) int {
		return cmp.Or(cmp.Compare(a.CreatedMs, b.CreatedMs), cmp.Compare(a.Job, b.Job))
	})
}

// restingState is how the tasks stand of a job that nobody coordinates. Which of them
// had finished is not on record.
func restingState(s messages.JobStatus) messages.TaskState {
	switch s {
	case messages.JobStatus_FINISHED:
		return messages.TaskState_TASK_FINISHED
	case messages.JobStatus_CANCELED, messages.JobStatus_FAILED, messages.JobStatus_SUSPENDED:
		return messages.TaskState_TASK_CANCELED
	}
	return messages.TaskState_TASK_CREATED
}

// viewOfRecord is what the record alone says; a job that goes on waits.
func viewOfRecord(r *messages.JobRecord, waiting string) *messages.JobView {
	v := &messages.JobView{
		Job: r.Job, Name: r.Name, Epoch: r.Epoch, Incarnation: r.Incarnation, Status: r.Status, Failure: r.Failure,
		StatusTimes: []*messages.StatusTime{{Status: messages.JobStatus_CREATED, AtMs: r.CreatedMs}},
		Checkpoints: &messages.CheckpointsView{Counts: &messages.CheckpointCounts{Completed: uint64(len(r.Completed)), Total: uint64(len(r.Completed))}},
	}
	if !metadata.Ended(r.Status) {
		v.Waiting = waiting
	}
	if r.Status != messages.JobStatus_CREATED {
		v.StatusTimes = append(v.StatusTimes, &messages.StatusTime{Status: r.Status, AtMs: r.ChangedMs})
	}
	if r.Status == messages.JobStatus_FAILED {
		v.Exceptions = []*messages.ExceptionView{{AtMs: r.ChangedMs, Message: cmp.Or(r.Failure, "the reason is not on record")}}
	}
	if plan, err := job.Plan(r.Graph); err == nil { // it was, when the job was registered
		v.Plan = plan
	}
	for _, vertex := range v.Plan.GetVertices() {
		for subtask := range vertex.Parallelism {
			v.Tasks = append(v.Tasks, &messages.TaskView{Task: &messages.TaskId{Vertex: vertex.Id, Subtask: subtask}, State: restingState(r.Status)})
		}
	}
	for _, done := range r.Completed {
		checkpoint := &messages.CheckpointView{
			Checkpoint: done.Checkpoint, Type: messages.CheckpointType_CHECKPOINT, State: messages.CheckpointState_CHECKPOINT_COMPLETED,
			TriggeredMs: done.TimestampMs, LatestAckMs: done.CompletedMs, EndedMs: done.CompletedMs,
			DurationMs: max(0, done.CompletedMs-done.TimestampMs), Location: done.Location,
			Sums: &messages.CheckpointSums{StateBytes: done.StateBytes},
		}
		v.Checkpoints.History = slices.Insert(v.Checkpoints.History, 0, checkpoint)
		if done.Savepoint {
			checkpoint.Type = messages.CheckpointType_SAVEPOINT
			v.Checkpoints.LatestSavepoint = checkpoint
		} else {
			v.Checkpoints.LatestCompleted = checkpoint
		}
	}
	return v
}

// statusName is Flink's name of a job's status.
func statusName(s messages.JobStatus) string {
	if s == messages.JobStatus_JOB_STATUS_UNSPECIFIED {
		return "INITIALIZING"
	}
	return s.String()
}

// taskStateName is Flink's ExecutionState.
func taskStateName(s messages.TaskState) string {
	if s == messages.TaskState_TASK_STATE_UNSPECIFIED {
		return "CREATED"
	}
	return strings.TrimPrefix(s.String(), "TASK_")
}

// startMs and endMs are when the job was created and when it ended, -1 if it has not.
func (s *jobState) startMs() int64 { return s.record.CreatedMs }

func (s *jobState) endMs() int64 {
	if !metadata.Ended(s.view.Status) {
		return -1
	}
	return max(s.record.ChangedMs, s.startMs())
}

func (s *jobState) durationMs() int64 {
	if end := s.endMs(); end >= 0 {
		return end - s.startMs()
	}
	return max(0, s.nowMs-s.startMs())
}

// lastChangeMs is when the status last changed.
func (s *jobState) lastChangeMs() int64 {
	last := s.record.ChangedMs
	for _, t := range s.view.StatusTimes {
		last = max(last, t.AtMs)
	}
	return last
}

// tasksOf are the tasks of a vertex, by subtask.
func (s *jobState) tasksOf(vertex string) []*messages.TaskView {
	var tasks []*messages.TaskView
	for _, t := range s.view.Tasks {
		if t.Task.GetVertex() == vertex {
			tasks = append(tasks, t)
		}
	}
	return tasks
}

// vertex finds the vertex of a path, by its own id or by Flink's.
func (s *jobState) vertex(id string) (*messages.Vertex, error) {
	for _, v := range s.view.Plan.GetVertices() {
		if v.Id == id || flinkID(v.Id) == strings.ToLower(id) {
			return v, nil
		}
	}
	return nil, refuse(http.StatusNotFound, "job %s has no vertex %q; GET /jobs/%s/plan lists them", s.record.Job, id, s.record.Job)
}

// flinkID makes of a name the 32 hexadecimal digits that Flink's clients ask for.
func flinkID(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:16])
}

// vertexName names the operators of a vertex as Flink does.
func vertexName(v *messages.Vertex) string {
	name := strings.Join(v.Operators, " -> ")
	if v.Source {
		return "Source: " + name
	}
	return name
}

// taskName is Flink's name of a task: that of the vertex, and which it is.
func taskName(v *messages.Vertex, subtask uint32) string {
	return fmt.Sprintf("%s (%d/%d)", vertexName(v), subtask+1, v.Parallelism)
}

var nan = Double(math.NaN())
