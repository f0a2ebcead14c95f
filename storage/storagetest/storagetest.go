// Package storagetest is the conformance suite of storage.Store.
package storagetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"cutwater/messages"
	"cutwater/storage"
	"cutwater/storage/vfs"
)

// Job is the job of the suite's checkpoints.
const Job = "0123456789abcdef0123456789abcdef"

// OtherJob is one that must not touch them.
const OtherJob = "fedcba9876543210fedcba9876543210"

// Fresh makes a store of a job; stores over the same file system share it.
type Fresh func(fsys vfs.FS, job string, epoch uint64) storage.Store

// Run holds a storage kind to the contract.
func Run(t *testing.T, fresh Fresh) {
	tests := []struct {
		name string
		run  func(t *testing.T, fresh Fresh, fsys vfs.FS)
	}{
		{"state reads back and verifies", stateReadsBack},
		{"state reads back in parts", stateReadsInParts},
		{"a write that fails or is cancelled leaves nothing", failedWrite},
		{"a published checkpoint loads by its record, in a fresh process", publishAndLoad},
		{"publishing the same again succeeds", republish},
		{"a record of another job, checkpoint or content is refused", refusals},
		{"two writes of the same task never meet", sameName},
		{"discarded state is gone, and discarding twice is no error", discards},
		{"a sweep spares what stays", sweeps},
		{"who sees the directory sees its marks", marks},
		{"a savepoint loads by path, for any job", savepointByPath},
		{"a savepoint can be moved", savepointMoves},
		{"a cancelled context ends every call", cancelled},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { test.run(t, fresh, vfs.Mem()) })
	}
}

// File describes a state file of the suite.
func File(checkpoint uint64, subtask uint32, kind, target string) storage.StateFile {
	return storage.StateFile{
		Fence:      &messages.Fence{Job: Job, Epoch: 3, Attempt: 2},
		Task:       &messages.TaskId{Vertex: "v", Subtask: subtask},
		Checkpoint: checkpoint, Uid: "counts/per key", Kind: kind,
		Scope: messages.SegmentScope_EXCLUSIVE, Target: target,
	}
}

// Content writes n bytes that differ by seed, in uneven pieces.
func Content(n int, seed byte) func(io.Writer) error {
	return func(w io.Writer) error {
		all := bytes.Repeat([]byte{seed, 1, 2, 3, 4, 5, 6}, n/7+1)[:n]
		for len(all) > 0 {
			k := min(len(all), 1+len(all)/3)
			if _, err := w.Write(all[:k]); err != nil {
				return err
			}
			all = all[k:]
		}
		return nil
	}
}

// Metadata is a checkpoint of two subtasks with these states.
func Metadata(checkpoint uint64, savepoint bool, handles ...*messages.StateHandle) *messages.CheckpointMetadata {
	op := &messages.OperatorState{Uid: "counts/per key", Parallelism: uint32(len(handles)), MaxParallelism: 128}
	for i, h := range handles {
		op.Subtasks = append(op.Subtasks, &messages.SubtaskEntry{Subtask: uint32(i), State: &messages.OperatorSubtaskState{
			Uid:   op.Uid,
			Keyed: &messages.KeyedState{Segments: []*messages.Segment{{Handle: h, Base: true, Created: checkpoint}}},
		}})
	}
	return &messages.CheckpointMetadata{Job: Job, Epoch: 3, Incarnation: 1, Checkpoint: checkpoint, TimestampMs: 1000, Savepoint: savepoint, Operators: []*messages.OperatorState{op}}
}

// Record is the completion's record of what Publish returned.
func Record(m *messages.CheckpointMetadata, written *messages.MetadataWritten) *messages.CompletedCheckpoint {
	return &messages.CompletedCheckpoint{
		Checkpoint: m.Checkpoint, Epoch: m.Epoch, Savepoint: m.Savepoint, Location: written.Location,
		MetadataSize: written.Size, MetadataHash: written.Hash, Metadata: written.Content,
	}
}

