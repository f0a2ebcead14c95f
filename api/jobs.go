package api

import (
	"net/http"
	"strconv"

	"cutwater/messages"
	"cutwater/protocol/metadata"
)

// jobRoutes are Flink's about jobs. Of two rows that fit the first one counts.
func jobRoutes() []route {
	mode := parameter{"mode", "string", "What is wished: cancel, which is the default."}
	return []route{
		get("/jobs", "The ids of all jobs and how they stand.", (*call).jobIDs),
		get("/jobs/overview", "All jobs, oldest first.", (*call).jobsOverview),
		get("/jobs/{job}", "How a job stands, with its vertices.", (*call).jobDetails),
		change(http.MethodPatch, "/jobs/{job}", "Cancel a job; it does not wait for the end.", http.StatusAccepted, (*call).cancel).with(mode),
		change(http.MethodGet, "/jobs/{job}/yarn-cancel", "The same for those who can only GET.", http.StatusAccepted, (*call).cancel),
		get("/jobs/{job}/plan", "What is deployed.", (*call).plan),
		get("/jobs/{job}/config", "The job's settings, in Flink's words.", (*call).jobConfig),
		get("/jobs/{job}/status", "How a job stands, in one word.", (*call).status),
		get("/jobs/{job}/exceptions", "Why attempts of the job ended, newest first.", (*call).exceptions).
			with(parameter{"maxExceptions", "integer", "How many are wanted at most."}),
		get("/jobs/{job}/execution-result", "How the job ended, once it has.", (*call).executionResult),
	}
}

// JobIDs is Flink's JobIdsWithStatusOverview.
type JobIDs struct {
	Jobs []JobIDStatus `json:"jobs"`
}

// JobIDStatus is a job and how it stands.
type JobIDStatus struct {
	ID     string `json:"id"`
	Status string `json:"status"`
}

func (c *call) jobIDs() (JobIDs, error) {
	records, err := c.Backend.Jobs(c.ctx)
	all := JobIDs{[]JobIDStatus{}}
	for _, r := range byAge(records) {
		all.Jobs = append(all.Jobs, JobIDStatus{r.Job, statusName(r.Status)})
	}
	return all, err
}

// JobsOverview is Flink's MultipleJobsDetails.
type JobsOverview struct {
	Jobs []JobOverview `json:"jobs"`
}

// JobOverview is Flink's JobDetails.
type JobOverview struct {
	JID              string     `json:"jid"`
	Name             string     `json:"name"`
	StartMs          int64      `json:"start-time"`
	EndMs            int64      `json:"end-time"`
	DurationMs       int64      `json:"duration"`
	State            string     `json:"state"`
	ModifiedMs       int64      `json:"last-modification"`
	Tasks            TaskCounts `json:"tasks"`
	PendingOperators int        `json:"pending-operators"`
}

// TaskCounts counts tasks by their state.
type TaskCounts struct {
	Total        int `json:"total"`
	Created      int `json:"created"`
	Scheduled    int `json:"scheduled"`
	Deploying    int `json:"deploying"`
	Running      int `json:"running"`
	Finished     int `json:"finished"`
	Canceling    int `json:"canceling"`
	Canceled     int `json:"canceled"`
	Failed       int `json:"failed"`
	Reconciling  int `json:"reconciling"`
	Initializing int `json:"initializing"`
}

func countTasks(s *jobState) TaskCounts {
	var n TaskCounts
	for _, v := range s.view.Plan.GetVertices() {
		n.Total += int(v.Parallelism)
	}
	of := countStates(s.view.Tasks)
	n.Created = n.Total - len(s.view.Tasks) + of["CREATED"]
	n.Deploying, n.Initializing, n.Running, n.Finished = of["DEPLOYING"], of["INITIALIZING"], of["RUNNING"], of["FINISHED"]
	n.Canceling, n.Canceled, n.Failed = of["CANCELING"], of["CANCELED"], of["FAILED"]
	return n
}

// executionStates are Flink's, in its order.
var executionStates = []string{"CREATED", "SCHEDULED", "DEPLOYING", "INITIALIZING", "RUNNING", "FINISHED", "CANCELING", "CANCELED", "FAILED", "RECONCILING"}

// countStates counts tasks by state; every state has an entry.
func countStates(tasks []*messages.TaskView) map[string]int {
	count := make(map[string]int, len(executionStates))
	for _, s := range executionStates {
		count[s] = 0
	}
	for _, t := range tasks {
		count[taskStateName(t.State)]++
	}
	return count
}

