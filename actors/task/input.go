package task

import (
	"cutwater/actors/system"
	"cutwater/messages"
	"cutwater/protocol"
)

// inputs is the receiving side: it checks that no message of a channel is
// missing or repeated, and gives credit back.
type inputs struct {
	attempt  uint32
	channels []inputChannel
	stale    uint64
}

// inputChannel is one channel from one sender.
type inputChannel struct {
	route    *system.Route // back to the sender, for credit
	output   uint32        // the sender's number of the channel
	input    int           // the head operator's input
	next     uint64        // the sequence number that must come
	messages uint32        // consumed since the channel was opened
	bytes    uint64
	told     uint32 // of messages and bytes, what the sender was told
	toldOf   uint64
	ended    bool
	eager    bool // the sender is short of memory: give back at once
}

// open tells the sender of a channel that this task is there, and how far it is.
func (in *inputs) open(channel uint32) {
	c := &in.channels[channel]
	in.tell(c, &messages.Credit{Open: true})
}

// tell sends what was consumed in all, and whatever else the message says.
func (in *inputs) tell(c *inputChannel, m *messages.Credit) {
	m.Attempt, m.Output, m.Messages, m.Bytes = in.attempt, c.output, c.messages, c.bytes
	c.told, c.toldOf = c.messages, c.bytes
	c.route.Send(m)
}

// openAll tells every sender; one that is not there yet will ask.
func (in *inputs) openAll() {
	for c := range in.channels {
		in.open(uint32(c))
	}
}

func newInputs(self *system.Self, d *messages.Deploy) *inputs {
	in := &inputs{attempt: d.Fence.Attempt, channels: make([]inputChannel, len(d.Inputs))}
	for i, c := range d.Inputs {
		in.channels[i] = inputChannel{
			route:  self.System.Route(self.Address, protocol.Address(c.Sender)),
			output: c.SenderOutput,
			input:  int(c.Input),
			next:   1,
		}
	}
	return in
}

// inBand is what a message on a data channel has.
type inBand interface {
	GetAttempt() uint32
	GetChannel() uint32
	GetSeq() uint64
}

// accept checks an in-band message before anything looks at it. It is false for
// a message of another attempt, which is dropped and counted. A gap or a
// repetition is a broken promise of the transport and fails the task (rule 4).
func (in *inputs) accept(m inBand) bool {
	if m.GetAttempt() != in.attempt {
		in.stale++
		return false
	}
	protocol.Assert(int(m.GetChannel()) < len(in.channels), "message for channel %d of %d", m.GetChannel(), len(in.channels))
	c := &in.channels[m.GetChannel()]
	if m.GetSeq() != c.next {
		protocol.Assert(false, "channel %d: expected message %d, got %d: records were lost or repeated on the way", m.GetChannel(), c.next, m.GetSeq())
	}
	c.next++
	return true
}

// consumed counts a batch that was handled. Credit goes back when half of the
// window is used up, so that one Credit serves several batches.
func (in *inputs) consumed(channel uint32, bytes int) {
	c := &in.channels[channel]
	c.messages++
	c.bytes += uint64(bytes)
	if c.messages-c.told >= windowMessages/2 || c.bytes-c.toldOf >= windowBytes/2 || c.ended || c.eager {
		in.giveBack(c)
	}
}

func (in *inputs) giveBack(c *inputChannel) {
	if c.messages != c.told {
		in.tell(c, &messages.Credit{})
	}
}

// end marks a channel's last message and confirms it, each time that it comes.
func (in *inputs) end(channel uint32) {
	c := &in.channels[channel]
	c.ended = true
	in.tell(c, &messages.Credit{Ended: true})
}

// repeated reports whether a message repeats the last one of its channel.
func (in *inputs) repeated(m *messages.EndOfPartition) bool {
	return m.Attempt == in.attempt && int(m.Channel) < len(in.channels) && in.channels[m.Channel].ended && m.Seq == in.channels[m.Channel].next-1
}
