// Package storage keeps checkpoints: the state files that tasks write and the
// `_metadata` file that makes a set of them a checkpoint.
//
// A checkpoint directory looks like this, after Flink's:
//
//	<dir>/<job>/chk-<id>/_metadata     published once, before the completion is recorded
//	<dir>/<job>/chk-<id>/<state files> exclusive to the checkpoint
//	<dir>/<job>/shared/<state files>   owned by the shared-state registry
//	<dir>/<job>/_epoch-<epoch>         mark of a coordinator in a cluster, see Store.Mark
//
// A savepoint stands in a directory of its own below the target that the user
// gave, with all its files beside its `_metadata`, and can be moved:
//
//	<target>/savepoint-<first 8 of the job>-<id>/
//
// State file names carry the epoch and the attempt of their writer, so that a
// fenced writer can never overwrite a live one's file.
package storage

import (
	"bytes"
	"context"
	"io"

	"cutwater/messages"
)

// Store is where one job's checkpoints are kept. Implementations are safe for
// concurrent use; every method blocks and must be called on the Executor only.
type Store interface {
	// Prepare makes the directories of a checkpoint, or of a savepoint below
	// target (not empty, absolute).
	Prepare(ctx context.Context, checkpoint uint64, target string) error
	// Write stores one state file: small content comes back inline, larger
	// content as a durable file (written, fsynced, its directory fsynced).
	// A failed Write leaves no file. Errors: ErrTooLarge.
	Write(ctx context.Context, w StateFile, content func(io.Writer) error) (*messages.StateHandle, error)
	// Open opens a handle for reading. Errors: ErrMissing.
	Open(ctx context.Context, h *messages.StateHandle) (StateReader, error)
	// Verify reads the handle whole and checks size and hash.
	Verify(ctx context.Context, h *messages.StateHandle) error
	// Publish writes and links the checkpoint's `_metadata`: after it returns,
	// the checkpoint is durable. Publishing the same again succeeds; other content
	// under the same name is ErrPublished, and nothing is overwritten.
	Publish(ctx context.Context, m *messages.CheckpointMetadata, target string) (*messages.MetadataWritten, error)
	// Load reads the `_metadata` of a recorded checkpoint and checks that it is
	// that checkpoint's of that job. Errors: ErrMissing, ErrCorrupt, ErrForeign,
	// ErrNewerFormat.
	Load(ctx context.Context, record *messages.CompletedCheckpoint) (*messages.CheckpointMetadata, error)
	// LoadPath reads a `_metadata`, or the directory that holds one, at a path
	// that a user gave, of whatever job.
	LoadPath(ctx context.Context, path string) (*messages.CheckpointMetadata, error)
	// DiscardCheckpoint deletes a checkpoint's exclusive directory.
	DiscardCheckpoint(ctx context.Context, checkpoint uint64) error
	// Discard deletes the file of a handle; a missing one is no error.
	Discard(ctx context.Context, h *messages.StateHandle) error
	// Sweep deletes what writers that are gone left behind, and nothing that a
	// retained, pending or later checkpoint names. Only the job's coordinator calls
	// it: another epoch than the store's is an error.
	Sweep(ctx context.Context, t *messages.SweepCheckpoints) (*messages.CheckpointsSwept, error)
	// Mark leaves a mark of the epoch in the job's directory, durably, by which tasks
	// find out whether they see the same one, and lists the epochs whose marks are
	// there, ascending: none, if the storage kind has no directory. Only the job's
	// coordinator calls it, before it deploys.
	Mark(ctx context.Context, epoch uint64) ([]uint64, error)
	// CheckMark looks for the mark of the epoch. Errors: ErrElsewhere.
	CheckMark(ctx context.Context, epoch uint64) error
	// Checkpoints lists the ids of the directories that exist, ascending.
	Checkpoints(ctx context.Context) ([]uint64, error)
}

// StateReader reads one state, as a stream or in parts. It holds little of it in
// memory, whatever its size.
type StateReader interface {
	// Read verifies size and hash on its way: io.EOF comes only if they are what
	// was written, otherwise ErrCorrupt.
	io.ReadCloser
	// ReadAt verifies nothing: a caller that needs a part only must be able to
	// tell by itself that its bytes are right, as a segment's reader is.
	io.ReaderAt
	// Size is the number of bytes that were written.
	Size() int64
}

// Inline returns the reader of content that a handle holds itself.
func Inline(content []byte) StateReader { return inline{bytes.NewReader(content)} }

type inline struct{ *bytes.Reader }

func (inline) Close() error { return nil }

// StateFile says what is written, for its name and place.
type StateFile struct {
	Fence      *messages.Fence
	Task       *messages.TaskId
	Checkpoint uint64
	// Uid is the operator's.
	Uid string
	// Kind is "keyed" or "lists".
	Kind string
	// Scope decides between the checkpoint's directory and the shared one.
	Scope messages.SegmentScope
	// Target is where the user wants a savepoint, or empty.
	Target string
}
