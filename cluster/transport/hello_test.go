package transport

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"cutwater/messages"
	"cutwater/messages/describe"
	"cutwater/protocol"
)

// A node of another cluster or version, or with another secret, is refused in both
// directions: nothing is delivered, the reason is logged once, and nobody has ended.
func TestRefusals(t *testing.T) {
	other := newSecret(t, "fedcba9876543210")
	for name, c := range map[string]struct {
		a, b     func(*Options)
		log      string
		sentinel error
	}{
		"cluster name": {func(o *Options) { o.ClusterName = "another" }, nil, `belongs to the cluster \"test\", and not to \"another\"`, nil},
		"cluster id": {func(o *Options) { o.ClusterID = func() string { return "c1" } }, func(o *Options) { o.ClusterID = func() string { return "c2" } },
			"belongs to the cluster c2", nil},
		"secret":       {func(o *Options) { o.Secret = other }, withSecret(t), "other cluster secret", ErrSecret},
		"secret, none": {withSecret(t), nil, "other cluster secret", ErrSecret},
		"none, secret": {nil, withSecret(t), "one of the two nodes has a cluster secret", ErrSecret},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := newCluster(t)
			a, b := cluster.open(nodeA, Location{}, c.a), cluster.open(nodeB, Location{}, c.b)
			a.Send(to(nodeA), to(nodeB), heartbeat(1))
			a.Send(to(nodeA), to(nodeB), batch(1, "x"))
			l := a.lostNext()
			if l.lane != Data || !errors.Is(l.err, ErrUnreachable) || errors.Is(l.err, ErrEnded) || c.sentinel != nil && !errors.Is(l.err, c.sentinel) {
				t.Errorf("told %v", l)
			}
			a.until("control gives up", func(c Counts) bool { return c.Control.Dropped == 1 })
			for _, n := range []*node{a, b} {
				n.until("both connections are counted", func(c Counts) bool { return c.Control.Refused == 1 && c.Data.Refused == 1 })
				n.noLoss()
			}
			if got := a.log.count(c.log); got != 1 {
				t.Errorf("%q was logged %d times by the node that dialled:\n%s", c.log, got, a.log.text.String())
			}
			if got := b.log.count("level=WARN"); got != 1 {
				t.Errorf("%d lines were logged by the other:\n%s", got, b.log.text.String())
			}
			if len(b.delivered) > 0 {
				t.Errorf("delivered %v", <-b.delivered)
			}
		})
	}
}

// Cluster ids are compared only where both are known.
func TestClusterIDUnknown(t *testing.T) {
	c := newCluster(t)
	a := c.open(nodeA, Location{}, nil)
	b := c.open(nodeB, Location{}, func(o *Options) { o.ClusterID = func() string { return "c1" } })
	connect(t, a, b)
}

// Without a secret no other machine is listened or talked to.
func TestNeedsSecret(t *testing.T) {
	c := newCluster(t)
	o := Options{Node: nodeA, ClusterName: "test", Control: listen(t, "127.0.0.1:0"), Data: listen(t, "0.0.0.0:0"),
		Locate: c.locate, Deliver: func(protocol.Address, proto.Message) {}}
	if _, err := Open(o); !errors.Is(err, ErrNeedsSecret) {
		t.Errorf("opened: %v", err)
	}
	if _, err := o.Data.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the listener is open: %v", err)
	}
	if _, err := Open(Options{}); err == nil {
		t.Error("opened without options")
	}
	a := c.open(nodeA, Location{}, nil)
	c.place(nodeB, Location{Data: netip.MustParseAddrPort("192.0.2.1:1")})
	a.Send(to(nodeA), to(nodeB), batch(1, "x"))
	if l := a.lostNext(); !errors.Is(l.err, ErrNeedsSecret) {
		t.Errorf("told %v", l)
	}
}

// stranger is a connection of the test's own.
type stranger struct {
	*conn
	t testing.TB
}

func (n *node) stranger(lane Lane) stranger {
	n.c.t.Helper()
	raw, err := new(net.Dialer).DialContext(context.Background(), "tcp", n.where.of(lane).String())
	if err != nil {
		n.c.t.Fatal(err)
	}
	n.c.t.Cleanup(func() { raw.Close() })
	if err := raw.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		n.c.t.Fatal(err)
	}
	return stranger{&conn{Conn: raw, raw: raw, frameReader: frameReader{r: bufio.NewReader(raw)}}, n.c.t}
}

func (s stranger) write(b []byte) {
	s.t.Helper()
	if _, err := s.Write(b); err != nil {
		s.t.Fatal(err)
	}
}

func (s stranger) frame(m proto.Message) {
	s.t.Helper()
	b, err := frameOf(m)
	if err != nil {
		s.t.Fatal(err)
	}
	s.write(b)
}

// hello says hello and returns the answer.
func (s stranger) hello(number uint64, change func(*messages.TransportHello)) *messages.TransportWelcome {
	s.t.Helper()
	h := &messages.TransportHello{Version: Version, ClusterName: "test", From: nodeA, To: nodeB, Lane: messages.TransportLane_DATA_LANE, Number: number}
	if change != nil {
		change(h)
	}
	s.frame(h)
	w := &messages.TransportWelcome{}
	if _, err := s.next(MaxHelloBytes, w); err != nil {
		s.t.Fatal(err)
	}
	return w
}

