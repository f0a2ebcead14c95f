package task

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"cutwater/actors/system"
	"cutwater/messages"
	"cutwater/protocol"
	"cutwater/stream/operator"
)

const (
	// batchBytes is the size at which a batch is cut.
	batchBytes = 32 << 10
	// windowMessages and windowBytes are a channel's credit: what the receiver
	// lets the sender have outstanding.
	windowMessages = 8
	windowBytes    = 8 * batchBytes
	// overdrawBytes is how much a single record or timer may emit beyond the
	// credit before its task fails.
	overdrawBytes = 64 << 20
)

// outputs is everything that leaves the task: the edges' builders, and per
// channel a queue of what waits for credit.
type outputs struct {
	self     *system.Self
	pool     *Pool
	budget   *Budget
	attempt  uint32
	yield    *operator.Yield
	edges    []*operator.EdgeWriter
	channels []outputChannel
	first    []int // edge -> its first channel
	starved  int   // channels without room
	sent     counts
	pressure pressure
	// fail is called when overdrawBytes is exceeded.
	fail func(error)
}

// outputChannel is one channel to one receiver.
type outputChannel struct {
	route    *system.Route
	receiver uint32 // the receiver's number of the channel
	open     bool   // the receiver is there; until then everything is queued
	seq      uint64 // of the last message sent
	messages int    // outstanding
	bytes    int
	queue    []proto.Message // waits behind a batch that has no credit
	queued   int             // bytes in queue
	borrowed int             // bytes of the node's budget
	eager    bool            // the receiver was asked to give back at once

	returned   uint32 // batches and bytes that the receiver has consumed, as it said
	returnedOf uint64
	heard      bool // a Credit came since the last ask
	ended      bool // EndOfPartition was sent
	confirmed  bool // and has arrived
}

// full reports whether no batch may be sent now. An oversize batch may go when
// nothing is outstanding.
func (c *outputChannel) full() bool {
	return c.messages > 0 && (c.messages >= windowMessages || c.bytes >= windowBytes)
}

// room reports whether a batch of n bytes may leave now, and borrows for it: one
// batch may always be outstanding, more within the window and the node's budget.
// Where that is used up the receiver may not keep back what it has consumed.
func (o *outputs) room(c *outputChannel, n int) bool {
	switch {
	case c.messages == 0:
		return true
	case c.full():
		return false
	case o.budget.borrow(n):
		c.borrowed += n
		return true
	}
	if !c.eager {
		c.eager = true
		c.route.Send(&messages.ChannelRequest{Attempt: o.attempt, Input: c.receiver, Eager: true})
	}
	return false
}

// repay gives back to the node's budget what the receiver has consumed.
func (o *outputs) repay(c *outputChannel, n int) {
	n = min(n, c.borrowed)
	c.borrowed -= n
	o.budget.repay(n)
}

// repayAll gives back everything: the task has ended.
func (o *outputs) repayAll() {
	for i := range o.channels {
		o.repay(&o.channels[i], o.channels[i].borrowed)
	}
}

func (c *outputChannel) starving() bool { return !c.open || len(c.queue) > 0 || c.full() }

func newOutputs(self *system.Self, pool *Pool, d *messages.Deploy, yield *operator.Yield) *outputs {
	o := &outputs{self: self, pool: pool, attempt: d.Fence.Attempt, yield: yield,
		channels: make([]outputChannel, len(d.Outputs)), fail: func(error) {}}
	counts := make([]int, len(d.Edges))
	for i, out := range d.Outputs {
		o.channels[i] = outputChannel{
			route:    self.System.Route(self.Address, protocol.Address(out.Receiver)),
			receiver: out.ReceiverChannel,
		}
		counts[out.Edge]++
	}
	o.starved = len(o.channels)
	yield.Full = o.starved > 0
	next := 0
	for i, e := range d.Edges {
		first := next
		next += counts[i]
		o.first = append(o.first, first)
		o.edges = append(o.edges, operator.NewEdgeWriter(e, counts[i], int(d.Vertex.MaxParallelism), batchBytes,
			func(channel int) { o.cut(i, channel) }))
	}
	return o
}

// request asks the receivers for a Credit that this task waits for: whether they
// are there, and later what they have consumed, if none has come since the last
// time. What it stands for may have been lost.
func (o *outputs) request() {
	for i := range o.channels {
		c := &o.channels[i]
		if !c.open || c.messages > 0 && !c.heard {
			c.route.Send(&messages.ChannelRequest{Attempt: o.attempt, Input: c.receiver, Eager: c.eager})
		}
		c.heard = false
	}
}

// repeatEnds sends again each last message that was not confirmed, and reports
// whether there was one. It has its number still: the receiver takes it once.
func (o *outputs) repeatEnds() (some bool) {
	for i := range o.channels {
		if c := &o.channels[i]; c.ended && !c.confirmed {
			some = true
			c.route.Send(&messages.EndOfPartition{Attempt: o.attempt, Channel: c.receiver, Seq: c.seq})
		}
	}
	return some
}

// endsConfirmed reports whether every last message that was sent has arrived.
func (o *outputs) endsConfirmed() bool {
	for i := range o.channels {
		if c := &o.channels[i]; c.ended && !c.confirmed {
			return false
		}
	}
	return true
}

// cut sends the batch that a channel's builder has gathered, or queues it.
func (o *outputs) cut(edge, channel int) {
	b := &o.edges[edge].Builders[channel]
	if b.Len() == 0 {
		return
	}
	m := o.pool.Get()
	b.Cut(m)
	o.put(o.first[edge]+channel, m)
}

