package filestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/protobuf/proto"

	"cutwater/messages"
	"cutwater/storage"
	"cutwater/storage/failpoint"
	"cutwater/storage/vfs"
)

// Publish implements storage.Store. Errors besides those of the disk: ErrMissing
// and ErrCorrupt if a file that the checkpoint names is not there in its size,
// ErrPublished if the name is taken by other content.
func (s *Store) Publish(ctx context.Context, m *messages.CheckpointMetadata, target string) (*messages.MetadataWritten, error) {
	dir, err := s.directory(m.GetCheckpoint(), target)
	if err != nil {
		return nil, err
	}
	if err := s.checkFiles(m); err != nil {
		return nil, err
	}
	location := path.Base(dir)
	if target != "" {
		location = dir
		if m, err = relocatable(m, dir); err != nil {
			return nil, err
		}
	}
	content, err := storage.EncodeMetadata(m)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := s.link(dir, m, content); err != nil {
		return nil, err
	}
	return &messages.MetadataWritten{Location: location, Size: uint64(len(content)), Hash: xxhash.Sum64(content)}, nil
}

// link makes the content durable under the checkpoint's name.
func (s *Store) link(dir string, m *messages.CheckpointMetadata, content []byte) error {
	if err := s.fs.MkdirAll(dir); err != nil {
		return describe("make the checkpoint directory", dir, err)
	}
	where := path.Join(dir, storage.MetadataName)
	temporary := path.Join(dir, fmt.Sprintf("%se%d-metadata", temporaryPrefix, m.GetEpoch()))
	if err := vfs.WriteFile(s.fs, temporary, content); err != nil {
		_ = s.fs.Remove(temporary)
		return describe("write the checkpoint's metadata", temporary, err)
	}
	err := s.fs.Link(temporary, where)
	if errors.Is(err, fs.ErrExist) {
		err = s.samePublished(where, content)
	} else if err != nil {
		err = describe("publish the checkpoint", where, err)
	}
	if err == nil {
		failpoint.Hit(failpoint.MetadataLinked)
	}
	// The temporary name is of no more use; if it stays, it goes with the directory.
	_ = s.fs.Remove(temporary)
	if err != nil {
		return err
	}
	// Also when it was there already: whoever linked it may have died before this.
	if err := s.fs.SyncDir(dir); err != nil {
		return describe("sync the checkpoint directory", dir, err)
	}
	return nil
}

// samePublished decides about a name that is taken: by the same content is
// success, since an earlier call may have got no answer.
func (s *Store) samePublished(where string, content []byte) error {
	there, err := vfs.ReadFile(s.fs, where)
	if err != nil {
		return describe("read the checkpoint's metadata", where, err)
	}
	if bytes.Equal(there, content) {
		return nil
	}
	owner := "unreadable content"
	if m, err := storage.DecodeMetadata(there, where); err == nil {
		owner = fmt.Sprintf("checkpoint %d of job %s, epoch %d", m.GetCheckpoint(), m.GetJob(), m.GetEpoch())
	}
	return fmt.Errorf("%s exists and holds %s: nothing was overwritten; two jobs or two clusters must not share a checkpoint directory: %w",
		where, owner, storage.ErrPublished)
}

// checkFiles looks whether every file is there in its size. The hashes are
// compared when it is read.
func (s *Store) checkFiles(m *messages.CheckpointMetadata) (err error) {
	storage.EachHandle(m, func(h *messages.StateHandle) {
		f := h.GetFile()
		if f == nil || err != nil {
			return
		}
		where := s.pathOf(f)
		info, statErr := s.fs.Stat(where)
		switch {
		case statErr != nil:
			err = describe(fmt.Sprintf("publish checkpoint %d: find its state file", m.GetCheckpoint()), where, statErr)
		case uint64(info.Size()) != f.GetSize():
			err = fmt.Errorf("publish checkpoint %d: its state file %s has %d bytes, and %d were written: find out what else writes there: %w",
				m.GetCheckpoint(), where, info.Size(), f.GetSize(), storage.ErrCorrupt)
		}
	})
	return err
}

// relocatable returns a copy whose files are named relative to its directory. A
// savepoint that names a file outside would die with that file, so it is refused.
func relocatable(m *messages.CheckpointMetadata, dir string) (_ *messages.CheckpointMetadata, err error) {
	m = proto.Clone(m).(*messages.CheckpointMetadata)
	storage.EachHandle(m, func(h *messages.StateHandle) {
		f := h.GetFile()
		if f == nil {
			return
		}
		if path.Dir(f.GetPath()) != dir {
			err = fmt.Errorf("savepoint %d names the state file %s, which is outside of its directory %s: a savepoint must hold all its state", m.GetCheckpoint(), f.GetPath(), dir)
			return
		}
		f.Path = path.Base(f.GetPath())
	})
	return m, err
}