// Checkpoint writes states of the given sizes and publishes them.
func Checkpoint(ctx context.Context, s storage.Store, checkpoint uint64, target string, sizes ...int) (*messages.CheckpointMetadata, *messages.MetadataWritten, error) {
	if err := s.Prepare(ctx, checkpoint, target); err != nil {
		return nil, nil, err
	}
	var handles []*messages.StateHandle
	for i, size := range sizes {
		h, err := s.Write(ctx, File(checkpoint, uint32(i), "keyed", target), Content(size, byte(i)))
		if err != nil {
			return nil, nil, err
		}
		handles = append(handles, h)
	}
	m := Metadata(checkpoint, target != "", handles...)
	written, err := s.Publish(ctx, m, target)
	return m, written, err
}

// VerifyAll verifies every state of a checkpoint.
func VerifyAll(ctx context.Context, s storage.Store, m *messages.CheckpointMetadata) (err error) {
	storage.EachHandle(m, func(h *messages.StateHandle) { err = errors.Join(err, s.Verify(ctx, h)) })
	return err
}

var sizes = []int{0, 1, 100, 5000, 300_000}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error is %v, want %v", err, want)
	}
}

func read(t *testing.T, s storage.Store, h *messages.StateHandle) []byte {
	t.Helper()
	r, err := s.Open(t.Context(), h)
	must(t, err)
	b, err := io.ReadAll(r)
	must(t, err)
	must(t, r.Close())
	return b
}

func wantContent(t *testing.T, s storage.Store, h *messages.StateHandle, size int, seed byte) {
	t.Helper()
	var want bytes.Buffer
	must(t, Content(size, seed)(&want))
	if got := read(t, s, h); !bytes.Equal(got, want.Bytes()) {
		t.Fatalf("%d bytes came back, not the %d that were written", len(got), size)
	}
}

func stateReadsBack(t *testing.T, fresh Fresh, fsys vfs.FS) {
	s := fresh(fsys, Job, 3)
	must(t, s.Prepare(t.Context(), 1, ""))
	for _, scope := range []messages.SegmentScope{messages.SegmentScope_EXCLUSIVE, messages.SegmentScope_SHARED} {
		for i, size := range sizes {
			w := File(1, uint32(i), "keyed", "")
			w.Scope = scope
			h, err := s.Write(t.Context(), w, Content(size, 9))
			must(t, err)
			wantContent(t, s, h, size, 9)
			must(t, s.Verify(t.Context(), h))
		}
	}
}

func stateReadsInParts(t *testing.T, fresh Fresh, fsys vfs.FS) {
	s := fresh(fsys, Job, 3)
	must(t, s.Prepare(t.Context(), 1, ""))
	for _, size := range sizes {
		h, err := s.Write(t.Context(), File(1, 0, "keyed", ""), Content(size, 9))
		must(t, err)
		var want bytes.Buffer
		must(t, Content(size, 9)(&want))
		ctx, cancel := context.WithCancel(t.Context())
		r, err := s.Open(ctx, h)
		must(t, err)
		if r.Size() != int64(size) {
			t.Errorf("the size is %d, want %d", r.Size(), size)
		}
		for _, at := range []int{size / 2, 0, size / 3} {
			part := make([]byte, size/3)
			if n, err := r.ReadAt(part, int64(at)); n != len(part) || err != nil && err != io.EOF || !bytes.Equal(part, want.Bytes()[at:][:n]) {
				t.Errorf("%d of %d bytes at %d: %v", n, len(part), at, err)
			}
		}
		if n, err := r.ReadAt(make([]byte, 2), int64(size)); n != 0 || err != io.EOF {
			t.Errorf("%d bytes behind the end: %v", n, err)
		}
		// The parts leave the stream where it was.
		if got, err := io.ReadAll(r); !bytes.Equal(got, want.Bytes()) || err != nil {
			t.Errorf("%d bytes of %d: %v", len(got), size, err)
		}
		cancel()
		if h.GetFile() != nil {
			_, err := r.ReadAt(make([]byte, 1), 0)
			wantErr(t, err, context.Canceled)
		}
		must(t, r.Close())
	}
}

