package bench

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"

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

// BenchmarkTasks is what a thousand tasks cost that have nothing to do: five hundred
// sources, each with a forward edge to a sink. How long it takes from the start of the
// coordinator until all run, and how long an empty checkpoint takes from its trigger
// to the last acknowledgement, and to its completion on disk.
func BenchmarkTasks(b *testing.B) {
	const subtasks = 500
	schema := &row.Schema{Fields: []row.Field{{Name: "n", Kind: row.Int}}}
	source, err := datagen.New(datagen.Config{Schema: schema})
	if err != nil {
		b.Fatal(err)
	}
	top := stream.New("idle").Parallelism(subtasks)
	rows := stream.From(top, "rows", source, stream.WithCodec(source.Codec()), stream.Rate(1))
	stream.To(rows, "out", blackhole.New[row.Row](nil), stream.NeverChain())
	program, err := top.Build()
	if err != nil {
		b.Fatal(err)
	}
	settings, err := topology.Settings("settings", []byte("checkpointing: {interval: 200ms}"), os.LookupEnv)
	if err != nil {
		b.Fatal(err)
	}
	settings.Checkpointing.Dir = b.TempDir()

	const wanted = 20 // checkpoints
	var triggered, finalizing time.Time
	var acks, wholes []time.Duration
	running, enough := make(chan struct{}), make(chan struct{})
	process, err := node.Open(node.ProcessOptions{DataDir: b.TempDir(), FS: vfs.OS(),
		Programs: func(string) (operator.Program, error) { return program, nil },
		Event: func(e protocol.Event) { // of one coordinator: one at a time
			switch e := e.(type) {
			case job.StatusChanged:
				if e.To == messages.JobStatus_RUNNING {
					close(running)
				}
			case checkpoint.Triggered:
				triggered = time.Now()
			case checkpoint.Finalizing:
				finalizing = time.Now()
			case checkpoint.Completed:
				acks, wholes = append(acks, finalizing.Sub(triggered)), append(wholes, time.Since(triggered))
				if len(acks) == wanted {
					close(enough)
				}
			}
		}})
	if err != nil {
		b.Fatal(err)
	}
	defer process.Close()
	id := node.NewJobID()
	if _, err := process.Register(context.Background(), &messages.RegisterJob{Job: id, Name: "idle", Graph: program.Graph(), Settings: settings}); err != nil {
		b.Fatal(err)
	}
	start := time.Now()
	j, err := process.StartJob(node.JobSpec{Job: id, Program: "idle", Graph: program.Graph(), Settings: settings})
	if err != nil {
		b.Fatal(err)
	}
	<-running
	deployed := time.Since(start)
	<-enough
	j.Cancel()
	<-j.Wait()
	slices.Sort(acks)
	slices.Sort(wholes)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(deployed.Microseconds())/1000, "ms/1000-tasks-deployed")
	b.ReportMetric(float64(acks[len(acks)/2].Microseconds())/1000, "ms/all-acks")
	b.ReportMetric(float64(wholes[len(wholes)/2].Microseconds())/1000, "ms/checkpoint")
}
