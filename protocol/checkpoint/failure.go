package checkpoint

import (
	"errors"
	"fmt"

	"cutwater/messages"
)

// ErrFenced says that another coordinator took over the job: the metadata store
// refused this one's epoch. Its checkpoints are the other's to judge, so nothing
// is deleted and nobody is notified.
var ErrFenced = errors.New("checkpoint: another coordinator took over the job; this one stops")

// IntolerableError says why the job must fail over because of a checkpoint. The
// coordinator stays usable.
type IntolerableError struct {
	// Checkpoint is 0 if the attempt failed before it had an id.
	Checkpoint uint64
	Reason     messages.FailureReason
	Cause      string
	// Tolerable is the setting tolerable-failures. Savepoint is set if a
	// stop-with-savepoint failed, which is never tolerated: the tasks that had
	// reached it wait for its completion.
	Tolerable uint32
	Savepoint bool
}

// Error says what failed and what to do.
func (e *IntolerableError) Error() string {
	if e.Savepoint {
		return fmt.Sprintf("checkpoint: stop-with-savepoint %d failed (%s): the job restarts from its last completed checkpoint; try the stop again",
			e.Checkpoint, because(e.Reason, e.Cause))
	}
	which := "a new checkpoint"
	if e.Checkpoint != 0 {
		which = fmt.Sprintf("checkpoint %d", e.Checkpoint)
	}
	return fmt.Sprintf("checkpoint: %s failed (%s) and more than %d failures in a row are not tolerated: the job restarts from its last completed checkpoint; raise tolerable-failures to allow more",
		which, because(e.Reason, e.Cause), e.Tolerable)
}

func because(reason messages.FailureReason, cause string) string {
	if cause == "" {
		return reason.String()
	}
	return reason.String() + ": " + cause
}

// preFlight reports whether the reason arises before any task was asked.
func preFlight(r messages.FailureReason) bool {
	switch r {
	case messages.FailureReason_PERIODIC_SCHEDULER_SHUTDOWN,
		messages.FailureReason_TOO_MANY_CHECKPOINT_REQUESTS,
		messages.FailureReason_MINIMUM_TIME_BETWEEN_CHECKPOINTS,
		messages.FailureReason_NOT_ALL_REQUIRED_TASKS_RUNNING,
		messages.FailureReason_IO_EXCEPTION,
		messages.FailureReason_BLOCKING_OUTPUT_EXIST:
		return true
	}
	return false
}

// counted reports whether the reason counts against tolerable-failures. The
// others say that the job was not ready, not that checkpoints do not work.
func counted(r messages.FailureReason) bool {
	switch r {
	case messages.FailureReason_IO_EXCEPTION,
		messages.FailureReason_CHECKPOINT_ASYNC_EXCEPTION,
		messages.FailureReason_CHECKPOINT_DECLINED,
		messages.FailureReason_CHECKPOINT_EXPIRED,
		messages.FailureReason_FINALIZE_CHECKPOINT_FAILURE:
		return true
	}
	return false
}

// harmless reports whether the reason says that nothing is wrong, neither with the
// checkpoints nor with the tasks: the checkpoint came too late, or while tasks
// started or ended, or within min-pause of the one before it, and comes when that is
// over. Every bounded job ends in the middle of one. Acknowledged: all
// tasks had their part in it, so that TASK_CLOSING speaks of a union list that is
// finished in part only, and lasts.
func harmless(r messages.FailureReason, acknowledged bool) bool {
	switch r {
	case messages.FailureReason_CHECKPOINT_DECLINED_TASK_CLOSING:
		return !acknowledged
	case messages.FailureReason_PERIODIC_SCHEDULER_SHUTDOWN,
		messages.FailureReason_MINIMUM_TIME_BETWEEN_CHECKPOINTS,
		messages.FailureReason_NOT_ALL_REQUIRED_TASKS_RUNNING,
		messages.FailureReason_CHECKPOINT_SUBSUMED,
		messages.FailureReason_CHECKPOINT_DECLINED_SUBSUMED,
		messages.FailureReason_CHECKPOINT_DECLINED_TASK_NOT_READY,
		messages.FailureReason_CHECKPOINT_DECLINED_INPUT_END_OF_STREAM,
		messages.FailureReason_CHECKPOINT_COORDINATOR_SHUTDOWN,
		messages.FailureReason_CHECKPOINT_COORDINATOR_SUSPEND:
		return true
	}
	return false
}

// failureManager counts failures in a row (Flink: CheckpointFailureManager). Flink
// also keeps the ids that it counted, so that each counts once; here a checkpoint
// ends once, and nothing has to be kept.
type failureManager struct {
	tolerable     uint32
	failures      uint32
	lastSucceeded uint64
}

// failed counts the failure of checkpoint id, 0 if it had none, and reports
// whether that is one too many; then the count starts anew. It does not count if a
// newer checkpoint succeeded.
func (f *failureManager) failed(id uint64, reason messages.FailureReason) bool {
	if !counted(reason) || id != 0 && id <= f.lastSucceeded {
		return false
	}
	f.failures++
	if f.failures <= f.tolerable {
		return false
	}
	f.failures = 0
	return true
}

// succeeded ends the row of failures, unless a newer checkpoint had already.
func (f *failureManager) succeeded(id uint64) {
	if id > f.lastSucceeded {
		f.lastSucceeded, f.failures = id, 0
	}
}
