package system

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	"cutwater/messages"
)

// steps is a dispatcher that runs one turn at a time, by hand.
type steps struct{ ready []func() }

func (s *steps) Throughput() int   { return 1 }
func (s *steps) Schedule(f func()) { s.ready = append(s.ready, f) }
func (s *steps) run() {
	for len(s.ready) > 0 {
		f := s.ready[0]
		s.ready = s.ready[1:]
		f()
	}
}

// log is an invoker that writes down what it is given.
type log struct{ lines []string }

func (l *log) InvokeSystemMessage(m any)    { l.add("system", m) }
func (l *log) InvokeUserMessage(m any)      { l.add("user", m) }
func (l *log) EscalateFailure(r any, _ any) { l.add("failure", r) }
func (l *log) add(kind string, m any) {
	switch m := m.(type) {
	case *messages.RecordBatch:
		l.lines = append(l.lines, fmt.Sprintf("batch %d.%d", m.Channel, m.Seq))
	case *messages.Credit:
		l.lines = append(l.lines, "credit")
	default:
		l.lines = append(l.lines, fmt.Sprint(kind, " ", m))
	}
}

func (l *log) take() string {
	s := strings.Join(l.lines, ", ")
	l.lines = nil
	return s
}

func newTestMailbox(channels int) (*Mailbox, *steps, *log) {
	m, d, l := NewMailbox(channels, nil), &steps{}, &log{}
	m.RegisterHandlers(l, d)
	m.Start()
	d.run()
	return m, d, l
}

// An actor has its address before it has a dispatcher: what others post meanwhile
// waits for Start, and the sender does not panic.
func TestPostedBeforeStart(t *testing.T) {
	m, d, l := NewMailbox(1, nil), &steps{}, &log{}
	m.PostUserMessage(&messages.Credit{})
	m.PostUserMessage(data(0, 1))
	m.Wake()
	m.RegisterHandlers(l, d)
	d.run()
	expect(t, l, "")
	m.Start()
	d.run()
	expect(t, l, "credit, batch 0.1")
}

func data(channel uint32, seq uint64) proto.Message {
	return &messages.RecordBatch{Channel: channel, Seq: seq}
}

func expect(t *testing.T, l *log, want string) {
	t.Helper()
	if got := l.take(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// System mail runs before control mail before channels, channels round robin,
// and the default action only when nothing else is there.
func TestOrder(t *testing.T) {
	m, d, l := newTestMailbox(2)
	runs := 2
	m.SetDefaultAction(func() bool {
		l.lines = append(l.lines, "default")
		runs--
		return runs > 0
	})
	m.PostUserMessage(data(0, 1))
	m.PostUserMessage(data(0, 2))
	m.PostUserMessage(data(1, 1))
	m.PostUserMessage(&messages.Credit{})
	m.PostSystemMessage("stop")
	m.Wake()
	d.run()
	expect(t, l, "system stop, credit, batch 0.1, batch 1.1, batch 0.2, default, default")
	d.run()
	expect(t, l, "")
	m.Wake()
	d.run()
	expect(t, l, "default")
}

// A blocked channel is held back and can be listed; unblocking lets it go on.
func TestBlock(t *testing.T) {
	m, d, l := newTestMailbox(130)
	m.Block(129)
	for _, c := range []uint32{129, 0, 64, 129} {
		m.PostUserMessage(data(c, 1))
	}
	d.run()
	expect(t, l, "batch 0.1, batch 64.1")
	if n := len(m.Queued(129)); n != 2 {
		t.Errorf("%d messages are queued on the blocked channel, want 2", n)
	}
	m.Unblock(129)
	d.run()
	expect(t, l, "batch 129.1, batch 129.1")
}

// While the channels are held, control mail and the default action run.
func TestHold(t *testing.T) {
	m, d, l := newTestMailbox(1)
	m.SetDefaultAction(func() bool { l.lines = append(l.lines, "default"); return false })
	m.Hold()
	m.PostUserMessage(data(0, 1))
	m.PostUserMessage(&messages.Credit{})
	m.Wake()
	d.run()
	expect(t, l, "credit, default")
	m.Release()
	d.run()
	expect(t, l, "batch 0.1")
}

// The waiting flag is up exactly while system or control mail waits.
func TestWaitingFlag(t *testing.T) {
	m, d, _ := newTestMailbox(1)
	m.PostUserMessage(data(0, 1))
	if m.waiting.Load() != 0 {
		t.Error("data raised the flag")
	}
	m.PostUserMessage(&messages.Credit{})
	if m.waiting.Load() != 1 {
		t.Error("control mail did not raise the flag")
	}
	d.run()
	if m.waiting.Load() != 0 {
		t.Error("the flag stayed up")
	}
}

// A message for a channel that does not exist reaches the owner instead of
// crashing the sender.
func TestUnknownChannel(t *testing.T) {
	m, d, l := newTestMailbox(1)
	m.PostUserMessage(data(7, 1))
	d.run()
	expect(t, l, "batch 7.1")
}

// The queue keeps order while it compacts its memory.
func TestQueueKeepsOrder(t *testing.T) {
	var q queue
	next, want := 0, 0
	for i := range 10_000 {
		q.push(next)
		next++
		if i%3 != 0 {
			if got := q.pop(); got != want {
				t.Fatalf("popped %v, want %d", got, want)
			}
			want++
		}
	}
	for ; !q.empty(); want++ {
		if got := q.pop(); got != want {
			t.Fatalf("popped %v, want %d", got, want)
		}
	}
}

// counting is a handler that counts, on real goroutines.
type counting struct {
	n    int
	want int
	done chan struct{}
}

func (c *counting) Started(*Self) {}
func (c *counting) Stopped()      {}
func (c *counting) Receive(proto.Message) {
	if c.n++; c.n == c.want {
		close(c.done)
	}
}

// Messages of many goroutines all arrive, one at a time (run with -race).
func TestConcurrentSenders(t *testing.T) {
	const senders, each = 8, 2000
	pool := NewPool(1)
	defer pool.Close()
	s := New(Options{Node: "n1", Clock: NewWallClock(), Executor: pool})
	c := &counting{want: senders * each, done: make(chan struct{})}
	if _, err := s.Spawn("counter", c, NewMailbox(senders, nil)); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range senders {
		wg.Go(func() {
			route := s.Route("n1|x", "n1|counter")
			for seq := range each {
				if seq%2 == 0 {
					route.Send(data(uint32(i), uint64(seq)))
				} else {
					s.Send("n1|x", "n1|counter", &messages.Credit{})
				}
			}
		})
	}
	wg.Wait()
	<-c.done
	s.Stop("n1|counter")
}

// A name is taken as long as its actor runs; mail for nobody is counted.
func TestNames(t *testing.T) {
	pool := NewPool(1)
	defer pool.Close()
	s := New(Options{Node: "n1", Clock: NewWallClock(), Executor: pool})
	c := &counting{want: 1, done: make(chan struct{})}
	if _, err := s.Spawn("a", c, NewMailbox(0, nil)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Spawn("a", c, NewMailbox(0, nil)); err == nil {
		t.Error("two actors have one name")
	}
	s.Send("n1|a", "n1|nobody", &messages.Credit{})
	if s.Undelivered() != 1 {
		t.Errorf("undelivered = %d, want 1", s.Undelivered())
	}
	s.StopAll()
}
