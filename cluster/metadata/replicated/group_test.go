package replicated

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cutwater/cluster/metadata"
	"cutwater/cluster/metadata/metadatatest"
	"cutwater/internal/leak"
	"cutwater/messages"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("REPLICATED_TEST_FULL"); dir != "" {
		fillUp(dir)
		return
	}
	leak.VerifyTestMain(m)
}

const (
	testCluster  = "000000000000000000000000000000c1"
	otherCluster = "000000000000000000000000000000c2"
	// patience is when a test gives up what should have come long ago.
	patience = 60 * time.Second
)

// group is several members on loopback, whose connections can be cut.
type group struct {
	t       *testing.T
	options Options // of every member, but for what tells them apart
	nodes   map[string]*node

	mu     sync.Mutex
	cut    map[string]bool // nodes that reach nobody and are reached by nobody
	owners map[string]string
	conns  map[*cable]bool
}

type node struct {
	id, dir, addr string
	*Store
}

// cable is a connection between two members.
type cable struct {
	net.Conn
	group    *group
	from, to string
}

func (c *cable) Close() error {
	c.group.mu.Lock()
	delete(c.group.conns, c)
	c.group.mu.Unlock()
	return c.Conn.Close()
}

func (c *cable) NetConn() net.Conn { return c.Conn }

func newGroup(t *testing.T, options Options) *group {
	if options.ElectionTimeoutMs == 0 {
		options.ElectionTimeoutMs = 200
	}
	g := &group{t: t, options: options, nodes: map[string]*node{}, cut: map[string]bool{}, owners: map[string]string{}, conns: map[*cable]bool{}}
	t.Cleanup(func() {
		for _, n := range g.nodes {
			g.stop(n)
		}
	})
	return g
}

// start opens the node, on its old address and folder if it had one.
func (g *group) start(id string) *node {
	g.t.Helper()
	n := g.nodes[id]
	if n == nil {
		n = &node{id: id, dir: g.t.TempDir(), addr: "127.0.0.1:0"}
		g.nodes[id] = n
	}
	s, err := g.open(n)
	if err != nil {
		g.t.Fatal(err)
	}
	n.Store = s
	return n
}

func (g *group) open(n *node) (*Store, error) {
	listener, err := net.Listen("tcp", n.addr)
	if err != nil {
		g.t.Fatal(err)
	}
	n.addr = listener.Addr().String()
	g.mu.Lock()
	for addr, owner := range g.owners {
		if owner == n.id {
			delete(g.owners, addr)
		}
	}
	g.owners[n.addr] = n.id
	g.mu.Unlock()
	o := g.options
	o.NodeID, o.Dir, o.Listener = n.id, n.dir, listener
	o.Dial = func(ctx context.Context, addr string) (net.Conn, error) { return g.dial(ctx, n.id, addr) }
	return Open(o)
}

func (g *group) dial(ctx context.Context, from, addr string) (net.Conn, error) {
	g.mu.Lock()
	to := g.owners[addr]
	refused := g.cut[from] || g.cut[to]
	g.mu.Unlock()
	if refused {
		return nil, errors.New("no route")
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	c := &cable{conn, g, from, to}
	g.mu.Lock()
	g.conns[c] = true
	g.mu.Unlock()
	return c, nil
}

// locate knows where each node is now.
func (g *group) locate(id string) (string, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for addr, owner := range g.owners {
		if owner == id {
			return addr, true
		}
	}
	return "", false
}

// isolate cuts all cables of a node, and lays none until heal.
func (g *group) isolate(id string) {
	g.mu.Lock()
	g.cut[id] = true
	var severed []*cable
	for c := range g.conns {
		if c.from == id || c.to == id {
			severed = append(severed, c)
		}
	}
	g.mu.Unlock()
	for _, c := range severed {
		if err := c.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			g.t.Error(err)
		}
	}
}

func (g *group) heal(id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.cut, id)
}

