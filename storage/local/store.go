package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
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

	mu      sync.Mutex
	taken   map[uint64]map[string]bool // the files that a checkpoint names, until it is settled
	newest  uint64                     // the checkpoint that completed last
	needed  map[string]bool            // the files that it names
	aborted []uint64                   // since the last Tidy
	untidy  bool                       // there may be something to delete
	told    map[string]bool            // what a person was told of
	closed  bool
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
		_ = s.copies.fs.Remove(path.Join(s.dir(), name)) // what stays is deleted by Tidy
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

// Completed says that a checkpoint has completed: Tidy will delete what it does not
// name, but for the copies of later ones. Behind a savepoint, or a checkpoint that was
// not Taken, all stay: the next checkpoint may build on them.
func (s *Store) Completed(checkpoint uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if needed, known := s.taken[checkpoint]; known {
		s.newest, s.needed, s.untidy = checkpoint, needed, true
	}
	maps.DeleteFunc(s.taken, func(id uint64, _ map[string]bool) bool { return id <= checkpoint })
}

// Aborted says that a checkpoint was aborted: Tidy will delete what it has written.
func (s *Store) Aborted(checkpoint uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.taken, checkpoint)
	s.aborted, s.untidy = append(s.aborted, checkpoint), true
}

// Tidy deletes the copies that are not needed any more. It is called on the Executor,
// before a checkpoint writes more, so that there are never more than of two. What cannot
// be deleted is told, and tried again behind the next checkpoint.
func (s *Store) Tidy() {
	s.mu.Lock()
	newest, aborted, untidy := s.newest, s.aborted, s.untidy
	s.aborted, s.untidy = nil, false
	needed := maps.Clone(s.needed)
	for _, names := range s.taken { // a pending one may be built on what the newest is not
		maps.Copy(needed, names)
	}
	s.mu.Unlock()
	if !untidy {
		return
	}
	err := s.remove(func(name string) bool {
		w, ok := storage.WriterOf(strings.TrimPrefix(name, temporaryPrefix))
		if !ok || slices.Contains(aborted, w.Checkpoint) && name[0] != '.' {
			return true
		}
		return w.Checkpoint <= newest && !needed[name]
	})
	if err = errors.Join(err, s.copies.clean(s.job, newest)); err != nil {
		s.tell("local copies left behind", err.Error())
	}
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

// tell tells of something that may go on for long, the first time.
func (s *Store) tell(what, detail string) {
	s.mu.Lock()
	told := s.told[what]
	s.told[what] = true
	s.mu.Unlock()
	if !told {
		s.event(what, detail)
	}
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
