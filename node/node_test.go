package node_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"cutwater/connector/blackhole"
	"cutwater/connector/datagen"
	"cutwater/messages"
	"cutwater/node"
	"cutwater/protocol"
	"cutwater/protocol/checkpoint"
	"cutwater/protocol/job"
	"cutwater/storage"
	"cutwater/storage/vfs"
	"cutwater/stream"
	"cutwater/stream/catalog"
	"cutwater/stream/operator"
	"cutwater/topology"
)

const numbers = `
name: numbers
checkpointing: {interval: 10ms}
operators:
  - {uid: numbers, source: {datagen: {rows: 1000, schema: {n: int}}}}
  - {uid: out, input: numbers, sink: {blackhole: }}
`

func program(t *testing.T) (*stream.Program, *messages.JobSettings) {
	t.Helper()
	return programOf(t, numbers)
}

func programOf(t *testing.T, text string) (*stream.Program, *messages.JobSettings) {
	t.Helper()
	c := &catalog.Catalog{Sources: []catalog.SourceSpec{datagen.Spec()}, Sinks: []catalog.SinkSpec{blackhole.Spec()}}
	top, err := topology.Load("numbers.yaml", []byte(text), c, os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	p, settings, err := topology.Build(top, c)
	if err != nil {
		t.Fatal(err)
	}
	return p, settings
}

func open(t *testing.T, dir string, p *stream.Program, event func(protocol.Event)) *node.Process {
	t.Helper()
	process, err := node.Open(node.ProcessOptions{DataDir: dir, FS: vfs.OS(), Event: event,
		Programs: func(string) (operator.Program, error) { return p, nil }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := process.Close(); err != nil {
			t.Error(err)
		}
	})
	return process
}

// A job is registered, runs to its end and stays on record; it is not registered
// again without a new incarnation, and a second process does not get the folder.
func TestProcess(t *testing.T) {
	p, settings := program(t)
	dir := t.TempDir()
	settings.Checkpointing.Dir = filepath.Join(dir, "checkpoints")
	process := open(t, dir, p, nil)
	if _, err := node.Open(node.ProcessOptions{DataDir: dir, FS: vfs.OS()}); !errors.Is(err, node.ErrDataDirInUse) || !strings.Contains(err.Error(), "--data-dir") {
		t.Errorf("a second process: %v", err)
	}
	ctx := context.Background()
	r := &messages.RegisterJob{Job: node.NewJobID(), Name: "numbers", Graph: p.Graph(), Settings: settings}
	if n, err := process.Register(ctx, r); n != 1 || err != nil {
		t.Fatalf("incarnation %d, %v", n, err)
	}
	if err := process.CheckRestore(ctx, filepath.Join(dir, "nowhere"), p.Graph(), settings); !errors.Is(err, storage.ErrMissing) {
		t.Errorf("a checkpoint that is not there: %v", err)
	}
	j, err := process.StartJob(node.JobSpec{Job: r.Job, Program: "numbers", Graph: p.Graph(), Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	<-j.Wait()
	if j.Status() != messages.JobStatus_FINISHED || j.Failure() != nil {
		t.Fatalf("the job ended as %s: %v", j.Status(), j.Failure())
	}
	if found, err := process.Find(ctx, "numbers"); err != nil || found.GetJob() != r.Job || found.Status != messages.JobStatus_FINISHED {
		t.Errorf("found %v, %v", found, err)
	}
	var refused *node.RefusedError
	if _, err := process.Register(ctx, r); !errors.As(err, &refused) || !strings.Contains(err.Error(), "--fresh") {
		t.Errorf("registering a finished job: %v", err)
	}
	r.NewIncarnation = true
	if n, err := process.Register(ctx, r); n != 2 || err != nil {
		t.Errorf("incarnation %d, %v", n, err)
	}
}

const endless = `
name: endless
parallelism: 4
checkpointing: {interval: 10ms}
state: {backend: bolt}
operators:
  - {uid: numbers, source: {datagen: {rate: 10000, schema: {n: int}}}}
  - {uid: sums, input: numbers, key-by: n, aggregate: {sum: sum(n)}}
  - {uid: out, input: sums, sink: {blackhole: }}
`

// Close in the middle of everything returns when every task has ended: their scratch
// files are gone, and the data directory can be opened again.
func TestCloseWaits(t *testing.T) {
	p, settings := programOf(t, endless)
	dir := t.TempDir()
	settings.Checkpointing.Dir = filepath.Join(dir, "checkpoints")
	job := node.NewJobID()
	for range 3 {
		completed := make(chan struct{}, 1)
		process, err := node.Open(node.ProcessOptions{DataDir: dir, FS: vfs.OS(), Programs: func(string) (operator.Program, error) { return p, nil },
			Event: func(e protocol.Event) {
				if _, ok := e.(checkpoint.Completed); ok {
					select {
					case completed <- struct{}{}:
					default:
					}
				}
			}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := process.Register(t.Context(), &messages.RegisterJob{Job: job, Name: "endless", Graph: p.Graph(), Settings: settings}); err != nil {
			t.Fatal(err)
		}
		if _, err := process.StartJob(node.JobSpec{Job: job, Program: "endless", Graph: p.Graph(), Settings: settings}); err != nil {
			t.Fatal(err)
		}
		<-completed
		if err := process.Close(); err != nil {
			t.Fatal(err)
		}
		if left, err := filepath.Glob(filepath.Join(dir, "scratch", "*")); err != nil || len(left) > 0 {
			t.Fatalf("after Close there are the scratch files %v, %v", left, err)
		}
	}
}

// A coordinator that panics again and again ends its job with one sentence; the
// stacks are in the events alone, and the node lives.
func TestCoordinatorPanics(t *testing.T) {
	p, settings := program(t)
	dir := t.TempDir()
	settings.Checkpointing.Dir = filepath.Join(dir, "checkpoints")
	var mu sync.Mutex
	var fallen []node.CoordinatorFallen
	process := open(t, dir, p, func(e protocol.Event) {
		if f, ok := e.(node.CoordinatorFallen); ok {
			mu.Lock()
			fallen = append(fallen, f)
			mu.Unlock()
		}
	})
	r := &messages.RegisterJob{Job: node.NewJobID(), Name: "numbers", Graph: p.Graph(), Settings: settings}
	if _, err := process.Register(context.Background(), r); err != nil {
		t.Fatal(err)
	}
	j, err := process.StartJob(node.JobSpec{Job: r.Job, Program: "numbers", Graph: p.Graph(), Settings: settings,
		Changed: func(m *job.Master) {
			if m.Epoch() > 0 && m.Status() != messages.JobStatus_FAILED {
				panic("a broken assertion")
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	<-j.Wait()
	if err := j.Failure(); err == nil || !strings.Contains(err.Error(), "a broken assertion") || strings.Contains(err.Error(), "goroutine") {
		t.Errorf("the job ended with: %v", err)
	}
	mu.Lock()
	defer mu.Unlock()
	if n := len(fallen); n < 2 || !fallen[n-1].GivenUp || fallen[0].GivenUp || !strings.Contains(fallen[0].Stack, "node_test.go") {
		t.Errorf("%d coordinators fell", n)
	}
}
