package node_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"cutwater/connector/blackhole"
	"cutwater/connector/datagen"
	"cutwater/messages"
	"cutwater/node"
	"cutwater/protocol"
	"cutwater/protocol/checkpoint"
	"cutwater/protocol/job"
	"cutwater/storage/vfs"
	"cutwater/stream"
	"cutwater/stream/operator"
	"cutwater/stream/row"
	"cutwater/topology"
)

// A job that was suspended goes on from its last checkpoint when it is run again.
func TestRunResumes(t *testing.T) {
	source, err := datagen.New(datagen.Config{Schema: flightRow}) // without end
	if err != nil {
		t.Fatal(err)
	}
	top := stream.New("endless")
	stream.To(stream.From(top, "rows", source, stream.WithCodec(source.Codec())), "out", blackhole.New[row.Row](nil))
	p, err := top.Build()
	if err != nil {
		t.Fatal(err)
	}
	settings, err := topology.Settings("settings", []byte("checkpointing: {interval: 10ms}"), os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last, restored atomic.Uint64
	o := node.ProcessOptions{DataDir: t.TempDir(), Event: func(e protocol.Event) {
		switch e := e.(type) {
		case checkpoint.Completed:
			last.Store(e.Checkpoint)
			cancel()
		case job.Restoring:
			restored.Store(e.Checkpoint)
		}
	}}
	for range 2 {
		before := last.Load()
		if status, err := node.Run(ctx, o, p, settings); status != messages.JobStatus_SUSPENDED || err != nil {
			t.Fatalf("suspended: %s, %v", status, err)
		}
		if restored.Load() != before {
			t.Errorf("it restored checkpoint %d, and the last one was %d", restored.Load(), before)
		}
		if last.Load() == before {
			t.Error("no checkpoint was taken")
		}
		ctx, cancel = context.WithCancel(t.Context())
		defer cancel()
	}
	if settings.Checkpointing.Dir != "" {
		t.Errorf("the caller's settings were changed: %v", settings)
	}
	if chk, err := filepath.Glob(filepath.Join(o.DataDir, "checkpoints", "*", "chk-*")); len(chk) == 0 {
		t.Errorf("no checkpoints in the data directory, %v", err)
	}
}

// A job that has finished is not run again, and one that nobody wants to run is
// suspended before it has done anything.
func TestRunOnce(t *testing.T) {
	p, settings := program(t)
	var started atomic.Int64
	o := node.ProcessOptions{DataDir: t.TempDir(), Event: func(e protocol.Event) {
		if _, ok := e.(job.StartingEmpty); ok {
			started.Add(1)
		}
	}}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if status, err := node.Run(ctx, o, p, settings); status != messages.JobStatus_SUSPENDED || err != nil {
		t.Fatalf("not wanted: %s, %v", status, err)
	}
	started.Store(0)
	for range 2 {
		if status, err := node.Run(t.Context(), o, p, settings); status != messages.JobStatus_FINISHED || err != nil || started.Load() != 1 {
			t.Errorf("%s, %v, started %d times", status, err, started.Load())
		}
	}
}

// What keeps a job from its end is returned.
func TestRunErrors(t *testing.T) {
	good, settings := program(t)
	o := node.ProcessOptions{DataDir: t.TempDir()}
	if status, err := node.Run(t.Context(), o, good, nil); err == nil || !strings.Contains(err.Error(), "topology.Settings") {
		t.Errorf("without settings: %s, %v", status, err)
	}
	other, err := node.Open(node.ProcessOptions{DataDir: o.DataDir, FS: vfs.OS(), Programs: func(string) (operator.Program, error) { return good, nil }})
	if err != nil {
		t.Fatal(err)
	}
	if status, err := node.Run(t.Context(), o, good, settings); !errors.Is(err, node.ErrDataDirInUse) {
		t.Errorf("a second node: %s, %v", status, err)
	}
	if err := other.Close(); err != nil {
		t.Error(err)
	}

	source, err := datagen.New(datagen.Config{Rows: 10, Schema: flightRow})
	if err != nil {
		t.Fatal(err)
	}
	top := stream.New("failing")
	stream.To(stream.TryMap(stream.From(top, "rows", source, stream.WithCodec(source.Codec())), "broken", func() func(row.Row) (int64, bool, error) {
		return func(row.Row) (int64, bool, error) { return 0, false, errors.New("not today") }
	}), "out", blackhole.New[int64](nil))
	if settings, err = topology.Settings("settings", []byte("restart: {strategy: none}"), os.LookupEnv); err != nil {
		t.Fatal(err)
	}
	bad, err := top.Build()
	if err != nil {
		t.Fatal(err)
	}
	if status, err := node.Run(t.Context(), o, bad, settings); status != messages.JobStatus_FAILED || err == nil || !strings.Contains(err.Error(), "not today") {
		t.Errorf("a failing job: %s, %v", status, err)
	}
}
