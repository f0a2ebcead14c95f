// Package task is the actor that runs one subtask: a chain of operators between
// its input channels and its output channels.
//
// It is a shell. When barriers have come is decided by protocol/barrier, what a
// checkpoint does by protocol/subtask, what event time is by protocol/watermark;
// the task carries their answers out and moves records.
//
// # Behaviours and what they accept
//
//   - Initializing: state is being restored. The channels are held; control mail
//     is handled, checkpoints are declined.
//   - Running, Ended, Finishing (the phases of subtask.Subtask): in-band messages
//     RecordBatch, Barrier, CancelBarrier, Watermark, WatermarkIdle, EndOfData,
//     EndOfPartition; control messages ChannelRequest, Credit, TriggerCheckpoint,
//     NotifyCheckpointComplete, NotifyCheckpointAborted, SplitAssignment,
//     EndOfDataAck, StandingQuery, CancelTask, NewCoordinator, LinkLost, TimerFired, WorkDone.
//   - Finished, Closed: the end was reported and is repeated until TaskStateAck
//     comes, and EndOfPartition until a Credit confirms it; all else is dropped.
//
// # One thing at a time
//
// A record, a timer or a poll of the source is never interrupted. Between two of
// them the task stops when control mail waits or an output has no room
// (operator.Yield). What is then left of a batch, of the timers of a watermark or
// of the operators' finish is the job in hand (see step): while there is one, the
// mailbox holds the channels back and its default action goes on with it.
package task
