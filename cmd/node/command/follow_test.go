package command

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cutwater/api"
	"cutwater/api/apitest"
	"cutwater/messages"
)

// story is a backend whose job stands otherwise at each question; the last view stays.
type story struct {
	*apitest.Backend
	mu    sync.Mutex
	views []*messages.JobView
	// onCancel, if set, is what comes when the end was asked for.
	onCancel []*messages.JobView
	source   *messages.TopologySource
	options  api.DeployOptions
}

// View implements api.Backend.
func (s *story) View(_ context.Context, job string, _ uint64) (*messages.JobView, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.views) == 0 {
		return nil, api.ErrNoCoordinator
	}
	v := s.views[0]
	if len(s.views) > 1 {
		s.views = s.views[1:]
	}
	v.Job = job
	return v, nil
}

// Deploy implements api.Backend.
func (s *story) Deploy(ctx context.Context, source *messages.TopologySource, o api.DeployOptions) (string, error) {
	s.mu.Lock()
	s.source, s.options = source, o
	s.mu.Unlock()
	return s.Backend.Deploy(ctx, source, o)
}

// Cancel implements api.Backend.
func (s *story) Cancel(ctx context.Context, job string) error {
	s.mu.Lock()
	if s.onCancel != nil {
		s.views = s.onCancel
	}
	s.mu.Unlock()
	return s.Backend.Cancel(ctx, job)
}

const nodeA, nodeB = "aaaaaaaa111111111111111111111111.1", "bbbbbbbb111111111111111111111111.2"

// standing is a job of one vertex with two tasks.
func standing(status messages.JobStatus, tasks messages.TaskState, change func(*messages.JobView)) *messages.JobView {
	v := &messages.JobView{Name: "flights", Status: status, Node: nodeA, Epoch: 1, Checkpoints: &messages.CheckpointsView{},
		Plan: &messages.ExecutionPlan{Vertices: []*messages.Vertex{{Id: "in-1", Operators: []string{"in", "out"}, Parallelism: 2, Source: true}}},
		Tasks: []*messages.TaskView{
			{Task: &messages.TaskId{Vertex: "in-1"}, Node: nodeA, State: tasks, SinceMs: 1},
			{Task: &messages.TaskId{Vertex: "in-1", Subtask: 1}, Node: nodeB, State: tasks, SinceMs: 1},
		}}
	if change != nil {
		change(v)
	}
	return v
}

func completed(v *messages.JobView) {
	v.Checkpoints.LatestCompleted = &messages.CheckpointView{Checkpoint: 1, DurationMs: 7, Sums: &messages.CheckpointSums{StateBytes: 531}}
}

const (
	created  = messages.JobStatus_CREATED
	running  = messages.JobStatus_RUNNING
	failing  = messages.JobStatus_FAILING
	failed   = messages.JobStatus_FAILED
	finished = messages.JobStatus_FINISHED
	canceled = messages.JobStatus_CANCELED

	taskCreated = messages.TaskState_TASK_CREATED
	taskRuns    = messages.TaskState_TASK_RUNNING
)

const deployable = `name: flights
checkpointing: {interval: INTERVAL, dir: checkpoints}
operators:
  - {uid: in, source: {file: {path: "${FOLDER}/in.csv", schema: {n: int}}}}
  - {uid: out, input: in, sink: {blackhole: {}}}
`

// untimed are the lines without their times.
func untimed(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if _, rest, ok := strings.Cut(line, " "); ok && len(line) > 12 && line[2] == ':' {
			line = rest
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "")
}

