package discovery

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cutwater/messages"
)

var (
	key      = bytes.Repeat([]byte{1}, 32)
	otherKey = bytes.Repeat([]byte{2}, 32)
)

// announcement is of a node that gossips at a port of loopback, in a cluster of a
// random name.
func announcement(name string, port uint16) Announcement {
	return Announcement{ClusterName: name, Node: "n", Gossip: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port)}
}

func newAnnouncer(t *testing.T, a Announcement) *Announcer {
	t.Helper()
	n, err := NewAnnouncer(a)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (n *Announcer) next(t *testing.T) []byte {
	t.Helper()
	n.sequence++
	packet, err := n.packet(n.sequence)
	if err != nil {
		t.Fatal(err)
	}
	return packet
}

// Each datagram has one outcome: heard, its own, foreign, forged, replayed or
// garbage; only the first is believed, and the others are counted.
func TestOutcomesOfDatagrams(t *testing.T) {
	sealed := func(name string, key []byte) Announcement {
		a := announcement(name, 1)
		a.Key = key
		return a
	}
	me := newAnnouncer(t, sealed("c", key))
	open := newAnnouncer(t, sealed("c", nil))
	other := newAnnouncer(t, sealed("c", key))
	first, second := other.next(t), other.next(t)
	damaged := bytes.Clone(second)
	damaged[10] ^= 1
	lan := sealed("c", key)
	lan.Gossip = netip.MustParseAddrPort("192.0.2.1:7")
	nowhere, err := encode(&messages.Announcement{ClusterName: "c", GossipAddress: "0.0.0.0:1", Nonce: 9}, key)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		title  string
		to     *Announcer
		packet []byte
		want   Counts // what it adds
	}{
		{"first", me, first, Counts{Heard: 1}},
		{"second", me, second, Counts{Heard: 1}},
		{"second again", me, second, Counts{Replayed: 1}},
		{"first again", me, first, Counts{Replayed: 1}},
		{"its own", me, me.next(t), Counts{}},
		{"a foreign cluster's", me, newAnnouncer(t, sealed("d", key)).next(t), Counts{Foreign: 1}},
		{"one of another secret", me, newAnnouncer(t, sealed("c", otherKey)).next(t), Counts{Forged: 1}},
		{"one without seal", me, newAnnouncer(t, sealed("c", nil)).next(t), Counts{Forged: 1}},
		{"a damaged one", me, damaged, Counts{Forged: 1}},
		{"one cut off", me, second[:20], Counts{Forged: 1}},
		{"one from elsewhere", me, newAnnouncer(t, lan).next(t), Counts{Garbage: 1}},
		{"one to nowhere", me, nowhere, Counts{Garbage: 1}},
		{"nothing", me, nil, Counts{Garbage: 1}},
		{"noise", me, []byte("hello"), Counts{Garbage: 1}},
		{"too much", me, append(bytes.Clone(magicSealed), make([]byte, maxPacketBytes)...), Counts{Garbage: 1}},
		{"one with seal, to a node without secret", open, first, Counts{Forged: 1}},
		{"one without seal, to a node without secret", open, newAnnouncer(t, sealed("c", nil)).next(t), Counts{Heard: 1}},
	} {
		test.to.counts = Counts{}
		address, ok := test.to.hear(test.packet)
		if got := test.to.Counts(); got != test.want || ok != (test.want.Heard == 1) || ok && address != me.said.Gossip {
			t.Errorf("%s: got %+v, %v, %v", test.title, got, address, ok)
		}
	}
}

// The memory against replays is bounded, and keeps the newest announcers.
func TestSendersAreBounded(t *testing.T) {
	me := newAnnouncer(t, announcement("c", 1))
	for nonce := range uint64(3 * maxSenders) {
		if me.replayed(nonce, 1) {
			t.Fatalf("the first of %d is taken for a replay", nonce)
		}
	}
	if len(me.highest) != maxSenders || len(me.order) != maxSenders || !me.replayed(3*maxSenders-1, 1) || me.replayed(0, 1) {
		t.Errorf("%d senders, %d in order", len(me.highest), len(me.order))
	}
}

// What cannot be announced is refused before a socket is opened.
func TestBadAnnouncement(t *testing.T) {
	for title, a := range map[string]Announcement{
		"no port":  announcement("c", 0),
		"IPv6":     {ClusterName: "c", Gossip: netip.MustParseAddrPort("[::1]:1")},
		"any":      {ClusterName: "c", Gossip: netip.MustParseAddrPort("0.0.0.0:1")},
		"no IP":    {ClusterName: "c"},
		"too long": announcement(strings.Repeat("x", maxPacketBytes), 1),
	} {
		if _, err := NewAnnouncer(a); err == nil {
			t.Errorf("%s: no error", title)
		}
	}
}

