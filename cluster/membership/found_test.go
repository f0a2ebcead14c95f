package membership

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"cutwater/cluster/discovery"
	"cutwater/cluster/secret"
)

// announce runs what a node runs: an announcer and the peers that it remembers.
func announce(t *testing.T, n *testNode, port uint16, s secret.Secret) *discovery.Announcer {
	t.Helper()
	self := n.Self()
	announcer, err := discovery.NewAnnouncer(discovery.Announcement{
		ClusterName: self.Meta.ClusterName, Node: self.Meta.Node, Gossip: self.Gossip, Key: s.Key(secret.Announcement), Port: port,
	})
	if err != nil {
		t.Fatal(err)
	}
	loop := discovery.NewLoop(discovery.Config{
		Sources: []discovery.Discoverer{announcer, discovery.Remembered{Peers: n.Peers}},
		Join:    n.Join,
		Seed:    self.Meta.Start,
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { loop.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	return announcer
}

// port is a UDP port for announcements that no other test uses at the moment.
func port(t *testing.T) uint16 {
	t.Helper()
	socket, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	return netip.MustParseAddrPort(socket.LocalAddr().String()).Port()
}

// Nodes on one machine with nothing in common but the cluster name join by
// themselves within a second, as does one that comes back; nodes of another name
// next to them stay apart.
func TestNodesFindEachOther(t *testing.T) {
	name, announcements := randomName(), port(t)
	local := func(c *Config) { c.Preset = "" }
	home := newFolder(name)
	a, b := newFolder(name).run(t, local), home.run(t, local)
	stranger := newFolder(randomName()).run(t, local)
	begin := time.Now()
	for _, n := range []*testNode{a, b, stranger} {
		announce(t, n, announcements, secret.Secret{})
	}
	a.await(Joined, b.identity.Node)
	b.await(Joined, a.identity.Node)
	if took := time.Since(begin); took > time.Second {
		t.Errorf("it took %v", took)
	}
	b.kill()
	again := home.run(t, local)
	announce(t, again, announcements, secret.Secret{})
	if m := a.await(Joined, again.identity.Node).Member; m.Meta.Start != 2 {
		t.Errorf("start %d came back, want 2", m.Meta.Start)
	}
	if got := len(stranger.Members()); got != 1 {
		t.Errorf("the stranger has %d members", got)
	}
}

// Announcements of another secret are not followed.
func TestAnnouncementsNeedTheSecret(t *testing.T) {
	name, announcements := randomName(), port(t)
	right := secretOf(t, strings.Repeat("right", 4))
	wrong := secretOf(t, strings.Repeat("wrong", 4))
	with := func(s secret.Secret) func(*Config) { return func(c *Config) { c.Secret = s } }
	a, b, stranger := newFolder(name).run(t, with(right)), newFolder(name).run(t, with(right)), newFolder(name).run(t, with(wrong))
	forger := announce(t, stranger, announcements, wrong)
	announce(t, a, announcements, right)
	announce(t, b, announcements, right)
	a.await(Joined, b.identity.Node)
	b.await(Joined, a.identity.Node)
	if got := len(stranger.Members()); got != 1 {
		t.Errorf("the stranger has %d members", got)
	}
	if c := forger.Counts(); c.Heard != 0 {
		t.Errorf("the stranger counts %+v", c)
	}
}