// deploy waits until the job runs with its first checkpoint, says what it waits for,
// and shows the placement; or it says why it came to nothing, with an exit code.
func TestDeploy(t *testing.T) {
	waiting := standing(created, taskCreated, func(v *messages.JobView) { v.Waiting = "2 slots are missing" })
	starts := standing(running, taskCreated, completed) // the checkpoint of an attempt before
	runs := standing(running, taskRuns, nil)
	checked := standing(running, taskRuns, completed)
	boom := func(v *messages.JobView) {
		v.Failure = "operator \"in\" failed: boom"
		v.Exceptions = []*messages.ExceptionView{{AtMs: 5, Attempt: 1_000_001, Node: nodeB, Uid: "in", Message: v.Failure}}
		v.Checkpoints.LatestFailed = &messages.CheckpointView{Checkpoint: 4, Reason: messages.FailureReason_IO_EXCEPTION, Cause: "no space left"}
	}
	const shown = "VERTEX     PARALLELISM  NODES (TASKS)\nin -> out  2            aaaaaaaa (1), bbbbbbbb (1)\n"
	const id = "0000000000000000000000000000d000"
	const tasks = `[{"vertex":"in-1","operators":["in","out"],"subtask":0,"node":"aaaaaaaa111111111111111111111111","state":"RUNNING","since":"1970-01-01T00:00:00.001Z"},` +
		`{"vertex":"in-1","operators":["in","out"],"subtask":1,"node":"bbbbbbbb111111111111111111111111","state":"RUNNING","since":"1970-01-01T00:00:00.001Z"}]`
	const goesOn = "it goes on without this command: `cutwater job flights` shows how it stands, `cutwater cancel flights` ends it"
	for name, c := range map[string]struct {
		interval string // 1s by default
		args     string
		views    []*messages.JobView
		refuse   error
		code     int
		out      string
		said     []string // in this order
	}{
		"until the first checkpoint": {views: []*messages.JobView{waiting, waiting, starts, runs, checked}, out: shown, said: []string{
			"job flights (" + id + ") is deployed\n", "job CREATED\nwaiting: 2 slots are missing\njob RUNNING\njob flights (00000000) RUNNING, checkpoint 1 completed after 7 ms, 531 B\n"}},
		"json": {args: "-o json", views: []*messages.JobView{checked},
			out: `{"job":"` + id + `","name":"flights","status":"RUNNING","checkpoint":1,"placement":` + tasks + "}\n"},
		"a checkpoint is too far away": {interval: "10m", views: []*messages.JobView{waiting, runs}, out: shown},
		"it has finished":              {views: []*messages.JobView{standing(finished, taskRuns, nil)}, said: []string{"job flights (00000000) FINISHED"}},
		"not waited for":               {args: "--detach", out: id + "\n", said: []string{"job flights is deployed"}},
		"not waited for, json":         {args: "--detach -o json", out: `{"job":"` + id + `","name":"flights","status":"CREATED","checkpoint":0,"placement":[]}` + "\n"},
		"it fails":                     {views: []*messages.JobView{standing(failing, taskRuns, boom), standing(failed, taskRuns, boom)}, code: exitFailed, said: []string{"attempt 1.1 failed on node bbbbbbbb: operator \"in\" failed: boom\njob FAILING\ncheckpoint 4 failed: IO_EXCEPTION: no space left\njob FAILED\n", "error: job flights (00000000) is FAILED: operator \"in\" failed: boom\n"}},
		"somebody cancels it":          {views: []*messages.JobView{standing(canceled, taskRuns, nil)}, code: exitFailed, said: []string{"is CANCELED: somebody else ended it"}},
		"no slots come":                {args: "--timeout 300ms", views: []*messages.JobView{waiting}, code: exitUnreachable, said: []string{"error: job flights (00000000) did not get to run within 300ms: it is CREATED, waiting: 2 slots are missing; " + goesOn}},
		"its checkpoints fail":         {interval: "100ms", args: "--timeout 300ms", views: []*messages.JobView{standing(running, taskRuns, func(v *messages.JobView) { boom(v); v.Failure = "" })}, code: exitUnreachable, said: []string{"it is RUNNING, and checkpoint 4 failed: IO_EXCEPTION: no space left; "}},
		"the name is taken":            {refuse: fmt.Errorf("%w: flights", api.ErrNameExists), code: exitConflict, said: []string{"error: the name is taken: flights\n"}},
		"the nodes refuse it":          {refuse: &api.RefusedError{Reasons: []string{"f.yaml:2: no", "f.yaml:3: neither"}}, code: exitRejected, said: []string{"error: f.yaml is rejected:\nf.yaml:2: no\nf.yaml:3: neither\n"}},
		"an operator's state given up": {args: "--drop-state in", code: exitRejected, said: []string{"--drop-state in: the topology has this operator"}},
		"no parallelism":               {args: "--parallelism 0", code: exitUsage, said: []string{"--parallelism 0 is not from 1 to"}},
		"no time":                      {args: "--timeout 0s", code: exitUsage, said: []string{"--detach does not wait"}},
		"no folder to restore":         {args: "--restore=", code: exitUsage, said: []string{"--restore needs the folder"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &story{Backend: apitest.NewBackend(), views: c.views}
			s.OnDeploy = func(*messages.TopologySource, api.DeployOptions) error { return c.refuse }
			at := served(t, s, "")
			t.Setenv("FOLDER", "/data")
			interval := c.interval
			if interval == "" {
				interval = "1s"
			}
			if err := os.WriteFile("f.yaml", []byte(strings.Replace(deployable, "INTERVAL", interval, 1)), 0o644); err != nil {
				t.Fatal(err)
			}
			code, out, errOut := ran(append([]string{"deploy", "f.yaml", "--addr", at}, strings.Fields(c.args)...)...)
			errOut = untimed(errOut)
			if code != c.code || out != c.out {
				t.Errorf("exit code %d, want %d; printed\n%s\nwant\n%s", code, c.code, out, c.out)
			}
			for rest, i := errOut, 0; i < len(c.said); i++ {
				_, after, ok := strings.Cut(rest, c.said[i])
				if !ok {
					t.Fatalf("said\n%s\nwant\n%s", errOut, c.said[i])
				}
				rest = after
			}
		})
	}
}