// stop closes a node as a crash would: it tells nobody.
func (g *group) stop(n *node) {
	g.t.Helper()
	if n.Store == nil {
		return
	}
	if err := n.Close(); err != nil {
		g.t.Error(err)
	}
	n.Store = nil
}

func (g *group) running() (running []*node) {
	for _, n := range g.nodes {
		if n.Store != nil {
			running = append(running, n)
		}
	}
	slices.SortFunc(running, func(a, b *node) int { return strings.Compare(a.id, b.id) })
	return running
}

// leader waits until one of the running nodes leads.
func (g *group) leader(among ...*node) *node {
	g.t.Helper()
	if len(among) == 0 {
		among = g.running()
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		changes := make(chan struct{}, len(among))
		done := make(chan struct{})
		for _, n := range among {
			now, changed := n.Leadership()
			if now.Here {
				close(done)
				return n
			}
			go func() {
				select {
				case <-changed:
					changes <- struct{}{}
				case <-done:
				}
			}()
		}
		select {
		case <-changes:
			close(done)
		case <-ctx.Done():
			close(done)
			g.t.Fatal("nobody leads")
		}
	}
}

// others are the running nodes but one.
func (g *group) others(than *node) []*node {
	return slices.DeleteFunc(g.running(), func(n *node) bool { return n == than })
}

// known is what membership would say: everybody is what it is since 0.
func (g *group) known() (nodes []Node) {
	for _, n := range g.nodes {
		nodes = append(nodes, Node{ID: n.id, Addr: n.addr, Alive: n.Store != nil})
	}
	slices.SortFunc(nodes, func(a, b Node) int { return strings.Compare(a.ID, b.ID) })
	return nodes
}

// steer lets the leader steer until the group has so many voters.
func (g *group) steer(p Policy, voters int) {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	const nowMs = 1_000_000 // all are what they are since 0
	for {
		leader := g.leader()
		if _, err := leader.Steer(ctx, p, nowMs, g.known()); err != nil && ctx.Err() != nil {
			g.t.Fatalf("no %d voters: %v: %v", voters, err, leader.Members())
		}
		status := leader.Status()
		if status.Voters == voters {
			return
		}
		if status.Voters%2 == 0 {
			g.t.Logf("%d voters for now", status.Voters)
		}
	}
}

// three is a group of three voters.
func three(t *testing.T, options Options) *group {
	t.Helper()
	g := newGroup(t, options)
	bootstrap(t, g.start("a"))
	g.start("b")
	g.start("c")
	g.steer(Policy{}, 3)
	return g
}

func bootstrap(t *testing.T, n *node) {
	t.Helper()
	if err := n.Bootstrap(context.Background(), testCluster); err != nil {
		t.Fatal(err)
	}
}

// must proposes until the outcome is known, which allocation of ids allows.
func must(t *testing.T, s metadata.Store, c *messages.MetadataCommand) *messages.MetadataResult {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		r, err := s.Propose(ctx, c)
		if err != nil && !errors.Is(err, metadata.ErrUnavailable) || ctx.Err() != nil {
			t.Fatalf("%v: %v, %v", c, r, err)
		}
		if err == nil && r.Outcome != messages.MetadataOutcome_UNKNOWN {
			return r
		}
	}
}

// register puts the test's job on record, in its first epoch.
func register(t *testing.T, s metadata.Store) {
	t.Helper()
	for _, c := range []*messages.MetadataCommand{metadatatest.Register(metadatatest.Job), metadatatest.StartEpoch(metadatatest.Job)} {
		r, err := s.Propose(context.Background(), c)
		if err != nil || r.Outcome != messages.MetadataOutcome_APPLIED {
			t.Fatalf("%v: %v, %v", c, r, err)
		}
	}
}

// record reads the test's job.
func record(t *testing.T, s metadata.Store) *messages.JobRecord {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		r, err := s.Job(ctx, metadatatest.Job)
		if err == nil {
			return r
		}
		if !errors.Is(err, metadata.ErrUnavailable) || ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}

func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}