func (c *call) jobsOverview() (JobsOverview, error) {
	states, err := c.states()
	all := JobsOverview{[]JobOverview{}}
	if err != nil {
		return all, err
	}
	for _, s := range states {
		all.Jobs = append(all.Jobs, JobOverview{
			JID: s.record.Job, Name: s.record.Name, StartMs: s.startMs(), EndMs: s.endMs(), DurationMs: s.durationMs(),
			State: statusName(s.view.Status), ModifiedMs: s.lastChangeMs(), Tasks: countTasks(s),
		})
	}
	return all, nil
}

// JobDetails is Flink's JobDetailsInfo.
type JobDetails struct {
	JID              string           `json:"jid"`
	Name             string           `json:"name"`
	Stoppable        bool             `json:"isStoppable"`
	State            string           `json:"state"`
	Type             string           `json:"job-type"`
	StartMs          int64            `json:"start-time"`
	EndMs            int64            `json:"end-time"`
	DurationMs       int64            `json:"duration"`
	MaxParallelism   int64            `json:"maxParallelism"`
	NowMs            int64            `json:"now"`
	TimestampsMs     map[string]int64 `json:"timestamps"`
	Vertices         []VertexDetails  `json:"vertices"`
	StatusCounts     map[string]int   `json:"status-counts"`
	Plan             Plan             `json:"plan"`
	PendingOperators int              `json:"pending-operators"`
}

// jobStatuses are Flink's, all of which a job's timestamps name.
var jobStatuses = []string{"INITIALIZING", "CREATED", "RUNNING", "FAILING", "FAILED", "CANCELLING", "CANCELED", "FINISHED", "RESTARTING", "SUSPENDED", "RECONCILING"}

func (c *call) jobDetails() (JobDetails, error) {
	s, err := c.job(0)
	if err != nil {
		return JobDetails{}, err
	}
	d := JobDetails{
		JID: s.record.Job, Name: s.record.Name, State: statusName(s.view.Status), Type: jobType(s.record.Graph),
		StartMs: s.startMs(), EndMs: s.endMs(), DurationMs: s.durationMs(), MaxParallelism: maxParallelism(s.record.Graph), NowMs: s.nowMs,
		TimestampsMs: map[string]int64{}, Vertices: []VertexDetails{}, StatusCounts: countStates(nil), Plan: planOf(s),
	}
	for _, name := range jobStatuses {
		d.TimestampsMs[name] = 0
	}
	d.TimestampsMs["INITIALIZING"] = s.startMs()
	for _, t := range s.view.StatusTimes {
		d.TimestampsMs[statusName(t.Status)] = t.AtMs
	}
	for _, v := range s.view.Plan.GetVertices() {
		detail := vertexDetails(s, v)
		d.StatusCounts[detail.Status]++
		d.Vertices = append(d.Vertices, detail)
	}
	return d, nil
}

// jobType is Flink's name for a job whose input ends, and one whose does not.
func jobType(g *messages.JobGraph) string {
	bounded := len(g.GetOperators()) > 0
	for _, op := range g.GetOperators() {
		bounded = bounded && (!op.Source || op.Bounded)
	}
	if bounded {
		return "BATCH"
	}
	return "STREAMING"
}

func maxParallelism(g *messages.JobGraph) int64 {
	if p := g.GetMaxParallelism(); p > 0 {
		return int64(p)
	}
	return -1
}

// JobConfig is Flink's JobConfigInfo.
type JobConfig struct {
	JID       string          `json:"jid"`
	Name      string          `json:"name"`
	Execution ExecutionConfig `json:"execution-config"`
}

// ExecutionConfig is Flink's ExecutionConfigInfo.
type ExecutionConfig struct {
	Mode        string            `json:"execution-mode"`
	Restart     string            `json:"restart-strategy"`
	Parallelism int64             `json:"job-parallelism"`
	ObjectReuse bool              `json:"object-reuse-mode"`
	User        map[string]string `json:"user-config"`
}

var restartNames = map[messages.RestartKind]string{
	messages.RestartKind_RESTART_KIND_UNSPECIFIED: "exponential-delay",
	messages.RestartKind_NO_RESTART:               "none",
	messages.RestartKind_FIXED_DELAY:              "fixed-delay",
	messages.RestartKind_FAILURE_RATE:             "failure-rate",
	messages.RestartKind_EXPONENTIAL_DELAY:        "exponential-delay",
}

