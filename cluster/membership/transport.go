package membership

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// maxStreams bounds the connections that others have open to this node. Each has a
// deadline of its own; more are closed at once.
const maxStreams = 128

// bindAttempts: a free port for TCP may be taken for UDP.
const bindAttempts = 10

var errCut = errors.New("membership: the network is cut")

// transport is memberlist's own one with bounds, with an end (it closes what is
// open), and with a network that tests can cut.
type transport struct {
	*memberlist.NetTransport
	cut     func(netip.AddrPort) bool
	streams chan net.Conn
	// ended is done when the transport shuts down.
	ended context.Context
	end   context.CancelFunc
	// stopped is closed when nothing more arrives.
	stopped chan struct{}
	pumping sync.WaitGroup
	once    sync.Once

	mu      sync.Mutex
	open    map[*stream]bool
	inbound int
}

func newTransport(bind netip.AddrPort, cut func(netip.AddrPort) bool, c *memberlist.Config) (*transport, error) {
	t := &transport{cut: cut, streams: make(chan net.Conn), stopped: make(chan struct{}), open: map[*stream]bool{}}
	attempts := 1
	if bind.Port() == 0 {
		attempts = bindAttempts
	}
	var err error
	for range attempts {
		t.NetTransport, err = memberlist.NewNetTransport(&memberlist.NetTransportConfig{
			BindAddrs: []string{bind.Addr().String()}, BindPort: int(bind.Port()), Logger: c.Logger,
		})
		if err == nil {
			break
		}
	}
	switch {
	case err == nil:
	case strings.Contains(err.Error(), "address already in use"):
		return nil, fmt.Errorf("%w: %v; stop what uses it, give another port, or none to have a free one", ErrPortInUse, bind)
	default:
		return nil, fmt.Errorf("gossip cannot listen at %v: %w", bind, err)
	}
	t.ended, t.end = context.WithCancel(context.Background())
	t.pumping.Go(t.pump)
	return t, nil
}

// port is the port that it listens at.
func (t *transport) port() int { return t.GetAutoBindPort() }

// pump hands connections to memberlist, as many as are allowed.
func (t *transport) pump() {
	for {
		select {
		case <-t.stopped:
			return
		case raw := <-t.NetTransport.StreamCh():
			if s := t.track(raw, true); s != nil {
				select {
				case t.streams <- s:
				case <-t.stopped:
					s.Close()
				}
			}
		}
	}
}

// track keeps a connection until it is closed; nil if there are too many, or if the
// transport has ended.
func (t *transport) track(raw net.Conn, inbound bool) *stream {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended.Err() != nil || inbound && t.inbound >= maxStreams {
		raw.Close()
		return nil
	}
	s := &stream{Conn: raw, of: t, inbound: inbound}
	t.open[s] = true
	if inbound {
		t.inbound++
	}
	return s
}

// stream is a connection that its transport can close.
type stream struct {
	net.Conn
	of      *transport
	inbound bool
}

// Close implements net.Conn.
func (s *stream) Close() error {
	s.of.mu.Lock()
	if s.of.open[s] {
		delete(s.of.open, s)
		if s.inbound {
			s.of.inbound--
		}
	}
	s.of.mu.Unlock()
	return s.Conn.Close()
}

// StreamCh implements memberlist.Transport.
func (t *transport) StreamCh() <-chan net.Conn { return t.streams }

// WriteTo implements memberlist.Transport.
func (t *transport) WriteTo(b []byte, address string) (time.Time, error) {
	return t.WriteToAddress(b, memberlist.Address{Addr: address})
}

// WriteToAddress implements memberlist.NodeAwareTransport. A packet to a network
// that is cut vanishes.
func (t *transport) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	if t.isCut(a.Addr) {
		return time.Now(), nil
	}
	return t.NetTransport.WriteToAddress(b, a)
}

// DialTimeout implements memberlist.Transport.
func (t *transport) DialTimeout(address string, timeout time.Duration) (net.Conn, error) {
	return t.DialAddressTimeout(memberlist.Address{Addr: address}, timeout)
}

// DialAddressTimeout implements memberlist.NodeAwareTransport.
func (t *transport) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	if t.isCut(a.Addr) {
		return nil, errCut
	}
	dialer := net.Dialer{Timeout: timeout}
	raw, err := dialer.DialContext(t.ended, "tcp", a.Addr)
	if err != nil {
		return nil, err
	}
	if s := t.track(raw, false); s != nil {
		return s, nil
	}
	return nil, net.ErrClosed
}

func (t *transport) isCut(address string) bool {
	if t.cut == nil {
		return false
	}
	a, err := netip.ParseAddrPort(address)
	return err == nil && t.cut(a)
}

// Shutdown implements memberlist.Transport: all sockets and connections are closed
// when it returns.
func (t *transport) Shutdown() error {
	t.once.Do(t.shutdown)
	return nil
}

func (t *transport) shutdown() {
	t.mu.Lock()
	t.end()
	open := t.open
	t.open = map[*stream]bool{}
	t.mu.Unlock()
	for s := range open {
		s.Conn.Close()
	}
	_ = t.NetTransport.Shutdown() // never fails
	close(t.stopped)
	t.pumping.Wait()
}
