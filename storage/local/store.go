package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"strings"
	"sync"

	"cutwater/messages"
	"cutwater/storage"
)

// Store is a task's: what it writes is kept here, too, and what it opens is a copy, if
// there is one. All else goes to the job's store.
type Store struct {
	storage.Store
	copies      *Copies
	job, folder string
	event       func(what, detail string)

	mu     sync.Mutex
	taken  map[uint64]map[string]bool // the files that a checkpoint names, until it is settled
	told   bool                       // that a copy was dropped
	closed bool
}

// keyed is the kind of state that is copied.
const keyed = "keyed"

const temporaryPrefix = ".tmp-"

func (s *Store) dir() string { return path.Join(s.copies.jobDir(s.job), s.folder) }

// nameOf is the name of a handle's copy, or "".
func nameOf(h *messages.StateHandle) string {
	if h.GetFile() == nil {
		return ""
	}
	return path.Base(h.GetFile().GetPath())
}

// Write implements storage.Store.
func (s *Store) Write(ctx context.Context, w storage.StateFile, content func(io.Writer) error) (*messages.StateHandle, error) {
	if w.Target != "" || w.Kind != keyed {
		return s.Store.Write(ctx, w, content)
	}
	c := &writing{store: s, name: storage.FileName(w)}
	h, err := s.Store.Write(ctx, w, func(out io.Writer) error { return content(&tee{out, c}) })
	if name := nameOf(h); err == nil && name != "" {
		c.keep(name)
	} else {
		c.abandon()
	}
	return h, err
}

// Open implements storage.Store. A copy may turn out to be damaged at its end, which is
// storage.ErrCorrupt then: see Drop.
func (s *Store) Open(ctx context.Context, h *messages.StateHandle) (storage.StateReader, error) {
	if name := nameOf(h); name != "" && ctx.Err() == nil {
		if r := s.open(ctx, name, h.GetFile()); r != nil {
			return r, nil
		}
	}
	return s.Store.Open(ctx, h)
}

// copied is the reader of a copy.
type copied struct{ storage.StateReader }

// IsCopy reports whether Open found a copy.
func IsCopy(r storage.StateReader) bool {
	_, is := r.(copied)
	return is
}

func (s *Store) open(ctx context.Context, name string, want *messages.StateFile) storage.StateReader {
	where := path.Join(s.dir(), name)
	f, err := s.copies.fs.Open(where)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		info, failed := f.Stat()
		if err = failed; err == nil && uint64(info.Size()) != want.GetSize() {
			err = fmt.Errorf("it has %d bytes, and %d were written", info.Size(), want.GetSize())
		}
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}
	if err != nil {
		s.drop(name, err)
		return nil
	}
	return copied{storage.NewFileReader(ctx, f, want, func(problem string) error {
		return fmt.Errorf("%s: %w", problem, storage.ErrCorrupt)
	}, func(err error) error { return err })}
}

// Drop gives up the copy of a handle, because it could not be loaded for that reason.
// The next Open of the handle reads the checkpoint directory.
func (s *Store) Drop(h *messages.StateHandle, why error) { s.drop(nameOf(h), why) }

func (s *Store) drop(name string, why error) {
	s.copies.damaged.Add(1)
	where := path.Join(s.dir(), name)
	if err := s.copies.fs.Remove(where); err != nil && !errors.Is(err, fs.ErrNotExist) {
		why = errors.Join(why, err)
	}
	s.event("local copy damaged", fmt.Sprintf("%s is not used, the checkpoint directory is: %v", where, why))
}

// Discard implements storage.Store.
func (s *Store) Discard(ctx context.Context, h *messages.StateHandle) error {
	if name := nameOf(h); name != "" {
		_ = s.copies.fs.Remove(path.Join(s.dir(), name)) // what stays goes with the next completed checkpoint
	}
	return s.Store.Discard(ctx, h)
}

// Taken says which files a checkpoint of this task names. It must come before Completed;
// of a savepoint it never comes.
func (s *Store) Taken(checkpoint uint64, snapshot *messages.TaskSnapshot) {
	names := make(map[string]bool)
	for _, op := range snapshot.GetOperators() {
		for _, segment := range op.GetKeyed().GetSegments() {
			if name := nameOf(segment.GetHandle()); name != "" {
				names[name] = true
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken[checkpoint] = names
}

// Completed deletes the copies that the completed checkpoint does not name, but for
// those of later ones. Behind a savepoint, or a checkpoint that was not Taken, all stay:
// the next checkpoint may build on them. An error leaves files behind, until the next
// checkpoint.
func (s *Store) Completed(checkpoint uint64) error {
	s.mu.Lock()
	needed, known := s.taken[checkpoint]
	maps.DeleteFunc(s.taken, func(id uint64, _ map[string]bool) bool { return id <= checkpoint })
	s.mu.Unlock()
	if !known {
		return nil
	}
	err := s.remove(func(name string) bool {
		w, ok := storage.WriterOf(strings.TrimPrefix(name, temporaryPrefix))
		return !needed[name] && !(ok && w.Checkpoint > checkpoint)
	})
	return errors.Join(err, s.copies.clean(s.job, checkpoint))
}

// Aborted deletes the copies that an aborted checkpoint has written. One that is still
// being written goes with the next completed checkpoint.
func (s *Store) Aborted(checkpoint uint64) error {
	s.mu.Lock()
	delete(s.taken, checkpoint)
	s.mu.Unlock()
	return s.remove(func(name string) bool {
		w, ok := storage.WriterOf(name)
		return ok && w.Checkpoint == checkpoint
	})
}

// remove deletes the copies of this task of which that is so.
func (s *Store) remove(such func(name string) bool) error {
	names, err := s.copies.list(s.dir())
	for _, name := range names {
		if !such(name) {
			continue
		}
		if failed := s.copies.fs.Remove(path.Join(s.dir(), name)); failed != nil && !errors.Is(failed, fs.ErrNotExist) {
			err = errors.Join(err, failed)
		}
	}
	return err
}

// Close says that the task has ended. The copies stay, for its next start.
func (s *Store) Close() {
	s.mu.Lock()
	was := s.closed
	s.closed = true
	s.mu.Unlock()
	if !was {
		s.copies.closed(s.job, s.folder)
	}
}