func failedWrite(t *testing.T, fresh Fresh, fsys vfs.FS) {
	s := fresh(fsys, Job, 3)
	must(t, s.Prepare(t.Context(), 1, ""))
	broken := errors.New("broken")
	_, err := s.Write(t.Context(), File(1, 0, "keyed", ""), func(w io.Writer) error {
		must(t, Content(200_000, 1)(w))
		return broken
	})
	wantErr(t, err, broken)
	ctx, cancel := context.WithCancel(t.Context())
	_, err = s.Write(ctx, File(1, 0, "keyed", ""), func(w io.Writer) error {
		err := Content(200_000, 1)(w)
		cancel()
		return err
	})
	wantErr(t, err, context.Canceled)
	for _, pattern := range []string{"/*/*/*/*", "/*/*/*", "/*/*"} {
		found, err := fsys.Glob(pattern)
		must(t, err)
		for _, name := range found {
			if info, err := fsys.Stat(name); err == nil && !info.IsDir() {
				t.Errorf("%s was left behind", name)
			}
		}
	}
}

func publishAndLoad(t *testing.T, fresh Fresh, fsys vfs.FS) {
	m, written, err := Checkpoint(t.Context(), fresh(fsys, Job, 3), 7, "", sizes...)
	must(t, err)
	s := fresh(fsys, Job, 4)
	loaded, err := s.Load(t.Context(), Record(m, written))
	must(t, err)
	if !proto.Equal(loaded, m) {
		t.Errorf("loaded %v", loaded)
	}
	must(t, VerifyAll(t.Context(), s, loaded))
}

func republish(t *testing.T, fresh Fresh, fsys vfs.FS) {
	s := fresh(fsys, Job, 3)
	m, written, err := Checkpoint(t.Context(), s, 7, "", sizes...)
	must(t, err)
	again, err := fresh(fsys, Job, 3).Publish(t.Context(), m, "")
	must(t, err)
	if !proto.Equal(written, again) {
		t.Errorf("first %v, then %v", written, again)
	}
}

func refusals(t *testing.T, fresh Fresh, fsys vfs.FS) {
	s := fresh(fsys, Job, 3)
	m, written, err := Checkpoint(t.Context(), s, 7, "", 10)
	must(t, err)
	change := func(f func(r *messages.CompletedCheckpoint)) *messages.CompletedCheckpoint {
		r := Record(m, written)
		f(r)
		return r
	}
	_, err = s.Load(t.Context(), change(func(r *messages.CompletedCheckpoint) { r.Checkpoint = 8 }))
	wantErr(t, err, storage.ErrForeign)
	_, err = s.Load(t.Context(), change(func(r *messages.CompletedCheckpoint) { r.Epoch = 9 }))
	wantErr(t, err, storage.ErrForeign)
	_, err = s.Load(t.Context(), change(func(r *messages.CompletedCheckpoint) { r.MetadataHash++ }))
	wantErr(t, err, storage.ErrCorrupt)
	_, err = s.Load(t.Context(), change(func(r *messages.CompletedCheckpoint) { r.Metadata, r.Location = nil, "" }))
	wantErr(t, err, storage.ErrMissing)

	target := "/savepoints"
	m, written, err = Checkpoint(t.Context(), s, 9, target, 10)
	must(t, err)
	_, err = fresh(fsys, OtherJob, 1).Load(t.Context(), Record(m, written))
	wantErr(t, err, storage.ErrForeign)
	record := Record(m, written)
	record.Unclaimed = true
	_, err = fresh(fsys, OtherJob, 1).Load(t.Context(), record)
	must(t, err)
}

func sameName(t *testing.T, fresh Fresh, fsys vfs.FS) {
	s := fresh(fsys, Job, 3)
	must(t, s.Prepare(t.Context(), 1, ""))
	var handles []*messages.StateHandle
	for i := range 3 {
		h, err := s.Write(t.Context(), File(1, 0, "keyed", ""), Content(100_000, byte(i)))
		must(t, err)
		handles = append(handles, h)
	}
	for i, h := range handles {
		wantContent(t, s, h, 100_000, byte(i))
	}
}

