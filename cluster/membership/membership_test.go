package membership

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"

	"cutwater/cluster/discovery"
	"cutwater/messages"
)

// Three nodes know each other after two joins, with what each says of itself, at an
// address whose port nobody gave.
func TestThreeNodesJoin(t *testing.T) {
	name := randomName()
	a, b, c := newFolder(name).run(t, patient), newFolder(name).run(t, patient), newFolder(name).run(t, patient)
	b.mustJoin(a)
	c.mustJoin(b)
	all := []*testNode{a, b, c}
	want := []string{a.identity.Node, b.identity.Node, c.identity.Node}
	slices.Sort(want)
	for _, n := range all {
		for _, other := range all {
			if n == other {
				continue
			}
			m := n.await(Joined, other.identity.Node).Member
			if m.Gossip != other.Address() || m.Gossip.Port() == 0 || m.Meta.Ports.Control != 1234 || m.Meta.ProtocolVersion != ProtocolVersion {
				t.Errorf("joined as %v, %v", m, m.Meta)
			}
		}
		if got := n.names(); !slices.Equal(got, want) {
			t.Errorf("members are %v, want %v", got, want)
		}
	}
}

// Twenty nodes that join one of them become one cluster.
func TestTwentyNodesConverge(t *testing.T) {
	name := randomName()
	var all []*testNode
	for range 20 {
		n := newFolder(name).run(t, patient)
		if len(all) > 0 {
			n.mustJoin(all[0])
		}
		all = append(all, n)
	}
	for _, n := range all {
		for _, other := range all {
			if n != other {
				n.await(Joined, other.identity.Node)
			}
		}
		for len(n.Members()) != len(all) {
			n.await(Joined, "") // on a busy machine one was taken for dead meanwhile
		}
	}
}

// A node that is killed fails to the others; one that comes back with its data
// folder, at another address, is a member at once, with the same id and a higher
// start, and nobody sees a conflict.
func TestKilledNodeReturns(t *testing.T) {
	name := randomName()
	home := newFolder(name)
	a, b := newFolder(name).run(t), home.run(t)
	b.mustJoin(a)
	before := a.await(Joined, b.identity.Node).Member
	b.kill()
	a.await(Failed, b.identity.Node)
	again := home.run(t)
	again.mustJoin(a)
	after := a.await(Joined, b.identity.Node).Member
	if again.identity.Node != b.identity.Node || after.Meta.Start != before.Meta.Start+1 || after.Gossip != again.Address() {
		t.Errorf("was %v, start %d; is %v, start %d", before, before.Meta.Start, after, after.Meta.Start)
	}
}

// A node that starts again before its death was noticed is a member at once: its
// earlier start fails and its new one joins, in this order.
func TestRestartFasterThanDetection(t *testing.T) {
	name := randomName()
	home := newFolder(name)
	// Gossip that never notices a death.
	a := newFolder(name).run(t, func(c *Config) { c.tune = func(m *memberlist.Config) { m.ProbeInterval = time.Hour } })
	b := home.run(t)
	b.mustJoin(a)
	a.await(Joined, b.identity.Node)
	b.kill()
	again := home.run(t)
	again.mustJoin(a)
	e := a.await(Joined, b.identity.Node)
	if f := a.await(Failed, b.identity.Node); f.Member.Meta.Start != 1 || e.Member.Meta.Start != 2 {
		t.Errorf("start %d failed and %d joined, want 1 and 2", f.Member.Meta.Start, e.Member.Meta.Start)
	}
	if got := len(a.Members()); got != 2 {
		t.Errorf("%d members, want 2: each node counts once", got)
	}
}

// A node that leaves has left, not failed; the others go on.
func TestGracefulLeave(t *testing.T) {
	name := randomName()
	a, b, c := newFolder(name).run(t, patient), newFolder(name).run(t, patient), newFolder(name).run(t, patient)
	b.mustJoin(a)
	c.mustJoin(a)
	a.await(Joined, b.identity.Node)
	c.await(Joined, b.identity.Node)
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	if err := b.Leave(ctx); err != nil {
		t.Fatal(err)
	}
	a.await(Left, b.identity.Node)
	c.await(Left, b.identity.Node)
	if got := len(a.Members()); got != 2 {
		t.Errorf("%d members, want 2", got)
	}
	if err := b.join(a); !errors.Is(err, ErrClosed) && err != nil {
		t.Errorf("after leaving, join says %v", err)
	}
}

