package transport

import (
	"errors"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"cutwater/messages"
	"cutwater/messages/describe"
)

// soon is how fast a loss must be told: far below what any time-out would take here,
// and far above the milliseconds that it takes, for the sake of a busy machine.
const soon = 2 * time.Second

// withinSoon fails if this took longer than a signal does.
func withinSoon(t *testing.T, began time.Time) {
	t.Helper()
	if took := time.Since(began); took > soon {
		t.Errorf("it was told after %v", took)
	}
}

// connect sends a message in each direction of each lane.
func connect(t *testing.T, a, b *node) {
	t.Helper()
	a.Send(to(a.name), to(b.name), heartbeat(0))
	a.Send(to(a.name), to(b.name), batch(0, "x"))
	b.Send(to(b.name), to(a.name), heartbeat(0))
	b.Send(to(b.name), to(a.name), batch(0, "x"))
	for range 2 {
		a.receive()
		b.receive()
	}
}

// A data connection that breaks is told on both ends at once, and only as that; what
// is sent afterwards goes over a new one.
func TestBrokenData(t *testing.T) {
	modes(t, func(t *testing.T, change func(*Options)) {
		_, a, b := pair(t, change)
		a.Send(to(nodeA), to(nodeB), batch(0, "x"))
		b.receive()
		for i := range uint64(5) {
			broken := time.Now()
			if i%2 == 0 {
				a.breakConnections(Data, nodeB)
			} else {
				b.breakConnections(Data, nodeA)
			}
			for _, n := range []*node{a, b} {
				other := map[*node]string{a: nodeB, b: nodeA}[n]
				if l := n.lostNext(); l.node != other || l.lane != Data || !errors.Is(l.err, ErrBroken) {
					t.Errorf("%s was told %v", n.name, l)
				}
			}
			withinSoon(t, broken)
			a.Send(to(nodeA), to(nodeB), batch(i, "again"))
			if m := b.receive().m.(*messages.RecordBatch); m.Seq != i || string(m.Data) != "again" {
				t.Errorf("delivered %s", describe.Text(m))
			}
		}
		a.noLoss()
		b.noLoss()
		if c := a.Counts().Data; c.Reconnected != 5 {
			t.Errorf("counted %+v", c)
		}
	})
}

// A control connection that breaks is made again at once, though nothing waits for it,
// and nobody is told.
func TestBrokenControl(t *testing.T) {
	modes(t, func(t *testing.T, change func(*Options)) {
		_, a, b := pair(t, change)
		connect(t, a, b)
		for i := range uint64(5) {
			a.breakConnections(Control, nodeB)
			a.until("it connects again", func(c Counts) bool { return c.Control.Reconnected > i })
			a.Send(to(nodeA), to(nodeB), heartbeat(i+1))
			if m := b.receive().m.(*messages.Heartbeat); m.Number != i+1 {
				t.Errorf("delivered %s", describe.Text(m))
			}
		}
		a.noLoss()
		b.noLoss()
	})
}

// The death of a process is told once, at once, with the data that it takes along.
func TestKill(t *testing.T) {
	modes(t, func(t *testing.T, change func(*Options)) {
		_, a, b := pair(t, change)
		connect(t, a, b)
		killed := time.Now()
		b.kill()
		ended := 0
		for ended == 0 {
			switch l := a.lostNext(); {
			case l.lane == Control && errors.Is(l.err, ErrEnded) && l.node == nodeB:
				ended++
			case l.lane == Data && l.node == nodeB:
			default:
				t.Errorf("told %v", l)
			}
		}
		withinSoon(t, killed)
		// What is sent to it now changes nothing.
		for range 5 {
			a.Send(to(nodeA), to(nodeB), heartbeat(1))
		}
		a.until("the messages are dropped", func(c Counts) bool { return c.Control.QueueBytes == 0 && c.Control.Dropped >= 5 })
		for len(a.losses) > 0 {
			if l := <-a.losses; l.lane == Control {
				t.Errorf("told again: %v", l)
			}
		}
	})
}