func (c *call) jobConfig() (JobConfig, error) {
	s, err := c.job(0)
	if err != nil {
		return JobConfig{}, err
	}
	g, settings := s.record.GetGraph(), s.record.GetSettings()
	return JobConfig{JID: s.record.Job, Name: s.record.Name, Execution: ExecutionConfig{
		Mode: "PIPELINED", Restart: restartNames[settings.GetRestart().GetKind()], Parallelism: max(1, int64(g.GetParallelism())), ObjectReuse: true,
		User: map[string]string{"state.backend": settings.GetBackend(), "topology": s.record.GetTopology().GetFile()},
	}}, nil
}

// Status is Flink's JobStatusInfo.
type Status struct {
	Status string `json:"status"`
}

func (c *call) status() (Status, error) {
	s, err := c.job(0)
	if err != nil {
		return Status{}, err
	}
	return Status{statusName(s.view.Status)}, nil
}

// ExecutionResult is Flink's JobExecutionResultResponseBody.
type ExecutionResult struct {
	Status QueueStatus `json:"status"`
	Result *JobResult  `json:"job-execution-result,omitempty"`
}

// QueueStatus tells whether an operation goes on.
type QueueStatus struct {
	ID string `json:"id"`
}

// JobResult is Flink's JobResult.
type JobResult struct {
	ID           string            `json:"id"`
	Status       string            `json:"application-status"`
	Accumulators map[string]string `json:"accumulator-results"`
	RuntimeMs    int64             `json:"net-runtime"`
	Failure      *ResultFailure    `json:"failure-cause,omitempty"`
}

// ResultFailure is Flink's SerializedThrowable, without its Java form.
type ResultFailure struct {
	Class string `json:"class"`
	Stack string `json:"stack-trace"`
}

var resultNames = map[messages.JobStatus]string{
	messages.JobStatus_FINISHED: "SUCCEEDED",
	messages.JobStatus_FAILED:   "FAILED",
	messages.JobStatus_CANCELED: "CANCELED",
}

func (c *call) executionResult() (ExecutionResult, error) {
	s, err := c.job(0)
	if err != nil {
		return ExecutionResult{}, err
	}
	name, ended := resultNames[s.view.Status]
	if !ended {
		return ExecutionResult{Status: QueueStatus{"IN_PROGRESS"}}, nil
	}
	r := &JobResult{ID: s.record.Job, Status: name, Accumulators: map[string]string{}, RuntimeMs: s.durationMs()}
	if s.view.Status == messages.JobStatus_FAILED {
		r.Failure = &ResultFailure{Class: failureClass, Stack: s.view.Failure}
	}
	return ExecutionResult{Status: QueueStatus{"COMPLETED"}, Result: r}, nil
}

// Empty is the body of an answer that says nothing but yes.
type Empty struct{}

func (c *call) cancel() (Empty, error) {
	id, err := jobID(c.params["job"])
	if err != nil {
		return Empty{}, err
	}
	switch mode := c.r.URL.Query().Get("mode"); mode {
	case "", "cancel":
	case "stop":
		return Empty{}, refuse(http.StatusPermanentRedirect, "the mode stop is no more; POST to /jobs/%s/stop instead", id)
	default:
		return Empty{}, refuse(http.StatusBadRequest, "the mode %q is unknown; the only one is cancel", mode)
	}
	record, err := c.Backend.Job(c.ctx, id)
	switch {
	case err != nil:
		return Empty{}, unknown(id, err)
	case record.Status == messages.JobStatus_CANCELED:
		return Empty{}, nil // whoever asks twice is told the same twice
	case metadata.Ended(record.Status) && record.Status != messages.JobStatus_SUSPENDED:
		return Empty{}, refuse(http.StatusConflict, "job %s has ended as %s and cannot be cancelled any more", id, record.Status)
	}
	return Empty{}, unknown(id, c.Backend.Cancel(c.ctx, id))
}

// count reads a parameter of the query that is a number.
func (c *call) count(name string, otherwise uint64) (uint64, error) {
	text := c.r.URL.Query().Get(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, refuse(http.StatusBadRequest, "%s=%s is not a whole number from 0 on", name, text)
	}
	return n, nil
}
