package task

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"cutwater/actors/system"
	"cutwater/messages"
	"cutwater/stream/operator"
)

// byHand is a dispatcher whose turns a test takes.
type byHand struct{ ready []func() }

func (d *byHand) Throughput() int   { return 1 }
func (d *byHand) Schedule(f func()) { d.ready = append(d.ready, f) }
func (d *byHand) run() {
	for len(d.ready) > 0 {
		f := d.ready[0]
		d.ready = d.ready[1:]
		f()
	}
}

// peer keeps what it receives.
type peer struct {
	self *system.Self
	got  []proto.Message
}

func (p *peer) Started(self *system.Self) { p.self = self }
func (p *peer) Stopped()                  {}
func (p *peer) Receive(m proto.Message)   { p.got = append(p.got, m) }

// channelPair is a sender's outputs and its receiver, over one channel.
type channelPair struct {
	d        *byHand
	out      *outputs
	yield    operator.Yield
	receiver *peer
	failed   error
}

// newChannelPair is a pair whose channel is open.
func newChannelPair(t *testing.T) *channelPair {
	t.Helper()
	c := newClosedPair(t)
	c.out.credit(&messages.Credit{Open: true})
	return c
}

func newClosedPair(t *testing.T) *channelPair {
	t.Helper()
	c := &channelPair{d: &byHand{}, receiver: &peer{}}
	pool := system.NewPool(1)
	t.Cleanup(pool.Close)
	s := system.New(system.Options{Node: "n", Clock: system.NewWallClock(), Executor: pool, Dispatcher: c.d})
	sender := &peer{}
	for name, p := range map[string]*peer{"sender": sender, "receiver": c.receiver} {
		if _, err := s.Spawn(name, p, system.NewMailbox(0, nil)); err != nil {
			t.Fatal(err)
		}
	}
	c.d.run()
	c.out = newOutputs(sender.self, &Pool{}, &messages.Deploy{
		Fence:   &messages.Fence{Attempt: 3},
		Vertex:  &messages.Vertex{MaxParallelism: 128},
		Edges:   []*messages.PlanEdge{{Partitioning: messages.Partitioning_FORWARD}},
		Outputs: []*messages.OutputChannel{{Edge: 0, Receiver: "n|receiver", ReceiverChannel: 5}},
	}, &c.yield)
	c.out.fail = func(err error) { c.failed = err }
	c.out.edges[0].Init(8)
	return c
}

// batch sends one batch with size bytes of text.
func (c *channelPair) batch(size int) {
	b := &c.out.edges[0].Builders[0]
	_, text := b.Next(1, 0)
	b.SetText(append(text, make([]byte, size)...))
	c.out.cut(0, 0)
}

// received returns the kinds and sequence numbers of what arrived since.
func (c *channelPair) received() string {
	c.d.run()
	var kinds []string
	for i, m := range c.receiver.got {
		b := m.(inBand)
		if b.GetAttempt() != 3 || b.GetChannel() != 5 {
			kinds = append(kinds, "wrong address")
		}
		if i > 0 && b.GetSeq() != c.receiver.got[i-1].(inBand).GetSeq()+1 {
			kinds = append(kinds, "gap")
		}
		kinds = append(kinds, string(m.ProtoReflect().Descriptor().Name()))
	}
	return strings.Join(kinds, " ")
}

// Without credit batches wait; control messages wait behind them and nothing
// overtakes; credit sends as much as it covers and lifts the stop.
func TestCredit(t *testing.T) {
	c := newChannelPair(t)
	for range windowMessages + 2 {
		c.batch(10)
	}
	c.out.broadcast(func() proto.Message { return &messages.Watermark{} })
	if got, want := c.received(), strings.TrimSpace(strings.Repeat("RecordBatch ", windowMessages)); got != want {
		t.Fatalf("got %s, want %s", got, want)
	}
	if !c.yield.Full || c.out.drained() || c.out.consumed() {
		t.Fatal("the output does not say that it has no room")
	}
	bytes := uint64(len(c.receiver.got[0].(*messages.RecordBatch).Data))
	c.out.credit(&messages.Credit{Messages: 1, Bytes: bytes})
	if got := c.received(); strings.HasSuffix(got, "Watermark") {
		t.Fatalf("the watermark overtook a batch: %s", got)
	}
	c.out.credit(&messages.Credit{Messages: 3, Bytes: 3 * bytes})
	if got := c.received(); !strings.HasSuffix(got, "RecordBatch Watermark") || strings.Contains(got, "gap") {
		t.Fatalf("got %s", got)
	}
	if c.yield.Full || !c.out.drained() || c.out.consumed() {
		t.Fatal("the output must have room again and outstanding batches")
	}
	c.out.credit(&messages.Credit{Messages: windowMessages + 2, Bytes: (windowMessages + 2) * bytes})
	if !c.out.consumed() {
		t.Fatal("everything was consumed")
	}
}

