package transport

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"cutwater/messages"
	"cutwater/messages/describe"
	"cutwater/protocol"
)

func yield() { runtime.Gosched() }

// Each lane keeps its order, and batches arrive with all that they had.
func TestOrder(t *testing.T) {
	modes(t, func(t *testing.T, change func(*Options)) {
		_, a, b := pair(t, change)
		const count = 500
		for i := range uint64(count) {
			a.Send(to(nodeA), to(nodeB), heartbeat(i))
			a.Send(to(nodeA), to(nodeB), batch(i, strings.Repeat("r", int(i%50)*200)))
		}
		var control, data uint64
		for range 2 * count {
			d := b.receive()
			if d.to != to(nodeB) {
				t.Fatalf("delivered to %s", d.to)
			}
			switch m := d.m.(type) {
			case *messages.Heartbeat:
				if m.Number != control {
					t.Fatalf("control message %d came as number %d", m.Number, control)
				}
				control++
			case *messages.RecordBatch:
				if want := batch(data, strings.Repeat("r", int(data%50)*200)); !proto.Equal(m, want) {
					t.Fatalf("batch %d: %.200s, want %.200s", data, describe.Text(m), describe.Text(want))
				}
				data++
			}
		}
		a.until("all is counted", func(c Counts) bool {
			got := b.Counts()
			return c.Control.SentBytes == got.Control.ReceivedBytes && c.Data.SentBytes == got.Data.ReceivedBytes &&
				c.Control.SentMessages == count && c.Data.SentMessages == count && got.Data.ReceivedMessages == count
		})
		a.noLoss()
		b.noLoss()
	})
}

// Messages of several senders to several receivers keep their order in each pair, in
// both directions at once, and each batch is given back exactly once.
func TestEightSenders(t *testing.T) {
	const senders, count = 8, 200
	var taken, given atomic.Int64
	_, a, b := pair(t, func(o *Options) {
		o.Release = func(b *messages.RecordBatch) {
			if !atomic.CompareAndSwapUint32(&b.References, 1, 0) {
				t.Errorf("batch %d of channel %d was given back with %d references", b.Seq, b.Channel, b.References)
			}
			clear(b.Data) // who reads it still is found by the race detector
			given.Add(1)
		}
		o.Batch = func(bytes int) *messages.RecordBatch {
			return &messages.RecordBatch{References: 1, Data: make([]byte, 0, bytes)}
		}
	})
	var sending sync.WaitGroup
	for _, n := range []*node{a, b} {
		other := nodeB
		if n == b {
			other = nodeA
		}
		for s := range uint32(senders) {
			sending.Go(func() {
				for i := range uint64(count) {
					m := &messages.RecordBatch{Channel: s, Seq: i, References: 1, Data: bytes.Repeat([]byte{byte(i)}, 5000)}
					taken.Add(1)
					n.Send(protocol.Address(fmt.Sprint(n.name, "|", s)), protocol.Address(fmt.Sprint(other, "|", s)), m)
				}
			})
		}
	}
	for _, n := range []*node{a, b} {
		var next [senders]uint64
		for range senders * count {
			d := n.receive()
			m := d.m.(*messages.RecordBatch)
			if m.Seq != next[m.Channel] || !strings.HasSuffix(string(d.to), fmt.Sprint("|", m.Channel)) {
				t.Fatalf("batch %d of channel %d came to %s as number %d", m.Seq, m.Channel, d.to, next[m.Channel])
			}
			if len(m.Data) != 5000 || bytes.Count(m.Data, []byte{byte(m.Seq)}) != 5000 {
				t.Fatalf("batch %d of channel %d has other data", m.Seq, m.Channel)
			}
			next[m.Channel]++
		}
	}
	sending.Wait()
	if given.Load() != taken.Load() {
		t.Errorf("%d of %d batches were given back", given.Load(), taken.Load())
	}
}

// Every kind of message in Envelope arrives as it was sent, on the lane that it should.
func TestEveryKindTravels(t *testing.T) {
	onData := map[string]bool{"RecordBatch": true, "Barrier": true, "BarrierAnnouncement": true, "CancelBarrier": true, "Watermark": true,
		"WatermarkIdle": true, "EndOfData": true, "EndOfPartition": true, "Credit": true, "ChannelRequest": true}
	_, a, b := pair(t, nil)
	for name, field := range bodies {
		m := a.filled(field.Message(), 3)
		if want := onData[string(name.Name())]; (LaneOf(m) == Data) != want {
			t.Errorf("%s travels on the %v lane", name, LaneOf(m))
		}
		want := proto.Clone(m)
		if r, ok := want.(*messages.RecordBatch); ok {
			r.References = 0 // those of its node
		}
		a.Send(to(nodeA), to(nodeB), m)
		if got := b.receive().m; !proto.Equal(got, want) {
			t.Errorf("got  %s\nwant %s", describe.Text(got), describe.Text(want))
		}
	}
	if len(bodies) != bodyOneof.Fields().Len()-1 {
		t.Errorf("%d kinds travel, of %d", len(bodies), bodyOneof.Fields().Len()-1)
	}
}

