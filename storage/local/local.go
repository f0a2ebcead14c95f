// Package local keeps copies of state files on the nodes whose tasks wrote them, so that
// a task which is started again on its node reads its keyed state there and not in the
// checkpoint directory. It follows Flink's TaskLocalStateStore
// (execution.state-recovery.from-local).
//
//	<dir>/<job>/<vertex>-<subtask>/<name of the state file>
//
// A copy may be missing, torn or damaged, and nothing depends on it:
//
//   - It is written beside the file of the checkpoint, from the same bytes, and neither
//     synced nor waited for. If it cannot be written, it is dropped and counted; the
//     checkpoint does not notice.
//   - It is read in place of the file that it is named after only if its size and hash
//     are those in the handle. What hash and size say is known at the end of the file:
//     whoever has loaded a part by then begins anew, after Store.Drop.
//
// What is kept is bounded. A task keeps what the newest completed checkpoint and the pending
// ones name, which are also files of the older ones that they are built on.
// The rest is deleted before the next checkpoint is written, together with the copies of
// tasks that have left the node. Those of jobs that have ended, or run elsewhere, go
// with Copies.Sweep. Copies outlive the process: a node that starts again can
// use them.
//
// Only keyed state of checkpoints is copied. List state is read by the coordinator, and
// a savepoint is not what a failed job mostly goes back to.
package local

import (
	"errors"
	"io/fs"
	"path"
	"strconv"
	"sync"
	"sync/atomic"

	"cutwater/messages"
	"cutwater/storage"
	"cutwater/storage/vfs"
)

// Copies are those of one node. They are safe for concurrent use.
type Copies struct {
	fs  vfs.FS
	dir string
	// temporaries numbers the files that are being written.
	temporaries      atomic.Uint64
	dropped, damaged atomic.Uint64

	mu   sync.Mutex
	jobs map[string]*job // of which tasks run
}

// job is one of which tasks run here.
type job struct {
	running map[string]int // stores that are open, by the name of their folder
	cleaned uint64         // the checkpoint behind which the other folders were cleaned
}

// New returns the copies in a directory, which must belong to this node alone. It
// touches nothing yet.
func New(fsys vfs.FS, dir string) *Copies {
	return &Copies{fs: fsys, dir: dir, jobs: make(map[string]*job)}
}

// Dropped is how many copies could not be written since the start of the process.
func (c *Copies) Dropped() uint64 { return c.dropped.Load() }

// Damaged is how many were found damaged or unreadable when they were needed.
func (c *Copies) Damaged() uint64 { return c.damaged.Load() }

// Open returns the store of a task: the job's, with copies. Close it when the task ends.
// Event is told what a person may want to know; it may be called by any goroutine.
func (c *Copies) Open(s storage.Store, id string, t *messages.TaskId, event func(what, detail string)) *Store {
	folder := vfs.FileName(t.GetVertex()) + "-" + strconv.FormatUint(uint64(t.GetSubtask()), 10)
	c.mu.Lock()
	defer c.mu.Unlock()
	j := c.jobs[id]
	if j == nil {
		j = &job{running: make(map[string]int)}
		c.jobs[id] = j
	}
	j.running[folder]++
	return &Store{Store: s, copies: c, job: id, folder: folder, event: event,
		taken: make(map[uint64]map[string]bool), needed: make(map[string]bool), told: make(map[string]bool)}
}

func (c *Copies) closed(id, folder string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	j := c.jobs[id]
	if j.running[folder]--; j.running[folder] == 0 {
		delete(j.running, folder)
	}
	if len(j.running) == 0 {
		delete(c.jobs, id)
	}
}

func (c *Copies) jobDir(id string) string { return path.Join(c.dir, vfs.FileName(id)) }

// clean deletes, once for each completed checkpoint, the copies of tasks of the job that
// do not run here any more. What is of that checkpoint stays: its task may be about to
// be started again.
func (c *Copies) clean(id string, checkpoint uint64) error {
	c.mu.Lock()
	j := c.jobs[id]
	due := j != nil && j.cleaned < checkpoint // 0: none has completed
	if due {
		j.cleaned = checkpoint
	}
	c.mu.Unlock()
	if !due {
		return nil
	}
	folders, err := c.list(c.jobDir(id))
	for _, folder := range folders {
		c.mu.Lock()
		runs := j.running[folder] > 0
		c.mu.Unlock()
		if runs {
			continue
		}
		where := path.Join(c.jobDir(id), folder)
		names, listed := c.list(where)
		stays := false
		for _, name := range names {
			w, ok := storage.WriterOf(name)
			stays = stays || ok && w.Checkpoint >= checkpoint
		}
		if err = errors.Join(err, listed); listed == nil && !stays {
			err = errors.Join(err, c.fs.RemoveAll(where))
		}
	}
	return err
}

// Sweep deletes the copies of jobs of which no task runs here and that need none here,
// as needed says of a job's id. It is for a node, at its start and now and then.
func (c *Copies) Sweep(needed func(job string) bool) error {
	ids, err := c.list(c.dir)
	for _, id := range ids {
		c.mu.Lock()
		runs := c.jobs[id] != nil
		c.mu.Unlock()
		if !runs && !needed(id) {
			err = errors.Join(err, c.fs.RemoveAll(c.jobDir(id)))
		}
	}
	return err
}

// list names what is in a directory, in order; a missing one is empty.
func (c *Copies) list(dir string) (names []string, err error) {
	entries, err := c.fs.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}