// closed waits for the other side to close.
func (s stranger) closed() {
	s.t.Helper()
	if b, err := io.ReadAll(s.r); len(b) > 0 || errors.Is(err, context.DeadlineExceeded) {
		s.t.Errorf("it was not closed: %d bytes came, %v", len(b), err)
	}
}

// Each answer to a hello says what is wrong.
func TestAnswers(t *testing.T) {
	_, _, b := pair(t, nil)
	for _, c := range []struct {
		change func(*messages.TransportHello)
		want   messages.TransportRefusal
		reason string
	}{
		{nil, messages.TransportRefusal_NOT_REFUSED, ""},
		{func(h *messages.TransportHello) { h.Version = 2 }, messages.TransportRefusal_OTHER_VERSION, "version 1"},
		{func(h *messages.TransportHello) { h.ClusterName = "x" }, messages.TransportRefusal_OTHER_CLUSTER, `"test"`},
		{func(h *messages.TransportHello) { h.To = "b.2" }, messages.TransportRefusal_OTHER_START, nodeB},
		{func(h *messages.TransportHello) { h.Lane = 7 }, messages.TransportRefusal_OTHER_LANE, "data"},
		{func(h *messages.TransportHello) { h.From = "" }, messages.TransportRefusal_OTHER_VERSION, "sender"},
		{func(h *messages.TransportHello) { h.Number = 0 }, messages.TransportRefusal_OTHER_CONNECTION, "newer"},
	} {
		s := b.stranger(Data)
		if w := s.hello(1, c.change); w.Refusal != c.want || !strings.Contains(w.Reason, c.reason) || w.Node != nodeB {
			t.Errorf("got %s, want %v", describe.Text(w), c.want)
		}
	}
}

// Who does not say a proper hello in time is closed and counted, and leaves nothing.
func TestStrangers(t *testing.T) {
	const timeout = 30 * time.Millisecond
	for _, secret := range []func(*Options){func(*Options) {}, withSecret(t)} {
		c := newCluster(t)
		b := c.open(nodeB, Location{}, func(o *Options) { o.HelloTimeout = timeout; secret(o) })
		half, err := frameOf(&messages.TransportHello{Version: Version, ClusterName: "test", From: nodeA, To: nodeB})
		if err != nil {
			t.Fatal(err)
		}
		huge := binary.BigEndian.AppendUint32(nil, 100<<20)
		sent := [][]byte{
			nil,                      // silence
			half[:9],                 // a beginning
			half[:4],                 // of a length
			append(huge, 0, 0, 0, 0), // too large
			append(bytes.Clone(half[:4]), append([]byte{0, 0, 1, 0}, half[8:]...)...), // with data
			[]byte("GET / HTTP/1.1\r\n\r\n"),
			{0, 0, 0, 4, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}, // no message
			{0x16, 3, 1, 0, 5, 1, 0, 0, 1, 0},                // half a handshake of TLS
		}
		for i, bytes := range sent {
			s := b.stranger(Lane(i % 2))
			s.write(bytes)
			if _, err := io.Copy(io.Discard, s.r); errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%d: it was not closed", i)
			}
		}
		b.until("all are counted", func(c Counts) bool {
			return c.Control.Refused+c.Data.Refused == uint64(len(sent)) && c.Control.Open+c.Data.Open == 0
		})
		b.until("all are gone", func(Counts) bool {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.strangers == 0 && len(b.open) == 0 && len(b.peers) == 0
		})
	}
}

// So many strangers and no more are listened to at a time.
func TestTooManyStrangers(t *testing.T) {
	c := newCluster(t)
	b := c.open(nodeB, Location{}, func(o *Options) { o.HelloTimeout = time.Hour })
	for range maxStrangers {
		b.stranger(Control)
	}
	b.until("all are let in", func(Counts) bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.strangers == maxStrangers
	})
	b.stranger(Control).closed()
	if c := b.Counts().Control; c.Refused != 1 {
		t.Errorf("counted %+v", c)
	}
	if err := b.Close(); err != nil { // it does not wait for them
		t.Fatal(err)
	}
}

// A message of a kind that is not known is left out with its data, and counted; the
// next one is delivered.
func TestUnknownKind(t *testing.T) {
	_, _, b := pair(t, nil)
	s := b.stranger(Data)
	s.hello(1, nil)
	unknown := protowire.AppendTag(nil, 1, protowire.BytesType)
	unknown = protowire.AppendString(unknown, "somebody")
	unknown = protowire.AppendTag(unknown, 9999, protowire.BytesType)
	unknown = protowire.AppendString(unknown, "something")
	frame := binary.BigEndian.AppendUint32(nil, uint32(len(unknown)))
	frame = binary.BigEndian.AppendUint32(frame, 3)
	s.write(append(append(frame, unknown...), "abc"...))
	s.frame(&messages.Envelope{To: "x", Body: &messages.Envelope_Watermark{Watermark: &messages.Watermark{Seq: 2}}})
	if d := b.receive(); d.to != "x" || d.m.(*messages.Watermark).Seq != 2 {
		t.Errorf("delivered %s", describe.Text(d.m))
	}
	if c := b.Counts().Data; c.Unknown != 1 || c.ReceivedMessages != 1 {
		t.Errorf("counted %+v", c)
	}
}

