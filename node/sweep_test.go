package node_test

import (
	"os"
	"path/filepath"
	"testing"

	"cutwater/messages"
	"cutwater/node"
	"cutwater/protocol"
	"cutwater/protocol/checkpoint"
	"cutwater/storage"
)

// A node that dies between the recorded end of a job and the deletion of its
// checkpoints leaves them on the disk; the next run, which finds that the job has
// finished, takes them.
func TestSweepEnded(t *testing.T) {
	p, settings := program(t)
	o := node.ProcessOptions{DataDir: t.TempDir()}
	chk := filepath.Join(o.DataDir, "checkpoints", "*", "chk-*")
	saved := filepath.Join(t.TempDir(), "saved")
	var name string
	o.Event = func(e protocol.Event) {
		if _, ok := e.(checkpoint.Completed); !ok || name != "" {
			return
		}
		found, err := filepath.Glob(chk)
		if err != nil || len(found) == 0 {
			t.Errorf("no checkpoint to keep: %v", err)
			return
		}
		name = found[0]
		if err := os.CopyFS(saved, os.DirFS(name)); err != nil {
			t.Error(err)
		}
	}
	run := func() {
		t.Helper()
		if status, err := node.Run(t.Context(), o, p, settings); status != messages.JobStatus_FINISHED || err != nil {
			t.Fatalf("%s, %v", status, err)
		}
	}
	left := func() []string {
		t.Helper()
		found, err := filepath.Glob(chk)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	run()
	if found := left(); len(found) > 0 || name == "" {
		t.Fatalf("a finished job left %v, and the copied one is %q", found, name)
	}
	if err := os.CopyFS(name, os.DirFS(saved)); err != nil { // as if it had never been deleted
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(name, storage.MetadataName)); err != nil {
		t.Fatal(err)
	}
	run()
	if found := left(); len(found) > 0 {
		t.Errorf("the next run left %v", found)
	}
}