func discards(t *testing.T, fresh Fresh, fsys vfs.FS) {
	s := fresh(fsys, Job, 3)
	for _, id := range []uint64{11, 2} {
		_, _, err := Checkpoint(t.Context(), s, id, "", 100_000)
		must(t, err)
	}
	w := File(2, 0, "keyed", "")
	w.Scope = messages.SegmentScope_SHARED
	shared, err := s.Write(t.Context(), w, Content(100_000, 1))
	must(t, err)
	ids, err := s.Checkpoints(t.Context())
	must(t, err)
	if got := fmt.Sprint(ids); len(ids) > 0 && got != "[2 11]" {
		t.Errorf("checkpoints are %s", got)
	}
	for range 2 {
		must(t, s.DiscardCheckpoint(t.Context(), 2))
	}
	must(t, s.Verify(t.Context(), shared))
	if ids, err = s.Checkpoints(t.Context()); err != nil || len(ids) > 1 {
		t.Errorf("checkpoints are %v, %v", ids, err)
	}
	for range 2 {
		must(t, s.Discard(t.Context(), shared))
	}
	if shared.GetFile() != nil {
		wantErr(t, s.Verify(t.Context(), shared), storage.ErrMissing)
	}
}

func sweeps(t *testing.T, fresh Fresh, fsys vfs.FS) {
	before := fresh(fsys, Job, 3)
	m, written, err := Checkpoint(t.Context(), before, 5, "", sizes...)
	must(t, err)
	must(t, before.Prepare(t.Context(), 6, ""))
	_, err = before.Write(t.Context(), File(6, 0, "keyed", ""), Content(5000, 1))
	must(t, err)
	savepoint, at, err := Checkpoint(t.Context(), before, 7, "/savepoints", sizes...)
	must(t, err)
	s := fresh(fsys, Job, 4)
	_, err = s.Sweep(t.Context(), &messages.SweepCheckpoints{
		Fence: &messages.Fence{Job: Job, Epoch: 4, Attempt: 4000001}, Incarnation: 1, Newest: 7, Keep: []uint64{5}})
	must(t, err)
	for m, written := range map[*messages.CheckpointMetadata]*messages.MetadataWritten{m: written, savepoint: at} {
		loaded, err := s.Load(t.Context(), Record(m, written))
		must(t, err)
		must(t, VerifyAll(t.Context(), s, loaded))
	}
	ids, err := s.Checkpoints(t.Context())
	must(t, err)
	if slices.Contains(ids, 6) {
		t.Error("the checkpoint that was never published is still there")
	}
}

func marks(t *testing.T, fresh Fresh, fsys vfs.FS) {
	s := fresh(fsys, Job, 4)
	marked, err := s.Mark(t.Context(), 3)
	must(t, err)
	directory := len(marked) > 0
	want := func(got []uint64, epochs ...uint64) {
		t.Helper()
		if directory && !slices.Equal(got, epochs) {
			t.Errorf("there are the marks of %v, want %v", got, epochs)
		}
	}
	want(marked, 3)
	for range 2 { // the answer may have been lost
		marked, err = s.Mark(t.Context(), 4)
		must(t, err)
		want(marked, 3, 4)
	}
	must(t, fresh(fsys, Job, 0).CheckMark(t.Context(), 3))
	must(t, fresh(fsys, Job, 0).CheckMark(t.Context(), 4))
	if directory {
		wantErr(t, fresh(fsys, OtherJob, 0).CheckMark(t.Context(), 4), storage.ErrElsewhere)
		wantErr(t, fresh(vfs.Mem(), Job, 0).CheckMark(t.Context(), 4), storage.ErrElsewhere)
	}
	sweep := &messages.SweepCheckpoints{Fence: &messages.Fence{Job: Job, Epoch: 4, Attempt: 4000001}, Incarnation: 1}
	_, err = s.Sweep(t.Context(), sweep)
	must(t, err)
	must(t, s.CheckMark(t.Context(), 4))
	marked, err = s.Mark(t.Context(), 5) // the job was registered again before the last sweep had begun
	must(t, err)
	want(marked, 4, 5)
	sweep.Ended = true
	_, err = s.Sweep(t.Context(), sweep)
	must(t, err)
	marked, err = s.Mark(t.Context(), 6)
	must(t, err)
	want(marked, 5, 6)
}

