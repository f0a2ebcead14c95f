package checkpoint

import (
	"fmt"

	"cutwater/messages"
)

// Triggered: the tasks of a checkpoint were asked.
type Triggered struct {
	Checkpoint uint64
	Type       messages.CheckpointType
	// Asked tasks got the trigger, Awaited ones must acknowledge.
	Asked, Awaited int
}

// String is the event as one line.
func (e Triggered) String() string {
	return fmt.Sprintf("triggered %d %s: %d tasks asked, %d awaited", e.Checkpoint, e.Type, e.Asked, e.Awaited)
}

// AckResult is what became of an acknowledgement (Flink:
// PendingCheckpoint.TaskAcknowledgeResult).
type AckResult uint8

const (
	// Success: the task was awaited; its snapshot belongs to the checkpoint.
	Success AckResult = iota
	// Duplicate: it had acknowledged already; its state is kept.
	Duplicate
	// Unknown: the task or attempt has no part in it; its state is deleted.
	Unknown
	// Discarded: the checkpoint was aborted; the late state is deleted.
	Discarded
)

// String returns Flink's name.
func (r AckResult) String() string {
	return [...]string{"SUCCESS", "DUPLICATE", "UNKNOWN", "DISCARDED"}[r]
}

// Acknowledged: an acknowledgement came. With Success the owner releases the
// subtask's [EventGate].
type Acknowledged struct {
	Checkpoint uint64
	Task       *messages.TaskId
	Result     AckResult
}

// String is the event as one line.
func (e Acknowledged) String() string {
	return fmt.Sprintf("ack %d %s %s", e.Checkpoint, taskName(e.Task), e.Result)
}

// Finalizing: all tasks acknowledged; from here on only the answers of the
// storage and of the metadata store decide.
type Finalizing struct{ Checkpoint uint64 }

// String is the event as one line.
func (e Finalizing) String() string { return fmt.Sprintf("finalizing %d", e.Checkpoint) }

// Completed: a checkpoint is durable and recorded, or a savepoint durable.
type Completed struct {
	Checkpoint uint64
	Type       messages.CheckpointType
	DurationMs int64
	StateBytes uint64
	// Subsumed are the checkpoints that it replaces.
	Subsumed []uint64
}

// String is the event as one line.
func (e Completed) String() string {
	return fmt.Sprintf("completed %d %s after %d ms, %d bytes, subsumed %v", e.Checkpoint, e.Type, e.DurationMs, e.StateBytes, e.Subsumed)
}

// Aborted: a checkpoint will never complete.
type Aborted struct {
	Checkpoint uint64
	Reason     messages.FailureReason
	Cause      string
	// Failed: it counts as failed in the statistics; others were given up because
	// nobody needed them any more.
	Failed bool
}

// String is the event as one line.
func (e Aborted) String() string {
	outcome := "aborted"
	if e.Failed {
		outcome = "failed"
	}
	return fmt.Sprintf("%s %d %s", outcome, e.Checkpoint, because(e.Reason, e.Cause))
}

// RequestFailed: a request ended before it had an id.
type RequestFailed struct {
	Type   messages.CheckpointType
	Reason messages.FailureReason
	Cause  string
	// Failed: something does not work. Else nobody needed it any more, or the job
	// was not there for it.
	Failed bool
}

// String is the event as one line.
func (e RequestFailed) String() string {
	return fmt.Sprintf("request failed %s %s", e.Type, because(e.Reason, e.Cause))
}

// Dropped: a message was not obeyed because it is stale, late or foreign.
type Dropped struct{ What, Why string }

// String is the event as one line.
func (e Dropped) String() string { return fmt.Sprintf("dropped %s: %s", e.What, e.Why) }

// OutcomeUnknown: the metadata store could not say whether a command was
// applied; it is asked again.
type OutcomeUnknown struct {
	What    string
	Failure string
}

// String is the event as one line.
func (e OutcomeUnknown) String() string {
	return fmt.Sprintf("outcome unknown of %s: %s", e.What, e.Failure)
}

// DiscardFailed: files could not be deleted. Nothing depends on that but space.
type DiscardFailed struct{ Failure string }

// String is the event as one line.
func (e DiscardFailed) String() string { return "discard failed: " + e.Failure }

// ForgetFailed: the metadata store refused to forget checkpoints of an ended
// job, so their files stay.
type ForgetFailed struct{ Failure string }

// String is the event as one line.
func (e ForgetFailed) String() string { return "forget failed: " + e.Failure }
