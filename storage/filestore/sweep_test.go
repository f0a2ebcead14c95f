package filestore_test

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"
	"testing"

	"cutwater/messages"
	"cutwater/storage"
	"cutwater/storage/filestore"
	"cutwater/storage/storagetest"
	"cutwater/storage/vfs"
)

const root = "/ckpt/" + storagetest.Job

// swept is a job's checkpoint directory and the sweep of it.
type swept struct {
	*testing.T
	disk *vfs.MemFS
	task *messages.SweepCheckpoints
}

// newSwept: the coordinator of epoch 4 runs attempt 4000002, and has allocated 20
// checkpoint ids.
func newSwept(t *testing.T) *swept {
	return &swept{t, vfs.Mem(), &messages.SweepCheckpoints{
		Fence: &messages.Fence{Job: storagetest.Job, Epoch: 4, Attempt: 4000002}, Incarnation: 2, Newest: 20}}
}

// shared writes a shared file of an attempt, 5000 bytes.
func (w *swept) shared(epoch uint64, attempt uint32, checkpoint uint64) *messages.StateHandle {
	return w.file(epoch, attempt, checkpoint, messages.SegmentScope_SHARED)
}

func (w *swept) file(epoch uint64, attempt uint32, checkpoint uint64, scope messages.SegmentScope) *messages.StateHandle {
	w.Helper()
	f := storagetest.File(checkpoint, 0, "keyed", "")
	f.Fence.Epoch, f.Fence.Attempt, f.Scope = epoch, attempt, scope
	h, err := open(w.disk, storagetest.Job, epoch).Write(w.Context(), f, storagetest.Content(5000, 1))
	must(w.T, err)
	return h
}

// publish makes a checkpoint of an incarnation that names the files.
func (w *swept) publish(incarnation, checkpoint uint64, files ...*messages.StateHandle) {
	w.Helper()
	m := storagetest.Metadata(checkpoint, false, files...)
	m.Incarnation = incarnation
	_, err := open(w.disk, storagetest.Job, 3).Publish(w.Context(), m, "")
	must(w.T, err)
}

// write makes a file without content.
func (w *swept) write(name string) { must(w.T, vfs.WriteFile(w.disk, path.Join(root, name), nil)) }

func (w *swept) sweep(fsys vfs.FS) (*messages.CheckpointsSwept, error) {
	return open(fsys, storagetest.Job, 4).Sweep(w.Context(), w.task)
}

// want sweeps, twice: the second time there is nothing left to do.
func (w *swept) want(files, bytes uint64, left ...string) {
	w.Helper()
	for range 2 {
		got, err := w.sweep(w.disk)
		must(w.T, err)
		if got.Files != files || got.Bytes != bytes {
			w.Errorf("swept %d files, %d bytes; want %d, %d", got.Files, got.Bytes, files, bytes)
		}
		w.left(left...)
		files, bytes = 0, 0
	}
}

