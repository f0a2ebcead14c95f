package filestore_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"path"
	"strings"
	"syscall"
	"testing"

	"cutwater/messages"
	"cutwater/storage"
	"cutwater/storage/filestore"
	"cutwater/storage/storagetest"
	"cutwater/storage/vfs"
)

func open(fsys vfs.FS, job string, epoch uint64) *filestore.Store {
	return filestore.New(filestore.Options{FS: fsys, Dir: "file:///ckpt", Job: job, Epoch: epoch, InlineThreshold: 4096})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The storage kind "filesystem" keeps the contract.
func TestConformance(t *testing.T) {
	storagetest.Run(t, func(fsys vfs.FS, job string, epoch uint64) storage.Store { return open(fsys, job, epoch) })
}

// The layout is the documented one: users find their files.
func TestLayout(t *testing.T) {
	m := vfs.Mem()
	s := open(m, storagetest.Job, 3)
	_, written, err := storagetest.Checkpoint(t.Context(), s, 7, "", 10, 5000)
	must(t, err)
	w := storagetest.File(7, 1, "keyed", "")
	w.Scope = messages.SegmentScope_SHARED
	_, err = s.Write(t.Context(), w, storagetest.Content(5000, 1))
	must(t, err)
	_, savepoint, err := storagetest.Checkpoint(t.Context(), s, 8, "/sp", 5000)
	must(t, err)
	var got []string
	for _, pattern := range []string{"/*/*/*/*", "/sp/*/*"} {
		found, err := m.Glob(pattern)
		must(t, err)
		got = append(got, found...)
	}
	const job = "/ckpt/" + storagetest.Job
	want := []string{
		job + "/chk-7/_metadata",
		job + "/chk-7/e3-a2-c7-keyed-counts%2Fper%20key-v-1",
		job + "/shared/e3-a2-c7-keyed-counts%2Fper%20key-v-1",
		"/sp/savepoint-01234567-8/_metadata",
		"/sp/savepoint-01234567-8/e3-a2-c8-keyed-counts%2Fper%20key-v-0",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("files are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if written.Location != "chk-7" || savepoint.Location != "/sp/savepoint-01234567-8" {
		t.Errorf("locations are %q and %q", written.Location, savepoint.Location)
	}
}

// Every single operation of a checkpoint's writing is cut by a crash, under
// several seeds: what was reported durable is whole, and a checkpoint that has a
// name is whole even if nobody was told.
func TestBugLog_K04_CrashAtEveryOperation(t *testing.T) {
	run := func(fsys vfs.FS) (*messages.CompletedCheckpoint, error) {
		s := open(fsys, storagetest.Job, 3)
		if err := s.Prepare(t.Context(), 7, ""); err != nil {
			return nil, err
		}
		var handles []*messages.StateHandle
		for i, size := range []int{10, 5000, 150_000} {
			for _, scope := range []messages.SegmentScope{messages.SegmentScope_EXCLUSIVE, messages.SegmentScope_SHARED} {
				w := storagetest.File(7, uint32(i), "keyed", "")
				w.Scope = scope
				h, err := s.Write(t.Context(), w, storagetest.Content(size, byte(i)))
				if err != nil {
					return nil, err
				}
				handles = append(handles, h)
			}
		}
		m := storagetest.Metadata(7, false, handles...)
		written, err := s.Publish(t.Context(), m, "")
		if err != nil {
			return nil, err
		}
		return storagetest.Record(m, written), nil
	}
	counting := vfs.Faulty(vfs.Mem(), vfs.Plan{})
	_, err := run(counting)
	must(t, err)
	var absent, whole, reported int
	for n := 1; n <= counting.Ops()+1; n++ {
		for seed := range uint64(25) {
			disk := vfs.Mem()
			fsys := vfs.Faulty(disk, vfs.Plan{Faults: []vfs.Fault{{Kind: vfs.Halt, Nth: n}}})
			record, err := run(fsys)
			disk.Crash(seed)
			s := open(disk, storagetest.Job, 4)
			var loaded *messages.CheckpointMetadata
			if err == nil {
				reported++
				loaded, err = s.Load(t.Context(), record)
				if err != nil {
					t.Fatalf("halt at %d, seed %d: reported durable, but: %v", n, seed, err)
				}
			} else {
				loaded, err = s.LoadPath(t.Context(), "/ckpt/"+storagetest.Job+"/chk-7")
				if errors.Is(err, storage.ErrMissing) {
					absent++
					continue
				}
				if err != nil {
					t.Fatalf("halt at %d, seed %d: half a checkpoint: %v", n, seed, err)
				}
			}
			whole++
			if err := storagetest.VerifyAll(t.Context(), s, loaded); err != nil {
				t.Fatalf("halt at %d, seed %d: %v", n, seed, err)
			}
		}
	}
	if absent == 0 || whole <= reported || reported == 0 {
		t.Errorf("%d operations: absent %d, whole %d, reported %d: the crash test does not cover its cases", counting.Ops(), absent, whole, reported)
	}
}

// Every operation fails once: the call that meets it says so, and the retry after
// the disk has healed succeeds and is whole.
func TestEveryOperationFailsOnce(t *testing.T) {
	counting := vfs.Faulty(vfs.Mem(), vfs.Plan{})
	_, _, err := storagetest.Checkpoint(t.Context(), open(counting, storagetest.Job, 3), 7, "", 10, 5000)
	must(t, err)
	for n := 1; n <= counting.Ops(); n++ {
		fsys := vfs.Faulty(vfs.Mem(), vfs.Plan{Faults: []vfs.Fault{{Kind: vfs.Fail, Nth: n}}})
		s := open(fsys, storagetest.Job, 3)
		_, _, first := storagetest.Checkpoint(t.Context(), s, 7, "", 10, 5000)
		if first != nil && (!errors.Is(first, vfs.ErrInjected) || strings.Contains(first.Error(), "\n")) {
			t.Errorf("operation %d: %v", n, first)
		}
		m, written, err := storagetest.Checkpoint(t.Context(), s, 8, "", 10, 5000)
		if err != nil {
			t.Fatalf("operation %d: the next checkpoint failed: %v", n, err)
		}
		loaded, err := s.Load(t.Context(), storagetest.Record(m, written))
		must(t, err)
		must(t, storagetest.VerifyAll(t.Context(), s, loaded))
	}
}

// Each misfortune gives its sentinel and one sentence with the path, the reason
// and the next step.
func TestErrors(t *testing.T) {
	const dir = "/ckpt/" + storagetest.Job
	type world struct {
		disk   *vfs.MemFS
		s      *filestore.Store
		file   *messages.StateHandle
		record *messages.CompletedCheckpoint
	}
	patch := func(t *testing.T, disk vfs.FS, name string, change func(b []byte) []byte) {
		b, err := vfs.ReadFile(disk, name)
		must(t, err)
		must(t, vfs.WriteFile(disk, name, change(b)))
	}
	where := func(w world) string { return path.Join(dir, w.file.GetFile().Path) }
	metadata := dir + "/chk-7/_metadata"
	tests := []struct {
		name string
		do   func(t *testing.T, w world) error
		want error
		text string
	}{
		{"missing state file", func(t *testing.T, w world) error {
			must(t, w.disk.Remove(where(w)))
			return w.s.Verify(t.Context(), w.file)
		}, storage.ErrMissing, "every node sees the same directory"},
		{"truncated state file", func(t *testing.T, w world) error {
			patch(t, w.disk, where(w), func(b []byte) []byte { return b[:4999] })
			return w.s.Verify(t.Context(), w.file)
		}, storage.ErrCorrupt, "it ends after 4999 of 5000 bytes"},
		{"grown state file", func(t *testing.T, w world) error {
			patch(t, w.disk, where(w), func(b []byte) []byte { return append(b, 0) })
			return w.s.Verify(t.Context(), w.file)
		}, storage.ErrCorrupt, "longer than the 5000 bytes"},
		{"flipped bit in a state file", func(t *testing.T, w world) error {
			patch(t, w.disk, where(w), func(b []byte) []byte { b[77] ^= 4; return b })
			return w.s.Verify(t.Context(), w.file)
		}, storage.ErrCorrupt, "its hash is"},
		{"missing metadata", func(t *testing.T, w world) error {
			must(t, w.disk.Remove(metadata))
			_, err := w.s.Load(t.Context(), w.record)
			return err
		}, storage.ErrMissing, "read checkpoint 7: " + metadata + " does not exist"},
		{"truncated metadata", func(t *testing.T, w world) error {
			patch(t, w.disk, metadata, func(b []byte) []byte { return b[:len(b)-3] })
			_, err := w.s.Load(t.Context(), w.record)
			return err
		}, storage.ErrCorrupt, "its header says"},
		{"empty metadata", func(t *testing.T, w world) error {
			patch(t, w.disk, metadata, func(b []byte) []byte { return nil })
			_, err := w.s.Load(t.Context(), w.record)
			return err
		}, storage.ErrCorrupt, "it ends after 0 bytes"},
		{"something else in the place of metadata", func(t *testing.T, w world) error {
			patch(t, w.disk, metadata, func(b []byte) []byte { return []byte("date,delay\n") })
			_, err := w.s.LoadPath(t.Context(), metadata)
			return err
		}, storage.ErrCorrupt, "is not the metadata of a checkpoint"},
		{"newer metadata", func(t *testing.T, w world) error {
			patch(t, w.disk, metadata, func([]byte) []byte { return newer() })
			_, err := w.s.LoadPath(t.Context(), metadata)
			return err
		}, storage.ErrNewerFormat, "has format version 2 and this program knows 1"},
		{"directory above the checkpoints", func(t *testing.T, w world) error {
			_, _, err := storagetest.Checkpoint(t.Context(), w.s, 12, "", 1)
			must(t, err)
			_, err = w.s.LoadPath(t.Context(), dir)
			return err
		}, storage.ErrMissing, "did you mean " + dir + "/chk-12"},
		{"name taken by another epoch", func(t *testing.T, w world) error {
			m := storagetest.Metadata(7, false)
			m.Epoch = 4
			_, err := w.s.Publish(t.Context(), m, "")
			return err
		}, storage.ErrPublished, "holds checkpoint 7 of job " + storagetest.Job + ", epoch 3: nothing was overwritten"},
		{"state file lost before publishing", func(t *testing.T, w world) error {
			must(t, w.disk.Remove(where(w)))
			_, err := w.s.Publish(t.Context(), storagetest.Metadata(9, false, w.file), "")
			return err
		}, storage.ErrMissing, "publish checkpoint 9: find its state file"},
		{"savepoint with a file outside", func(t *testing.T, w world) error {
			_, err := w.s.Publish(t.Context(), storagetest.Metadata(9, true, w.file), "/sp")
			return err
		}, nil, "a savepoint must hold all its state"},
		{"full disk", func(t *testing.T, w world) error {
			full := vfs.Faulty(w.disk, vfs.Plan{Faults: []vfs.Fault{{Kind: vfs.Full, Bytes: 50_000}}})
			_, _, err := storagetest.Checkpoint(t.Context(), open(full, storagetest.Job, 3), 9, "", 100_000)
			return err
		}, syscall.ENOSPC, "no space left on device: free space there, or set checkpointing.dir"},
		{"read-only disk", func(t *testing.T, w world) error {
			readOnly := vfs.Faulty(w.disk, vfs.Plan{Faults: []vfs.Fault{{Kind: vfs.Fail, Op: vfs.OpMkdir, Err: syscall.EROFS}}})
			return open(readOnly, storagetest.Job, 3).Prepare(t.Context(), 9, "")
		}, syscall.EROFS, "mount it for writing"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			disk := vfs.Mem()
			s := open(disk, storagetest.Job, 3)
			m, written, err := storagetest.Checkpoint(t.Context(), s, 7, "", 5000)
			must(t, err)
			w := world{disk, s, m.Operators[0].Subtasks[0].State.Keyed.Segments[0].Handle, storagetest.Record(m, written)}
			err = test.do(t, w)
			if err == nil {
				t.Fatal("no error")
			}
			if test.want != nil && !errors.Is(err, test.want) {
				t.Errorf("error is not %v: %v", test.want, err)
			}
			if !strings.Contains(err.Error(), test.text) || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "/") {
				t.Errorf("error is %q", err)
			}
		})
	}
}

