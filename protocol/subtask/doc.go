// Package subtask is a task's part in checkpoints: what a task does when a
// checkpoint is due, when its snapshot is durable, when the coordinator says that
// a checkpoint completed or was aborted, and when the task may finish. It
// decides and orders; the task carries the steps out.
//
// # A checkpoint
//
//	gate or coordinator: CheckpointState(trigger)
//	    PrepareBarrier, BroadcastBarrier, SyncSnapshot     in one mail, in this order
//	task: SyncDone           -> StartAsync                 or SyncFailed -> Fail
//	task: AsyncDone          -> Send AcknowledgeCheckpoint or AsyncFailed -> Send DeclineCheckpoint
//	coordinator: NotifyComplete -> CompleteOperators, CompleteState
//	        or   NotifyAborted  -> CancelAsync, AbortOperators, AbortState
//
// The barrier leaves before the state is captured, and nothing is emitted in
// between: so what is behind the barrier is not in the snapshot, and what is in
// the snapshot is before the barrier.
//
// # Rules
//
//   - Checkpoints are taken in ascending order. A trigger that is not newer than
//     the newest one seen is ignored.
//   - The asynchronous part ends once: acknowledged, declined or cancelled. What
//     comes later is silent, and its result is discarded.
//   - An abort may overtake the barrier. The checkpoint is remembered, and when
//     its barrier comes, a cancel goes downstream and nothing else happens. The
//     memory is bounded in number and by distance to the newest abort.
//   - Completions are told once, in ascending order; the restored checkpoint
//     counts as told. An abort names the latest completed checkpoint, which is
//     told first: this heals a lost completion.
//   - A task that does not run declines, and sends a cancel downstream.
//   - A new coordinator says in one message which checkpoint is the newest that
//     completed, and that no other one of the coordinators before ever will.
//
// # The end of a task
//
// After the end of data a task goes on to take checkpoints, for two reasons: what
// its sinks prepared is committed only by the completion of a checkpoint taken
// after the end, and its neighbours still need its barriers. It may finish when
//
//   - its input channels have ended; and
//   - its consumers have processed everything, and a checkpoint has completed
//     that was taken after the end of data (the final checkpoint), or the
//     savepoint has completed that stops the job; and
//   - its operators are quiescent; and
//   - no asynchronous part is under way.
//
// Without checkpoints, or without checkpoints after tasks finish, the consumers and
// the final checkpoint are not awaited. A task that had finished before the restored checkpoint has
// no operators: it passes barriers on and acknowledges at once.
//
// The machine follows Flink's SubtaskCheckpointCoordinatorImpl, the checkpoint
// part of StreamTask, and FinishedOperatorChain. Unaligned checkpoints add steps
// for the state of channels between those here.
package subtask