// left compares what is there with names below the job's directory.
func (w *swept) left(want ...string) {
	w.Helper()
	got, err := w.disk.Glob(root + "/*/*")
	must(w.T, err)
	for i := range got {
		got[i] = strings.TrimPrefix(got[i], root+"/")
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		w.Errorf("left are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Of the shared files those go that an earlier attempt or epoch wrote, whole or half,
// and nobody names; what the message names, what a checkpoint that stays names, what
// the running attempt or a later epoch writes, and what is no state file, stays.
func TestSweepSharedFiles(t *testing.T) {
	w := newSwept(t)
	w.shared(3, 3000009, 1)
	w.shared(4, 4000001, 2)
	w.write("shared/.tmp-e4-a4000001-c3-keyed-x-v-0.1")
	w.task.Shared = []*messages.StateHandle{w.shared(3, 3000001, 4), {Where: &messages.StateHandle_Inline{Inline: []byte("x")}}}
	w.task.Keep = []uint64{5}
	w.publish(2, 5, w.shared(3, 3000001, 5))
	w.shared(4, 4000002, 6)
	w.shared(5, 1, 7) // the numbers of attempts begin anew after 4000 epochs
	w.write("shared/.tmp-e4-a4000002-c3-keyed-x-v-0.2")
	w.write("shared/README")
	const rest = "-keyed-counts%2Fper%20key-v-0"
	w.want(3, 10000,
		"chk-5/_metadata",
		"shared/.tmp-e4-a4000002-c3-keyed-x-v-0.2",
		"shared/README",
		"shared/e3-a3000001-c4"+rest,
		"shared/e3-a3000001-c5"+rest,
		"shared/e4-a4000002-c6"+rest,
		"shared/e5-a1-c7"+rest)
}

// Of the directories those go that hold a checkpoint which was never published or
// never recorded, and what only it names goes too; a retained, pending or newer one, one of
// another incarnation or job, and one from which another has taken a file over, stay.
func TestSweepDirectories(t *testing.T) {
	w := newSwept(t)
	const exclusive = messages.SegmentScope_EXCLUSIVE
	w.file(3, 3000001, 1, exclusive)                                           // never published
	w.publish(2, 2, w.file(3, 3000001, 2, exclusive), w.shared(3, 3000001, 2)) // never recorded
	must(t, w.disk.MkdirAll(root+"/chk-3"))                                    // nothing in it
	w.publish(1, 4, w.file(3, 3000001, 4, exclusive), w.shared(3, 3000001, 4)) // left by --fresh
	w.publish(2, 5, w.file(3, 3000001, 5, exclusive))                          // retained
	w.file(4, 4000002, 6, exclusive)                                           // pending
	w.file(3, 3000001, 7, exclusive)                                           // 5 names it
	w.file(4, 4000002, 21, exclusive)                                          // newer
	w.file(3, 3000001, 20, exclusive)                                          // the newest that may go
	m := storagetest.Metadata(8, false)                                        // another job's
	m.Job, m.Incarnation = storagetest.OtherJob, 2
	content, err := storage.EncodeMetadata(m)
	must(t, err)
	must(t, w.disk.MkdirAll(root+"/chk-8"))
	must(t, vfs.WriteFile(w.disk, root+"/chk-8/_metadata", content))
	must(t, w.disk.MkdirAll(root+"/chk-old"))
	w.write("chk-old/x")
	w.task.Keep = []uint64{5, 6}
	w.task.Shared = []*messages.StateHandle{{Where: &messages.StateHandle_File{File: &messages.StateFile{Path: "chk-7/e3-a3000001-c7-keyed-counts%2Fper%20key-v-0"}}}}
	info, err := w.disk.Stat(root + "/chk-2/_metadata")
	must(t, err)
	const rest = "-keyed-counts%2Fper%20key-v-0"
	w.want(5, 4*5000+uint64(info.Size()),
		"chk-21/e4-a4000002-c21"+rest,
		"chk-4/_metadata", "chk-4/e3-a3000001-c4"+rest,
		"chk-5/_metadata", "chk-5/e3-a3000001-c5"+rest,
		"chk-6/e4-a4000002-c6"+rest,
		"chk-7/e3-a3000001-c7"+rest,
		"chk-8/_metadata",
		"chk-old/x",
		"shared/e3-a3000001-c4"+rest)
	if ids, err := open(w.disk, storagetest.Job, 4).Checkpoints(t.Context()); err != nil || len(ids) != 6 {
		t.Errorf("the directories left are %v, %v", ids, err)
	}
}

// A job that has written no file yet has nothing to sweep.
func TestSweepNothing(t *testing.T) { newSwept(t).want(0, 0) }

// As long as it is not known what a checkpoint names, nothing at all is deleted.
func TestSweepUnreadable(t *testing.T) {
	for name, spoil := range map[string]func(w *swept) vfs.FS{
		"damaged": func(w *swept) vfs.FS { w.write("chk-5/_metadata"); return w.disk },
		"disk": func(w *swept) vfs.FS {
			return vfs.Faulty(w.disk, vfs.Plan{Faults: []vfs.Fault{{Kind: vfs.Fail, Op: vfs.OpRead}}})
		},
		"list": func(w *swept) vfs.FS {
			return vfs.Faulty(w.disk, vfs.Plan{Faults: []vfs.Fault{{Kind: vfs.Fail, Op: vfs.OpReadDir}}})
		},
	} {
		w := newSwept(t)
		w.shared(3, 3000001, 1)
		w.file(3, 3000001, 1, messages.SegmentScope_EXCLUSIVE)
		w.publish(2, 5)
		w.task.Keep = []uint64{5}
		fsys := spoil(w)
		if got, err := w.sweep(fsys); err == nil || got != nil || !strings.Contains(err.Error(), root) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, %v", name, got, err)
		}
		w.left("chk-1/e3-a3000001-c1-keyed-counts%2Fper%20key-v-0", "chk-5/_metadata", "shared/e3-a3000001-c1-keyed-counts%2Fper%20key-v-0")
	}
}

// What cannot be deleted does not keep the rest, and is what the error is about.
func TestSweepGoesOn(t *testing.T) {
	for _, op := range []vfs.Op{vfs.OpRemove, vfs.OpRemoveAll} {
		w := newSwept(t)
		w.file(3, 3000001, 1, messages.SegmentScope_EXCLUSIVE)
		w.file(3, 3000001, 2, messages.SegmentScope_EXCLUSIVE)
		w.shared(3, 3000001, 1)
		w.shared(3, 3000001, 2)
		nth := map[vfs.Op]int{vfs.OpRemove: 3, vfs.OpRemoveAll: 1}[op] // each directory's _metadata is removed first
		fsys := vfs.Faulty(w.disk, vfs.Plan{Faults: []vfs.Fault{{Kind: vfs.Fail, Op: op, Nth: nth}}})
		got, err := w.sweep(fsys)
		if !errors.Is(err, vfs.ErrInjected) || got.GetFiles() != 3 {
			t.Errorf("%s: swept %v, %v", op, got, err)
		}
		if left, _ := w.disk.Glob(root + "/*/*"); len(left) != 1 || !strings.Contains(err.Error(), path.Dir(left[0])) {
			t.Errorf("%s: left are %v, and the error is %v", op, left, err)
		}
	}
}

// Somebody else deletes at the same time: what is gone is no failure, and not counted.
func TestSweepMeetsAnother(t *testing.T) {
	w := newSwept(t)
	w.shared(3, 3000001, 1)
	w.shared(3, 3000001, 2)
	got, err := w.sweep(vanishing{w.disk, root + "/shared"})
	if err != nil || got.Files != 0 || got.Bytes != 0 {
		t.Errorf("swept %v, %v", got, err)
	}
}

// vanishing is a disk on which another process empties a directory as soon as it is listed.
type vanishing struct {
	vfs.FS
	dir string
}

func (v vanishing) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := v.FS.ReadDir(name)
	if name == v.dir {
		for _, e := range entries {
			err = errors.Join(err, v.Remove(path.Join(name, e.Name())))
		}
	}
	return entries, err
}

// Another coordinator's sweep, another job's, and one that was given up, delete nothing.
func TestSweepRefused(t *testing.T) {
	w := newSwept(t)
	w.shared(3, 3000001, 1)
	for _, s := range []*filestore.Store{open(w.disk, storagetest.Job, 5), open(w.disk, storagetest.Job, 0), open(w.disk, storagetest.OtherJob, 4)} {
		if _, err := s.Sweep(t.Context(), w.task); err == nil || !strings.Contains(err.Error(), "only the job's coordinator sweeps") {
			t.Errorf("error is %v", err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := open(w.disk, storagetest.Job, 4).Sweep(ctx, w.task); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
	w.left("shared/e3-a3000001-c1-keyed-counts%2Fper%20key-v-0")
}
