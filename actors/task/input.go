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
	messages uint32        // consumed, not yet given back
	bytes    uint64
	ended    bool
}

// open tells the sender of a channel that this task is there.
func (in *inputs) open(channel uint32) {
	c := &in.channels[channel]
	c.route.Send(&messages.Credit{Attempt: in.attempt, Output: c.output, Open: true})
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
	if c.messages >= windowMessages/2 || c.bytes >= windowBytes/2 || c.ended {
		in.giveBack(c)
	}
}

func (in *inputs) giveBack(c *inputChannel) {
	if c.messages == 0 {
		return
	}
	c.route.Send(&messages.Credit{Attempt: in.attempt, Output: c.output, Messages: c.messages, Bytes: c.bytes})
	c.messages, c.bytes = 0, 0
}

// end marks a channel's last message and settles its credit.
func (in *inputs) end(channel uint32) {
	c := &in.channels[channel]
	c.ended = true
	in.giveBack(c)
}
