package discovery

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"cutwater/messages"
)

// DefaultPort is the UDP port of announcements; all nodes of a machine share it.
const DefaultPort = 7947

// A node that starts announces itself at once, then after pauses that double up to
// announceInterval, for ever.
const (
	firstAnnounce    = 100 * time.Millisecond
	announceInterval = 2 * time.Second
)

// maxSenders bounds the memory against replays: announcers heard of, the oldest of
// which is forgotten.
const maxSenders = 1024

// Announcement is what an Announcer says of its node.
type Announcement struct {
	// ClusterName decides who belongs together; others are not heard.
	ClusterName string
	// ClusterID is asked before each datagram and may be empty; it is for people
	// who watch the network, and decides nothing here. May be nil.
	ClusterID func() string
	// Node is the node's id.
	Node string
	// Gossip is the advertised address of gossip. The datagrams leave by the
	// interface that has its IP, which must be one of IPv4.
	Gossip netip.AddrPort
	// Key seals the datagrams (secret.Announcement); nil without a secret.
	Key []byte
	// Port is DefaultPort if 0.
	Port uint16
	// Multicast uses multicast on loopback too, where broadcast is the default.
	Multicast bool
}

// Counts is what an Announcer has heard and said.
type Counts struct {
	// Sent counts datagrams of this node, Heard those of others of its cluster.
	Sent, Heard uint64
	// Foreign: of another cluster name. Forged: not sealed with this node's secret,
	// or sealed where it has none. Replayed: repeated or overtaken. Garbage: not
	// an announcement, or of an address that this network cannot have.
	Foreign, Forged, Replayed, Garbage uint64
}

// Announcer announces a node to its network and hears of others. It is a
// Discoverer that listens.
type Announcer struct {
	said    Announcement
	network network
	nonce   uint64

	mu       sync.Mutex
	counts   Counts
	sequence uint64
	// highest is the newest sequence by nonce, order the nonces as they came.
	highest map[uint64]uint64
	order   []uint64
}

// NewAnnouncer makes an Announcer; no socket is opened before Discover. The error
// says why this node cannot be announced.
func NewAnnouncer(a Announcement) (*Announcer, error) {
	if a.Port == 0 {
		a.Port = DefaultPort
	}
	ip := a.Gossip.Addr().Unmap()
	if !ip.Is4() || ip.IsUnspecified() || a.Gossip.Port() == 0 {
		return nil, fmt.Errorf("%w: %v cannot be announced, because that needs an IPv4 address of one interface; use --join", ErrAddress, a.Gossip)
	}
	a.Gossip = netip.AddrPortFrom(ip, a.Gossip.Port())
	var nonce [8]byte
	rand.Read(nonce[:]) // never fails
	n := &Announcer{said: a, nonce: binary.LittleEndian.Uint64(nonce[:]), highest: map[uint64]uint64{}}
	n.network = networkOf(ip, a.Port, a.Multicast)
	_, err := n.packet(0)
	return n, err
}

// Name implements Discoverer.
func (n *Announcer) Name() string { return n.network.String() }

// Counts is what was heard and said so far.
func (n *Announcer) Counts() Counts {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.counts
}

// Discover implements Discoverer: it announces and listens until ctx is done or a
// socket fails.
func (n *Announcer) Discover(ctx context.Context, found Found) error {
	in, out, err := n.network.open(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	closed := context.AfterFunc(ctx, func() { in.Close() })
	var sendError error
	var sending sync.WaitGroup
	sending.Go(func() {
		sendError = n.send(ctx, out)
		cancel() // ends the reading below
	})
	readError := n.listen(ctx, in, found)
	cancel()
	sending.Wait()
	if closed() {
		in.Close()
	}
	out.Close()
	return errors.Join(sendError, readError)
}

// send announces until ctx is done, which is no error.
func (n *Announcer) send(ctx context.Context, out *net.UDPConn) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for pause := firstAnnounce; ; pause = min(2*pause, announceInterval) {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		n.mu.Lock()
		n.sequence++
		sequence := n.sequence
		n.mu.Unlock()
		packet, err := n.packet(sequence)
		if err != nil {
			return err
		}
		if _, err := out.WriteToUDPAddrPort(packet, n.network.group); err != nil {
			return fmt.Errorf("the node cannot announce itself (%v): %w", n.network, err)
		}
		n.mu.Lock()
		n.counts.Sent++
		n.mu.Unlock()
		timer.Reset(pause)
	}
}

func (n *Announcer) packet(sequence uint64) ([]byte, error) {
	a := &messages.Announcement{
		ClusterName: n.said.ClusterName, Node: n.said.Node,
		GossipAddress: n.said.Gossip.String(), Nonce: n.nonce, Sequence: sequence,
	}
	if n.said.ClusterID != nil {
		a.ClusterId = n.said.ClusterID()
	}
	return encode(a, n.said.Key)
}

// listen reports the addresses of datagrams until ctx is done, which is no error. A
// report has all that were heard lately: with one address each, the status of the
// source would change with every datagram while one of two nodes cannot be joined.
func (n *Announcer) listen(ctx context.Context, in *net.UDPConn, found Found) error {
	buffer := make([]byte, maxPacketBytes+1)
	lately := heard{}
	for {
		size, _, err := in.ReadFromUDPAddrPort(buffer)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("announcements cannot be received (%v): %w", n.network, err)
		}
		if address, ok := n.hear(buffer[:size]); ok {
			found(lately.with(address, time.Now()), nil)
		}
	}
}

// heardFor is how long an address that was announced is reported, which is many times
// the pause between two announcements.
const heardFor = 30 * time.Second

// heard is when addresses were last announced.
type heard map[netip.AddrPort]time.Time

// with returns the addresses that were heard lately in their order, this one among
// them.
func (h heard) with(address netip.AddrPort, now time.Time) []netip.AddrPort {
	maps.DeleteFunc(h, func(_ netip.AddrPort, at time.Time) bool { return now.Sub(at) > heardFor })
	if len(h) >= MaxAddresses {
		clear(h) // they announce themselves again
	}
	h[address] = now
	return slices.SortedFunc(maps.Keys(h), netip.AddrPort.Compare)
}

// hear judges a datagram, and returns its address if it is to be believed.
func (n *Announcer) hear(packet []byte) (netip.AddrPort, bool) {
	a, address, err := decode(packet, n.said.Key)
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case errors.Is(err, errForged):
		n.counts.Forged++
	case err != nil, address.Addr().IsLoopback() != n.said.Gossip.Addr().IsLoopback():
		n.counts.Garbage++
	case a.ClusterName != n.said.ClusterName:
		n.counts.Foreign++
	case a.Nonce == n.nonce:
		// Its own datagram came back.
	case n.replayed(a.Nonce, a.Sequence):
		n.counts.Replayed++
	default:
		n.counts.Heard++
		return address, true
	}
	return netip.AddrPort{}, false
}

// replayed reports whether the announcer of this nonce was heard with this or a
// higher sequence, and remembers it if not.
func (n *Announcer) replayed(nonce, sequence uint64) bool {
	highest, known := n.highest[nonce]
	if known && sequence <= highest {
		return true
	}
	if !known {
		if len(n.order) == maxSenders {
			delete(n.highest, n.order[0])
			n.order = n.order[1:]
		}
		n.order = append(n.order, nonce)
	}
	n.highest[nonce] = sequence
	return false
}
