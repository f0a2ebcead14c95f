package node_test

import (
	"errors"
	"os"
	"runtime"
	"testing"

	"cutwater/connector/blackhole"
	"cutwater/connector/datagen"
	"cutwater/messages"
	"cutwater/node"
	"cutwater/protocol"
	"cutwater/protocol/job"
	"cutwater/stream"
	"cutwater/stream/row"
	"cutwater/topology"
)

// A job that restarts again and again leaves nothing behind of its ended tasks. The
// task manager remembers how the last 4096 ended, so the count begins after as many.
func TestRestartsLeaveNothing(t *testing.T) {
	const (
		warm     = 4500
		measured = 4500
		most     = 100 // bytes for each ended task; that of a registry with a name for each are 300
	)
	source, err := datagen.New(datagen.Config{Schema: flightRow})
	if err != nil {
		t.Fatal(err)
	}
	top := stream.New("failing").Parallelism(1)
	rows := stream.From(top, "rows", source, stream.WithCodec(source.Codec()))
	stream.To(stream.TryMap(rows, "broken", func() func(row.Row) (int64, bool, error) {
		return func(row.Row) (int64, bool, error) { return 0, false, errors.New("not today") }
	}), "out", blackhole.New[int64](nil))
	p, err := top.Build()
	if err != nil {
		t.Fatal(err)
	}
	settings, err := topology.Settings("settings", []byte("restart: {strategy: fixed-delay, attempts: 9000, delay: 0ms}"), os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	restarts := 0
	var before, after int64
	status, err := node.Run(t.Context(), node.ProcessOptions{DataDir: t.TempDir(), Event: func(e protocol.Event) {
		if _, ok := e.(job.RestartDelayed); !ok {
			return
		}
		switch restarts++; restarts {
		case warm:
			before = live()
		case warm + measured:
			after = live()
		}
	}}, p, settings)
	if status != messages.JobStatus_FAILED || restarts != warm+measured {
		t.Fatalf("%s after %d restarts: %v", status, restarts, err)
	}
	if each := (after - before) / measured; each > most {
		t.Errorf("each ended task left %d bytes, and %d restarts %d", each, measured, after-before)
	}
}

// live is how many bytes of memory are in use.
func live() int64 {
	runtime.GC()
	runtime.GC() // what a finalizer or a pool held
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