// put sends a message in order: behind what is queued, batches only with credit.
func (o *outputs) put(channel int, m proto.Message) {
	c := &o.channels[channel]
	was := c.starving()
	batch, isBatch := m.(*messages.RecordBatch)
	if isBatch {
		o.sent.records += uint64(batch.Count)
		o.sent.bytes += uint64(len(batch.Data))
	}
	if !c.open || len(c.queue) > 0 || isBatch && !o.room(c, len(batch.Data)) {
		c.queue = append(c.queue, m)
		if b, ok := m.(*messages.Barrier); ok { // its age grows while it waits: see credit
			b.AgeMs -= o.self.System.Clock().MonotonicMs()
		}
		if isBatch {
			c.queued += len(batch.Data)
			if c.queued > overdrawBytes {
				o.fail(fmt.Errorf("one record or timer emitted more than %d bytes while the receiver %s had no room; emit fewer or smaller records per call", overdrawBytes, c.route.To()))
			}
		}
	} else {
		o.send(c, m)
	}
	o.account(was, c)
}

// account keeps Yield.Full equal to "some channel has no room".
func (o *outputs) account(was bool, c *outputChannel) {
	switch is := c.starving(); {
	case is && !was:
		o.starved++
	case was && !is:
		o.starved--
	default:
		return
	}
	o.yield.Full = o.starved > 0
	o.pressure.note(o.yield.Full, o.self.System.Clock().MonotonicMs)
}

// send numbers the message as it leaves the queue and sends it.
func (o *outputs) send(c *outputChannel, m proto.Message) {
	c.seq++
	switch m := m.(type) {
	case *messages.RecordBatch:
		c.messages++
		c.bytes += len(m.Data)
		m.Attempt, m.Channel, m.Seq = o.attempt, c.receiver, c.seq
	case *messages.Barrier:
		m.Attempt, m.Channel, m.Seq = o.attempt, c.receiver, c.seq
	case *messages.CancelBarrier:
		m.Attempt, m.Channel, m.Seq = o.attempt, c.receiver, c.seq
	case *messages.Watermark:
		m.Attempt, m.Channel, m.Seq = o.attempt, c.receiver, c.seq
	case *messages.WatermarkIdle:
		m.Attempt, m.Channel, m.Seq = o.attempt, c.receiver, c.seq
	case *messages.EndOfData:
		m.Attempt, m.Channel, m.Seq = o.attempt, c.receiver, c.seq
	case *messages.EndOfPartition:
		m.Attempt, m.Channel, m.Seq = o.attempt, c.receiver, c.seq
		c.ended = true
	default:
		panic(protocol.Assertion(fmt.Sprintf("assertion failed: %T is not an in-band message", m)))
	}
	c.route.Send(m)
}

// credit takes in what a receiver gave back and sends what waited for it.
func (o *outputs) credit(m *messages.Credit) {
	c := &o.channels[m.Output]
	was := c.starving()
	c.open, c.heard, c.confirmed = c.open || m.Open, true, c.confirmed || m.Ended
	if n := int32(m.Messages - c.returned); n > 0 { // else it is older than the last one
		c.messages -= int(n)
		bytes := int(m.Bytes - c.returnedOf)
		c.bytes -= bytes
		o.repay(c, bytes)
		c.returned, c.returnedOf = m.Messages, m.Bytes
	}
	// It is so if the receiver has messages of another life of this task: a Deploy
	// was sent again, to a node that had been restarted meanwhile.
	protocol.Assert(c.messages >= 0 && c.bytes >= 0, "credit for output %d exceeds what is outstanding: %d messages, %d bytes", m.Output, c.messages, c.bytes)
	sent := 0
	for _, q := range c.queue {
		if !c.open {
			break
		}
		b, isBatch := q.(*messages.RecordBatch)
		if isBatch && !o.room(c, len(b.Data)) {
			break
		}
		if isBatch {
			c.queued -= len(b.Data)
		}
		if b, ok := q.(*messages.Barrier); ok {
			b.AgeMs += o.self.System.Clock().MonotonicMs()
		}
		o.send(c, q)
		sent++
	}
	if sent > 0 {
		n := copy(c.queue, c.queue[sent:])
		clear(c.queue[n:])
		c.queue = c.queue[:n]
	}
	o.account(was, c)
}

// flush cuts every half-filled batch.
func (o *outputs) flush() {
	for e := range o.edges {
		for c := range o.edges[e].Builders {
			o.cut(e, c)
		}
	}
}

// halfFilled reports whether some builder holds records.
func (o *outputs) halfFilled() bool {
	for e := range o.edges {
		for c := range o.edges[e].Builders {
			if o.edges[e].Builders[c].Len() > 0 {
				return true
			}
		}
	}
	return false
}

// broadcast flushes and then sends a message, made by each call of make, to
// every channel.
func (o *outputs) broadcast(make func() proto.Message) {
	o.flush()
	for c := range o.channels {
		o.put(c, make())
	}
}

// drained reports whether every message has left its queue.
func (o *outputs) drained() bool {
	for i := range o.channels {
		if len(o.channels[i].queue) > 0 {
			return false
		}
	}
	return true
}

// consumed reports whether the receivers have consumed every batch.
func (o *outputs) consumed() bool {
	for i := range o.channels {
		if o.channels[i].messages > 0 || len(o.channels[i].queue) > 0 {
			return false
		}
	}
	return true
}
