package task

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"cutwater/messages"
	"cutwater/protocol/keygroup"
	"cutwater/state"
	"cutwater/state/segment"
	"cutwater/storage"
	"cutwater/storage/filestore"
	"cutwater/storage/local"
	"cutwater/storage/vfs"
)

var counted = state.Descriptor{Name: "counts", Kind: state.ValueKind, KeyWidth: 8, ValueWidth: 8, Schema: "int -> int"}

// count adds to the counts of some keys.
func count(t testing.TB, b state.Backend, keys ...int) {
	t.Helper()
	table, err := b.Table(counted)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range keys {
		key := binary.BigEndian.AppendUint64(nil, uint64(i))
		v, _ := table.Update(keygroup.Hash(key), key, 0)
		v[0]++
	}
}

// countsIn lists those of the first keys.
func countsIn(t *testing.T, b state.Backend, keys int) string {
	t.Helper()
	table, err := b.Table(counted)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for i := range keys {
		key := binary.BigEndian.AppendUint64(nil, uint64(i))
		if v, ok := table.Get(keygroup.Hash(key), key, 0); ok {
			all = append(all, fmt.Sprintf("%d:%d", i, v[0]))
		}
	}
	return strings.Join(all, " ")
}

// A task restores from the copies on its node, and where one of them is not what was
// written, or cannot be read, from the checkpoint directory: the state is exact, no part
// of the bad copy is in it, and it is told which bytes came from where.
func TestRestoreFromCopies(t *testing.T) {
	const keys = 500
	for _, c := range []struct {
		name   string
		damage func(t *testing.T, disk *vfs.FaultyFS, file string)
		remote []int // the segments that are read from the directory
	}{
		{"all are there", func(*testing.T, *vfs.FaultyFS, string) {}, nil},
		{"the delta's is gone", func(t *testing.T, disk *vfs.FaultyFS, file string) {
			if err := disk.Remove(file); err != nil {
				t.Fatal(err)
			}
		}, []int{1}},
		{"the delta's is torn", func(t *testing.T, disk *vfs.FaultyFS, file string) {
			edit(t, disk, file, func(b []byte) []byte { return b[:len(b)-9] })
		}, []int{1}},
		{"a byte of an entry of the delta's is another", func(t *testing.T, disk *vfs.FaultyFS, file string) {
			edit(t, disk, file, func(b []byte) []byte { b[len(b)/2]++; return b })
		}, []int{1}},
		{"the last byte of the delta's is another", func(t *testing.T, disk *vfs.FaultyFS, file string) {
			edit(t, disk, file, func(b []byte) []byte { b[len(b)-1]++; return b })
		}, []int{1}},
		{"no copy can be read to its end", func(_ *testing.T, disk *vfs.FaultyFS, _ string) {
			disk.SetFaults(vfs.Fault{Kind: vfs.Fail, Op: vfs.OpRead, Path: "/local/*/*/*"})
		}, []int{0, 1, 2}},
		{"no copy can be opened", func(_ *testing.T, disk *vfs.FaultyFS, _ string) {
			disk.SetFaults(vfs.Fault{Kind: vfs.Fail, Op: vfs.OpOpen, Path: "/local/*/*/*"})
		}, []int{0, 1, 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			disk := vfs.Faulty(vfs.Mem(), vfs.Plan{Seed: 1})
			var events []string
			task := &Task{
				env: &Env{FS: disk, Copies: local.New(disk, "/local"), Event: func(e Event) { events = append(events, e.Kind+": "+e.Detail) }},
				deploy: &messages.Deploy{Task: &messages.TaskId{Vertex: "v"}, Vertex: &messages.Vertex{Id: "v", Parallelism: 1, MaxParallelism: 128},
					Settings: &messages.JobSettings{LocalRecovery: true, Checkpointing: &messages.CheckpointConfig{Dir: "/checkpoints", Incremental: true}}},
				fence: &messages.Fence{Job: testJob, Epoch: 1, Attempt: 1},
				store: filestore.New(filestore.Options{FS: disk, Dir: "/checkpoints", Job: testJob}),
			}
			task.openCopies()
			defer task.copies.close()
			written, err := task.newBackend("sum")
			if err != nil {
				t.Fatal(err)
			}
			defer written.Close()
			var segments []*messages.Segment
			for checkpoint, touched := range []int{keys, keys / 2, keys / 4} { // a base and two deltas
				for i := range touched {
					count(t, written, i)
				}
				segments = append(segments, writeSegment(t, task, written, uint64(checkpoint+1)))
			}
			c.damage(t, disk, "/local/"+testJob+"/v-0/"+base(segments[1]))

			task.deploy.Restore = &messages.TaskRestore{Operators: []*messages.OperatorRestore{{Uid: "sum", Keyed: []*messages.KeyedState{{Segments: segments}}}}}
			restored, err := task.loadOperator(context.Background(), "sum")
			if err != nil {
				t.Fatal(err)
			}
			defer restored.Close()
			if got, want := countsIn(t, restored, keys), countsIn(t, written, keys); got != want {
				t.Errorf("restored %s, want %s", got, want)
			}
			var want restoredBytes
			for _, s := range segments {
				want.local += s.Handle.GetFile().Size
			}
			for _, i := range c.remote {
				size := segments[i].Handle.GetFile().Size
				want.local, want.remote = want.local-size, want.remote+size
			}
			task.tellRestored()
			told := fmt.Sprintf("restored: %d bytes from copies on this node, %d from /checkpoints", want.local, want.remote)
			if task.copies.restored != want || len(events) == 0 || events[len(events)-1] != told {
				t.Errorf("restored %+v, want %+v; told was %q", task.copies.restored, want, events)
			}
		})
	}
}