// filled makes a message in which every field is set, a few levels deep.
func (n *node) filled(d protoreflect.MessageDescriptor, depth int) proto.Message {
	field := bodies[d.FullName()]
	m := new(messages.Envelope).ProtoReflect().NewField(field).Message()
	fill(m, depth)
	return m.Interface()
}

func fill(m protoreflect.Message, depth int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		switch {
		case f.IsMap():
		case f.IsList() && f.Message() != nil:
			if depth > 0 {
				fill(m.Mutable(f).List().AppendMutable().Message(), depth-1)
			}
		case f.IsList():
			m.Mutable(f).List().Append(scalarOf(f))
		case f.Message() != nil:
			if depth > 0 {
				fill(m.Mutable(f).Message(), depth-1)
			}
		default:
			m.Set(f, scalarOf(f))
		}
	}
}

func scalarOf(f protoreflect.FieldDescriptor) protoreflect.Value {
	switch f.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.StringKind:
		return protoreflect.ValueOfString("text")
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte("bytes"))
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(1)
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(uint32(f.Number()))
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(1 << 40)
	case protoreflect.Int32Kind, protoreflect.Sint32Kind:
		return protoreflect.ValueOfInt32(-2)
	case protoreflect.Int64Kind, protoreflect.Sint64Kind:
		return protoreflect.ValueOfInt64(-3)
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(0.5)
	}
	panic(fmt.Sprintf("no value for %s", f.FullName()))
}

// A message of a kind that does not travel is dropped and counted, and so is all that
// is sent after Close; batches are given back all the same.
func TestUnsendable(t *testing.T) {
	released := 0
	_, a, b := pair(t, func(o *Options) { o.Release = func(*messages.RecordBatch) { released++ } })
	a.Send(to(nodeA), to(nodeB), &messages.TimerFired{})
	a.Send(to(nodeA), to(nodeB), &messages.TransportGoodbye{})
	a.Send(to(nodeA), to(nodeB), heartbeat(1))
	if m, ok := b.receive().m.(*messages.Heartbeat); !ok || m.Number != 1 {
		t.Errorf("delivered %s", describe.Text(m))
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	a.Send(to(nodeA), to(nodeB), heartbeat(2))
	a.Send(to(nodeA), to(nodeB), batch(1, "x"))
	if c := a.Counts(); c.Control.Dropped != 3 || c.Data.Dropped != 1 || released != 1 {
		t.Errorf("counted %+v, %d batches given back", c, released)
	}
}

// A node that is not known yet is waited for, and forgotten again when nobody knows it
// any more.
func TestUnknownNode(t *testing.T) {
	c := newCluster(t)
	a := c.open(nodeA, Location{}, nil)
	a.Send(to(nodeA), to(nodeB), batch(1, "early"))
	b := c.open(nodeB, Location{}, nil)
	if m := b.receive().m.(*messages.RecordBatch); string(m.Data) != "early" {
		t.Errorf("delivered %q", m.Data)
	}
	b.kill()
	for l := a.lostNext(); l.lane != Control; l = a.lostNext() {
	}
	a.untilIdle(nodeB, Control)
	a.untilIdle(nodeB, Data)
	c.mu.Lock()
	delete(c.places, nodeB)
	c.mu.Unlock()
	a.mu.Lock()
	a.peer("other")
	_, kept := a.peers[nodeB]
	a.mu.Unlock()
	if kept {
		t.Error("the node was not forgotten")
	}
}

// Data for a node that cannot be reached is dropped in time, and told; control is
// dropped in silence. Neither says that the node has ended.
func TestUnreachable(t *testing.T) {
	c := newCluster(t)
	a := c.open(nodeA, Location{}, func(o *Options) { o.DialTimeout = 20 * time.Millisecond })
	a.Send(to(nodeA), to(nodeB), heartbeat(1))
	a.Send(to(nodeA), to(nodeB), batch(1, "x"))
	if l := a.lostNext(); l.node != nodeB || l.lane != Data || !errors.Is(l.err, ErrUnreachable) {
		t.Errorf("told %v", l)
	}
	a.until("control is dropped", func(c Counts) bool {
		return c.Control.Dropped == 1 && c.Data.Dropped == 1 && c.Control.QueueBytes == 0 && c.Data.QueueBytes == 0
	})
	a.noLoss()
}
