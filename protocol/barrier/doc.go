// Package barrier is the input gate of a task: it decides when the barriers of a
// checkpoint have arrived on all channels, which channels wait meanwhile, and
// which checkpoint is given up.
//
// The gate is asked only when a control message comes in band (Barrier,
// CancelBarrier, EndOfPartition) or the coordinator triggers the task directly;
// never for a record. It answers with [Actions], which the task carries out
// inside the same mail. A barrier costs no allocation.
//
// There are two gates behind one type:
//
//   - [NewAligned] (exactly once): a channel whose barrier came is blocked until
//     the barrier of every other open channel has come. Then the task takes its
//     snapshot and all channels go on. One checkpoint is aligned at a time: a
//     newer barrier gives the older one up.
//   - [NewAtLeastOnce]: nothing is ever blocked. Barriers are counted for up to
//     [MaxTracked] checkpoints at a time; a checkpoint that completes drops all
//     older ones.
//
// Rules that both obey:
//
//   - A channel counts once for a checkpoint, be it by barrier, by end of
//     partition or by both.
//   - How many channels to wait for is fixed when the checkpoint is first seen.
//   - A cancelled checkpoint is remembered, so that its late barriers start no
//     alignment that would never end.
//   - With checkpoints after tasks finish, the end of a channel stands for its
//     barrier of the pending checkpoint; without, it aborts the checkpoint.
//
// Clocks of two machines are never compared. A barrier carries its age; the
// caller has added the time that it waited in the task's own queue. The gate
// measures alignment with the times that its caller passes, which must be of one
// monotonic clock.
//
// The gates follow Flink's SingleCheckpointBarrierHandler and
// CheckpointBarrierTracker. They differ on purpose where this loses nothing:
//
//   - A stale barrier resumes no channel, because a channel is only ever blocked
//     by Actions.Block.
//   - A cancel of a newer checkpoint also reports the abort of the one being
//     aligned, which would otherwise wait for its timeout.
//   - The tracker has no path of its own for the last open channel; a checkpoint
//     triggered there counts as the latest, so that a repeated barrier is
//     ignored.
package barrier
