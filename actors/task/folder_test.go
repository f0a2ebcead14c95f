package task

import (
	"context"
	"strings"
	"testing"

	"cutwater/actors/system/systemtest"
	"cutwater/messages"
	"cutwater/storage"
	"cutwater/storage/filestore"
	"cutwater/storage/memstore"
	"cutwater/storage/vfs"
)

// A task that does not see its coordinator's mark fails before it opens anything, with
// operator, folder and the coordinator's node; without a checkpoint it asks for no
// restart. Where nothing was marked, or the mark cannot be read, it runs.
func TestFolder(t *testing.T) {
	const dir = "/shared"
	at := func(fsys vfs.FS) storage.Store {
		return filestore.New(filestore.Options{FS: fsys, Dir: dir, Job: testJob})
	}
	marked := vfs.Mem()
	if _, err := at(marked).Mark(context.Background(), 1); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name  string
		store storage.Store
		mark  uint64
		from  *messages.TaskRestore

		fails, noRestart bool
	}{
		{"the same folder", at(marked), 1, nil, false, false},
		{"another folder", at(vfs.Mem()), 1, nil, true, true},
		{"another folder, after a checkpoint", at(vfs.Mem()), 1, &messages.TaskRestore{Checkpoint: 3}, true, false},
		{"the folder of an earlier epoch", at(marked), 2, nil, true, true},
		{"no mark is expected", at(vfs.Mem()), 0, nil, false, false},
		{"the disk fails", at(vfs.Faulty(marked, vfs.Plan{Faults: []vfs.Fault{{Kind: vfs.Fail}}})), 1, nil, false, false},
		{"storage coordinator", memstore.New(memstore.Options{FS: vfs.Mem(), Job: testJob}), 1, nil, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := &program{reader: &reader{}}
			r := newRigWith(t, p, test.store, func(d *messages.Deploy) { d.Mark, d.Restore = test.mark, test.from })
			r.Settle()
			last, _ := systemtest.Last[*messages.TaskStateChanged](r.Rig)
			if failed := last.GetState() == messages.TaskState_TASK_FAILED; failed != test.fails {
				t.Fatalf("the task is %v: %s", last.GetState(), last.GetFailure().GetMessage())
			}
			if !test.fails {
				return
			}
			f := last.Failure
			for _, part := range []string{`"op"`, dir + "/" + testJob, "node n2", "mount one folder"} {
				if !strings.Contains(f.Message, part) {
					t.Errorf("the failure does not say %s: %s", part, f.Message)
				}
			}
			if f.NoRestart != test.noRestart || p.reader.ctx != nil {
				t.Errorf("no restart: %v, want %v; opened: %v", f.NoRestart, test.noRestart, p.reader.ctx != nil)
			}
		})
	}
}
