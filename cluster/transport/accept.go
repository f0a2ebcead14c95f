package transport

import (
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"cutwater/messages"
	"cutwater/protocol"
)

// inbound is a connection that a peer has dialled, and its reader.
type inbound struct {
	conn   *conn
	number uint64
	done   chan struct{} // closed when nothing more is delivered, and Lost was called
	// replaced is set, under Transport.mu, before a newer one closes it.
	replaced bool
}

// accept lets others in until Close.
func (t *Transport) accept(l net.Listener, lane Lane) {
	for {
		raw, err := l.Accept()
		if err != nil {
			if t.isClosed() {
				return
			}
			// Too many open files, mostly.
			t.warnOnce("accept "+err.Error(), "no connection can be accepted", "lane", lane, "error", err)
			if pause(t.ended, 10) != nil {
				return
			}
			continue
		}
		if t.stranger(raw) {
			t.work.Go(func() { t.serve(raw, lane) })
		} else {
			t.counters[lane].refused.Add(1)
		}
	}
}

// stranger admits a connection that has not said who it is, unless there are too many,
// or Close has begun; then it is closed.
func (t *Transport) stranger(raw net.Conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || t.strangers >= maxStrangers {
		raw.Close()
		return false
	}
	t.strangers++
	t.open[raw] = true
	return true
}

// serve hears who is there, and delivers what it says.
func (t *Transport) serve(raw net.Conn, lane Lane) {
	defer t.forget(raw)
	p, in := t.welcome(raw, lane)
	t.mu.Lock()
	t.strangers--
	t.mu.Unlock()
	if in == nil {
		t.counters[lane].refused.Add(1)
		return
	}
	n := &t.counters[lane]
	n.connected.Add(1)
	n.open.Add(1)
	err := t.read(in.conn, lane)
	n.open.Add(-1)
	in.conn.Close()
	t.gone(p, lane, in, err)
}

// welcome answers a hello; nil if the connection was refused.
func (t *Transport) welcome(raw net.Conn, lane Lane) (*peer, *inbound) {
	if !t.options.Secret.Given() && !isLoopback(addrPort(raw.RemoteAddr())) {
		t.warnOnce("insecure "+host(raw), "a node of another machine was refused, since there is no cluster secret", "from", raw.RemoteAddr())
		return nil, nil
	}
	err := tune(raw, lane)
	if err != nil {
		return nil, nil
	}
	c, hello, err := t.listenTo(raw)
	if err != nil {
		t.warnOnce("bad hello "+host(raw), "a connection was refused", "from", raw.RemoteAddr(), "error", err)
		return nil, nil
	}
	answer := t.judge(hello, lane)
	var p *peer
	var in *inbound
	if answer.Refusal == messages.TransportRefusal_NOT_REFUSED {
		if p, in = t.register(c, hello, lane); in == nil {
			answer.Refusal, answer.Reason = messages.TransportRefusal_OTHER_CONNECTION, "a newer connection is there"
		}
	}
	if err = c.answer(answer); err == nil {
		err = t.setDeadline(c, time.Time{})
	}
	if answer.Refusal != messages.TransportRefusal_NOT_REFUSED {
		t.warnOnce("refused "+answer.Refusal.String()+host(raw), "a connection was refused", "from", raw.RemoteAddr(), "reason", answer.Reason)
		return nil, nil
	}
	if err != nil { // in is registered: its reader will find the same
		c.Close()
	}
	return p, in
}

func host(raw net.Conn) string { return addrPort(raw.RemoteAddr()).Addr().String() }

// register makes a connection the one of its peer and lane. It ends the older one,
// and waits for its reader, which does not block: only then this one may deliver. Nil
// if there is a newer one, or Close has begun.
func (t *Transport) register(c *conn, hello *messages.TransportHello, lane Lane) (*peer, *inbound) {
	in := &inbound{conn: c, number: hello.Number, done: make(chan struct{})}
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.peer(hello.From)
	for {
		old := p.inbound[lane]
		switch {
		case t.closed, old != nil && old.number >= in.number:
			return nil, nil
		case old == nil:
			p.inbound[lane], p.over = in, false
			return p, in
		}
		old.replaced = true
		old.conn.Close()
		t.mu.Unlock()
		<-old.done
		t.mu.Lock()
		p = t.peer(hello.From) // it may have been forgotten meanwhile
	}
}

// read delivers messages until the connection ends, and returns why.
func (t *Transport) read(c *conn, lane Lane) error {
	n := &t.counters[lane]
	for {
		e := &messages.Envelope{}
		length, err := c.next(MaxFrameBytes, e)
		if err != nil {
			return err
		}
		if e.GetGoodbye() != nil {
			return ErrLeft
		}
		m := unseal(e)
		switch b, isBatch := m.(*messages.RecordBatch); {
		case isBatch:
			if b, err = t.batch(c, b, length); err != nil {
				return err
			}
			m = b
		case length > 0:
			if err := c.skip(length); err != nil {
				return err
			}
		}
		if m == nil {
			n.unknown.Add(1)
			t.warnOnce("unknown from "+c.node, "a message is of a kind that this release does not know", "from", c.node, "to", e.To)
			continue
		}
		n.receivedMessages.Add(1)
		n.receivedBytes.Add(uint64(c.size))
		if !t.isClosed() {
			t.options.Deliver(protocol.Address(e.To), m)
		} else if b, ok := m.(*messages.RecordBatch); ok {
			t.options.Release(b)
		}
	}
}

// batch reads the data of a batch.
func (t *Transport) batch(c *conn, head *messages.RecordBatch, length int) (*messages.RecordBatch, error) {
	b := t.options.Batch(length)
	b.Attempt, b.Channel, b.Seq, b.Count, b.FixedWidth = head.Attempt, head.Channel, head.Seq, head.Count, head.FixedWidth
	var err error
	if b.Data, err = c.data(b.Data[:0], length); err != nil {
		t.options.Release(b)
		return nil, err
	}
	return b, nil
}

// gone tells what the end of a connection means, and lets a newer one deliver.
func (t *Transport) gone(p *peer, lane Lane, in *inbound, err error) {
	t.mu.Lock()
	replaced := in.replaced
	t.mu.Unlock()
	switch {
	case errors.Is(err, ErrLeft):
		t.lost(p, Control, fmt.Errorf("%w: %s", ErrLeft, p.name))
	case lane == Data:
		t.lost(p, Data, fmt.Errorf("%w: %s: %w", ErrBroken, p.name, said(err, replaced)))
	}
	if !replaced && !errors.Is(err, ErrLeft) {
		t.check(p)
	}
	t.mu.Lock()
	p.inbound[lane] = nil
	t.mu.Unlock()
	close(in.done)
}

// errReplaced is why a connection ended that its own node has replaced.
var errReplaced = errors.New("transport: the node has made a new one")

// said makes words of the end of a connection.
func said(err error, replaced bool) error {
	switch {
	case replaced:
		return errReplaced
	case errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	}
	return err
}
