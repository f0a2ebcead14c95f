// Package systemtest runs actors by hand: a test takes their turns, does their
// work, moves their clock, and sees what they send to other nodes. Nothing happens
// on its own, so a test that passes always passes.
package systemtest

import (
	"context"

	"google.golang.org/protobuf/proto"

	"cutwater/actors/system"
	"cutwater/protocol"
)

// Rig is all seams of one node at once. It is used by one goroutine.
type Rig struct {
	// System is the node; spawn the actors under test on it.
	System *system.System
	// Sent is what actors sent to other nodes, in order.
	Sent []Sent
	// Work is what the Executor was given and has not run.
	Work []func()

	nowMs  int64
	setMs  int64 // how far the wall clock was set from where it was
	ready  []func()
	alarms []alarm
}

// Sent is one message that left the node.
type Sent struct {
	To      protocol.Address
	Message proto.Message
}

type alarm struct {
	atMs int64
	f    func()
}

// New makes a node of that name at time 1000.
func New(node string) *Rig {
	r := &Rig{nowMs: 1000}
	r.System = system.New(system.Options{Node: node, Clock: r, Executor: r, Dispatcher: r, Transport: r})
	return r
}

// NowMs implements system.Clock.
func (r *Rig) NowMs() int64 { return r.nowMs + r.setMs }

// MonotonicMs implements system.Clock.
func (r *Rig) MonotonicMs() int64 { return r.nowMs }

// AfterMs implements system.Clock; Advance calls f.
func (r *Rig) AfterMs(delayMs int64, f func()) (stop func()) {
	stopped := false
	r.alarms = append(r.alarms, alarm{r.nowMs + delayMs, func() {
		if !stopped {
			f()
		}
	}})
	return func() { stopped = true }
}

// Throughput of one: every message is a turn of its own.
func (r *Rig) Throughput() int { return 1 }

// Schedule keeps a turn for Turn.
func (r *Rig) Schedule(f func()) { r.ready = append(r.ready, f) }

// Run implements system.Executor; Settle does the work.
func (r *Rig) Run(name string, work func(context.Context) error, done func(error)) {
	r.Work = append(r.Work, func() { done(system.Guarded(context.Background(), name, work)) })
}

// Send implements system.Transport.
func (r *Rig) Send(_, to protocol.Address, m proto.Message) { r.Sent = append(r.Sent, Sent{to, m}) }

// Turn lets the oldest mailbox that is ready handle one message; it returns false
// if none is.
func (r *Rig) Turn() bool {
	if len(r.ready) == 0 {
		return false
	}
	f := r.ready[0]
	r.ready = r.ready[1:]
	f()
	return true
}

// Turns lets all mailboxes run dry; work stays outstanding.
func (r *Rig) Turns() {
	for r.Turn() {
	}
}

// Settle does all outstanding work, and what follows from it.
func (r *Rig) Settle() {
	for r.Turns(); len(r.Work) > 0; r.Turns() {
		f := r.Work[0]
		r.Work = r.Work[1:]
		f()
	}
}

// Advance lets so much time pass at once; what is due fires, and everything
// settles.
func (r *Rig) Advance(ms int64) {
	r.nowMs += ms
	due := r.alarms
	r.alarms = nil
	for _, a := range due {
		if a.atMs > r.nowMs {
			r.alarms = append(r.alarms, a)
			continue
		}
		a.f()
	}
	r.Settle()
}

// SetWall sets the wall clock so much forward or back; no time passes.
func (r *Rig) SetWall(ms int64) { r.setMs += ms }

// Deliver hands a message to a local actor, and everything settles.
func (r *Rig) Deliver(to protocol.Address, m proto.Message) {
	r.System.Deliver(to, m)
	r.Settle()
}

// Last returns the newest message of its type that left the node; ok is false if
// there is none.
func Last[M proto.Message](r *Rig) (m M, ok bool) {
	for i := len(r.Sent) - 1; i >= 0; i-- {
		if m, ok := r.Sent[i].Message.(M); ok {
			return m, true
		}
	}
	return m, false
}

// Take returns the messages of its type that left the node since the last Take of
// any type, and forgets all.
func Take[M proto.Message](r *Rig) []M {
	var list []M
	for _, s := range r.Sent {
		if m, ok := s.Message.(M); ok {
			list = append(list, m)
		}
	}
	r.Sent = nil
	return list
}
