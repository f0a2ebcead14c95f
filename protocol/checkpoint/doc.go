// Package checkpoint takes the checkpoints of one job: it is the coordinator's
// half of Chandy and Lamport's distributed snapshot, as Flink's asynchronous
// barrier snapshots have it. The tasks are the paper's processes, the barrier is
// its marker, a task's snapshot is a recorded process state; channels are empty
// where barriers are aligned. The coordinator is the paper's outside observer
// who starts the algorithm at the sources and collects the recorded states.
//
// # Phases of a checkpoint
//
//	queued      a request waits: one is triggered at a time, max-concurrent may
//	            be pending, periodic ones keep the minimum pause
//	triggering  plan, id, timeout; location; operator coordinators; master hooks
//	collecting  the tasks were asked; acknowledgements come in
//	finalizing  all acknowledged: WriteMetadata, then RecordCompletion
//	completed   the metadata store said so; only now the tasks are notified
//	aborted     declined, expired, subsumed, stopped: tasks are told, state goes
//
// # Conversations
//
//	TimerFired checkpoint/periodic, RequestCheckpoint, TriggerFinal
//	  -> Propose AllocateCheckpointId     -> PrepareLocation
//	  -> SnapshotOperatorCoordinator ...  -> RunMasterHook ...
//	  -> TriggerCheckpoint to each task that runs without a running predecessor
//	AcknowledgeCheckpoint of every running task
//	  -> WriteMetadata -> Propose RecordCompletion
//	  -> NotifyCheckpointComplete to every task, CheckpointOutcome, DiscardState
//	DeclineCheckpoint, TimerFired checkpoint/timeout/<id>, ended tasks
//	  -> NotifyCheckpointAborted to every task, CheckpointOutcome, DiscardState
//
// Trigger, acknowledgement, decline and notifications may be lost. A lost one of
// the first three runs into the timeout. A lost completion is healed by the next
// notification: an abort carries the latest completed id, and a snapshot that
// builds on a file which is gone aborts its checkpoint, which says so.
//
// # Invariants
//
//   - I1: NotifyCheckpointComplete is created only by the step that receives the
//     store's answer to RecordCompletion, and RecordCompletion is proposed only
//     by the step that receives the answer of WriteMetadata.
//   - I2: nothing but those answers ends a checkpoint that is finalizing; one is
//     finalized at a time. An unknown outcome is asked for until it is known:
//     the record is read, and the proposal repeated, because a completion that
//     is not listed may still be on its way. (One that waits behind another may
//     be subsumed by it: its metadata is not on its way yet.)
//   - I3: an outcome STALE_EPOCH ends the coordinator with [ErrFenced]: nothing
//     is deleted and nobody notified.
//   - I4: ids only grow, over coordinators and restores.
//   - I5: a message counts only with this job, epoch and the checkpoint's
//     attempt; any other is dropped with an event, and never an error.
//   - I6: a file is deleted only when no retained and no pending checkpoint can
//     name it; a retained one that could not be read can name any. Files of an
//     acknowledgement that comes too late are deleted only if the checkpoint is
//     known to have been aborted.
//   - I7: the newest checkpoint stays, and the newest that is no savepoint.
//   - I8: whatever happens to a checkpoint, the next request can start: every
//     step ends by looking at the queue.
//
// # What differs from Flink
//
// Shared state is registered when a checkpoint completes, not when a task
// acknowledges: tasks build only on completed checkpoints, so the files of an
// aborted one can go at once. A stop-with-savepoint is stored like a checkpoint,
// because its completion makes sinks commit: a job that fails between that and
// its end must not go back behind it. A plain savepoint is complete when its
// metadata is durable; it is not recorded and notifies nobody. A task that ends
// without having acknowledged aborts the checkpoint at once. A suspended job
// keeps its checkpoints under every retention policy.
package checkpoint
