package task

import (
	"context"
	"errors"
	"fmt"

	"cutwater/messages"
	"cutwater/storage"
	"cutwater/storage/local"
)

// copies is the task's part in local recovery: what it keeps on its node of the state
// files that it writes, and what it restored from there. Without local recovery there is
// no store, and all was read from the checkpoint directory.
type copies struct {
	store    *local.Store  // nil: none are kept
	restored restoredBytes // the Executor's, until all is restored
	told     restoredBytes // the same from then on
}

// restoredBytes are the sizes of the state files that were read: copies, and files of
// the checkpoint directory.
type restoredBytes struct{ local, remote uint64 }

// errCopy: what could not be loaded was a copy, which has been given up.
var errCopy = errors.New("the copy on this node could not be loaded")

// openCopies puts the copies of this node before the job's store.
func (t *Task) openCopies() {
	if t.env.Copies == nil || !t.deploy.Settings.GetLocalRecovery() {
		return
	}
	fence := t.fence // the task's own may change; work on the Executor has this one
	t.copies.store = t.env.Copies.Open(t.store, fence.Job, t.deploy.Task, func(what, detail string) {
		if t.env.Event != nil {
			t.env.Event(Event{Fence: fence, Task: t.deploy.Task, Kind: what, Detail: detail})
		}
	})
	t.store = t.copies.store
}

// loaded takes in how a state file was loaded. Whatever was wrong with a copy, it is
// given up: then the error is errCopy, and the same file can be loaded again from the
// checkpoint directory.
func (c *copies) loaded(ctx context.Context, h *messages.StateHandle, r storage.StateReader, err error) error {
	copied := local.IsCopy(r)
	switch {
	case err != nil && copied && ctx.Err() == nil:
		c.store.Drop(h, err)
		return errors.Join(errCopy, err)
	case err != nil:
	case copied:
		c.restored.local += h.GetFile().GetSize()
	default:
		c.restored.remote += h.GetFile().GetSize()
	}
	return err
}

// tellRestored says where the state came from.
func (t *Task) tellRestored() {
	t.copies.told = t.copies.restored
	if r := t.copies.told; t.copies.store != nil && r != (restoredBytes{}) {
		t.event("", "restored", fmt.Sprintf("%d bytes from copies on this node, %d from %s", r.local, r.remote, t.deploy.Settings.GetCheckpointing().GetDir()))
	}
}

// taken notes which files a checkpoint names. A savepoint is no base of what follows.
func (c *copies) taken(snap *snapshot) {
	if c.store != nil && !isSavepoint(snap.options) {
		c.store.Taken(snap.checkpoint, snap.result)
	}
}

// tidy deletes the copies that are not needed any more, on the Executor.
func (c *copies) tidy() {
	if c.store != nil {
		c.store.Tidy()
	}
}

// completed and aborted say how a checkpoint ended.
func (c *copies) completed(checkpoint uint64) {
	if c.store != nil {
		c.store.Completed(checkpoint)
	}
}

func (c *copies) aborted(checkpoint uint64) {
	if c.store != nil {
		c.store.Aborted(checkpoint)
	}
}

func (c *copies) close() {
	if c.store != nil {
		c.store.Close()
	}
}
