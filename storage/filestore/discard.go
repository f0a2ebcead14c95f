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

// Sweep deletes what died with its writer: files of the shared directory that an
// earlier epoch wrote and no live checkpoint names, and such temporary files
// there. It returns how many it deleted. The restored coordinator calls it, with
// every checkpoint that is recorded; directories of whole checkpoints that are
// not recorded are its to discard (Checkpoints, DiscardCheckpoint).
func (s *Store) Sweep(ctx context.Context, live []*messages.CheckpointMetadata) (int, error) {
	named := map[string]bool{}
	for _, m := range live {
		storage.EachHandle(m, func(h *messages.StateHandle) {
			if f := h.GetFile(); f != nil {
				named[s.pathOf(f)] = true
			}
		})
	}
	dir := path.Join(s.root, sharedName)
	entries, err := s.fs.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, describe("list the shared state files", dir, err)
	}
	deleted := 0
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return deleted, err
		}
		where := path.Join(dir, e.Name())
		var epoch uint64
		if _, err := fmt.Sscanf(strings.TrimPrefix(e.Name(), temporaryPrefix), "e%d-", &epoch); err != nil || epoch >= s.epoch || named[where] {
			continue
		}
		if err := s.fs.Remove(where); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return deleted, describe("delete a state file", where, err)
		}
		deleted++
	}
	return deleted, nil
}
