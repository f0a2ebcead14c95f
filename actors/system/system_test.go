package system

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"cutwater/messages"
	"cutwater/protocol"
)

// probe is a handler that keeps what it gets and knows whether it was stopped.
type probe struct {
	self    *Self
	got     []proto.Message
	stopped bool
}

func (p *probe) Started(self *Self)      { p.self = self }
func (p *probe) Stopped()                { p.stopped = true }
func (p *probe) Receive(m proto.Message) { p.got = append(p.got, m) }

// wire is a transport that keeps what is sent over it.
type wire struct{ to []protocol.Address }

func (w *wire) Send(_, to protocol.Address, _ proto.Message) { w.to = append(w.to, to) }

// byHand makes a system whose turns the test takes.
func byHand(t *testing.T) (*System, *steps, *wire) {
	t.Helper()
	pool := NewPool(1)
	t.Cleanup(pool.Close)
	d, w := &steps{}, &wire{}
	return New(Options{Node: "n1", Clock: NewWallClock(), Executor: pool, Dispatcher: d, Transport: w}), d, w
}

func spawn(t *testing.T, s *System, name string) *probe {
	t.Helper()
	p := &probe{}
	if _, err := s.Spawn(name, p, NewMailbox(0, nil)); err != nil {
		t.Fatal(err)
	}
	return p
}

// A message for another node goes to the transport, directly and by a route; one
// for this node to the actor.
func TestWhereMessagesGo(t *testing.T) {
	s, d, w := byHand(t)
	p := spawn(t, s, "a")
	d.run()
	p.self.Send("n1|a", &messages.Credit{})
	p.self.Send("n2|a", &messages.Credit{})
	s.Route("n1|x", "n1|a").Send(&messages.Credit{})
	s.Route("n1|x", "n2|b").Send(&messages.Credit{})
	d.run()
	if len(p.got) != 2 || len(w.to) != 2 || w.to[0] != "n2|a" || w.to[1] != "n2|b" || s.Undelivered() != 0 {
		t.Errorf("the actor got %d messages, the transport %v, %d were undelivered", len(p.got), w.to, s.Undelivered())
	}
}

// What is sent to an actor that has stopped is dropped, and counted where it must
// be looked up.
func TestStoppedActor(t *testing.T) {
	s, d, _ := byHand(t)
	p := spawn(t, s, "a")
	route := s.Route("n1|x", "n1|a")
	route.Send(&messages.Credit{})
	d.run()
	p.self.Stop()
	d.run()
	s.Send("n1|x", "n1|a", &messages.Credit{})
	route.Send(&messages.Credit{}) // it knows the actor's mailbox
	d.run()
	if !p.stopped || len(p.got) != 1 || s.Undelivered() != 1 {
		t.Errorf("stopped %t, got %d messages, %d undelivered", p.stopped, len(p.got), s.Undelivered())
	}
	spawn(t, s, "a") // the name is free
}

// An actor that panics is stopped, not restarted, and its name is free.
func TestPanickingActor(t *testing.T) {
	s, d, _ := byHand(t)
	p := &bomb{}
	if _, err := s.Spawn("a", p, NewMailbox(0, nil)); err != nil {
		t.Fatal(err)
	}
	s.Send("n1|x", "n1|a", &messages.Credit{})
	s.Send("n1|x", "n1|a", &messages.Credit{})
	d.run()
	if p.received != 1 || !p.stopped {
		t.Errorf("it received %d messages, stopped %t", p.received, p.stopped)
	}
	spawn(t, s, "a")
}

type bomb struct {
	received int
	stopped  bool
}

func (b *bomb) Started(*Self) {}
func (b *bomb) Stopped()      { b.stopped = true }
func (b *bomb) Receive(proto.Message) {
	b.received++
	panic("boom")
}

// StopAll stops every actor, and none is started after it.
func TestStopAll(t *testing.T) {
	s, d, _ := byHand(t)
	a, b := spawn(t, s, "a"), spawn(t, s, "b")
	d.run()
	s.StopAll()
	if r := s.Running(); len(r) != 2 || r[0] != "n1|a" || stopped(s) {
		t.Errorf("before they had a turn %v run, all stopped: %t", r, stopped(s))
	}
	d.run()
	if !a.stopped || !b.stopped || !stopped(s) || len(s.Running()) != 0 {
		t.Errorf("stopped: %t, %t, all: %t, running %v", a.stopped, b.stopped, stopped(s), s.Running())
	}
	s.StopAll() // nothing is left to stop
	if _, err := s.Spawn("c", &probe{}, NewMailbox(0, nil)); err == nil {
		t.Error("an actor was started on a node that stops")
	}
}

// stopped tells whether AllStopped is closed.
func stopped(s *System) bool {
	select {
	case <-s.AllStopped():
		return true
	default:
		return false
	}
}

