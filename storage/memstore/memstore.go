// Package memstore is the storage kind "coordinator", after Flink's
// JobManagerCheckpointStorage: state travels inside the acknowledgement and
// `_metadata` is kept in the record of the completion, in the data folder of the
// coordinator's node. It needs no directory that every node sees, holds small
// state only, and is lost with that node's disk.
//
// Savepoints and paths that a user gives are files even so: package filestore
// reads and writes them, with all state inside `_metadata`.
package memstore

import (
	"context"
	"fmt"
	"io"

	"github.com/cespare/xxhash/v2"

	"cutwater/messages"
	"cutwater/storage"
	"cutwater/storage/failpoint"
	"cutwater/storage/filestore"
	"cutwater/storage/vfs"
)

// MaxStateBytes is the default limit of one state, Flink's: 5 MiB.
const MaxStateBytes = 5 << 20

// Options say whose checkpoints these are.
type Options struct {
	// FS is where savepoints are.
	FS vfs.FS
	// Job is 32 lower-case hexadecimal digits.
	Job string
	// Epoch is the coordinator's; a store that only tasks use may leave it 0.
	Epoch uint64
	// MaxStateBytes limits one state; 0 means the constant MaxStateBytes. It must
	// stay below the limit of a control message.
	MaxStateBytes int
}

// Store implements storage.Store.
type Store struct {
	job   string
	limit int
	files *filestore.Store
}

var _ storage.Store = (*Store)(nil)

// New returns the store of one job.
func New(o Options) *Store {
	if o.MaxStateBytes <= 0 {
		o.MaxStateBytes = MaxStateBytes
	}
	return &Store{
		job:   o.Job,
		limit: o.MaxStateBytes,
		files: filestore.New(filestore.Options{FS: o.FS, Dir: "/", Job: o.Job, Epoch: o.Epoch}),
	}
}

// Prepare implements storage.Store: only a savepoint needs a directory.
func (s *Store) Prepare(ctx context.Context, checkpoint uint64, target string) error {
	if target == "" {
		return ctx.Err()
	}
	return s.files.Prepare(ctx, checkpoint, target)
}

// Write implements storage.Store: the content comes back inline. Errors besides
// the content's own: ErrTooLarge.
func (s *Store) Write(ctx context.Context, w storage.StateFile, content func(io.Writer) error) (*messages.StateHandle, error) {
	b := &bounded{ctx: ctx, limit: s.limit}
	if err := content(b); err != nil {
		return nil, fmt.Errorf("state of %q for checkpoint %d: %w", w.Uid, w.Checkpoint, err)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if b.size > s.limit {
		return nil, fmt.Errorf("state of %q for checkpoint %d has %d bytes, and the storage kind \"coordinator\" holds at most %d per state: set checkpointing.storage to filesystem and checkpointing.dir to a directory that every node sees: %w",
			w.Uid, w.Checkpoint, b.size, s.limit, storage.ErrTooLarge)
	}
	failpoint.Hit(failpoint.SegmentWritten)
	return &messages.StateHandle{Where: &messages.StateHandle_Inline{Inline: append([]byte{}, b.content...)}}, nil
}

// bounded keeps what fits and counts the rest, so that the error can say the size.
type bounded struct {
	ctx     context.Context
	limit   int
	size    int
	content []byte
}

func (b *bounded) Write(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	b.size += len(p)
	if b.size <= b.limit {
		b.content = append(b.content, p...)
	} else {
		b.content = nil
	}
	return len(p), nil
}

// Open implements storage.Store. A file can be named only by a savepoint or
// checkpoint that was restored from a path.
func (s *Store) Open(ctx context.Context, h *messages.StateHandle) (storage.StateReader, error) {
	if h.GetFile() != nil {
		return s.files.Open(ctx, h)
	}
	return storage.Inline(h.GetInline()), ctx.Err()
}

// Verify implements storage.Store.
func (s *Store) Verify(ctx context.Context, h *messages.StateHandle) error {
	return s.files.Verify(ctx, h)
}

// Publish implements storage.Store. A checkpoint becomes durable with the record
// of its completion, which must carry the returned content.
func (s *Store) Publish(ctx context.Context, m *messages.CheckpointMetadata, target string) (*messages.MetadataWritten, error) {
	if target != "" {
		return s.files.Publish(ctx, m, target)
	}
	content, err := storage.EncodeMetadata(m)
	if err != nil {
		return nil, err
	}
	return &messages.MetadataWritten{Size: uint64(len(content)), Hash: xxhash.Sum64(content), Content: content}, ctx.Err()
}

// Load implements storage.Store.
func (s *Store) Load(ctx context.Context, record *messages.CompletedCheckpoint) (*messages.CheckpointMetadata, error) {
	if len(record.GetMetadata()) == 0 && record.GetLocation() == "" {
		return nil, fmt.Errorf("the record of checkpoint %d holds no metadata: restore from another checkpoint or from a savepoint: %w",
			record.GetCheckpoint(), storage.ErrMissing)
	}
	return s.files.Load(ctx, record)
}

// LoadPath implements storage.Store.
func (s *Store) LoadPath(ctx context.Context, path string) (*messages.CheckpointMetadata, error) {
	return s.files.LoadPath(ctx, path)
}

// DiscardCheckpoint implements storage.Store: there is no directory.
func (s *Store) DiscardCheckpoint(ctx context.Context, _ uint64) error { return ctx.Err() }

// Discard implements storage.Store: only a restored checkpoint names files.
func (s *Store) Discard(ctx context.Context, h *messages.StateHandle) error {
	return s.files.Discard(ctx, h)
}

// Sweep implements storage.Store: state travels in messages, so that whoever is
// gone left nothing.
func (s *Store) Sweep(ctx context.Context, _ *messages.SweepCheckpoints) (*messages.CheckpointsSwept, error) {
	return &messages.CheckpointsSwept{}, ctx.Err()
}

// Mark implements storage.Store: there is no directory to be seen.
func (s *Store) Mark(ctx context.Context, _ uint64) ([]uint64, error) { return nil, ctx.Err() }

// CheckMark implements storage.Store: there is none to be missed.
func (s *Store) CheckMark(ctx context.Context, _ uint64) error { return ctx.Err() }

// Checkpoints implements storage.Store: there are no directories.
func (s *Store) Checkpoints(ctx context.Context) ([]uint64, error) { return nil, ctx.Err() }
