//go:build failpoints

package filestore_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"cutwater/storage"
	"cutwater/storage/failpoint"
	"cutwater/storage/filestore"
	"cutwater/storage/storagetest"
	"cutwater/storage/vfs"
)

// A process that dies by SIGKILL while it writes a checkpoint leaves it absent, or
// whole once it has its name.
func TestKilled(t *testing.T) {
	at := func(dir string) *filestore.Store {
		return filestore.New(filestore.Options{FS: vfs.OS(), Dir: dir, Job: storagetest.Job, Epoch: 3})
	}
	if dir := os.Getenv("FILESTORE_TEST_DIR"); dir != "" {
		_, _, err := storagetest.Checkpoint(t.Context(), at(dir), 7, "", 100, 5000)
		must(t, err)
		return
	}
	for point, whole := range map[failpoint.Name]bool{failpoint.SegmentWritten + ":2": false, failpoint.MetadataLinked: true} {
		dir := t.TempDir()
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilled$")
		cmd.Env = append(os.Environ(), "FILESTORE_TEST_DIR="+dir, "CUTWATER_FAILPOINT="+string(point))
		out, _ := cmd.CombinedOutput()
		if status := cmd.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGKILL {
			t.Fatalf("%s: ended with %v: %s", point, cmd.ProcessState, out)
		}
		s := at(dir)
		m, err := s.LoadPath(t.Context(), filepath.Join(dir, storagetest.Job, "chk-7"))
		switch {
		case !whole && errors.Is(err, storage.ErrMissing):
		case whole && err == nil:
			must(t, storagetest.VerifyAll(t.Context(), s, m))
		default:
			t.Errorf("%s: %v", point, err)
		}
		// The orphan does not stand in the way of the next coordinator.
		must(t, s.DiscardCheckpoint(t.Context(), 7))
		_, _, err = storagetest.Checkpoint(t.Context(), s, 8, "", 100, 5000)
		must(t, err)
	}
}
