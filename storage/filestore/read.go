package filestore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"cutwater/messages"
	"cutwater/storage"
	"cutwater/storage/vfs"
)

// Open implements storage.Store.
func (s *Store) Open(ctx context.Context, h *messages.StateHandle) (storage.StateReader, error) {
	file := h.GetFile()
	if file == nil {
		return storage.Inline(h.GetInline()), nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	where := s.pathOf(file)
	f, err := s.fs.Open(where)
	if err != nil {
		return nil, describe("open a state file", where, err)
	}
	return storage.NewFileReader(ctx, f, file, func(problem string) error {
		return fmt.Errorf("state file %s is damaged (%s): restore from another checkpoint, or bring the file back from a copy: %w", where, problem, storage.ErrCorrupt)
	}, func(err error) error { return describe("read a state file", where, err) }), nil
}

// Verify implements storage.Store.
func (s *Store) Verify(ctx context.Context, h *messages.StateHandle) error {
	r, err := s.Open(ctx, h)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, r)
	return errors.Join(err, r.Close())
}

// Load implements storage.Store. The content of a record of the storage kind
// "coordinator" is in the record, and is read from there.
func (s *Store) Load(ctx context.Context, record *messages.CompletedCheckpoint) (*messages.CheckpointMetadata, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(record.GetMetadata()) > 0 {
		where := fmt.Sprintf("the record of checkpoint %d", record.GetCheckpoint())
		return storage.DecodeRecorded(record.GetMetadata(), where, s.job, record)
	}
	dir := record.GetLocation()
	elsewhere := path.IsAbs(dir)
	if !elsewhere {
		dir = path.Join(s.root, dir)
	}
	where := path.Join(dir, storage.MetadataName)
	b, err := vfs.ReadFile(s.fs, where)
	if err != nil {
		return nil, describe(fmt.Sprintf("read checkpoint %d", record.GetCheckpoint()), where, err)
	}
	m, err := storage.DecodeRecorded(b, where, s.job, record)
	if err != nil {
		return nil, err
	}
	if elsewhere {
		anchor(m, dir)
	}
	return m, nil
}

// LoadPath implements storage.Store.
func (s *Store) LoadPath(ctx context.Context, given string) (*messages.CheckpointMetadata, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	dir := path.Clean(local(given))
	if !path.IsAbs(dir) {
		return nil, fmt.Errorf("the checkpoint path %q is relative: give an absolute path, since every node must find it", given)
	}
	if path.Base(dir) == storage.MetadataName {
		dir = path.Dir(dir)
	}
	where := path.Join(dir, storage.MetadataName)
	b, err := vfs.ReadFile(s.fs, where)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no checkpoint at %s: %s: %w", given, s.suggest(dir), storage.ErrMissing)
	}
	if err != nil {
		return nil, describe("read the checkpoint", where, err)
	}
	m, err := storage.DecodeMetadata(b, where)
	if err != nil {
		return nil, err
	}
	anchor(m, dir)
	return m, nil
}

// suggest looks one level below a directory without metadata for what the user
// may have meant: the newest.
func (s *Store) suggest(dir string) string {
	found, err := s.fs.Glob(path.Join(dir, "*", storage.MetadataName))
	if err != nil || len(found) == 0 {
		return "give the _metadata file of a checkpoint or savepoint, or its directory"
	}
	newest := found[0]
	for _, name := range found {
		id, ok := checkpointId(path.Base(path.Dir(name)))
		best, bestOk := checkpointId(path.Base(path.Dir(newest)))
		if !ok || !bestOk || id > best {
			newest = name
		}
	}
	return fmt.Sprintf("did you mean %s", path.Dir(newest))
}

// anchor makes the paths of a `_metadata` file that was found in dir absolute. A
// bare name is a savepoint's file, beside its metadata; a path starts at the job's
// directory, one above.
func anchor(m *messages.CheckpointMetadata, dir string) {
	storage.EachHandle(m, func(h *messages.StateHandle) {
		switch f := h.GetFile(); {
		case f == nil || path.IsAbs(f.GetPath()):
		case path.Base(f.GetPath()) == f.GetPath():
			f.Path = path.Join(dir, f.GetPath())
		default:
			f.Path = path.Join(path.Dir(dir), f.GetPath())
		}
	})
}
