// Package timer is the timer actor, one per node: the only place that waits for
// a clock.
//
// It accepts SetTimer and CancelTimer from any actor and answers each armed
// timer once with TimerFired{key, generation}. Arming a key again replaces it.
// A TimerFired may cross a CancelTimer or a new SetTimer on its way, so owners
// compare the generation.
package timer

import (
	"google.golang.org/protobuf/proto"

	"cutwater/actors/system"
	"cutwater/messages"
	"cutwater/protocol"
)

// Name is the actor's name on every node.
const Name = "timer"

// Timer is the actor.
type Timer struct {
	self  *system.Self
	armed map[key]armed
}

type key struct{ owner, key string }

type armed struct {
	generation uint64
	stop       func()
}

// Spawn starts the node's timer actor.
func Spawn(s *system.System) error {
	_, err := s.Spawn(Name, &Timer{armed: map[key]armed{}}, system.NewMailbox(0, nil))
	return err
}

// Started implements system.Handler.
func (t *Timer) Started(self *system.Self) { t.self = self }

// Stopped disarms everything.
func (t *Timer) Stopped() {
	for _, a := range t.armed {
		a.stop()
	}
}

// Receive implements system.Handler.
func (t *Timer) Receive(m proto.Message) {
	switch m := m.(type) {
	case *messages.SetTimer:
		t.set(m)
	case *messages.CancelTimer:
		t.disarm(key{m.Owner, m.Key})
	case *messages.TimerFired:
		t.fire(m)
	}
}

func (t *Timer) set(m *messages.SetTimer) {
	k := key{m.Owner, m.Key}
	t.disarm(k)
	fired := &messages.TimerFired{Key: m.Key, Generation: m.Generation, Owner: m.Owner}
	stop := t.self.System.Clock().AfterMs(m.DelayMs, func() {
		t.self.System.Deliver(t.self.Address, fired)
	})
	t.armed[k] = armed{m.Generation, stop}
}

func (t *Timer) disarm(k key) {
	if a, ok := t.armed[k]; ok {
		a.stop()
		delete(t.armed, k)
	}
}

// fire passes on a timer that is still armed.
func (t *Timer) fire(m *messages.TimerFired) {
	k := key{m.Owner, m.Key}
	if a, ok := t.armed[k]; !ok || a.generation != m.Generation {
		return // cancelled or replaced after it fired
	}
	delete(t.armed, k)
	t.self.Send(protocol.Address(m.Owner), &messages.TimerFired{Key: m.Key, Generation: m.Generation})
}