func savepointByPath(t *testing.T, fresh Fresh, fsys vfs.FS) {
	s := fresh(fsys, Job, 3)
	m, written, err := Checkpoint(t.Context(), s, 5, "/savepoints", sizes...)
	must(t, err)
	again, err := s.Publish(t.Context(), m, "/savepoints")
	must(t, err)
	if !proto.Equal(written, again) {
		t.Errorf("published at first %v, then %v", written, again)
	}
	wantErr(t, s.Prepare(t.Context(), 5, "/savepoints"), storage.ErrPublished)
	must(t, s.Prepare(t.Context(), 6, "/savepoints"))
	other := fresh(fsys, OtherJob, 1)
	for _, given := range []string{written.Location, path.Join(written.Location, storage.MetadataName)} {
		loaded, err := other.LoadPath(t.Context(), given)
		must(t, err)
		must(t, VerifyAll(t.Context(), other, loaded))
		if loaded.Job != Job || loaded.Checkpoint != 5 || !loaded.Savepoint {
			t.Errorf("loaded %v", loaded)
		}
	}
	byRecord, err := s.Load(t.Context(), Record(m, written))
	must(t, err)
	must(t, VerifyAll(t.Context(), s, byRecord))
	_, err = other.LoadPath(t.Context(), "/savepoints/none")
	wantErr(t, err, storage.ErrMissing)
	if _, err := other.LoadPath(t.Context(), "savepoints"); err == nil {
		t.Error("a relative path was taken")
	}
	if err := s.Prepare(t.Context(), 8, "savepoints"); err == nil {
		t.Error("a relative target was taken")
	}
}

func savepointMoves(t *testing.T, fresh Fresh, fsys vfs.FS) {
	s := fresh(fsys, Job, 3)
	_, written, err := Checkpoint(t.Context(), s, 5, "/savepoints", sizes...)
	must(t, err)
	must(t, fsys.MkdirAll("/archive"))
	must(t, fsys.Rename(written.Location, "/archive/mine"))
	loaded, err := s.LoadPath(t.Context(), "/archive/mine")
	must(t, err)
	must(t, VerifyAll(t.Context(), s, loaded))
}

func cancelled(t *testing.T, fresh Fresh, fsys vfs.FS) {
	s := fresh(fsys, Job, 3)
	m, written, err := Checkpoint(t.Context(), s, 5, "", 10)
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantErr(t, s.Prepare(ctx, 6, ""), context.Canceled)
	_, err = s.Write(ctx, File(6, 0, "lists", ""), Content(10, 1))
	wantErr(t, err, context.Canceled)
	_, err = s.Publish(ctx, Metadata(6, false), "")
	wantErr(t, err, context.Canceled)
	_, err = s.Load(ctx, Record(m, written))
	wantErr(t, err, context.Canceled)
	_, err = s.LoadPath(ctx, "/x")
	wantErr(t, err, context.Canceled)
	wantErr(t, s.DiscardCheckpoint(ctx, 5), context.Canceled)
	_, err = s.Sweep(ctx, &messages.SweepCheckpoints{Fence: &messages.Fence{Job: Job, Epoch: 3}})
	wantErr(t, err, context.Canceled)
	_, err = s.Checkpoints(ctx)
	wantErr(t, err, context.Canceled)
	_, err = s.Mark(ctx, 4)
	wantErr(t, err, context.Canceled)
	wantErr(t, s.CheckMark(ctx, 4), context.Canceled)
}