// Nodes of one machine hear each other within a second, by broadcast and by
// multicast, and those of another cluster are only counted. Nothing leaves loopback.
func TestNodesOfOneMachineHearEachOther(t *testing.T) {
	for title, multicast := range map[string]bool{"broadcast": false, "multicast": true} {
		t.Run(title, func(t *testing.T) {
			name := "test-" + rand.Text()
			port := freePort(t)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			begin := time.Now()
			var running sync.WaitGroup
			heard := make([]chan netip.AddrPort, 3)
			nodes := make([]*Announcer, 3)
			for i := range nodes {
				a := announcement(name, uint16(i+1))
				a.Port, a.Multicast = port, multicast
				if i == 2 {
					a.ClusterName = "foreign-" + rand.Text()
				}
				nodes[i], heard[i] = newAnnouncer(t, a), make(chan netip.AddrPort, 100)
				running.Go(func() {
					err := nodes[i].Discover(ctx, func(found []netip.AddrPort, _ error) { heard[i] <- found[0] })
					if err != nil {
						t.Error(err)
					}
				})
			}
			for i := range 2 {
				select {
				case got := <-heard[i]:
					if got.Port() != uint16(2-i) {
						t.Errorf("node %d heard of %v", i, got)
					}
				case <-ctx.Done():
					t.Fatalf("node %d heard nothing: %+v", i, nodes[i].Counts())
				}
			}
			if took := time.Since(begin); took > time.Second {
				t.Errorf("it took %v", took)
			}
			cancel()
			running.Wait()
			if len(heard[2]) > 0 {
				t.Errorf("a foreign node heard of %v", <-heard[2])
			}
			if c := nodes[0].Counts(); c.Sent == 0 || c.Forged+c.Garbage+c.Replayed > 0 {
				t.Errorf("counts are %+v", c)
			}
		})
	}
}

// A port or interface that cannot be used is an error that names it, and leaves no
// socket open.
func TestAnnouncerCannotListen(t *testing.T) {
	taken, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 255, 255, 255)})
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	a := announcement("c", 1)
	a.Port = uint16(taken.LocalAddr().(*net.UDPAddr).Port)
	if err := newAnnouncer(t, a).Discover(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "127.255.255.255") {
		t.Errorf("port in use: %v", err)
	}
	a.Gossip = netip.MustParseAddrPort("192.0.2.1:1")
	if err := newAnnouncer(t, a).Discover(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "192.0.2.1") {
		t.Errorf("no such interface: %v", err)
	}
}

// freePort is a UDP port that nobody uses at the moment.
func freePort(t *testing.T) uint16 {
	t.Helper()
	socket, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	return uint16(socket.LocalAddr().(*net.UDPAddr).Port)
}

// Whatever arrives, decoding neither panics nor believes an address that no node can
// have, and with a key nothing that was not sealed with it.
func FuzzAnnouncement(f *testing.F) {
	for _, k := range [][]byte{nil, key} {
		packet, err := encode(&messages.Announcement{ClusterName: "c", GossipAddress: "127.0.0.1:1", Nonce: 1, Sequence: 2}, k)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(packet)
	}
	f.Add([]byte{})
	f.Add(append(bytes.Clone(magicSealed), make([]byte, 40)...))
	f.Fuzz(func(t *testing.T, packet []byte) {
		if _, _, err := decode(packet, otherKey); err == nil {
			t.Fatal("believed without the key")
		}
		a, address, err := decode(packet, nil)
		if err != nil {
			if !errors.Is(err, errGarbage) && !errors.Is(err, errForged) {
				t.Fatalf("got %v", err)
			}
			return
		}
		if !address.IsValid() || address.Port() == 0 || a.GossipAddress == "" {
			t.Fatalf("believed %v", address)
		}
	})
}

// A report has all nodes that were heard lately, in order, and no other.
func TestHeardLately(t *testing.T) {
	h, now := heard{}, time.Unix(1000, 0)
	one, two, three := numbered(1), numbered(2), numbered(3)
	for _, step := range []struct {
		hears netip.AddrPort
		after time.Duration
		want  []netip.AddrPort
	}{
		{two, 0, []netip.AddrPort{two}},
		{one, time.Second, []netip.AddrPort{one, two}},
		{two, heardFor - time.Second, []netip.AddrPort{one, two}},
		{three, 2 * time.Second, []netip.AddrPort{two, three}},
	} {
		now = now.Add(step.after)
		if got := h.with(step.hears, now); !slices.Equal(got, step.want) {
			t.Errorf("after %v reported %v, want %v", step.after, got, step.want)
		}
	}
}
