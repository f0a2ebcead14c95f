package discovery

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

var (
	// loopbackBroadcast reaches every socket of the machine that listens there.
	loopbackBroadcast = netip.AddrFrom4([4]byte{127, 255, 255, 255})
	// multicastGroup is administratively scoped (RFC 2365): no router outside of an
	// organisation forwards it.
	multicastGroup = netip.AddrFrom4([4]byte{239, 192, 67, 87})
)

// network is where announcements go: one group, by one interface.
type network struct {
	// ip is the interface's own address.
	ip netip.Addr
	// group is the broadcast or multicast address.
	group netip.AddrPort
}

// networkOf returns the network of the interface with this address.
func networkOf(ip netip.Addr, port uint16, multicast bool) network {
	if ip.IsLoopback() && !multicast {
		return network{ip, netip.AddrPortFrom(loopbackBroadcast, port)}
	}
	return network{ip, netip.AddrPortFrom(multicastGroup, port)}
}

// String names the network, for people.
func (n network) String() string {
	kind := "broadcast"
	if n.group.Addr().IsMulticast() {
		kind = "multicast"
	}
	return fmt.Sprintf("%s to %v from %v", kind, n.group, n.ip)
}

// open opens a socket that receives what is sent to the group, and one that sends.
func (n network) open(ctx context.Context) (in, out *net.UDPConn, err error) {
	in, err = n.socket(ctx, n.group, n.listening)
	if err != nil {
		return nil, nil, fmt.Errorf("announcements cannot be received (%v): %w", n, err)
	}
	out, err = n.socket(ctx, netip.AddrPortFrom(n.ip, 0), n.sending)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("the node cannot announce itself (%v): %w", n, err), in.Close())
	}
	return in, out, nil
}

func (n network) socket(ctx context.Context, address netip.AddrPort, prepare func(fd int) error) (*net.UDPConn, error) {
	c := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var problem error
		err := raw.Control(func(fd uintptr) { problem = prepare(int(fd)) })
		return errors.Join(err, problem)
	}}
	socket, err := c.ListenPacket(ctx, "udp4", address.String())
	if err != nil {
		return nil, err
	}
	return socket.(*net.UDPConn), nil
}

// listening lets all nodes of a machine listen at the same port, and only to what
// comes by this interface.
func (n network) listening(fd int) error {
	err := errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1))
	if err != nil || !n.group.Addr().IsMulticast() {
		return err
	}
	return errors.Join(
		onlyOwnGroups(fd),
		unix.SetsockoptIPMreq(fd, unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP, &unix.IPMreq{Multiaddr: n.group.Addr().As4(), Interface: n.ip.As4()}))
}

// sending keeps datagrams on this interface, and before the next router.
func (n network) sending(fd int) error {
	if !n.group.Addr().IsMulticast() {
		return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_BROADCAST, 1)
	}
	hops := 1
	if n.ip.IsLoopback() {
		hops = 0
	}
	return errors.Join(
		unix.SetsockoptInet4Addr(fd, unix.IPPROTO_IP, unix.IP_MULTICAST_IF, n.ip.As4()),
		unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MULTICAST_TTL, hops),
		unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MULTICAST_LOOP, 1))
}
