package coordinator

import (
	"bytes"
	"fmt"
	"io"
	"syscall"
	"testing"

	"cutwater/messages"
	"cutwater/storage"
	"cutwater/storage/filestore"
	"cutwater/storage/vfs"
)

// What a disk did not do, it may do later; a file that is gone stays gone, and
// damage that a second reading does not find was none of the file's.
func TestFailuresOfLoading(t *testing.T) {
	const dir = "/ckpt/00000000000000000000000000000001/chk-7"
	type fault = vfs.Fault
	for name, c := range map[string]struct {
		fault         *fault
		fails         bool
		io, transient bool
	}{
		"no fault":             {nil, false, false, false},
		"the disk fails":       {&fault{Kind: vfs.Fail, Op: vfs.OpRead, Err: syscall.EIO}, true, true, true},
		"an unexpected errno":  {&fault{Kind: vfs.Fail, Op: vfs.OpOpen, Err: syscall.EMFILE}, true, true, true},
		"forbidden":            {&fault{Kind: vfs.Fail, Op: vfs.OpOpen, Err: syscall.EACCES}, true, true, false},
		"missing":              {&fault{Kind: vfs.Fail, Op: vfs.OpOpen, Err: syscall.ENOENT}, true, true, false},
		"damaged on the way":   {&fault{Kind: vfs.Flip, Nth: 1}, false, false, false},
		"damaged on the disk":  {&fault{Kind: vfs.Flip}, true, false, false},
		"damaged a bit deeper": {&fault{Kind: vfs.Flip, Path: dir + "/e*", Nth: 1}, false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			disk := vfs.Faulty(vfs.Mem(), vfs.Plan{Seed: 1})
			w := worker{store: filestore.New(filestore.Options{FS: disk, Dir: "/ckpt", Job: "00000000000000000000000000000001", Epoch: 1}), fs: disk}
			written := publish(t, w.store)
			if c.fault != nil {
				disk.SetFaults(*c.fault)
			}
			_, err := w.load(t.Context(), &messages.LoadCheckpoint{Record: &messages.CompletedCheckpoint{
				Checkpoint: 7, Epoch: 1, Location: written.Location, MetadataSize: written.Size, MetadataHash: written.Hash}})
			if (err != nil) != c.fails || ioFailure(err) != c.io || transient(err) != c.transient {
				t.Errorf("io %v, transient %v: %v", ioFailure(err), transient(err), err)
			}
		})
	}
	if err := fmt.Errorf("write: %w", syscall.ENOSPC); !ioFailure(err) || !transient(err) {
		t.Error("a full disk stays full for ever")
	}
}

// publish writes checkpoint 7 with one file of an enumerator's state.
func publish(t *testing.T, store storage.Store) *messages.MetadataWritten {
	t.Helper()
	fence := &messages.Fence{Job: "00000000000000000000000000000001", Epoch: 1, Attempt: 1}
	if err := store.Prepare(t.Context(), 7, ""); err != nil {
		t.Fatal(err)
	}
	handle, err := store.Write(t.Context(), storage.StateFile{Fence: fence, Task: &messages.TaskId{Vertex: "v"}, Checkpoint: 7, Uid: "in", Kind: "enumerator",
		Scope: messages.SegmentScope_EXCLUSIVE}, func(w io.Writer) error {
		_, err := w.Write(bytes.Repeat([]byte("state"), 100))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	written, err := store.Publish(t.Context(), &messages.CheckpointMetadata{Job: fence.Job, Epoch: 1, Incarnation: 1, Checkpoint: 7,
		Operators: []*messages.OperatorState{{Uid: "in", Parallelism: 1, MaxParallelism: 1, Coordinator: handle, HasCoordinator: true}}}, "")
	if err != nil {
		t.Fatal(err)
	}
	return written
}
