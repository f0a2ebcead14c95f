package replicated

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// A connection begins with its kind, one byte, and the id of the dialer's cluster,
// 16 bytes, zero where it does not know one yet. Then either side's protocol begins.
type kind byte

const (
	kindRaft     kind = 1 // the library's own messages
	kindRequests kind = 2 // frames of messages.MetadataRequest and MetadataResponse

	prefaceLength = 1 + 16
	// prefaceTimeout is how long a connection may take to say what it is.
	prefaceTimeout = 5 * time.Second
	// maxConnections bounds what one store accepts at a time.
	maxConnections = 512
	// maxForeign bounds how many foreign clusters are reported, one line each.
	maxForeign = 16
)

// mux lets the two kinds of connections share one listener, and knows all
// connections, so that closing it leaves none. It is the library's StreamLayer.
type mux struct {
	listener  net.Listener
	dial      func(ctx context.Context, addr string) (net.Conn, error)
	self      address
	clusterID func() string
	serve     func(net.Conn) // takes a connection of kindRequests
	log       hclog.Logger

	raft    chan net.Conn
	closed  chan struct{}
	wg      sync.WaitGroup
	mu      sync.Mutex
	conns   map[*tracked]struct{} // nil once closed
	foreign map[string]bool
}

// init makes the mux usable for dialing; start lets it accept.
func (m *mux) init() {
	m.raft = make(chan net.Conn)
	m.closed = make(chan struct{})
	m.conns = map[*tracked]struct{}{}
	m.foreign = map[string]bool{}
}

func (m *mux) start() { m.wg.Go(m.accept) }

func (m *mux) accept() {
	for {
		conn, err := m.listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) || !m.pause() {
				return
			}
			m.log.Warn("no connection can be accepted now", "error", err)
			continue
		}
		if c := m.track(conn); c != nil {
			m.wg.Go(func() { m.greet(c) })
		}
	}
}

// pause waits a moment, and reports whether to go on.
func (m *mux) pause() bool {
	wait := time.NewTimer(50 * time.Millisecond)
	defer wait.Stop()
	select {
	case <-wait.C:
		return true
	case <-m.closed:
		return false
	}
}

// greet reads the preface and hands the connection over.
func (m *mux) greet(c *tracked) {
	preface := make([]byte, prefaceLength)
	if err := c.SetReadDeadline(time.Now().Add(prefaceTimeout)); err != nil {
		c.drop()
		return
	}
	if _, err := io.ReadFull(c, preface); err != nil {
		m.log.Debug("a connection ended before it said what it is", "from", c.RemoteAddr(), "error", err)
		c.drop()
		return
	}
	if theirs, ours := clusterOf(preface[1:]), m.clusterID(); theirs != "" && ours != "" && theirs != ours {
		m.refuse(theirs, c)
		return
	}
	if err := c.SetReadDeadline(time.Time{}); err != nil {
		c.drop()
		return
	}
	switch kind(preface[0]) {
	case kindRaft:
		m.hand(c)
	case kindRequests:
		m.serve(c)
		c.drop()
	default:
		m.log.Debug("a connection of an unknown kind", "from", c.RemoteAddr(), "kind", preface[0])
		c.drop()
	}
}

// refuse closes a connection of another cluster; the first of each is reported.
func (m *mux) refuse(theirs string, c *tracked) {
	m.mu.Lock()
	report := !m.foreign[theirs] && len(m.foreign) < maxForeign
	if report {
		m.foreign[theirs] = true
	}
	m.mu.Unlock()
	if report {
		m.log.Warn("refused a node of another cluster; give the two clusters different names or secrets", "from", c.RemoteAddr(), "its-cluster", theirs, "our-cluster", m.clusterID())
	}
	c.drop()
}

// hand gives a connection to the library.
func (m *mux) hand(c net.Conn) {
	select {
	case m.raft <- c:
	case <-m.closed:
		_ = c.Close() // the other side sees it end
	}
}

// Accept implements net.Listener, for the library.
func (m *mux) Accept() (net.Conn, error) {
	select {
	case c := <-m.raft:
		return c, nil
	case <-m.closed:
		return nil, net.ErrClosed
	}
}

// Addr implements net.Listener: the address by which others know this node.
func (m *mux) Addr() net.Addr { return m.self }

type address string

func (a address) Network() string { return "tcp" }
func (a address) String() string  { return string(a) }

// Dial implements raft.StreamLayer. A node reaches itself without a socket, also
// where its own address leads nowhere from inside.
func (m *mux) Dial(addr raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if string(addr) == string(m.self) {
		near, far := net.Pipe()
		n, f := m.track(near), m.track(far)
		if n == nil || f == nil {
			return nil, net.ErrClosed
		}
		m.wg.Go(func() { m.hand(f) })
		return n, nil
	}
	return m.connect(ctx, string(addr), kindRaft)
}

// connect dials and says what the connection is.
func (m *mux) connect(ctx context.Context, addr string, k kind) (net.Conn, error) {
	conn, err := m.dial(ctx, addr)
	if err != nil {
		return nil, fmt.Errorf("metadata: node at %s cannot be reached: %w", addr, err)
	}
	c := m.track(conn)
	if c == nil {
		return nil, net.ErrClosed
	}
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(prefaceTimeout)
	}
	preface := append([]byte{byte(k)}, make([]byte, prefaceLength-1)...)
	if _, err := hex.Decode(preface[1:], []byte(m.clusterID())); err != nil {
		c.drop()
		return nil, fmt.Errorf("metadata: the cluster id %q: %w", m.clusterID(), err)
	}
	if err := errors.Join(c.SetWriteDeadline(deadline), write(c, preface), c.SetWriteDeadline(time.Time{})); err != nil {
		c.drop()
		return nil, fmt.Errorf("metadata: node at %s cannot be reached: %w", addr, err)
	}
	return c, nil
}

func write(w io.Writer, b []byte) error {
	_, err := w.Write(b)
	return err
}

func clusterOf(preface []byte) string {
	for _, b := range preface {
		if b != 0 {
			return hex.EncodeToString(preface)
		}
	}
	return ""
}

// Close implements net.Listener: it ends the listener and all connections, and waits
// for what serves them.
func (m *mux) Close() error {
	m.mu.Lock()
	conns := m.conns
	m.conns = nil
	m.mu.Unlock()
	if conns == nil {
		return nil
	}
	close(m.closed)
	err := m.listener.Close()
	for c := range conns {
		_ = c.Conn.Close() // whatever it says, it is over
	}
	m.wg.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// tracked is a connection that the mux closes when it is closed.
type tracked struct {
	net.Conn
	mux *mux
}

// track takes a connection in, or closes it and returns nil where the mux is closed
// or has enough.
func (m *mux) track(conn net.Conn) *tracked {
	c := &tracked{conn, m}
	m.mu.Lock()
	full := m.conns == nil || len(m.conns) >= maxConnections
	if !full {
		m.conns[c] = struct{}{}
	}
	m.mu.Unlock()
	if full {
		_ = conn.Close() // the other side sees it end
		return nil
	}
	return c
}

// Close implements net.Conn.
func (c *tracked) Close() error {
	c.mux.mu.Lock()
	delete(c.mux.conns, c)
	c.mux.mu.Unlock()
	return c.Conn.Close()
}

// NetConn is the connection below.
func (c *tracked) NetConn() net.Conn { return c.Conn }

// drop closes a connection about which nobody wants to hear more.
func (c *tracked) drop() { _ = c.Close() }
