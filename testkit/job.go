package testkit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"cutwater/messages"
	"cutwater/node"
	"cutwater/storage/vfs"
	"cutwater/stream"
	"cutwater/stream/operator"
	"cutwater/topology"
)

// Job runs a topology on a real node inside the test: its own data directory,
// the clock of the machine, checkpoints every 20 ms. Declare the topology on
// Topology, tap what is to be watched (Tap), then Start it. When the test ends the
// job is cancelled and its files are removed.
type Job struct {
	// Topology takes the declarations.
	Topology *stream.Topology
	// Timeout bounds each wait for the job; NewJob sets 30 seconds.
	Timeout time.Duration

	t       TB
	probes  []interface{ started(*messages.JobGraph) }
	dir     string
	process *node.Process
	running *node.Job
}

// NewJob makes a job with an empty topology of that name.
func NewJob(t TB, name string) *Job {
	return &Job{Topology: stream.New(name), Timeout: 30 * time.Second, t: t}
}

// defaultSettings of a Job.
const defaultSettings = "checkpointing: {interval: 20ms}"

// Start builds the topology and starts it. Settings are the keys of a
// topology.yaml, see topology.Settings, such as "state: {backend: bolt}"; without
// any, there are checkpoints every 20 ms.
func (j *Job) Start(settings ...string) {
	j.t.Helper()
	if j.process != nil {
		j.t.Fatalf("testkit: the job runs already")
	}
	if err := j.start(settings); err != nil {
		j.t.Fatalf("testkit: the job does not start: %v", err)
	}
}

func (j *Job) start(settings []string) error {
	if len(settings) == 0 {
		settings = []string{defaultSettings}
	}
	program, err := j.Topology.Build()
	if err != nil {
		return err
	}
	var text []byte
	for _, s := range settings {
		text = append(append(text, s...), '\n')
	}
	config, err := topology.Settings("settings", text, os.LookupEnv)
	if err != nil {
		return err
	}
	if j.dir, err = os.MkdirTemp("", "job-"); err != nil {
		return err
	}
	j.t.Cleanup(j.Close)
	if config.Checkpointing.Dir == "" {
		config.Checkpointing.Dir = filepath.Join(j.dir, "checkpoints")
	}
	j.process, err = node.Open(node.ProcessOptions{
		DataDir: filepath.Join(j.dir, "data"), FS: vfs.OS(),
		Programs: func(string) (operator.Program, error) { return program, nil },
	})
	if err != nil {
		return err
	}
	graph := program.Graph()
	register := &messages.RegisterJob{Job: node.NewJobID(), Name: graph.Name, Graph: graph, Settings: config}
	if _, err := j.process.Register(context.Background(), register); err != nil {
		return err
	}
	for _, p := range j.probes {
		p.started(graph)
	}
	j.running, err = j.process.StartJob(node.JobSpec{Job: register.Job, Program: graph.Name, Graph: graph, Settings: config})
	return err
}

// Wait waits until the job has finished; the test fails if it ends otherwise.
func (j *Job) Wait() {
	j.t.Helper()
	if status := j.end("the end of the job"); status != messages.JobStatus_FINISHED {
		j.t.Fatalf("testkit: the job ended as %s", j.state())
	}
}

// WaitFailed waits until the job has failed for good and returns why; the test
// fails if it ends otherwise. A job that is to fail at once has the setting
// "restart: {strategy: none}".
func (j *Job) WaitFailed() error {
	j.t.Helper()
	if status := j.end("the failure of the job"); status != messages.JobStatus_FAILED {
		j.t.Fatalf("testkit: the job ended as %s, and a failure was wanted", j.state())
	}
	return j.running.Failure()
}

// end waits for any end.
func (j *Job) end(what string) messages.JobStatus {
	j.t.Helper()
	j.await(what, func() bool { return false }, func() <-chan struct{} { return nil }, func() string { return "" })
	return j.running.Status()
}

// await waits until met holds, which is asked again whenever changed closes, or
// until the job ends. It reports whether met held; after the timeout the test
// fails, with what seen has to say.
func (j *Job) await(what string, met func() bool, changed func() <-chan struct{}, seen func() string) bool {
	j.t.Helper()
	if j.running == nil {
		j.t.Fatalf("testkit: a wait for %s, and the job was not started", what)
	}
	timeout := time.NewTimer(j.Timeout)
	defer timeout.Stop()
	for {
		change := changed() // before met, so that no change is missed
		if met() {
			return true
		}
		select {
		case <-change:
		case <-j.running.Wait():
			return met()
		case <-timeout.C:
			j.t.Fatalf("testkit: waited %s for %s; %sthe job is %s", j.Timeout, what, seen(), j.state())
		}
	}
}

func (j *Job) tb() TB { return j.t }

func (j *Job) watch(p interface{ started(*messages.JobGraph) }) { j.probes = append(j.probes, p) }

// state is the job's status for people, with its last failure.
func (j *Job) state() string {
	status := j.running.Status().String()
	if err := j.running.Failure(); err != nil {
		return fmt.Sprintf("%s: %v", status, err)
	}
	return status
}

// Close cancels the job if it runs and removes its files; the test's end does it,
// too.
func (j *Job) Close() {
	j.t.Helper()
	if j.dir == "" {
		return
	}
	var errs []error
	if j.running != nil {
		j.running.Cancel()
		<-j.running.Wait()
	}
	if j.process != nil {
		errs = append(errs, j.process.Close())
	}
	errs = append(errs, os.RemoveAll(j.dir))
	j.dir = ""
	if err := errors.Join(errs...); err != nil {
		j.t.Fatalf("testkit: the job does not close: %v", err)
	}
}
