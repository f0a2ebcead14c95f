package coordinator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"cutwater/cluster/metadata"
	"cutwater/messages"
	"cutwater/storage"
	"cutwater/storage/filestore"
	"cutwater/storage/vfs"
	"cutwater/stream/operator"
)

// stored writes a checkpoint with one operator's lists, keyed state and coordinator,
// and returns a worker with its record.
func stored(t *testing.T) (*worker, *vfs.MemFS, *messages.CompletedCheckpoint, *messages.OperatorSubtaskState) {
	t.Helper()
	disk, ctx := vfs.Mem(), context.Background()
	w := &worker{fs: disk, hooks: &hooks{}, program: &program{}, store: filestore.New(filestore.Options{FS: disk, Dir: "/chk", Job: testJob, Epoch: 1})}
	write := func(kind string, content []byte) *messages.StateHandle {
		h, err := w.store.Write(ctx, storage.StateFile{Fence: &messages.Fence{Job: testJob, Epoch: 1, Attempt: 1}, Task: &messages.TaskId{Vertex: "v"},
			Checkpoint: 1, Uid: "op", Kind: kind, Scope: messages.SegmentScope_EXCLUSIVE}, func(w io.Writer) error {
			_, err := w.Write(content)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	if err := w.run(ctx, &messages.PrepareLocation{Job: testJob, Checkpoint: 1}, &messages.WorkDone{}); err != nil {
		t.Fatal(err)
	}
	lists, err := proto.Marshal(&messages.OperatorLists{Lists: []*messages.OperatorList{{Name: "l", Items: [][]byte{[]byte("a")}}}})
	if err != nil {
		t.Fatal(err)
	}
	state := &messages.OperatorSubtaskState{Uid: "op", Lists: write("lists", lists),
		Keyed: &messages.KeyedState{Segments: []*messages.Segment{{Handle: write("keyed", []byte("segment")), Created: 1}}}}
	done := &messages.WorkDone{}
	err = w.run(ctx, &messages.WriteMetadata{Metadata: &messages.CheckpointMetadata{Job: testJob, Epoch: 1, Checkpoint: 1,
		Operators: []*messages.OperatorState{{Uid: "op", HasCoordinator: true, Coordinator: &messages.StateHandle{Where: &messages.StateHandle_Inline{Inline: []byte("enumerator")}},
			Subtasks: []*messages.SubtaskEntry{{State: state}}}}}}, done)
	if err != nil {
		t.Fatal(err)
	}
	m := done.GetMetadataWritten()
	return w, disk, &messages.CompletedCheckpoint{Checkpoint: 1, Epoch: 1, Location: m.Location, MetadataSize: m.Size, MetadataHash: m.Hash}, state
}

// A checkpoint is loaded with what the assignment of state needs: the lists and the
// states of the enumerators.
func TestLoad(t *testing.T) {
	w, _, record, _ := stored(t)
	for _, task := range []*messages.LoadCheckpoint{{Job: testJob, Record: record}, {Job: testJob, Path: "/chk/" + testJob + "/" + record.Location}} {
		done := &messages.WorkDone{}
		if err := w.run(context.Background(), task, done); err != nil {
			t.Fatal(err)
		}
		l := done.GetCheckpointLoaded()
		if len(l.Coordinators) != 1 || string(l.Coordinators[0].State) != "enumerator" || len(l.Lists) != 1 || l.Lists[0].Uid != "op" || string(l.Lists[0].Lists.Lists[0].Items[0]) != "a" {
			t.Errorf("loaded %v", l)
		}
	}
}

// A file that the checkpoint names and that is gone or damaged is found before
// anything is deployed, and the error names the operator.
func TestLoadVerifies(t *testing.T) {
	for name, damage := range map[string]func(*vfs.MemFS, string) error{
		"gone":    func(d *vfs.MemFS, p string) error { return d.Remove(p) },
		"damaged": func(d *vfs.MemFS, p string) error { return vfs.WriteFile(d, p, []byte("segmemt")) },
	} {
		w, disk, record, state := stored(t)
		if err := damage(disk, "/chk/"+testJob+"/"+state.Keyed.Segments[0].Handle.GetFile().Path); err != nil {
			t.Fatal(err)
		}
		err := w.run(context.Background(), &messages.LoadCheckpoint{Job: testJob, Record: record}, &messages.WorkDone{})
		if err == nil || !strings.Contains(err.Error(), `operator "op", subtask 0`) {
			t.Errorf("%s: %v", name, err)
		}
		if want := storage.ErrCorrupt; name == "damaged" && !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
}

// Discarding a checkpoint and what it names leaves nothing; doing it again is no
// failure.
func TestDiscard(t *testing.T) {
	w, disk, record, state := stored(t)
	if _, err := disk.Stat("/chk/" + testJob + "/" + record.Location); err != nil {
		t.Fatal(err)
	}
	task := &messages.DiscardState{Job: testJob, Checkpoint: 1, Handles: []*messages.StateHandle{state.Lists}}
	for range 2 {
		if err := w.run(context.Background(), task, &messages.WorkDone{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := disk.Stat("/chk/" + testJob + "/" + record.Location); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the checkpoint's folder is still there: %v", err)
	}
}

// Damage that shows once is read again; damage that stays is reported.
func TestReadsAgain(t *testing.T) {
	calls := 0
	err := again(func() error {
		if calls++; calls < 3 {
			return storage.ErrCorrupt
		}
		return nil
	})
	if err != nil || calls != 3 {
		t.Errorf("after %d readings: %v", calls, err)
	}
	if err := again(func() error { return storage.ErrCorrupt }); !errors.Is(err, storage.ErrCorrupt) {
		t.Errorf("damage that stays: %v", err)
	}
	calls = 0
	if err := again(func() error { calls++; return storage.ErrMissing }); !errors.Is(err, storage.ErrMissing) || calls != 1 {
		t.Errorf("a missing file was read %d times: %v", calls, err)
	}
}

// Work that nobody knows is an error, not a silence.
func TestUnknownWork(t *testing.T) {
	w := &worker{}
	if err := w.run(context.Background(), &messages.Credit{}, &messages.WorkDone{}); err == nil || !strings.Contains(err.Error(), "messages.Credit") {
		t.Errorf("got %v", err)
	}
}

// Failures of the disk are told from those of the data, those that pass from those
// that somebody must mend, and those that no restart can mend from both.
func TestKindsOfFailure(t *testing.T) {
	for _, c := range []struct {
		err                      error
		io, transient, noRestart bool
	}{
		{&fs.PathError{Op: "read", Path: "x", Err: errors.New("input/output error")}, true, true, false},
		{&fs.PathError{Op: "open", Path: "x", Err: fs.ErrNotExist}, true, false, false},
		{&fs.PathError{Op: "open", Path: "x", Err: fs.ErrPermission}, true, false, false},
		{io.ErrUnexpectedEOF, true, true, false},
		{fmt.Errorf("checkpoint 3: %w", storage.ErrCorrupt), false, false, true},
		{fmt.Errorf("checkpoint 3: %w", storage.ErrNewerFormat), false, false, true},
		{fmt.Errorf("source: %w", operator.NoRestart(fs.ErrNotExist)), true, false, true},
		{errors.New("the state does not fit"), false, false, false},
	} {
		if ioFailure(c.err) != c.io || transient(c.err) != c.transient || noRestart(c.err) != c.noRestart {
			t.Errorf("%v: io %t, transient %t, no restart %t", c.err, ioFailure(c.err), transient(c.err), noRestart(c.err))
		}
	}
}

// A sweep deletes the files of a checkpoint that was never recorded, says how many, and
// is not put off by damage on the way from the disk.
func TestSweep(t *testing.T) {
	w, disk, _, _ := stored(t)
	faulty := vfs.Faulty(disk, vfs.Plan{Faults: []vfs.Fault{{Kind: vfs.Flip, Op: vfs.OpRead, Nth: 1}}})
	w.store = filestore.New(filestore.Options{FS: faulty, Dir: "/chk", Job: testJob, Epoch: 2})
	done := &messages.WorkDone{}
	err := w.run(context.Background(), &messages.SweepCheckpoints{Fence: &messages.Fence{Job: testJob, Epoch: 2, Attempt: 2000001}, Newest: 1}, done)
	if left, _ := disk.Glob("/chk/*/*/*"); err != nil || done.GetCheckpointsSwept().GetFiles() != 3 || len(left) != 0 {
		t.Errorf("swept %v, left %v, %v", done.GetCheckpointsSwept(), left, err)
	}
	w.store = filestore.New(filestore.Options{FS: disk, Dir: "/chk", Job: testJob, Epoch: 3})
	done = &messages.WorkDone{}
	if err := w.run(context.Background(), &messages.SweepCheckpoints{Fence: &messages.Fence{Job: testJob, Epoch: 2}}, done); err == nil || done.Result != nil {
		t.Errorf("another epoch's sweep ended with %v, %v", done.Result, err)
	}
}

// Whose tasks may be on other nodes marks the checkpoint folder with its epoch as soon as
// it has one; a folder that cannot be marked keeps nobody from starting.
func TestMarksItsFolder(t *testing.T) {
	for name, fails := range map[string]bool{"marked": false, "disk full": true} {
		t.Run(name, func(t *testing.T) {
			w, disk, _, _ := stored(t)
			w.metadata, w.shared = metadata.NewModel(nil), true
			if fails {
				broken := vfs.Faulty(disk, vfs.Plan{Faults: []vfs.Fault{{Kind: vfs.Full}}})
				w.store = filestore.New(filestore.Options{FS: broken, Dir: "/chk", Job: testJob, Epoch: 1})
			}
			propose := func(c *messages.MetadataCommand) *messages.WorkDone {
				done := &messages.WorkDone{}
				if err := w.run(t.Context(), &messages.Propose{Command: c}, done); err != nil {
					t.Fatal(err)
				}
				return done
			}
			propose(&messages.MetadataCommand{Command: &messages.MetadataCommand_RegisterJob{RegisterJob: &messages.RegisterJob{Job: testJob, Name: "test"}}})
			start := &messages.MetadataCommand{Command: &messages.MetadataCommand_StartEpoch{StartEpoch: &messages.StartEpoch{Job: testJob}}}
			propose(start)
			done := propose(start)
			want := []uint64{1, 2}
			if fails {
				want = nil
			}
			if done.GetMetadata().GetEpoch() != 2 || !slices.Equal(done.Marks, want) {
				t.Errorf("epoch %d with the marks %v, want %v", done.GetMetadata().GetEpoch(), done.Marks, want)
			}
			w.shared = false
			if done := propose(start); done.Marks != nil {
				t.Errorf("a job whose tasks are all here has the marks %v", done.Marks)
			}
		})
	}
}