// A node without actors has stopped at once; one whose actor ended before, or could
// not be started, does not wait for it, and one that panics at its end counts once.
func TestAllStopped(t *testing.T) {
	s, d, _ := byHand(t)
	p := spawn(t, s, "a")
	if _, err := s.Spawn("a", &probe{}, NewMailbox(0, nil)); err == nil {
		t.Fatal("a name was given twice")
	}
	if _, err := s.Spawn("b", badEnd{}, NewMailbox(0, nil)); err != nil {
		t.Fatal(err)
	}
	d.run()
	p.self.Stop()
	d.run()
	if stopped(s) {
		t.Error("all have stopped, and nobody asked")
	}
	s.StopAll()
	d.run()
	if !stopped(s) {
		t.Errorf("it waits for %v", s.Running())
	}
	if s, _, _ := byHand(t); !stoppedAtOnce(s) {
		t.Error("a system without actors has not stopped")
	}
}

func stoppedAtOnce(s *System) bool {
	s.StopAll()
	return stopped(s)
}

// badEnd panics at its end.
type badEnd struct{}

func (badEnd) Started(*Self)         {}
func (badEnd) Receive(proto.Message) {}
func (badEnd) Stopped()              { panic("at the end") }

// After Abandon nothing reaches the actors, and they are not told to stop.
func TestAbandon(t *testing.T) {
	s, d, _ := byHand(t)
	p := spawn(t, s, "a")
	d.run()
	s.Abandon()
	s.Send("n1|x", "n1|a", &messages.Credit{})
	d.run()
	if p.stopped || len(p.got) != 0 || s.Undelivered() != 1 {
		t.Errorf("stopped %t, got %d messages, %d undelivered", p.stopped, len(p.got), s.Undelivered())
	}
}

// Systems that share the actor library's do not see each other's actors.
func TestPrefix(t *testing.T) {
	pool := NewPool(1)
	defer pool.Close()
	actors, d := NewActors(), &steps{}
	one := New(Options{Node: "n1", Clock: NewWallClock(), Executor: pool, Dispatcher: d, Actors: actors, Prefix: "1:"})
	two := New(Options{Node: "n1", Clock: NewWallClock(), Executor: pool, Dispatcher: d, Actors: actors, Prefix: "2:"})
	a, b := spawn(t, one, "a"), spawn(t, two, "a")
	two.Send("n1|x", "n1|a", &messages.Credit{})
	d.run()
	if len(a.got) != 0 || len(b.got) != 1 {
		t.Errorf("the first got %d messages, the second %d", len(a.got), len(b.got))
	}
}

// The longest queue is found, so that one without a bound is noticed.
func TestLongestQueue(t *testing.T) {
	d := &steps{}
	pool := NewPool(1)
	defer pool.Close()
	s := New(Options{Node: "n1", Clock: NewWallClock(), Executor: pool, Dispatcher: d})
	for _, name := range []string{"b", "a", "c"} {
		if _, err := s.Spawn(name, &counting{want: -1}, NewMailbox(0, nil)); err != nil {
			t.Fatal(err)
		}
	}
	d.run()
	for _, to := range []string{"a", "b", "b", "c", "c"} {
		s.Deliver(s.Address(to), &messages.Credit{})
	}
	if who, n := s.LongestQueue(); who != "n1|b" || n != 2 {
		t.Errorf("%d messages wait for %s, want 2 for n1|b", n, who)
	}
	d.run()
	if _, n := s.LongestQueue(); n != 0 {
		t.Errorf("%d messages wait after all were handled", n)
	}
	s.StopAll()
	d.run()
}

// inline is a dispatcher that gives a turn at once, so that an actor can run, and
// end, before Spawn returns.
type inline struct{}

func (inline) Schedule(f func()) { f() }
func (inline) Throughput() int   { return 100 }

// brief stops as soon as it has started.
type brief struct{ probe }

func (b *brief) Started(self *Self) {
	b.self = self
	self.Stop()
}

// An actor that ends before Spawn returns leaves nothing behind, and its name is
// free again.
func TestEndsBeforeSpawnReturns(t *testing.T) {
	s := New(Options{Node: "n1", Clock: NewWallClock(), Dispatcher: inline{}})
	for range 3 {
		b := &brief{}
		if _, err := s.Spawn("a", b, NewMailbox(0, nil)); err != nil || !b.stopped {
			t.Fatalf("stopped %v, %v", b.stopped, err)
		}
	}
	if len(s.spawned) != 0 {
		t.Errorf("%d actors are listed that have ended", len(s.spawned))
	}
}

// An actor whose start crosses StopAll is stopped, too.
func TestSpawnCrossesStopAll(t *testing.T) {
	s := New(Options{Node: "n1", Clock: NewWallClock(), Dispatcher: inline{}})
	p := &crossing{stop: s.StopAll}
	if _, err := s.Spawn("a", p, NewMailbox(0, nil)); err != nil || !p.stopped {
		t.Errorf("stopped %v, %v", p.stopped, err)
	}
}

type crossing struct {
	probe
	stop func()
}

func (c *crossing) Started(*Self) { c.stop() }
