package filestore_test

import (
	"errors"
	"strings"
	"testing"

	"cutwater/storage"
	"cutwater/storage/storagetest"
	"cutwater/storage/vfs"
)

// A mark is there after a crash of the machine; who has another folder is told so, with
// its path and what to do; damage on the way is not another folder.
func TestMark(t *testing.T) {
	disk := vfs.Mem()
	_, err := open(disk, storagetest.Job, 3).Mark(t.Context(), 3)
	must(t, err)
	disk.Crash(1)
	must(t, open(disk, storagetest.Job, 0).CheckMark(t.Context(), 3))

	flips := vfs.Faulty(disk, vfs.Plan{Faults: []vfs.Fault{{Kind: vfs.Flip, Op: vfs.OpRead, Nth: 1}}})
	must(t, open(flips, storagetest.Job, 0).CheckMark(t.Context(), 3))

	fails := vfs.Faulty(disk, vfs.Plan{Faults: []vfs.Fault{{Kind: vfs.Fail, Op: vfs.OpOpen}}})
	if err := open(fails, storagetest.Job, 0).CheckMark(t.Context(), 3); err == nil || errors.Is(err, storage.ErrElsewhere) {
		t.Errorf("a mark that cannot be read: %v", err)
	}

	foreign := vfs.Mem()
	root := "/ckpt/" + storagetest.Job
	must(t, foreign.MkdirAll(root))
	must(t, vfs.WriteFile(foreign, root+"/_epoch-3", []byte("job "+storagetest.OtherJob+", epoch 3\n")))
	for name, fsys := range map[string]vfs.FS{"empty": vfs.Mem(), "foreign": foreign} {
		err := open(fsys, storagetest.Job, 0).CheckMark(t.Context(), 3)
		if !errors.Is(err, storage.ErrElsewhere) || !strings.Contains(err.Error(), root) || !strings.Contains(err.Error(), "mount") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
