package stream

import (
	"context"
	"fmt"

	"cutwater/codec"
	"cutwater/messages"
	"cutwater/storage/vfs"
)

// Source is a replayable input: splits that can be read again from a position.
// Authors run connectortest on theirs.
type Source[T any] interface {
	// Discover lists the splits, in the order in which they are to be handed
	// out. It may block. It is called once in the life of a job; afterwards the
	// list lives in the checkpoints.
	Discover(ctx context.Context, fsys vfs.FS, parallelism int) (*messages.SplitsDiscovered, error)
	// Open continues a split at its position. It may block: it is called on the
	// Executor.
	Open(ctx context.Context, fsys vfs.FS, split *messages.Split) (SplitReader[T], error)
	// Bounded reports whether the splits end.
	Bounded() bool
	// Codec encodes the records where they leave the task.
	Codec() codec.Codec[T]
}

// ReadStatus is how a Next ended.
type ReadStatus uint8

const (
	// ReadRecord: *v was set.
	ReadRecord ReadStatus = iota
	// ReadNothing: nothing is there now; try again later.
	ReadNothing
	// ReadEnd: the split is finished.
	ReadEnd
)

// SplitReader reads one split. One goroutine uses it at a time.
type SplitReader[T any] interface {
	// Next reads a record into *v, whose memory it may reuse at the next call.
	// It may read at most one buffer of a local file. A *MalformedError means
	// that one record could not be read and the next can; other errors fail the
	// task, as in Open, and restart the job unless they are marked by NoRestart.
	Next(v *T) (ReadStatus, error)
	// Position describes where the next Next continues.
	Position() []byte
	// BytesRead is how much of the split has been read, for progress.
	BytesRead() uint64
	// Close may block for the time of closing a file.
	Close() error
}

// Describer is a SplitReader that knows where its records stand. Of other readers a
// record that was read and lacks its event time is told by its number alone.
type Describer interface {
	// Describe returns the place and the text of the record that the last Next has
	// set, with the problem. It is called right after that Next.
	Describe(problem string) *MalformedError
}

// MalformedError is a record that could not be read; the source goes on after it.
type MalformedError struct {
	// Where is the file or partition.
	Where string
	// Offset is the byte at which the record starts, or -1; Line its line, from 1,
	// or 0: negative and 0 are not known.
	Offset int64
	Line   int64
	// Problem is half a sentence: `field "delay": "abc" is not an int`.
	Problem string
	// Raw is the text of the record, for side outputs; of a record that is too long to
	// be read only the start.
	Raw string
}

// Error says where and why.
func (e *MalformedError) Error() string {
	switch {
	case e.Offset < 0:
		return fmt.Sprintf("%s: %s", e.Where, e.Problem)
	case e.Line > 0:
		return fmt.Sprintf("%s:%d (byte %d): %s", e.Where, e.Line, e.Offset, e.Problem)
	}
	return fmt.Sprintf("%s at byte %d: %s", e.Where, e.Offset, e.Problem)
}