// Credit counts from the channel's opening: a later one makes up for one that was
// lost, and one that comes late or twice changes nothing.
func TestCreditIsATotal(t *testing.T) {
	c := newChannelPair(t)
	for range 4 {
		c.batch(10)
	}
	c.received()
	bytes := uint64(len(c.receiver.got[0].(*messages.RecordBatch).Data))
	for _, total := range []uint32{3, 1, 3} {
		c.out.credit(&messages.Credit{Messages: total, Bytes: uint64(total) * bytes})
		if got := c.out.channels[0].messages; got != 1 {
			t.Fatalf("%d batches are outstanding after the credit of %d, want 1", got, total)
		}
	}
}

// A sender that waits for credit asks for it again, and one that heard something
// since does not.
func TestCreditIsAskedFor(t *testing.T) {
	asks := func(c *channelPair) (n int) {
		c.receiver.got = nil
		c.out.request()
		c.d.run()
		for _, m := range c.receiver.got {
			if r, ok := m.(*messages.ChannelRequest); ok && r.Attempt == 3 && r.Input == 5 {
				n++
			}
		}
		return n
	}
	c := newClosedPair(t)
	if first, second := asks(c), asks(c); first != 1 || second != 1 {
		t.Error("it does not ask whether the receiver is there")
	}
	c.out.credit(&messages.Credit{Open: true})
	c.batch(10)
	if asks(c) != 0 {
		t.Error("it asks although a credit has just come")
	}
	if asks(c) != 1 {
		t.Error("it does not ask for the credit of its batch")
	}
	c.out.credit(&messages.Credit{Messages: 1, Bytes: uint64(c.out.channels[0].bytes)})
	if first, second := asks(c), asks(c); first != 0 || second != 0 {
		t.Error("it asks although nothing is outstanding")
	}
}

// The last message of a channel is repeated until it is confirmed. The receiver
// takes it once and confirms each, so that the loss of either heals.
func TestEndIsRepeated(t *testing.T) {
	c := newChannelPair(t)
	if c.out.repeatEnds() || !c.out.endsConfirmed() {
		t.Fatal("a channel that has not ended waits for a confirmation")
	}
	c.out.broadcast(func() proto.Message { return &messages.EndOfPartition{} })
	if !c.out.repeatEnds() || c.out.endsConfirmed() {
		t.Fatal("the end is not repeated")
	}
	c.d.run()
	first, second := c.receiver.got[0].(*messages.EndOfPartition), c.receiver.got[1].(*messages.EndOfPartition)
	if !proto.Equal(first, second) {
		t.Fatalf("the repetition of %v is %v", first, second)
	}
	in := &inputs{attempt: 3, channels: make([]inputChannel, 6)}
	in.channels[5] = inputChannel{next: 1, route: c.receiver.self.System.Route("n|receiver", "n|sender")}
	if in.repeated(first) || !in.accept(first) {
		t.Fatal("the end is not taken")
	}
	in.end(5)
	if !in.repeated(second) || in.repeated(&messages.EndOfPartition{Attempt: 3, Channel: 5, Seq: 2}) {
		t.Fatal("a repetition is not told from another message")
	}
	c.out.credit(&messages.Credit{Ended: true})
	if c.out.repeatEnds() || !c.out.endsConfirmed() {
		t.Fatal("the end is repeated after its confirmation")
	}
}

