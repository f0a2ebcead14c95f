package stream

import (
	"context"

	"cutwater/messages"
	"cutwater/storage/vfs"
)

// Sink is an output with two-phase commit. What is written between two barriers
// is prepared when the second one passes and committed once its checkpoint is
// complete. Authors run connectortest on theirs.
type Sink[T any] interface {
	// Start runs once per job start on the Executor, before any writer, by
	// subtask 0 only: check the target, refuse what belongs to others (with an error
	// that is marked by NoRestart, or the job tries again). Restored are the committables
	// that the restored checkpoint holds: they will be committed. What earlier attempts
	// left is not touched yet, see Sweeper.
	Start(ctx context.Context, c SinkContext, restored []*messages.Committable) error
	// NewWriter makes the writer of one subtask.
	NewWriter(c SinkContext) (SinkWriter[T], error)
	// Commit makes a committable visible. It must be idempotent: it is called
	// again after a crash or an unknown outcome. It runs on the Executor. Committables
	// of one subtask come in the order in which they were prepared, also after a
	// restore; those of different subtasks may come at the same time.
	Commit(ctx context.Context, c SinkContext, committable *messages.Committable) error
	// Abort removes what was prepared and will not be committed.
	Abort(ctx context.Context, c SinkContext, committable *messages.Committable) error
}

// Sweeper is a Sink that removes what earlier attempts of it left and nobody will commit.
type Sweeper interface {
	// Sweep runs once per attempt on the Executor, when its first checkpoint has
	// completed: by subtask 0 for all, or, where SinkContext.Regional, by each subtask of
	// the attempt for itself. Not sooner: an attempt whose coordinator had been replaced,
	// and did not know, would take it from the one that goes on.
	// Restored are as in Sink.Start; they, and what this attempt prepared, stay. An error
	// is reported, and the next attempt tries again.
	Sweep(ctx context.Context, c SinkContext, restored []*messages.Committable) error
}

// SinkContext identifies a writer; the parts of a commit key come from it.
type SinkContext struct {
	Job         string
	JobName     string
	Incarnation uint64
	Fence       *messages.Fence
	Uid         string
	Subtask     int
	Parallelism int
	// Regional: other subtasks of the sink may go on since before this attempt, and what
	// they prepared is not to be touched.
	Regional bool
	FS       vfs.FS
}

// SinkWriter writes for one subtask. Write and Prepare run in the task and only
// touch memory; the functions that Flush and Prepare return run on the Executor,
// one at a time and in order.
type SinkWriter[T any] interface {
	// Write takes one record. It must not keep v's memory.
	Write(v T, timestampMs int64) error
	// Buffered is the number of bytes that wait to be flushed.
	Buffered() int
	// Flush hands over what is buffered: the returned work writes it.
	Flush() (work func(context.Context) error)
	// Prepare ends the part of this checkpoint: the returned work writes what is
	// left, makes it durable and returns what is to be committed, which may be
	// nothing.
	Prepare(checkpoint uint64) (work func(context.Context) ([]*messages.Committable, error))
	// Close drops what was not prepared.
	Close() error
}

// PromptWriter is a SinkWriter whose readers wait for single records: what it
// buffers is flushed after this many milliseconds at the latest. A writer without
// it, or with 0, is flushed when it has buffered enough, and for checkpoints.
type PromptWriter interface {
	FlushAfterMs() int64
}
