// Package operator is the contract between the operators of a topology, which
// package stream makes, and the task that runs a chain of them. Users of stream
// do not need it; authors of runtimes and test kits do.
//
// Everything here runs inside one task, one call at a time. Nothing may block:
// what would is given to Context.Async.
package operator

import (
	"context"
	"sync/atomic"

	"cutwater/messages"
	"cutwater/state"
	"cutwater/storage/vfs"
)

// Program is the code of a topology. Every node has the same programs under the
// same names. It is safe for concurrent use; the chains that it makes are not.
type Program interface {
	// Graph is the logical graph.
	Graph() *messages.JobGraph
	// NewChain instantiates operators for one subtask. Outputs are the edges
	// that leave the chain.
	NewChain(operators []string, outputs []*EdgeWriter) (*Chain, error)
	// Discover lists the splits of a source; it may block and is called on the
	// Executor.
	Discover(ctx context.Context, uid string, fsys vfs.FS, parallelism int) (*messages.SplitsDiscovered, error)
}

// Chain is a sequence of operators joined by function calls. Exactly one of
// Input and Source is set: it is the face of the first operator.
type Chain struct {
	Input     Input
	Source    Source
	Operators []Operator // head first
}

// Operator is the untyped face of one operator: its life, apart from records.
// Embed Base to implement only what is needed.
type Operator interface {
	// Uid names the operator.
	Uid() string
	// Open is called once before anything else, tail first. Restored state is in
	// the context.
	Open(*Context) error
	// Watermark says that event time has reached timestampMs; the operator fires
	// what is due. It returns false if it stopped early because Yield said so:
	// the task calls it again with the same timestamp.
	Watermark(timestampMs int64) (done bool, err error)
	// PrepareBarrier is called before a barrier is sent: last chance to emit.
	PrepareBarrier(checkpoint uint64) error
	// Snapshot takes the synchronous part. The keyed backend is sealed by the
	// task right after; the operator adds its list state.
	Snapshot(SnapshotRequest) (Snapshot, error)
	// Complete and Aborted pass on the coordinator's notifications.
	Complete(checkpoint uint64) error
	Aborted(checkpoint uint64) error
	// Finish is called once input has ended (drained): emit what is left. It
	// returns false if it stopped early because Yield said so.
	Finish() (done bool, err error)
	// Quiescent reports that no asynchronous work is outstanding and nothing
	// waits for a notification: the task may become FINISHED.
	Quiescent() bool
	// Close releases everything; it is also called after a failure.
	Close() error
}

// Input is the head of a chain that reads channels.
type Input interface {
	// Process handles records of the batch from index from on, which came by
	// the head's input of that number, and returns the index of the first record
	// that it did not handle: the batch's count unless Yield said stop.
	Process(input int, b *messages.RecordBatch, from int) (next int, err error)
}

// SourceStatus is how a Poll ended.
type SourceStatus uint8

const (
	// SourceMore: call Poll again, nothing but the turn ended.
	SourceMore SourceStatus = iota
	// SourceWaiting: call Poll after the next AddSplit, Async result or WakeAt.
	SourceWaiting
	// SourceEnded: every split was read to its end.
	SourceEnded
)

// Source is the head of a chain that reads the outside world.
type Source interface {
	// Poll emits records for one bounded turn. WatermarkMs is the source's
	// watermark after it, hasWatermark whether there is one.
	Poll() (status SourceStatus, err error)
	// CurrentWatermark is the source's watermark: the minimum over its splits.
	CurrentWatermark() (timestampMs int64, ok bool)
	// Idle reports that no split has brought a record for so long that the source's
	// watermark is not to hold that of others. The watermark of an idle source may
	// still advance.
	Idle() bool
	// AddSplit answers Context.RequestSplit.
	AddSplit(*messages.SplitAssignment) error
}

// SnapshotRequest describes the checkpoint that a snapshot is for.
type SnapshotRequest struct {
	Checkpoint uint64
	Options    *messages.CheckpointOptions
}

