package barrier

import (
	"fmt"

	"cutwater/messages"
	"cutwater/protocol"
)

// Gate is the input gate of one task. Make it with NewAligned or NewAtLeastOnce.
// Its methods are called by the task, one at a time; the Actions that they
// return are valid until the next call.
//
// A channel that is not below the number of channels, or that sends something
// after its end of partition, is a broken invariant: see protocol.Assert.
type Gate struct {
	mode             mode
	afterTasksFinish bool
	// open holds the channels whose partition has not ended.
	open channelSet
	// blocked is what the task has been told; a step changes wanted, and the
	// difference becomes Block and Unblock.
	blocked, wanted channelSet
	nowMs           int64
	// bytes were processed during alignments so far.
	bytes   uint64
	actions Actions
	trigger Trigger
}

// mode is how a gate treats barriers. A mode keeps its own state and speaks
// through the gate's doTrigger, doAbort and wanted. The alternating mode, which
// turns an alignment into an unaligned checkpoint, is one more.
type mode interface {
	// barrier: the barrier came on an open channel. block is false when the
	// coordinator's trigger stands in for it.
	barrier(g *Gate, channel uint32, b arrival, block bool)
	// cancel: the barrier of this checkpoint will not come on the channel.
	cancel(g *Gate, channel uint32, checkpoint uint64)
	// endOfPartition: the channel has ended; it is no longer in g.open.
	endOfPartition(g *Gate, channel uint32)
	// abort gives the checkpoint up if it has not been triggered.
	abort(g *Gate, checkpoint uint64, reason messages.FailureReason)
	// triggerNow: all channels have ended, so a new checkpoint is due at once.
	triggerNow(g *Gate, b arrival)
	// pending lists the checkpoints that wait for barriers, oldest first.
	pending() []uint64
	// latest is the newest checkpoint seen, or 0.
	latest() uint64
	// phase names the phase for people.
	phase() Phase
}

// Phase is what a gate is doing.
type Phase uint8

const (
	// WaitingForFirstBarrier: no checkpoint is pending; nothing is blocked.
	WaitingForFirstBarrier Phase = iota
	// CollectingBarriers: some barriers of a checkpoint came, others are awaited;
	// the channels whose barrier came are blocked.
	CollectingBarriers
	// TrackingBarriers: at least once; the barriers of some checkpoints are
	// awaited, nothing is blocked.
	TrackingBarriers
)

// String is the phase's name.
func (p Phase) String() string {
	switch p {
	case WaitingForFirstBarrier:
		return "WaitingForFirstBarrier"
	case CollectingBarriers:
		return "CollectingBarriers"
	case TrackingBarriers:
		return "TrackingBarriers"
	}
	return fmt.Sprintf("Phase(%d)", uint8(p))
}

// Actions is what the task does next, in the order of the fields, inside the
// mail that it is handling.
type Actions struct {
	// Aborts are checkpoints that will not be triggered here, oldest first: see
	// subtask.Subtask.AbortOnBarrier.
	Aborts []Abort
	// Trigger, if not nil, is the checkpoint to take now: see
	// subtask.Subtask.CheckpointState.
	Trigger *Trigger
	// Block and Unblock are the channels to stop reading and to read again, in
	// ascending order. No channel is in both.
	Block, Unblock []uint32
}

// Abort is a checkpoint given up.
type Abort struct {
	Checkpoint uint64
	Reason     messages.FailureReason
}

// Trigger is a checkpoint whose barriers have all come.
type Trigger struct {
	Checkpoint uint64
	// TimestampMs is when the coordinator triggered it, by its clock.
	TimestampMs int64
	// AgeMs is how long ago that was, by the clocks of the hops on the way.
	AgeMs   int64
	Options *messages.CheckpointOptions
	Metrics Metrics
}

// Metrics is what the gate measured for a checkpoint.
type Metrics struct {
	// AlignmentMs is the time from the first barrier to the last.
	AlignmentMs int64
	// StartDelayMs is the age of the checkpoint when its first barrier came.
	StartDelayMs int64
	// AlignmentBytes were processed during the alignment.
	AlignmentBytes uint64
}

// NewAligned returns the exactly-once gate of a task with this many channels.
// AfterTasksFinish says whether checkpoints go on when some channels have ended
// (Flink's execution.checkpointing.checkpoints-after-tasks-finish).
func NewAligned(channels int, afterTasksFinish bool) *Gate {
	return newGate(channels, afterTasksFinish, &aligned{current: collection{arrived: newChannelSet(channels)}})
}

// NewAtLeastOnce returns the gate that never blocks: records that overtake a
// barrier may be processed again after a restart.
func NewAtLeastOnce(channels int, afterTasksFinish bool) *Gate {
	return newGate(channels, afterTasksFinish, &tracker{channels: channels})
}

func newGate(channels int, afterTasksFinish bool, m mode) *Gate {
	g := &Gate{
		mode:             m,
		afterTasksFinish: afterTasksFinish,
		open:             newChannelSet(channels),
		blocked:          newChannelSet(channels),
		wanted:           newChannelSet(channels),
	}
	for c := range uint32(channels) {
		g.open.add(c)
	}
	return g
}