// Who only receives from a node learns of its death too, by dialling it.
func TestKillOfSender(t *testing.T) {
	_, a, b := pair(t, nil)
	a.Send(to(nodeA), to(nodeB), heartbeat(0))
	b.receive()
	killed := time.Now()
	a.kill()
	if l := b.lostNext(); l.node != nodeA || l.lane != Control || !errors.Is(l.err, ErrEnded) {
		t.Errorf("told %v", l)
	}
	withinSoon(t, killed)
}

// A node that comes back at the same ports is another start: the old one has ended,
// and gets no mail; the new one does.
func TestRestart(t *testing.T) {
	modes(t, func(t *testing.T, change func(*Options)) {
		c, a, b := pair(t, change)
		connect(t, a, b)
		b.kill()
		const next = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb.2"
		again := c.open(next, b.where, change)
		for {
			l := a.lostNext()
			if l.node != nodeB {
				t.Errorf("told %v", l)
			}
			if l.lane == Control {
				if !errors.Is(l.err, ErrEnded) {
					t.Errorf("told %v", l)
				}
				break
			}
		}
		a.Send(to(nodeA), to(nodeB), batch(1, "for the dead"))
		if l := a.lostNext(); l.lane != Data || !errors.Is(l.err, ErrEnded) {
			for l.lane != Data || !errors.Is(l.err, ErrEnded) { // of the connection before
				l = a.lostNext()
			}
		}
		a.Send(to(nodeA), to(next), batch(2, "for the living"))
		if m := again.receive().m.(*messages.RecordBatch); m.Seq != 2 {
			t.Errorf("delivered %s", describe.Text(m))
		}
	})
}

