package filestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"cutwater/messages"
	"cutwater/storage"
	"cutwater/storage/vfs"
)

// Sweep implements storage.Store. It reads every `_metadata` that is there before
// it deletes anything, because what a checkpoint names must be known to be spared:
// one that cannot be read ends the sweep. So nothing is deleted of
//
//   - a checkpoint that is retained or pending, or that is newer than the sweep;
//   - a checkpoint of an earlier incarnation, which its user may restore by path, or
//     of another job;
//   - the running attempt, and an epoch after this one.
//
// A file that cannot be deleted does not keep the others; the first error is
// returned.
func (s *Store) Sweep(ctx context.Context, t *messages.SweepCheckpoints) (*messages.CheckpointsSwept, error) {
	if f := t.GetFence(); f.GetJob() != s.job || f.GetEpoch() != s.epoch {
		return nil, fmt.Errorf("sweep %s: it is the store of job %s in epoch %d, and job %s in epoch %d asked: only the job's coordinator sweeps",
			s.root, s.job, s.epoch, f.GetJob(), f.GetEpoch())
	}
	w := &sweep{store: s, task: t, spared: map[string]bool{}}
	for _, h := range t.GetShared() {
		w.spare(h)
	}
	if err := w.look(ctx); err != nil {
		return nil, err
	}
	for _, id := range w.dead {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		w.deleteDirectory(ctx, id)
	}
	if err := w.deleteShared(ctx); err != nil {
		return nil, err
	}
	w.deleteMarks()
	return &w.swept, w.failure
}

// sweep is one in progress.
type sweep struct {
	store *Store
	task  *messages.SweepCheckpoints
	// spared are the paths of files, and of the directories that hold them.
	spared  map[string]bool
	dead    []uint64 // checkpoints whose directories go
	swept   messages.CheckpointsSwept
	failure error // the first
}

func (w *sweep) spare(h *messages.StateHandle) {
	if f := h.GetFile(); f != nil {
		where := w.store.pathOf(f)
		w.spared[where], w.spared[path.Dir(where)] = true, true
	}
}

// look finds out which directories are dead, and spares what the others name.
func (w *sweep) look(ctx context.Context) error {
	ids, err := w.store.Checkpoints(ctx)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if err := ctx.Err(); err != nil {
			return err
		}
		stays := id > w.task.GetNewest() || slices.Contains(w.task.GetKeep(), id)
		m, err := w.store.published(id)
		if err != nil {
			return err
		}
		if !stays && (m == nil || m.GetJob() == w.store.job && m.GetIncarnation() == w.task.GetIncarnation()) {
			w.dead = append(w.dead, id)
			continue
		}
		storage.EachHandle(m, w.spare)
	}
	return nil
}

// published reads the `_metadata` in a checkpoint's directory, nil if it has none.
func (s *Store) published(id uint64) (*messages.CheckpointMetadata, error) {
	where := path.Join(s.root, checkpointName(id), storage.MetadataName)
	content, err := vfs.ReadFile(s.fs, where)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, describe("sweep the checkpoints: read what one of them names", where, err)
	}
	m, err := storage.DecodeMetadata(content, where)
	if err != nil {
		return nil, fmt.Errorf("sweep the checkpoints: nothing is deleted as long as it is not known what one of them names: %w", err)
	}
	return m, nil
}

// deleteDirectory deletes a checkpoint, unless another one has taken over a file in
// its directory.
func (w *sweep) deleteDirectory(ctx context.Context, id uint64) {
	dir := path.Join(w.store.root, checkpointName(id))
	if w.spared[dir] {
		return
	}
	var files, bytes uint64
	entries, err := w.store.fs.ReadDir(dir)
	for _, e := range entries {
		files++
		bytes += size(e)
	}
	if err == nil {
		err = w.store.DiscardCheckpoint(ctx, id)
	}
	w.deleted(files, bytes, err)
}

// deleteShared deletes the files of earlier attempts that nobody names. The name
// of a file that is being written has the fence behind a prefix.
func (w *sweep) deleteShared(ctx context.Context) error {
	dir := path.Join(w.store.root, sharedName)
	entries, err := w.store.fs.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return describe("list the shared state files", dir, err)
	}
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		where := path.Join(dir, e.Name())
		if w.spared[where] || !w.earlier(e.Name()) {
			continue
		}
		bytes, err := size(e), w.store.fs.Remove(where)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			err = describe("delete a state file", where, err)
		}
		w.deleted(1, bytes, err)
	}
	return nil
}

// earlier reports whether a state file's writer was of an attempt before the sweep's.
func (w *sweep) earlier(name string) bool {
	writer, ok := storage.WriterOf(strings.TrimPrefix(name, temporaryPrefix))
	f := w.task.GetFence()
	return ok && writer.Earlier(f.GetEpoch(), f.GetAttempt())
}

// deleted counts. What is gone already was deleted by somebody else.
func (w *sweep) deleted(files, bytes uint64, err error) {
	switch {
	case err == nil:
		w.swept.Files += files
		w.swept.Bytes += bytes
	case w.failure == nil && !errors.Is(err, fs.ErrNotExist):
		w.failure = err
	}
}

// size is that of a file which may be going at this moment.
func size(e fs.DirEntry) uint64 {
	info, err := e.Info()
	if err != nil {
		return 0
	}
	return uint64(info.Size())
}