// Snapshot is an operator's part of a snapshot beside its keyed state.
type Snapshot struct {
	// Lists is operator state known now.
	Lists []*messages.OperatorList
	// Work, if not nil, runs on the Executor in the asynchronous phase and
	// returns further lists. It must not touch the operator's fields. A failure
	// declines the checkpoint; one that wraps ErrTask fails the task.
	Work func(context.Context) ([]*messages.OperatorList, error)
	// Done, if not nil, is called in the task after the asynchronous phase,
	// whether it went well or not.
	Done func(err error)
}

// Yield tells a loop over records or timers when to stop. The task owns it.
type Yield struct {
	// Control is nonzero while mail waits that must run between records.
	Control atomic.Int32
	// Full is true while an output has no room.
	Full bool
	// Budget is how many more records this turn may handle.
	Budget int
	// Held counts the operators that cannot take records until their asynchronous
	// work has an answer, such as a sink whose flush is behind: for the task it is
	// like a full output, looked at again after each Async answer and At. Barriers
	// do not wait for it.
	Held int
}

// Now reports whether to stop before the next record.
func (y *Yield) Now() bool { return y.Full || y.Held > 0 || y.Budget <= 0 || y.Control.Load() != 0 }

// Context is what an operator may use while it runs. Fields are set by the task.
type Context struct {
	Job         string
	JobName     string
	Incarnation uint64
	Fence       *messages.Fence
	Vertex      string
	Subtask     int
	Parallelism int
	// MaxParallelism is the number of key groups.
	MaxParallelism int
	// Restored is nil if the task starts empty; else this operator's share.
	Restored *messages.OperatorRestore
	// RestoredCheckpoint is the checkpoint it comes from, or 0.
	RestoredCheckpoint uint64
	// Regional: subtasks of the operator may go on since before this attempt. What
	// belongs to them is not to be touched.
	Regional bool
	// Keyed is the operator's keyed state, restored; nil unless it is keyed.
	Keyed state.Backend
	// RestoredWatermarkMs is the operator's watermark in the restored state.
	RestoredWatermarkMs  int64
	HasRestoredWatermark bool
	FS                   vfs.FS
	Yield                *Yield
	// NowMs reads the task's clock (Unix time in ms).
	NowMs func() int64
	// MonotonicMs reads the task's clock for distances of time (ms): nobody sets it.
	MonotonicMs func() int64
	// Random returns a number from the job's seeded source.
	Random func() uint64
	// Async runs work on the Executor and then done in the task.
	Async func(work func(context.Context) error, done func(error))
	// At runs f in the task at this time (Unix time in ms) or soon after, for
	// processing-time timers and retries.
	At func(unixMs int64, f func())
	// Fail fails the task, for errors that come up outside a call of the task,
	// such as those of asynchronous work.
	Fail func(error)
	// WakeAt calls the source's Poll at this time, or sooner; one per task.
	WakeAt func(unixMs int64)
	// RequestSplit asks for the next split; the answer comes by AddSplit.
	RequestSplit func()
	// Progress reports, for people, what a source has read in all and what is left
	// of the splits that it has. It may be called at every turn.
	Progress func(records, bytes, remainingBytes uint64)
	// Event reports something for people and metrics, such as a skipped row.
	Event func(kind string, detail string)
}

// Base implements Operator with operators that do nothing.
type Base struct{ ID string }

// Uid returns the operator's uid.
func (b *Base) Uid() string { return b.ID }

// Open does nothing.
func (b *Base) Open(*Context) error { return nil }

// Watermark is done at once.
func (b *Base) Watermark(int64) (bool, error) { return true, nil }

// PrepareBarrier does nothing.
func (b *Base) PrepareBarrier(uint64) error { return nil }

// Snapshot has nothing to add.
func (b *Base) Snapshot(SnapshotRequest) (Snapshot, error) { return Snapshot{}, nil }

// Complete does nothing.
func (b *Base) Complete(uint64) error { return nil }

// Aborted does nothing.
func (b *Base) Aborted(uint64) error { return nil }

// Finish is done at once.
func (b *Base) Finish() (bool, error) { return true, nil }

// Quiescent is always true.
func (b *Base) Quiescent() bool { return true }

// Close does nothing.
func (b *Base) Close() error { return nil }
