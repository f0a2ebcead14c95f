package barrier

import "cutwater/messages"

// arrival is what the gate keeps of a barrier.
type arrival struct {
	checkpoint  uint64
	timestampMs int64
	ageMs       int64
	options     *messages.CheckpointOptions
}

// collection is a checkpoint whose barriers are being collected: which came, how
// many are awaited, and the measures of the alignment.
type collection struct {
	barrier arrival
	arrived channelSet
	// target is the number of channels that were open at the first barrier.
	target int
	// startMs is when the first barrier came.
	startMs int64
	// originMs is when the checkpoint was triggered, by this gate's clock: the
	// earliest that any barrier's age suggests, since ages miss time on the wire.
	originMs int64
	// bytesAtStart is Gate.bytes at the first barrier.
	bytesAtStart uint64
	// aborted: only remembered, so that late barriers are recognised.
	aborted bool
}

// begin starts to collect for the checkpoint of a barrier.
func (c *collection) begin(g *Gate, b arrival) {
	c.barrier = b
	c.arrived.clear()
	c.target = g.open.count
	c.startMs = g.nowMs
	c.originMs = g.nowMs - b.ageMs
	c.bytesAtStart = g.bytes
	c.aborted = false
}

// noteAge takes the age that another barrier of the checkpoint carries.
func (c *collection) noteAge(g *Gate, b arrival) {
	c.originMs = min(c.originMs, g.nowMs-b.ageMs)
}

// full reports whether all channels that were open at the first barrier came.
func (c *collection) full() bool { return c.arrived.count == c.target }

// trigger describes the checkpoint, which is due now.
func (c *collection) trigger(g *Gate) Trigger {
	return Trigger{
		Checkpoint:  c.barrier.checkpoint,
		TimestampMs: c.barrier.timestampMs,
		AgeMs:       g.nowMs - c.originMs,
		Options:     c.barrier.options,
		Metrics: Metrics{
			AlignmentMs:    g.nowMs - c.startMs,
			StartDelayMs:   c.startMs - c.originMs,
			AlignmentBytes: g.bytes - c.bytesAtStart,
		},
	}
}