// What a node says of itself reaches the others when it changes, and what cannot be
// gossiped or would part it from a member is refused and changes nothing.
func TestUpdate(t *testing.T) {
	name := randomName()
	withID := func(c *Config) { c.Meta.ClusterId = "1111" }
	a, b := newFolder(name).run(t, withID), newFolder(name).run(t)
	b.mustJoin(a)
	a.await(Joined, b.identity.Node)
	b.await(Joined, a.identity.Node)
	if err := b.Update(func(m *messages.NodeMeta) { m.Zone = "east"; m.ClusterId = "1111" }); err != nil {
		t.Fatal(err)
	}
	if m := a.await(Updated, b.identity.Node).Member.Meta; m.Zone != "east" || m.ClusterId != "1111" {
		t.Errorf("heard %v", m)
	}
	if err := b.Update(func(m *messages.NodeMeta) { m.Zone = strings.Repeat("x", MaxMetaBytes) }); !errors.Is(err, ErrMeta) {
		t.Errorf("too long: %v", err)
	}
	if err := b.Update(func(m *messages.NodeMeta) { m.ClusterId = "2222" }); !errors.Is(err, ErrOtherCluster) {
		t.Errorf("another cluster id beside a member: %v", err)
	}
	if self := b.Self().Meta; self.Zone != "east" || self.ClusterId != "1111" {
		t.Errorf("is %v", self)
	}
}

// A network that is cut for longer than gossip remembers the dead heals into one
// cluster, by the peers that the nodes remember alone.
func TestPartitionHeals(t *testing.T) {
	name := randomName()
	var cut atomic.Bool
	// island is where c lives; nothing goes in or out while the network is cut.
	var island atomic.Pointer[netip.AddrPort]
	nowhere := netip.AddrPort{}
	island.Store(&nowhere)
	forgetful := func(m *memberlist.Config) {
		m.GossipToTheDeadTime = time.Nanosecond // what is dead is forgotten at once
		m.PushPullInterval = 0                  // and never asked
	}
	mainland := func(c *Config) {
		c.tune = forgetful
		c.Cut = func(to netip.AddrPort) bool { return cut.Load() && to == *island.Load() }
	}
	a, b := newFolder(name).run(t, mainland), newFolder(name).run(t, mainland)
	c := newFolder(name).run(t, func(c *Config) {
		c.tune = forgetful
		c.Cut = func(netip.AddrPort) bool { return cut.Load() }
	})
	at := c.Address()
	island.Store(&at)
	b.mustJoin(a)
	c.mustJoin(a)
	all := []*testNode{a, b, c}
	each := func(f func(n, other *testNode)) {
		for _, n := range all {
			for _, other := range all {
				if n != other {
					f(n, other)
				}
			}
		}
	}
	each(func(n, other *testNode) { n.await(Joined, other.identity.Node) })

	cut.Store(true)
	a.await(Failed, c.identity.Node)
	b.await(Failed, c.identity.Node)
	c.await(Failed, a.identity.Node)
	c.await(Failed, b.identity.Node)
	cut.Store(false)
	for _, n := range all {
		repeat(t, n)
	}
	for _, n := range []*testNode{a, b} {
		n.await(Joined, c.identity.Node)
		c.await(Joined, n.identity.Node)
	}
}

// A node that starts alone finds its cluster by the peers that it remembers, and it
// is the seed that starts alone: nobody was told to join it.
func TestSeedStartsAgainAlone(t *testing.T) {
	name := randomName()
	home := newFolder(name)
	seed := home.run(t)
	b := newFolder(name).run(t)
	b.mustJoin(seed)
	seed.await(Joined, b.identity.Node)
	seed.kill()
	again := home.run(t)
	if got := again.Peers(); !slices.Equal(got, []netip.AddrPort{b.Address()}) {
		t.Fatalf("remembers %v, want %v", got, b.Address())
	}
	repeat(t, again)
	again.await(Joined, b.identity.Node)
}

// repeat runs the loop of discovery over what the node remembers until the test ends.
func repeat(t *testing.T, n *testNode) {
	loop := discovery.NewLoop(discovery.Config{Sources: []discovery.Discoverer{discovery.Remembered{Peers: n.Peers}}, Join: n.Join})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { loop.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
}
