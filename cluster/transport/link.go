package transport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"cutwater/messages"
)

// The pauses between dials that fail, and after connections that break soon.
const (
	firstPause = 10 * time.Millisecond
	lastPause  = time.Second
)

// link is a lane to a peer: its queue, and a goroutine that dials and writes. The
// goroutine runs while there is a connection or something to do.
type link struct {
	of   *Transport
	peer *peer
	lane Lane
	wake chan struct{} // has room for one
	// Of the goroutine, one after the other.
	failures int // in a row
	before   bool

	mu      sync.Mutex
	queue   queue
	running bool
	check   bool  // dial though nothing waits, to find out whether the peer lives
	conn    *conn // while it is written to
	failed  error // of the data lane: a message could not be queued
}

func newLink(t *Transport, p *peer, lane Lane) *link {
	return &link{of: t, peer: p, lane: lane, wake: make(chan struct{}, 1)}
}

func (l *link) counters() *counters { return &l.of.counters[l.lane] }

func (l *link) isRunning() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.running
}

// push queues a message, or fails as queue.put does; on the data lane what was sent
// before is given up then, since nothing may be missing in between. The caller holds
// the transport's lock for reading, and has seen that it is not closed.
func (l *link) push(e *messages.Envelope, data []byte) error {
	limit := MaxControlQueueBytes
	if l.lane == Data {
		limit = MaxDataQueueBytes
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.queue.bytes
	err := l.queue.put(e, data, limit)
	l.counters().queueBytes.Add(int64(l.queue.bytes - before))
	if err != nil && l.lane == Data {
		l.failed = err
		if l.conn != nil {
			l.conn.Close()
		}
	}
	l.start()
	return err
}

// start runs the goroutine, or wakes it. The caller holds both locks.
func (l *link) start() {
	if !l.running {
		l.running = true
		l.of.work.Go(l.run)
		return
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// checkNow finds out whether the peer lives. The caller holds the transport's lock,
// and has seen that it is not closed.
func (l *link) checkNow() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.check = true
	l.start()
}

// run dials whenever there is something to do, and writes while it is connected.
func (l *link) run() {
	for l.wanted() {
		c, err := l.connect()
		if err == nil {
			began := time.Now()
			err = l.write(c)
			if l.failures = 0; time.Since(began) < lastPause {
				l.failures = 1
			}
			if l.lane == Control && !errors.Is(err, ErrLeft) {
				// What waits stays: the same start may answer.
				l.mu.Lock()
				l.check = true
				l.mu.Unlock()
				continue
			}
		}
		if failed := l.drop(); failed != nil {
			err = fmt.Errorf("%w: %s: %w", ErrBroken, l.peer.name, failed)
		}
		switch {
		case errors.Is(err, ErrLeft):
			l.of.lost(l.peer, Control, err)
		case l.lane == Data:
			l.of.lost(l.peer, Data, err)
			if !errors.Is(err, ErrUnreachable) {
				l.of.check(l.peer)
			}
		case errors.Is(err, ErrEnded):
			l.of.lost(l.peer, Control, err)
		}
	}
}

// wanted reports whether there is something to do; if not, the goroutine ends, and
// the next message starts another one.
func (l *link) wanted() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of.isClosed() {
		l.dropLocked()
	}
	l.running = l.check || l.queue.bytes > 0 || l.failed != nil
	return l.running
}

// drop gives up what waits, and returns why that had to be, if it was for more than
// the connection.
func (l *link) drop() (failed error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	failed = l.failed
	l.dropLocked()
	return failed
}

func (l *link) dropLocked() {
	l.check, l.failed = false, nil
	dropped, bytes := l.queue.drop()
	l.counters().dropped.Add(dropped)
	l.counters().queueBytes.Add(-int64(bytes))
}

// connect dials until there is a connection, it is certain that there will be none, or
// time is up. The error wraps ErrEnded or ErrUnreachable.
func (l *link) connect() (*conn, error) {
	timeout := l.of.options.DialTimeout
	ctx, cancel := context.WithTimeout(l.of.ended, timeout)
	defer cancel()
	var last error // of a dial that was not cut short
	for {
		if err := pause(ctx, l.failures); err != nil {
			return nil, fmt.Errorf("%w: %s, in %v: %w", ErrUnreachable, l.peer.name, timeout, cmp.Or(last, err))
		}
		c, err := l.dial(ctx)
		if err == nil {
			return c, nil
		}
		l.failures++
		switch {
		case ended(err):
			return nil, fmt.Errorf("%w: %s: %w", ErrEnded, l.peer.name, err)
		case refused(err):
			l.counters().refused.Add(1)
			l.of.warnOnce("refused by "+l.peer.name, "there is no connection to a node", "node", l.peer.name, "error", err)
			return nil, fmt.Errorf("%w: %s: %w", ErrUnreachable, l.peer.name, err)
		case last == nil || ctx.Err() == nil:
			last = err
		}
	}
}

// pause waits before the next dial.
func pause(ctx context.Context, failures int) error {
	if failures == 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(min(firstPause<<min(failures-1, 10), lastPause))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// errNotKnown: gossip does not know the start, or not yet.
var errNotKnown = errors.New("transport: nobody says where the node listens")

// errCut: a test has cut the network.
var errCut = errors.New("transport: the network is cut")

func (l *link) dial(ctx context.Context) (*conn, error) {
	where, ok := l.of.options.Locate(l.peer.name)
	address := where.of(l.lane)
	switch {
	case !ok || !address.IsValid():
		return nil, errNotKnown
	case l.of.options.Cut(address):
		return nil, errCut
	case !l.of.options.Secret.Given() && !isLoopback(address):
		return nil, fmt.Errorf("%w: %v is another machine; give all nodes of the cluster the same secret", ErrNeedsSecret, address)
	}
	var dialer net.Dialer
	raw, err := dialer.DialContext(ctx, "tcp", address.String())
	if err != nil {
		return nil, err
	}
	if err := tune(raw, l.lane); err != nil {
		raw.Close()
		return nil, err
	}
	return l.of.greet(ctx, raw, l.of.hello(l.peer.name, l.lane))
}

// write writes what waits, until the connection ends. The error wraps ErrLeft if that
// was said, and ErrBroken or ErrQueueFull otherwise.
func (l *link) write(c *conn) error {
	if !l.of.track(c) {
		return net.ErrClosed
	}
	l.mu.Lock()
	if l.conn = c; l.failed != nil {
		c.Close()
	}
	l.mu.Unlock()
	n := l.counters()
	n.connected.Add(1)
	if l.before {
		n.reconnected.Add(1)
	}
	l.before = true
	n.open.Add(1)
	l.of.connected(l.peer)

	// The other side has nothing to say but goodbye: that reading ends is news.
	end := make(chan error, 1)
	go func() { end <- c.awaitGoodbye() }()
	err, told := l.writeUntil(c, end)
	l.mu.Lock()
	l.conn = nil
	l.mu.Unlock()
	l.of.forget(c)
	if !told {
		if word := <-end; errors.Is(word, ErrLeft) {
			err = word
		}
	}
	n.open.Add(-1)
	return err
}

// writeUntil writes until the other side ends the connection, which it returns, and
// that it came from end; or writing fails.
func (l *link) writeUntil(c *conn, end <-chan error) (err error, told bool) {
	for {
		select {
		case err := <-end:
			return err, true
		default:
		}
		l.mu.Lock()
		next, ok := l.queue.take()
		l.mu.Unlock()
		if !ok {
			select {
			case err := <-end:
				return err, true
			case <-l.wake:
				continue
			case <-l.of.ended.Done():
				return l.leave(c, end)
			}
		}
		if err := l.writeChunk(c, next); err != nil {
			return err, false
		}
	}
}

func (l *link) writeChunk(c *conn, next chunk) error {
	var err error
	if l.of.options.Cut(addrPort(c.RemoteAddr())) {
		err = errCut
	} else {
		_, err = c.Write(next.frames)
	}
	n := l.counters()
	n.queueBytes.Add(-int64(len(next.frames)))
	if err != nil {
		n.dropped.Add(next.messages)
		return fmt.Errorf("%w: %s: %w", ErrBroken, l.peer.name, err)
	}
	n.sentMessages.Add(next.messages)
	n.sentBytes.Add(uint64(len(next.frames)))
	next.free()
	return nil
}

// leave says goodbye and waits for the other side to end the connection. Close has set
// a deadline.
func (l *link) leave(c *conn, end <-chan error) (error, bool) {
	l.of.mu.RLock()
	silent := l.of.silent
	l.of.mu.RUnlock()
	if silent || c.goodbye() != nil {
		return net.ErrClosed, false
	}
	return <-end, true
}

// goodbye says that this node ends.
func (c *conn) goodbye() error {
	frame, err := frameOf(&messages.Envelope{Body: &messages.Envelope_Goodbye{Goodbye: &messages.TransportGoodbye{}}})
	if err != nil {
		return err
	}
	_, err = c.Write(frame)
	return err
}

// awaitGoodbye reads until the other side ends the connection. The error wraps ErrLeft
// if it said so, and ErrBroken otherwise.
func (c *conn) awaitGoodbye() error {
	e := &messages.Envelope{}
	data, err := c.next(MaxHelloBytes, e)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %s: %w", ErrBroken, c.node, err)
	case e.GetGoodbye() == nil || data > 0:
		return fmt.Errorf("%w: %s: %w: a message against the direction of the connection", ErrBroken, c.node, errFrame)
	}
	return fmt.Errorf("%w: %s", ErrLeft, c.node)
}