// A node that is closed has left, which is told once, and nothing is lost. What it
// sent before arrives.
func TestGoodbye(t *testing.T) {
	modes(t, func(t *testing.T, change func(*Options)) {
		_, a, b := pair(t, change)
		connect(t, a, b)
		const count = 100
		for i := range uint64(count) {
			a.Send(to(nodeA), to(nodeB), heartbeat(i))
			a.Send(to(nodeA), to(nodeB), batch(i, "last words"))
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		for range 2 * count {
			b.receive()
		}
		if l := b.lostNext(); l.node != nodeA || l.lane != Control || !errors.Is(l.err, ErrLeft) {
			t.Errorf("told %v", l)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		b.noLoss()
		a.noLoss()
	})
}

// Each batch is given back once, wherever connections break, and what is delivered is
// in order in each run without a loss.
func TestBatchesUnderBreaks(t *testing.T) {
	var taken, given atomic.Int64
	const count = 3000
	_, a, b := pair(t, func(o *Options) {
		o.Release = func(b *messages.RecordBatch) {
			if !atomic.CompareAndSwapUint32(&b.References, 1, 0) {
				t.Errorf("batch %d was given back with %d references", b.Seq, b.References)
			}
			given.Add(1)
		}
		o.Batch = func(int) *messages.RecordBatch { taken.Add(1); return &messages.RecordBatch{References: 1} }
	})
	data := make([]byte, 10_000)
	last := uint64(0)
	check := func(d delivery) {
		m := d.m.(*messages.RecordBatch)
		if m.Seq <= last {
			t.Fatalf("batch %d came after %d", m.Seq, last)
		}
		last = m.Seq
		b.options.Release(m)
	}
	for i := range uint64(count) {
		taken.Add(1)
		a.Send(to(nodeA), to(nodeB), &messages.RecordBatch{Seq: i + 1, References: 1, Data: data})
		if i%300 == 299 {
			check(b.receive()) // so that there is a connection
			a.breakConnections(Data, nodeB)
		}
	}
	for _, n := range []*node{a, b} {
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for len(b.delivered) > 0 {
		check(<-b.delivered)
	}
	if given.Load() != taken.Load() {
		t.Errorf("%d of %d batches were given back", given.Load(), taken.Load())
	}
	if len(a.losses) == 0 || len(b.losses) == 0 {
		t.Error("no loss was told")
	}
}

// A network that is cut is no death: data is lost, and told; when it heals all goes on.
func TestCut(t *testing.T) {
	var cut atomic.Bool
	_, a, b := pair(t, func(o *Options) {
		o.Cut = func(netip.AddrPort) bool { return cut.Load() }
	})
	connect(t, a, b)
	cut.Store(true)
	a.Send(to(nodeA), to(nodeB), batch(1, "x"))
	a.Send(to(nodeA), to(nodeB), heartbeat(1))
	if l := a.lostNext(); l.lane != Data || l.node != nodeB {
		t.Errorf("told %v", l)
	}
	if l := b.lostNext(); l.lane != Data || l.node != nodeA {
		t.Errorf("told %v", l)
	}
	a.until("control is broken", func(c Counts) bool { return c.Control.Dropped == 1 })
	cut.Store(false)
	connect(t, a, b)
	for _, n := range []*node{a, b} {
		for len(n.losses) > 0 {
			if l := <-n.losses; l.lane == Control {
				t.Errorf("%s was told %v", n.name, l)
			}
		}
	}
}

// What waits for control is bounded; the newest is dropped, the oldest arrives.
func TestControlQueueIsBounded(t *testing.T) {
	c := newCluster(t)
	a := c.open(nodeA, Location{}, nil)
	text := string(make([]byte, 1<<20))
	const count = 20
	for i := range uint64(count) {
		a.Send(to(nodeA), to(nodeB), &messages.Heartbeat{Number: i, Node: text})
	}
	counts := a.Counts().Control
	if want := uint64(count - MaxControlQueueBytes>>20 + 1); counts.Dropped != want || counts.QueueBytes > MaxControlQueueBytes {
		t.Errorf("dropped %d, want %d; %d bytes wait", counts.Dropped, want, counts.QueueBytes)
	}
	b := c.open(nodeB, Location{}, nil)
	for i := range count - counts.Dropped {
		if m := b.receive().m.(*messages.Heartbeat); m.Number != i {
			t.Errorf("number %d came as %d", m.Number, i)
		}
	}
	a.until("the queue is empty", func(c Counts) bool { return c.Control.QueueBytes == 0 })
	if got := a.log.count("too much waits"); got != 1 {
		t.Errorf("it was logged %d times", got)
	}
	a.noLoss()
}

// A batch that is too large to travel breaks the lane, on both ends: nothing may be
// missing between two others.
func TestDataThatCannotTravel(t *testing.T) {
	_, a, b := pair(t, nil)
	connect(t, a, b)
	a.Send(to(nodeA), to(nodeB), &messages.RecordBatch{Data: make([]byte, MaxFrameBytes)})
	if l := a.lostNext(); l.lane != Data || !errors.Is(l.err, errTooLarge) {
		t.Errorf("told %v", l)
	}
	if l := b.lostNext(); l.lane != Data || !errors.Is(l.err, ErrBroken) {
		t.Errorf("told %v", l)
	}
	a.Send(to(nodeA), to(nodeB), batch(7, "x"))
	if m := b.receive().m.(*messages.RecordBatch); m.Seq != 7 {
		t.Errorf("delivered %s", describe.Text(m))
	}
}

// Where nobody listened a node may appear after all, as behind a firewall that refused
// for it: it is connected again, and its death is told again.
func TestBackAfterRefusal(t *testing.T) {
	c := newCluster(t)
	a := c.open(nodeA, Location{}, nil)
	control, data := listen(t, "127.0.0.1:0"), listen(t, "127.0.0.1:0")
	where := Location{Control: addrPort(control.Addr()), Data: addrPort(data.Addr())}
	if err := errors.Join(control.Close(), data.Close()); err != nil {
		t.Fatal(err)
	}
	c.place(nodeB, where)
	a.Send(to(nodeA), to(nodeB), heartbeat(1))
	for range 3 {
		if l := a.lostNext(); l.lane != Control || !errors.Is(l.err, ErrEnded) {
			t.Errorf("told %v", l)
		}
		a.untilIdle(nodeB, Control)
		a.Send(to(nodeA), to(nodeB), heartbeat(1)) // it is known already
		a.untilIdle(nodeB, Control)
		a.noLoss()
		b := c.open(nodeB, where, nil)
		a.Send(to(nodeA), to(nodeB), heartbeat(2))
		if m := b.receive().m.(*messages.Heartbeat); m.Number != 2 {
			t.Errorf("delivered %s", describe.Text(m))
		}
		b.kill()
	}
}
