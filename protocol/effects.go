package protocol

import "google.golang.org/protobuf/proto"

// Effects is what a Step asks of its shell. The order of the fields is the order
// in which a shell carries them out. The slices are reused by the machine's next
// Step: a shell must not keep them.
type Effects struct {
	// Work is input and output for the Executor. Its answer is a WorkDone with
	// the same operation id.
	Work []Work
	// Send delivers messages to logical addresses.
	Send []Send
	// Timers are armed or cancelled with the timer actor.
	Timers []Timer
	// Events feed logs, metrics, statistics and golden tests.
	Events []Event
	// Fail, if set, ends the machine: the shell reports it as its failure.
	Fail error
}

// Work is one operation for the Executor. Task says what to do (see
// messages/proto/work.proto); Op is unique within the machine.
type Work struct {
	Op   uint64
	Task proto.Message
}

// Send is one message to a logical address.
type Send struct {
	To      Address
	Message proto.Message
}

// Address is a logical address; only the shell knows where it is. The forms are
// "coordinator/<job>", "task/<job>/<vertex>/<subtask>/<attempt>",
// "taskmanager/<node>" and "timer/<node>".
type Address string

// Timer arms the timer Key to fire after DelayMs with Generation, or cancels it.
// Arming a key again replaces it; a machine ignores a generation that is not the
// latest one of the key.
type Timer struct {
	Key        string
	Generation uint64
	DelayMs    int64
	Cancel     bool
}

// Event is something that happened, for people: a typed value whose String is
// one line.
type Event interface{ String() string }

// Reset empties the effects and keeps the memory.
func (e *Effects) Reset() {
	e.Work, e.Send, e.Timers, e.Events, e.Fail = e.Work[:0], e.Send[:0], e.Timers[:0], e.Events[:0], nil
}

// Append adds the effects of a machine inside this one, in order.
func (e *Effects) Append(inner *Effects) {
	e.Work = append(e.Work, inner.Work...)
	e.Send = append(e.Send, inner.Send...)
	e.Timers = append(e.Timers, inner.Timers...)
	e.Events = append(e.Events, inner.Events...)
	if e.Fail == nil {
		e.Fail = inner.Fail
	}
}
