package task

import (
	"fmt"
	"testing"

	"cutwater/actors/system"
	"cutwater/actors/system/systemtest"
	"cutwater/messages"
	"cutwater/stream/operator"
)

// fan is a sender with many channels, whose receivers are played by the test.
type fan struct {
	*systemtest.Rig
	out      *outputs
	yield    operator.Yield
	consumed []messages.Credit // by channel, in all
}

func newFan(t *testing.T, channels int, budget *Budget) *fan {
	t.Helper()
	f := &fan{Rig: systemtest.New("n1"), consumed: make([]messages.Credit, channels)}
	p := &peer{}
	if _, err := f.System.Spawn("sender", p, system.NewMailbox(0, nil)); err != nil {
		t.Fatal(err)
	}
	f.Settle()
	d := &messages.Deploy{Fence: &messages.Fence{Attempt: 3}, Vertex: &messages.Vertex{MaxParallelism: 128},
		Edges: []*messages.PlanEdge{{Partitioning: messages.Partitioning_REBALANCE}}}
	for c := range channels {
		d.Outputs = append(d.Outputs, &messages.OutputChannel{Receiver: fmt.Sprintf("n2|r%d", c), ReceiverChannel: uint32(c)})
	}
	f.out = newOutputs(p.self, &Pool{}, d, &f.yield)
	f.out.budget = budget
	f.out.fail = func(err error) { t.Error(err) }
	f.out.edges[0].Init(8)
	for c := range channels {
		f.out.credit(&messages.Credit{Output: uint32(c), Open: true})
	}
	return f
}

// batch sends a batch of about that size on a channel.
func (f *fan) batch(channel, size int) {
	b := &f.out.edges[0].Builders[channel]
	_, text := b.Next(1, 0)
	b.SetText(append(text, make([]byte, size)...))
	f.out.cut(0, channel)
}

// consume takes the oldest batch that left, and gives it back at once.
func (f *fan) consume() bool {
	for i, s := range f.Sent {
		if b, ok := s.Message.(*messages.RecordBatch); ok {
			f.Sent = append(f.Sent[:i:i], f.Sent[i+1:]...)
			total := &f.consumed[b.Channel]
			total.Messages++
			total.Bytes += uint64(len(b.Data))
			f.out.credit(&messages.Credit{Output: b.Channel, Messages: total.Messages, Bytes: total.Bytes})
			return true
		}
	}
	return false
}

// outstanding is how many bytes are at the receivers.
func (f *fan) outstanding() (bytes int) {
	for i := range f.out.channels {
		bytes += f.out.channels[i].bytes
	}
	return bytes
}

// asked counts the receivers that were asked to give back at once.
func (f *fan) asked() (n int) {
	for _, s := range f.Sent {
		if m, ok := s.Message.(*messages.ChannelRequest); ok && m.Eager {
			n++
		}
	}
	return n
}

// However many channels there are, what is outstanding stays within one batch for
// each and the budget; every channel has its one, and all of it gets through.
func TestManyChannelsStayBounded(t *testing.T) {
	const channels, batches, size, limit = 200, 2 * windowMessages, 1000, 20_000
	budget := NewBudget(limit)
	f := newFan(t, channels, budget)
	sent := 0
	for range batches {
		for c := range channels {
			f.batch(c, size)
			sent++
			if got, bound := f.outstanding(), limit+channels*(size+100); got > bound || budget.Lent() > limit {
				t.Fatalf("%d bytes are outstanding and %d lent, the bounds are %d and %d", got, budget.Lent(), bound, limit)
			}
		}
	}
	for c := range channels {
		if f.out.channels[c].messages == 0 {
			t.Fatalf("channel %d has nothing outstanding", c)
		}
	}
	if f.asked() == 0 || !f.yield.Full {
		t.Fatalf("%d receivers were asked, full is %t", f.asked(), f.yield.Full)
	}
	for ; f.consume(); sent-- {
	}
	if sent != 0 || budget.Lent() != 0 || f.yield.Full || !f.out.consumed() {
		t.Fatalf("%d batches did not arrive, %d bytes are lent, full is %t", sent, budget.Lent(), f.yield.Full)
	}
}

// Where nobody else needs memory a channel has its whole window, and no receiver is
// asked for anything.
func TestOneChannelHasItsWindow(t *testing.T) {
	f := newFan(t, 1, NewBudget(0))
	for range windowMessages {
		f.batch(0, 1000)
	}
	if got := f.out.channels[0].messages; got != windowMessages || f.asked() != 0 {
		t.Fatalf("%d batches are outstanding, %d requests", got, f.asked())
	}
}

// A channel that lacks memory asks its receiver once; the request is repeated with
// those for credit, in case it was lost.
func TestAsksOnce(t *testing.T) {
	f := newFan(t, 1, NewBudget(1))
	f.batch(0, 1000)
	if f.asked() != 0 {
		t.Fatal("asked though the channel has its one batch")
	}
	for range 3 {
		f.batch(0, 1000)
	}
	if f.asked() != 1 {
		t.Fatalf("asked %d times", f.asked())
	}
	f.out.request()
	f.out.request()
	if f.asked() < 2 {
		t.Fatal("the request was not repeated")
	}
}

// A task that ends gives back what its channels have borrowed; credit that comes
// later changes nothing.
func TestEndRepays(t *testing.T) {
	budget := NewBudget(0)
	f := newFan(t, 2, budget)
	for range 3 {
		f.batch(0, 1000)
		f.batch(1, 1000)
	}
	if budget.Lent() < 4000 {
		t.Fatalf("%d bytes are lent", budget.Lent())
	}
	f.out.repayAll()
	for f.consume() {
	}
	if budget.Lent() != 0 {
		t.Fatalf("%d bytes are lent after the end", budget.Lent())
	}
}

// A receiver gives back every batch that it has consumed from the moment that it
// is asked to, and before that in halves of the window.
func TestEagerReceiver(t *testing.T) {
	r := newRig(t, &program{writer: &writer{Base: operator.Base{ID: "op"}}}, withInputs)
	r.Settle()
	systemtest.Take[*messages.Credit](r.Rig)
	seq := uint64(0)
	batch := func() {
		seq++
		r.tell(&messages.RecordBatch{Attempt: 3, Channel: 0, Seq: seq, Count: 1, Data: make([]byte, 10)})
	}
	batch()
	if got := systemtest.Take[*messages.Credit](r.Rig); len(got) != 0 {
		t.Fatalf("gave back %v", got)
	}
	r.tell(&messages.ChannelRequest{Attempt: 3, Input: 0, Eager: true})
	if got := systemtest.Take[*messages.Credit](r.Rig); len(got) != 1 || got[0].Messages != 1 {
		t.Fatalf("answered %v", got)
	}
	r.tell(&messages.ChannelRequest{Attempt: 3, Input: 0}) // an older one, that was late
	systemtest.Take[*messages.Credit](r.Rig)
	batch()
	batch()
	if got := systemtest.Take[*messages.Credit](r.Rig); len(got) != 2 || got[1].Messages != 3 || got[1].Bytes != 30 {
		t.Fatalf("gave back %v", got)
	}
}
