package transport

import "sync/atomic"

// Counts tells what a Transport has done since Open.
type Counts struct{ Control, Data LaneCounts }

// LaneCounts are those of one lane, to and from all nodes together.
type LaneCounts struct {
	// Messages and bytes, frames included, that were written and that arrived.
	SentMessages, SentBytes         uint64
	ReceivedMessages, ReceivedBytes uint64
	// Dropped messages were given to Send and not written.
	Dropped uint64
	// Unknown messages arrived and are of a kind that this version does not know.
	Unknown uint64
	// Refused connections were not let in, by this node or by the other.
	Refused uint64
	// Connected is how often a connection was made, in either direction, and
	// Reconnected how many of those replaced an earlier one of the same two starts.
	Connected, Reconnected uint64
	// Open connections there are now, and bytes that wait to be written.
	Open, QueueBytes int64
}

// counters are LaneCounts while they are being counted.
type counters struct {
	sentMessages, sentBytes         atomic.Uint64
	receivedMessages, receivedBytes atomic.Uint64
	dropped, unknown, refused       atomic.Uint64
	connected, reconnected          atomic.Uint64
	open, queueBytes                atomic.Int64
}

func (c *counters) load() LaneCounts {
	return LaneCounts{
		SentMessages: c.sentMessages.Load(), SentBytes: c.sentBytes.Load(),
		ReceivedMessages: c.receivedMessages.Load(), ReceivedBytes: c.receivedBytes.Load(),
		Dropped: c.dropped.Load(), Unknown: c.unknown.Load(), Refused: c.refused.Load(),
		Connected: c.connected.Load(), Reconnected: c.reconnected.Load(),
		Open: c.open.Load(), QueueBytes: c.queueBytes.Load(),
	}
}