// Nothing leaves before the receiver has said that it is there; then everything
// leaves in order.
func TestClosedUntilOpened(t *testing.T) {
	c := newClosedPair(t)
	if !c.yield.Full {
		t.Fatal("records may flow before the receiver is there")
	}
	c.batch(1)
	c.out.broadcast(func() proto.Message { return &messages.Barrier{} })
	if got := c.received(); got != "" || c.out.drained() {
		t.Fatalf("got %q before the channel was opened", got)
	}
	c.out.credit(&messages.Credit{Open: true})
	if got := c.received(); got != "RecordBatch Barrier" || c.yield.Full {
		t.Fatalf("got %q", got)
	}
	c.out.credit(&messages.Credit{Open: true}) // both sides may have asked
	if got := c.received(); got != "RecordBatch Barrier" {
		t.Fatalf("got %q after a repetition", got)
	}
}

// Control messages need no credit.
func TestControlNeedsNoCredit(t *testing.T) {
	c := newChannelPair(t)
	for range windowMessages {
		c.batch(1)
	}
	c.out.broadcast(func() proto.Message { return &messages.Barrier{} })
	if got := c.received(); !strings.HasSuffix(got, " Barrier") {
		t.Fatalf("got %s", got)
	}
}

// A batch larger than the window goes when nothing is outstanding, and only then.
func TestOversizeBatch(t *testing.T) {
	c := newChannelPair(t)
	c.batch(2 * windowBytes)
	c.batch(1)
	if got := c.received(); got != "RecordBatch" {
		t.Fatalf("got %q, want one batch", got)
	}
}

// What one call may emit without room is bounded, and exceeding it is an error
// that names the receiver.
func TestOverdraw(t *testing.T) {
	c := newChannelPair(t)
	for range windowMessages {
		c.batch(windowBytes / windowMessages)
	}
	for sent := 0; sent <= overdrawBytes && c.failed == nil; sent += 8 << 20 {
		c.batch(8 << 20)
	}
	if c.failed == nil || !strings.Contains(c.failed.Error(), "n|receiver") {
		t.Fatalf("failed = %v", c.failed)
	}
}

// Credit for more than is outstanding is a broken promise of the receiver.
func TestTooMuchCredit(t *testing.T) {
	c := newChannelPair(t)
	defer func() {
		if recover() == nil {
			t.Error("no assertion failed")
		}
	}()
	c.out.credit(&messages.Credit{Messages: 1})
}

// A repeated or missing message fails an assertion; one of another attempt is
// dropped and counted.
func TestAccept(t *testing.T) {
	fresh := func() *inputs {
		return &inputs{attempt: 3, channels: []inputChannel{{next: 1}}}
	}
	broken := func(seqs ...uint64) (panicked bool) {
		defer func() { panicked = recover() != nil }()
		in := fresh()
		for _, s := range seqs {
			in.accept(&messages.RecordBatch{Attempt: 3, Seq: s})
		}
		return false
	}
	for _, c := range []struct {
		seqs   []uint64
		broken bool
	}{{[]uint64{1, 2, 3}, false}, {[]uint64{2}, true}, {[]uint64{1, 3}, true}, {[]uint64{1, 1}, true}} {
		if got := broken(c.seqs...); got != c.broken {
			t.Errorf("%v: broken = %v, want %v", c.seqs, got, c.broken)
		}
	}
	in := fresh()
	if in.accept(&messages.RecordBatch{Attempt: 2, Seq: 9}) || in.stale != 1 {
		t.Error("a message of another attempt was not dropped and counted")
	}
}

// A batch is given back when its last holder lets go, and not before; one that
// came over the network has no holders.
func TestPool(t *testing.T) {
	p := &Pool{}
	b := p.Get()
	b.Data = append(b.Data, "abc"...)
	Retain(b)
	p.Release(b)
	if string(b.Data) != "abc" {
		t.Fatal("the batch was freed while it was held")
	}
	p.Release(b)
	if len(b.Data) != 0 {
		t.Fatal("the batch was not freed")
	}
	foreign := &messages.RecordBatch{Data: []byte("abc")}
	p.Release(foreign)
	if string(foreign.Data) != "abc" {
		t.Fatal("a batch without holders was freed")
	}
}