// What is wrong with the file of the checkpoint itself is the task's failure, as without
// local recovery, and is found although the copy was tried first.
func TestRestoreFails(t *testing.T) {
	disk := vfs.Mem()
	task := &Task{
		env: &Env{FS: disk, Copies: local.New(disk, "/local")},
		deploy: &messages.Deploy{Task: &messages.TaskId{Vertex: "v"}, Vertex: &messages.Vertex{Id: "v", Parallelism: 1, MaxParallelism: 128},
			Settings: &messages.JobSettings{LocalRecovery: true, Checkpointing: &messages.CheckpointConfig{Dir: "/checkpoints"}}},
		fence: &messages.Fence{Job: testJob, Epoch: 1, Attempt: 1},
		store: filestore.New(filestore.Options{FS: disk, Dir: "/checkpoints", Job: testJob}),
	}
	task.openCopies()
	defer task.copies.close()
	written, err := task.newBackend("sum")
	if err != nil {
		t.Fatal(err)
	}
	defer written.Close()
	count(t, written, 1, 2, 3)
	written1 := writeSegment(t, task, written, 1)
	for _, file := range []string{"/local/" + testJob + "/v-0/" + base(written1), "/checkpoints/" + testJob + "/" + written1.Handle.GetFile().Path} {
		edit(t, disk, file, func(b []byte) []byte { b[len(b)/2]++; return b })
	}
	task.deploy.Restore = &messages.TaskRestore{Operators: []*messages.OperatorRestore{{Uid: "sum", Keyed: []*messages.KeyedState{{Segments: []*messages.Segment{written1}}}}}}
	if b, err := task.loadOperator(context.Background(), "sum"); !errors.Is(err, segment.ErrCorrupt) && !errors.Is(err, storage.ErrCorrupt) || errors.Is(err, errCopy) {
		t.Errorf("restored %v, %v", b, err)
	}
	if got := task.env.Copies.Damaged(); got != 1 {
		t.Errorf("%d copies were given up", got)
	}
}

// writeSegment takes a checkpoint of the state, which completes.
func writeSegment(t testing.TB, task *Task, b state.Backend, checkpoint uint64) *messages.Segment {
	t.Helper()
	sealed, err := b.Seal(checkpoint, state.SealOptions{Incremental: true})
	if err != nil {
		t.Fatal(err)
	}
	p, s := part{uid: "sum", sealed: sealed}, &messages.OperatorSubtaskState{}
	file := storage.StateFile{Fence: task.fence, Task: task.deploy.Task, Checkpoint: checkpoint, Uid: "sum"}
	if err := task.writeKeyed(context.Background(), file, &snapshot{checkpoint: checkpoint, options: &messages.CheckpointOptions{}}, &p, s); err != nil {
		t.Fatal(err)
	}
	sealed.Recorded(p.segment)
	b.Confirm(checkpoint)
	return p.segment
}

func base(s *messages.Segment) string {
	name := s.Handle.GetFile().GetPath()
	return name[strings.LastIndexByte(name, '/')+1:]
}

// edit changes the content of a file.
func edit(t *testing.T, disk vfs.FS, file string, change func([]byte) []byte) {
	t.Helper()
	content, err := vfs.ReadFile(disk, file)
	if err == nil {
		err = vfs.WriteFile(disk, file, change(content))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// BenchmarkRestore restores a million keys, from the copy and from the checkpoint
// directory. Both are on one disk here, and in the page cache: what a directory that is
// on another machine costs comes on top.
func BenchmarkRestore(b *testing.B) {
	const keys = 1_000_000
	for _, copied := range []bool{true, false} {
		b.Run(fmt.Sprintf("local=%v", copied), func(b *testing.B) {
			disk, dir := vfs.OS(), b.TempDir()
			task := &Task{
				env: &Env{FS: disk, Copies: local.New(disk, dir+"/local")},
				deploy: &messages.Deploy{Task: &messages.TaskId{Vertex: "v"}, Vertex: &messages.Vertex{Id: "v", Parallelism: 1, MaxParallelism: 128},
					Settings: &messages.JobSettings{LocalRecovery: copied, Checkpointing: &messages.CheckpointConfig{Dir: dir}}},
				fence: &messages.Fence{Job: testJob, Epoch: 1, Attempt: 1},
				store: filestore.New(filestore.Options{FS: disk, Dir: dir + "/checkpoints", Job: testJob}),
			}
			task.openCopies()
			defer task.copies.close()
			written, err := task.newBackend("sum")
			if err != nil {
				b.Fatal(err)
			}
			for i := range keys {
				count(b, written, i)
			}
			start := time.Now()
			s := writeSegment(b, task, written, 1)
			writeMs := time.Since(start).Milliseconds()
			b.SetBytes(int64(s.Handle.GetFile().GetSize()))
			if err := written.Close(); err != nil {
				b.Fatal(err)
			}
			task.deploy.Restore = &messages.TaskRestore{Operators: []*messages.OperatorRestore{{Uid: "sum", Keyed: []*messages.KeyedState{{Segments: []*messages.Segment{s}}}}}}
			b.ResetTimer()
			for b.Loop() {
				restored, err := task.loadOperator(context.Background(), "sum")
				if err != nil {
					b.Fatal(err)
				}
				if err := restored.Close(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(writeMs), "write-ms")
			if (task.copies.restored.local > 0) != copied {
				b.Fatalf("restored %+v", task.copies.restored)
			}
		})
	}
}