// What is damaged after a good hello ends the connection, as a loss: in a frame, in
// its length, and in the middle of a batch.
func TestDamagedAfterHello(t *testing.T) {
	_, _, b := pair(t, nil)
	envelope, err := proto.Marshal(&messages.Envelope{Body: &messages.Envelope_RecordBatch{RecordBatch: &messages.RecordBatch{}}})
	if err != nil {
		t.Fatal(err)
	}
	half := binary.BigEndian.AppendUint32(nil, uint32(len(envelope)))
	half = append(binary.BigEndian.AppendUint32(half, 1000), envelope...)
	for i, damage := range [][]byte{
		{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
		{0, 0, 0, 1, 0, 0, 0, 0, 0x80},
		append(half, "only so much"...),
	} {
		s := b.stranger(Data)
		s.hello(uint64(i+1), nil)
		s.write(damage)
		if i == 2 {
			s.conn.Close()
		}
		if l := b.lostNext(); l.node != nodeA || l.lane != Data || !errors.Is(l.err, ErrBroken) {
			t.Errorf("%d: told %v", i, l)
		}
	}
	if len(b.delivered) > 0 {
		t.Errorf("delivered %v", <-b.delivered)
	}
}

// A new connection delivers only when the old one's reader has ended, even if that is
// in the middle of a delivery; and of two the one with the higher number stays.
func TestOldConnectionEndsFirst(t *testing.T) {
	c := newCluster(t)
	entered, leave := make(chan uint64, 10), make(chan struct{})
	var order []uint64
	b := c.open(nodeB, Location{}, func(o *Options) {
		o.Deliver = func(_ protocol.Address, m proto.Message) {
			seq := m.(*messages.Watermark).Seq
			entered <- seq
			if seq == 1 {
				<-leave
			}
			order = append(order, seq) // the race detector would see two at a time
			entered <- seq
		}
	})
	watermark := func(seq uint64) *messages.Envelope {
		return &messages.Envelope{To: "x", Body: &messages.Envelope_Watermark{Watermark: &messages.Watermark{Seq: seq}}}
	}
	old := b.stranger(Data)
	old.hello(5, nil)
	old.frame(watermark(1))
	<-entered // the old reader is in Deliver now

	next := b.stranger(Data)
	next.frame(&messages.TransportHello{Version: Version, ClusterName: "test", From: nodeA, To: nodeB, Lane: messages.TransportLane_DATA_LANE, Number: 6})
	next.frame(watermark(2))
	old.closed() // the new one is there
	late := b.stranger(Data)
	if w := late.hello(4, nil); w.Refusal != messages.TransportRefusal_OTHER_CONNECTION {
		t.Errorf("a connection that was dialled before got %v", w.Refusal)
	}
	close(leave)
	for _, want := range []uint64{1, 2, 2} {
		if got := <-entered; got != want {
			t.Fatalf("delivered %d, want %d", got, want)
		}
	}
	if len(order) != 2 || order[0] != 1 || order[1] != 2 {
		t.Errorf("delivered %v", order)
	}
	if l := b.lostNext(); l.lane != Data || !errors.Is(l.err, errReplaced) {
		t.Errorf("told %v", l)
	}
}

// Close ends in time though the other side of a connection is frozen, in a hello or
// with its buffers full.
func TestCloseWithFrozenPeer(t *testing.T) {
	modes(t, func(t *testing.T, change func(*Options)) {
		c := newCluster(t)
		frozen := listen(t, "127.0.0.1:0") // the kernel accepts, nobody answers
		defer frozen.Close()
		c.place(nodeB, Location{Control: addrPort(frozen.Addr()), Data: addrPort(frozen.Addr())})
		a := c.open(nodeA, Location{}, change)
		a.Send(to(nodeA), to(nodeB), heartbeat(1))
		raw, err := frozen.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer raw.Close()
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
	})
	c := newCluster(t)
	server := listen(t, "127.0.0.1:0")
	defer server.Close()
	c.place(nodeB, Location{Data: addrPort(server.Addr())})
	a := c.open(nodeA, Location{}, nil)
	for range 50 {
		a.Send(to(nodeA), to(nodeB), &messages.RecordBatch{Data: make([]byte, 1<<20)})
	}
	raw, err := server.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	s := stranger{&conn{Conn: raw, raw: raw, frameReader: frameReader{r: bufio.NewReader(raw)}}, t}
	if _, err := s.next(MaxHelloBytes, &messages.TransportHello{}); err != nil {
		t.Fatal(err)
	}
	s.frame(&messages.TransportWelcome{Version: Version})
	a.until("it has begun to write", func(c Counts) bool { return c.Data.SentMessages > 0 })
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
}
