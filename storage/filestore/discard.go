package filestore

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"cutwater/messages"
	"cutwater/storage"
)

// DiscardCheckpoint implements storage.Store. The metadata goes first, so that
// half a deletion never looks like a checkpoint.
func (s *Store) DiscardCheckpoint(ctx context.Context, checkpoint uint64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	dir := path.Join(s.root, checkpointName(checkpoint))
	err := s.fs.Remove(path.Join(dir, storage.MetadataName))
	if err == nil {
		err = s.fs.SyncDir(dir)
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = s.fs.RemoveAll(dir)
	}
	if err != nil {
		return describe("delete a checkpoint", dir, err)
	}
	return nil
}

// Discard implements storage.Store.
func (s *Store) Discard(ctx context.Context, h *messages.StateHandle) error {
	if h.GetFile() == nil {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	where := s.pathOf(h.GetFile())
	if err := s.fs.Remove(where); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return describe("delete a state file", where, err)
	}
	return nil
}

// Checkpoints implements storage.Store.
func (s *Store) Checkpoints(ctx context.Context) ([]uint64, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	entries, err := s.fs.ReadDir(s.root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, describe("list the checkpoints", s.root, err)
	}
	var ids []uint64
	for _, e := range entries {
		if id, ok := checkpointId(e.Name()); ok && e.IsDir() {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, nil
}

// checkpointId is the id in a directory's name.
func checkpointId(name string) (uint64, bool) {
	digits, ok := strings.CutPrefix(name, checkpointPrefix)
	id, err := strconv.ParseUint(digits, 10, 64)
	return id, ok && err == nil && checkpointName(id) == name
}
