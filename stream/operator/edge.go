package operator

import (
	"cutwater/codec/batch"
	"cutwater/messages"
	"cutwater/protocol/keygroup"
)

// EdgeWriter gathers the records that leave a chain by one edge, one builder per
// channel. Package stream writes records into it; the task sends what is cut.
type EdgeWriter struct {
	// Edge is the plan's edge.
	Edge *messages.PlanEdge
	// Builders has one builder per channel, in the order of the receivers.
	Builders []batch.Builder
	// Limit is the size in bytes at which a batch is cut.
	Limit int
	// Cut is called with the channel whose batch has reached Limit.
	Cut func(channel int)

	owner []uint16 // key group -> channel
	next  int
}

// NewEdgeWriter makes the writer of an edge with one channel per receiver.
func NewEdgeWriter(edge *messages.PlanEdge, channels, maxParallelism, limit int, cut func(channel int)) *EdgeWriter {
	w := &EdgeWriter{Edge: edge, Builders: make([]batch.Builder, channels), Limit: limit, Cut: cut}
	if w.Keyed() {
		w.owner = make([]uint16, maxParallelism)
		for g := range w.owner {
			w.owner[g] = uint16(keygroup.Owner(g, channels, maxParallelism))
		}
	}
	return w
}

// Keyed reports whether records carry the hash of their key.
func (w *EdgeWriter) Keyed() bool { return w.Edge.Partitioning == messages.Partitioning_HASH }

// Init prepares the builders for records of this fixed width.
func (w *EdgeWriter) Init(width int) {
	for i := range w.Builders {
		w.Builders[i].Init(width, w.Keyed())
	}
}

// Owner is the channel of a key's hash.
func (w *EdgeWriter) Owner(hash uint64) int {
	return int(w.owner[keygroup.Of(hash, len(w.owner))])
}

// NextRoundRobin is the channel of the next record of a rebalanced edge.
func (w *EdgeWriter) NextRoundRobin() int {
	c := w.next
	if w.next++; w.next == len(w.Builders) {
		w.next = 0
	}
	return c
}