// A topology with errors is refused before any node is asked, with its place; what is
// sent has the text, the variables and the options, with paths made absolute.
func TestDeploySends(t *testing.T) {
	s := &story{Backend: apitest.NewBackend()}
	at := served(t, s, "")
	t.Setenv("FOLDER", "/data")
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(deployable, "INTERVAL", "1s", 1)
	for name, content := range map[string]string{"f.yaml": text, "bad.yaml": strings.Replace(text, "interval", "intervall", 1)} {
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	code, _, errOut := ran("deploy", "bad.yaml", "--addr", at)
	if code != exitRejected || !strings.Contains(errOut, "bad.yaml:2:17") || !strings.Contains(errOut, "^") || len(s.Asked()) > 0 {
		t.Errorf("exit code %d, asked %v, said\n%s", code, s.Asked(), errOut)
	}
	code, _, errOut = ran("deploy", "f.yaml", "--addr", at, "--detach", "--parallelism", "3", "--restore", "chk-7", "--drop-state", "gone")
	if code != exitOK {
		t.Fatal(errOut)
	}
	if s.source.File != dir+"/f.yaml" || string(s.source.Text) != text || len(s.source.Variables) != 1 || s.source.Variables["FOLDER"] != "/data" {
		t.Errorf("sent %v", s.source)
	}
	if o := s.options; o.Parallelism != 3 || o.Restore != dir+"/chk-7" || !slices.Equal(o.DropState, []string{"gone"}) {
		t.Errorf("sent %+v", o)
	}
}

// Ctrl-C ends the waiting, and the command says that the job goes on.
func TestStopWaiting(t *testing.T) {
	at := served(t, &story{Backend: apitest.Sample(), views: []*messages.JobView{standing(created, taskCreated, nil)}}, "")
	target, err := flagsOf(t, []string{"--addr", at}).connect()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	w := newFollower(target, apitest.Created, "created", &bytes.Buffer{})
	v, err := w.until(ctx, func(*messages.JobView) bool { cancel(); return false })
	if v == nil || err == nil {
		t.Fatalf("got %v, %v", v, err)
	}
	err = w.gaveUp(err, v, time.Minute, "did not get to run")
	if code := err.(*codedError).code; code != exitError || !strings.HasPrefix(err.Error(), "not waited for job created (00000000) any longer; it goes on") {
		t.Errorf("exit code %d, %v", code, err)
	}
}

// A node that is away for a while is asked again, and said so once; a job that is not
// there is not asked for again.
func TestWaitingThroughTrouble(t *testing.T) {
	s := &story{Backend: apitest.Sample(), views: []*messages.JobView{standing(running, taskRuns, nil)}}
	s.Failure = fmt.Errorf("%w: no voter leads", api.ErrNoLeader)
	at := served(t, s, "")
	target, err := flagsOf(t, []string{"--addr", at}).connect()
	if err != nil {
		t.Fatal(err)
	}
	out := &bytes.Buffer{}
	ctx, cancel := context.WithTimeout(t.Context(), 3*lookEvery)
	defer cancel()
	if _, err := newFollower(target, apitest.Running, "flights", out).until(ctx, func(*messages.JobView) bool { return true }); err == nil {
		t.Error("it is known how the job stands")
	}
	if got, want := untimed(out.String()), "the cluster has no leader now: no voter leads; `cutwater nodes` shows which nodes are there (asking again)\n"; got != want {
		t.Errorf("said %q, want %q", got, want)
	}
	s.Failure = nil
	_, err = newFollower(target, strings.Repeat("f", 32), "x", out).until(t.Context(), func(*messages.JobView) bool { return false })
	if err == nil || err.(*codedError).code != exitNotFound {
		t.Errorf("a job that is not there: %v", err)
	}
}

// cancel waits until the job is CANCELED, and says so if it ended otherwise.
func TestCancel(t *testing.T) {
	cancelling := standing(messages.JobStatus_CANCELLING, taskRuns, nil)
	for name, c := range map[string]struct {
		args string
		then []*messages.JobView
		code int
		out  string
		said string
	}{
		"waited for":       {then: []*messages.JobView{cancelling, standing(canceled, taskRuns, nil)}, said: "job CANCELLING\njob CANCELED\n"},
		"json":             {args: "-o json", then: []*messages.JobView{standing(canceled, taskRuns, nil)}, out: `{"job":"` + apitest.Running + `","name":"flights","status":"CANCELED"}` + "\n"},
		"not waited for":   {args: "--detach", said: "job flights (00000000) is to end\n"},
		"it never ends":    {args: "--timeout 300ms", then: []*messages.JobView{cancelling}, code: exitUnreachable, said: "error: job flights (00000000) has not ended within 300ms: it is CANCELLING; "},
		"it was faster":    {then: []*messages.JobView{standing(finished, taskRuns, nil)}, code: exitConflict, said: "error: job flights (00000000) was FINISHED before it was canceled"},
		"it failed before": {then: []*messages.JobView{standing(failed, taskRuns, func(v *messages.JobView) { v.Failure = "boom" })}, code: exitFailed, said: "failed before it was canceled: boom"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &story{Backend: apitest.Sample(), views: []*messages.JobView{standing(running, taskRuns, nil)}, onCancel: c.then}
			at := served(t, s, "")
			code, out, errOut := ran(append([]string{"cancel", "fl", "--addr", at}, strings.Fields(c.args)...)...)
			if code != c.code || out != c.out || !strings.Contains(untimed(errOut), c.said) {
				t.Errorf("exit code %d, want %d; printed %q; said\n%s", code, c.code, out, errOut)
			}
			if asked := s.Asked(); len(asked) == 0 || asked[0] != "cancel "+apitest.Running {
				t.Errorf("asked %v", asked)
			}
		})
	}
}