// A checkpoint restored by path from another job's directory, then named by this
// job's own checkpoint, is found where it is (C01).
func TestBugLog_C01_RestoredFilesKeepTheirPlace(t *testing.T) {
	disk := vfs.Mem()
	_, _, err := storagetest.Checkpoint(t.Context(), open(disk, storagetest.Job, 3), 7, "", 5000, 6000)
	must(t, err)
	theirs := open(disk, storagetest.OtherJob, 1)
	restored, err := theirs.LoadPath(t.Context(), "/ckpt/"+storagetest.Job+"/chk-7")
	must(t, err)
	next := storagetest.Metadata(8, false)
	next.Job, next.Operators = storagetest.OtherJob, restored.Operators
	written, err := theirs.Publish(t.Context(), next, "")
	must(t, err)
	loaded, err := open(disk, storagetest.OtherJob, 2).Load(t.Context(), storagetest.Record(next, written))
	must(t, err)
	must(t, storagetest.VerifyAll(t.Context(), theirs, loaded))
}

// Every bit of a `_metadata` file is guarded: flip any and it is refused.
func TestMetadataFlippedBits(t *testing.T) {
	good, err := storage.EncodeMetadata(storagetest.Metadata(7, false))
	must(t, err)
	for i := range good {
		for bit := range 8 {
			bad := append([]byte{}, good...)
			bad[i] ^= 1 << bit
			if _, err := storage.DecodeMetadata(bad, "f"); !errors.Is(err, storage.ErrCorrupt) {
				t.Fatalf("byte %d, bit %d: %v", i, bit, err)
			}
		}
	}
	for n := range good {
		if _, err := storage.DecodeMetadata(good[:n], "f"); !errors.Is(err, storage.ErrCorrupt) {
			t.Fatalf("cut to %d bytes: %v", n, err)
		}
	}
}

// A checkpoint works on the machine's own disk, at a path with a space.
func TestOS(t *testing.T) {
	dir := path.Join(t.TempDir(), "check points")
	s := filestore.New(filestore.Options{FS: vfs.OS(), Dir: dir, Job: storagetest.Job, Epoch: 3})
	m, written, err := storagetest.Checkpoint(t.Context(), s, 7, "", 0, 10, 200_000)
	must(t, err)
	loaded, err := s.Load(t.Context(), storagetest.Record(m, written))
	must(t, err)
	must(t, storagetest.VerifyAll(t.Context(), s, loaded))
	byPath, err := s.LoadPath(t.Context(), fmt.Sprintf("file://%s/%s/chk-7", dir, storagetest.Job))
	must(t, err)
	must(t, storagetest.VerifyAll(t.Context(), s, byPath))
}

// newer is a `_metadata` file of the next version.
func newer() []byte {
	b := append([]byte("cutwater"), 2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0)
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
	return append(b, "new"...)
}
