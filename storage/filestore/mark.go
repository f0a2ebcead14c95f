package filestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"cutwater/storage"
	"cutwater/storage/vfs"
)

// A mark is <root>/_epoch-<epoch>, a text that names job and epoch. Nobody else writes
// in this epoch of this job, so whoever finds it sees the folder that the coordinator
// sees.
const markPrefix = "_epoch-"

func (s *Store) markName(epoch uint64) string {
	return path.Join(s.root, markPrefix+strconv.FormatUint(epoch, 10))
}

func (s *Store) markText(epoch uint64) string { return fmt.Sprintf("job %s, epoch %d\n", s.job, epoch) }

// markEpoch is the epoch in the name of a mark.
func markEpoch(name string) (uint64, bool) {
	digits, ok := strings.CutPrefix(name, markPrefix)
	epoch, err := strconv.ParseUint(digits, 10, 64)
	return epoch, ok && err == nil
}

// Mark implements storage.Store. Until it has returned nobody looks for the mark, so it
// is written under its name at once, and again after half of it.
func (s *Store) Mark(ctx context.Context, epoch uint64) ([]uint64, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := s.fs.MkdirAll(s.root); err != nil {
		return nil, describe("make the job's checkpoint directory", s.root, err)
	}
	where := s.markName(epoch)
	if err := vfs.WriteFile(s.fs, where, []byte(s.markText(epoch))); err != nil {
		return nil, describe("mark the job's checkpoint directory", where, err)
	}
	if err := s.fs.SyncDir(s.root); err != nil {
		return nil, describe("mark the job's checkpoint directory", s.root, err)
	}
	return s.marks()
}

// marks lists the epochs whose marks are there, ascending.
func (s *Store) marks() (epochs []uint64, err error) {
	entries, err := s.fs.ReadDir(s.root)
	if err != nil {
		return nil, describe("list the marks", s.root, err)
	}
	for _, e := range entries {
		if epoch, ok := markEpoch(e.Name()); ok {
			epochs = append(epochs, epoch)
		}
	}
	slices.Sort(epochs)
	return epochs, nil
}

// CheckMark implements storage.Store. Damage may happen on the way of what is read, so
// another text is read again.
func (s *Store) CheckMark(ctx context.Context, epoch uint64) error {
	const times = 5
	where := s.markName(epoch)
	for range times {
		if err := ctx.Err(); err != nil {
			return err
		}
		text, err := vfs.ReadFile(s.fs, where)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return s.elsewhere()
		case err != nil:
			return describe("look for the mark of the job's coordinator", where, err)
		case string(text) == s.markText(epoch):
			return nil
		}
	}
	return s.elsewhere()
}

func (s *Store) elsewhere() error {
	return fmt.Errorf("%s is %w: mount one folder there on all nodes, or set checkpointing.dir to one that they share, or checkpointing.storage to coordinator",
		s.root, storage.ErrElsewhere)
}

// deleteMarks deletes the marks of earlier coordinators, and if the job has ended that of
// the last one, too, with the directories that are empty then. A later mark is of a job
// that was registered again meanwhile, whose tasks look for it.
func (w *sweep) deleteMarks() {
	epochs, err := w.store.marks()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.deleted(0, 0, err)
	}
	for _, epoch := range epochs {
		if own := w.task.GetFence().GetEpoch(); epoch < own || epoch == own && w.task.GetEnded() {
			where := w.store.markName(epoch)
			err := w.store.fs.Remove(where)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				err = describe("delete the mark of a coordinator", where, err)
			}
			w.deleted(0, 0, err)
		}
	}
	if w.task.GetEnded() {
		_ = w.store.fs.Remove(path.Join(w.store.root, sharedName)) // no directory that is
		_ = w.store.fs.Remove(w.store.root)                        // in use can be removed
	}
}