// Barrier handles a barrier that came on the channel. The age in the barrier is
// the age now. The gate keeps the options, and nothing else of the message.
func (g *Gate) Barrier(nowMs int64, channel uint32, b *messages.Barrier) *Actions {
	g.begin(nowMs)
	g.assertOpen(channel, "a barrier")
	if b.GetCheckpoint() == 0 {
		protocol.Assert(false, "channel %d brought a barrier without a checkpoint id", channel)
	}
	g.mode.barrier(g, channel, arrival{
		checkpoint:  b.Checkpoint,
		timestampMs: b.TimestampMs,
		ageMs:       max(b.AgeMs, 0),
		options:     b.Options,
	}, true)
	return g.end()
}

// Cancel handles a CancelBarrier that came on the channel.
func (g *Gate) Cancel(nowMs int64, channel uint32, checkpoint uint64) *Actions {
	g.begin(nowMs)
	g.assertOpen(channel, "a cancel barrier")
	g.mode.cancel(g, channel, checkpoint)
	return g.end()
}

// EndOfPartition handles the last message of a channel. The channel never
// appears in Block or Unblock again.
func (g *Gate) EndOfPartition(nowMs int64, channel uint32) *Actions {
	g.begin(nowMs)
	g.assertOpen(channel, "a second end of partition")
	g.open.remove(channel)
	g.blocked.remove(channel)
	g.wanted.remove(channel)
	g.mode.endOfPartition(g, channel)
	return g.end()
}

// TriggerOnUnfinished handles a trigger that the coordinator sent to this task,
// because all its running inputs have ended or will: it stands for a barrier on
// each open channel, and blocks none. The checkpoint is due at once.
func (g *Gate) TriggerOnUnfinished(nowMs int64, t *messages.TriggerCheckpoint) *Actions {
	g.begin(nowMs)
	b := arrival{checkpoint: t.GetCheckpoint(), timestampMs: t.GetTimestampMs(), options: t.GetOptions()}
	if b.checkpoint == 0 {
		protocol.Assert(false, "the coordinator sent a trigger without a checkpoint id")
	}
	if g.open.count == 0 {
		g.mode.triggerNow(g, b)
		return g.end()
	}
	for channel := range uint32(len(g.open.words) * 64) {
		if g.open.has(channel) {
			g.mode.barrier(g, channel, b, false)
		}
	}
	return g.end()
}

// Abort gives the checkpoint up from outside, such as when the coordinator has
// aborted it while its barriers are awaited: the channels go on at once, and
// late barriers of it are ignored. The abort comes back in Actions like any other,
// so that the consumers are told. A checkpoint that was triggered or given up
// before is left alone. Nobody has to call it: without, the barriers are awaited
// and the task's memory of aborts stops the checkpoint when they have come.
func (g *Gate) Abort(nowMs int64, checkpoint uint64, reason messages.FailureReason) *Actions {
	g.begin(nowMs)
	g.mode.abort(g, checkpoint, reason)
	return g.end()
}

// AlignmentStarted reports whether an alignment runs: then the task counts what
// it processes with BytesProcessed.
func (g *Gate) AlignmentStarted() bool { return g.mode.phase() != WaitingForFirstBarrier }

// BytesProcessed counts bytes that the task processed while AlignmentStarted;
// they are reported with the checkpoint. Call it once per batch.
func (g *Gate) BytesProcessed(n int) { g.bytes += uint64(n) }

// Pending lists the checkpoints that wait for barriers, oldest first; an aborted
// one that is only remembered is left out. For status and tests: it allocates.
func (g *Gate) Pending() []uint64 { return g.mode.pending() }

// Phase is what the gate is doing.
func (g *Gate) Phase() Phase { return g.mode.phase() }

// String describes the gate in one line.
func (g *Gate) String() string {
	return fmt.Sprintf("%s latest=%d pending=%v open=%d blocked=%v",
		g.mode.phase(), g.mode.latest(), g.mode.pending(), g.open.count, &g.blocked)
}

// begin empties the actions of the last step.
func (g *Gate) begin(nowMs int64) {
	g.nowMs = nowMs
	g.actions.Aborts = g.actions.Aborts[:0]
	g.actions.Block = g.actions.Block[:0]
	g.actions.Unblock = g.actions.Unblock[:0]
	g.actions.Trigger = nil
}

// end turns the change of wanted into Block and Unblock.
func (g *Gate) end() *Actions {
	g.actions.Block = g.wanted.appendDifference(g.actions.Block, &g.blocked)
	g.actions.Unblock = g.blocked.appendDifference(g.actions.Unblock, &g.wanted)
	g.blocked.copyFrom(&g.wanted)
	return &g.actions
}

// doTrigger makes the checkpoint due in this step.
func (g *Gate) doTrigger(c *collection) {
	g.trigger = c.trigger(g)
	g.actions.Trigger = &g.trigger
}

// doAbort gives a checkpoint up in this step.
func (g *Gate) doAbort(checkpoint uint64, reason messages.FailureReason) {
	g.actions.Aborts = append(g.actions.Aborts, Abort{Checkpoint: checkpoint, Reason: reason})
}

func (g *Gate) assertOpen(channel uint32, what string) {
	if int(channel) >= len(g.open.words)*64 || !g.open.has(channel) {
		protocol.Assert(false, "%s came on channel %d, which is not open", what, channel)
	}
}
