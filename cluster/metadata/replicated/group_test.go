package replicated

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
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

// TestConformanceOne: a sole voter is a store, also over restarts.
func TestConformanceOne(t *testing.T) {
	for name, every := range map[string]int{"log": 0, "snapshots": 3} {
		t.Run(name, func(t *testing.T) {
			var g *group
			metadatatest.Run(t, func(t *testing.T) metadata.Store {
				g = newGroup(t, Options{SnapshotEvery: every})
				n := g.start("a")
				bootstrap(t, n)
				return n
			}, func(t *testing.T) metadata.Store {
				g.nodes["a"].Store = nil // the suite has closed it
				return g.start("a")
			})
		})
	}
}

// wholeGroup is the group seen through one member, that closes all of them.
type wholeGroup struct {
	*Store
	group *group
}

func (w wholeGroup) Close() error {
	var err error
	for _, n := range w.group.running() {
		err = errors.Join(err, n.Close())
	}
	return err
}

// TestConformanceThree: three voters are a store, asked through one that does not
// lead, also over restarts of all.
func TestConformanceThree(t *testing.T) {
	var g *group
	follower := func() metadata.Store {
		return wholeGroup{g.others(g.leader())[0].Store, g}
	}
	metadatatest.Run(t, func(t *testing.T) metadata.Store {
		g = three(t, Options{ElectionTimeoutMs: 1000})
		return follower()
	}, func(t *testing.T) metadata.Store {
		for _, id := range []string{"a", "b", "c"} {
			g.start(id)
		}
		g.nodes["b"].campaign() // sooner than by waiting
		return follower()
	})
}

// TestSoleVoterAtOnce: a sole voter waits for no election timeout, neither at its
// first start nor later.
func TestSoleVoterAtOnce(t *testing.T) {
	g := newGroup(t, Options{ElectionTimeoutMs: 1_000_000})
	n := g.start("a")
	bootstrap(t, n)
	register(t, n)
	g.stop(n)
	n = g.leader(g.start("a"))
	if r := record(t, n); r.Epoch != 1 {
		t.Fatalf("after a restart: %v", r)
	}
	if now, _ := n.Leadership(); now.ID != "a" || now.Addr != n.addr || now.Term < 2 {
		t.Fatalf("the leader is %+v", now)
	}
	if err := n.Bootstrap(context.Background(), testCluster); !errors.Is(err, ErrHasLog) {
		t.Fatalf("a second bootstrap: %v", err)
	}
	if s := n.Status(); s.ClusterID != testCluster || s.Voters != 1 || !s.Voter || s.Provisional || s.Commands != 3 {
		t.Fatalf("status %+v", s)
	}
}

// allocate takes ids at a store until told to stop or it has enough, and returns
// those that were answered; what had an unknown outcome is not repeated.
func allocate(t *testing.T, s metadata.Store, stop <-chan struct{}, most int) (ids []uint64, unknowns int) {
	for len(ids) < most {
		select {
		case <-stop:
			return ids, unknowns
		default:
		}
		r, err := s.Propose(context.Background(), metadatatest.Allocate(metadatatest.Job, 1))
		switch {
		case errors.Is(err, metadata.ErrUnavailable):
		case err != nil:
			t.Error(err)
			return ids, unknowns
		case r.Outcome == messages.MetadataOutcome_UNKNOWN:
			unknowns++
		case r.Outcome != messages.MetadataOutcome_APPLIED:
			t.Errorf("allocate: %v", r)
			return ids, unknowns
		default:
			ids = append(ids, r.Checkpoint)
			if record, err := s.Job(context.Background(), metadatatest.Job); err == nil && record.LastCheckpoint < r.Checkpoint {
				t.Errorf("id %d was answered, but a read after it sees %d", r.Checkpoint, record.LastCheckpoint)
			}
		}
	}
	return ids, unknowns
}

// account holds the ids that were answered to the record: none twice, none above the
// last, and none was skipped but for unknown outcomes.
func account(t *testing.T, s metadata.Store, ids []uint64, unknowns int) {
	t.Helper()
	last := record(t, s).LastCheckpoint
	seen := map[uint64]bool{}
	for _, id := range ids {
		if seen[id] || id == 0 || id > last {
			t.Fatalf("id %d was given out twice, or is above the last, %d", id, last)
		}
		seen[id] = true
	}
	if skipped := int(last) - len(ids); skipped > unknowns {
		t.Fatalf("%d ids of %d are accounted for, and only %d outcomes were unknown", len(ids), last, unknowns)
	}
}

// proposers take ids at several stores at once.
type proposers struct {
	wg       sync.WaitGroup
	stop     chan struct{}
	mu       sync.Mutex
	ids      []uint64
	unknowns int
}

func propose(t *testing.T, most int, stores ...*node) *proposers {
	p := &proposers{stop: make(chan struct{})}
	for _, s := range stores {
		store := s.Store
		p.wg.Go(func() {
			ids, unknowns := allocate(t, store, p.stop, most)
			p.mu.Lock()
			defer p.mu.Unlock()
			p.ids = append(p.ids, ids...)
			p.unknowns += unknowns
		})
	}
	return p
}

// end lets them finish: by themselves where they have a number to reach.
func (p *proposers) end(t *testing.T, s metadata.Store) {
	t.Helper()
	p.wg.Wait()
	account(t, s, p.ids, p.unknowns)
}

// TestLeaderKilled: when the leader dies the others go on, and no command is lost or
// doubled; the dead one catches up when it returns.
func TestLeaderKilled(t *testing.T) {
	g := three(t, Options{})
	first := g.leader()
	register(t, first)
	rest := g.others(first)
	p := propose(t, 150, rest...)
	must(t, rest[0], metadatatest.Allocate(metadatatest.Job, 1))
	p.unknowns++ // the one above is nobody's
	term := first.Status().Term
	g.stop(first)
	next := g.leader(rest...)
	if now := next.Status(); now.Term <= term {
		t.Fatalf("term %d after term %d", now.Term, term)
	}
	p.end(t, rest[0])
	back := g.start(first.id)
	account(t, back, p.ids, p.unknowns)
}

// TestPartition: an isolated leader neither completes a command nor serves a read
// that misses what the others did since; healed, it follows.
func TestPartition(t *testing.T) {
	g := three(t, Options{TimeoutMs: 2000})
	old := g.leader()
	register(t, old)
	g.isolate(old.id)
	rest := g.others(old)
	next := g.leader(rest...)
	if r := must(t, next, metadatatest.StartEpoch(metadatatest.Job)); r.Epoch < 2 {
		t.Fatalf("the new epoch is %d", r.Epoch)
	}
	r, err := old.Propose(context.Background(), metadatatest.Allocate(metadatatest.Job, 1))
	if err == nil && r.Outcome != messages.MetadataOutcome_UNKNOWN || err != nil && !errors.Is(err, metadata.ErrUnavailable) {
		t.Fatalf("the isolated leader answered %v, %v", r, err)
	}
	if r, err := old.Job(context.Background(), metadatatest.Job); !errors.Is(err, metadata.ErrUnavailable) {
		t.Fatalf("the isolated leader read %v, %v", r, err)
	}
	g.heal(old.id)
	if r := record(t, old); r.Epoch < 2 {
		t.Fatalf("healed, it reads epoch %d", r.Epoch)
	}
	if r := must(t, old, metadatatest.Allocate(metadatatest.Job, 1)); r.Outcome != messages.MetadataOutcome_STALE_EPOCH {
		t.Fatalf("a coordinator of the old epoch is answered %v", r)
	}
}

// TestUnknown: a command that was under way when leadership was lost has an unknown
// outcome, not an error, and is not applied twice or half.
func TestUnknown(t *testing.T) {
	g := three(t, Options{ElectionTimeoutMs: 2000})
	old := g.leader()
	register(t, old)
	g.isolate(old.id)
	// The lease lasts for a second yet: the command enters the old leader's log.
	r, err := old.Propose(context.Background(), metadatatest.Allocate(metadatatest.Job, 1))
	if err != nil || r.Outcome != messages.MetadataOutcome_UNKNOWN || r.Failure == "" {
		t.Fatalf("answered %v, %v", r, err)
	}
	next := g.leader(g.others(old)...)
	g.heal(old.id)
	if r := record(t, old); r.LastCheckpoint != 0 {
		t.Fatalf("nobody else had the command, but %v", r)
	}
	account(t, next, nil, 0)
}

// TestForwardedUnknown: so has one whose leader falls silent while it is asked.
func TestForwardedUnknown(t *testing.T) {
	g := three(t, Options{})
	leader := g.leader()
	register(t, leader)
	asker := g.others(leader)[0]
	p := propose(t, 1<<30, asker)
	for range 5 {
		leader = g.leader()
		if leader == asker {
			if err := asker.TransferLeadership(context.Background()); err != nil {
				t.Log(err) // the next round will do
			}
			continue
		}
		must(t, asker, metadatatest.Allocate(metadatatest.Job, 1))
		p.mu.Lock()
		p.unknowns++
		p.mu.Unlock()
		g.isolate(leader.id)
		g.leader(g.others(leader)...)
		g.heal(leader.id)
	}
	close(p.stop)
	p.end(t, asker)
}

// TestGrowth: one voter becomes three while commands are proposed everywhere; there
// are two only between the steps of one change.
func TestGrowth(t *testing.T) {
	g := newGroup(t, Options{})
	a := g.start("a")
	bootstrap(t, a)
	register(t, a)
	b, c := g.start("b"), g.start("c")
	p := propose(t, 100, a, b, c)
	g.steer(Policy{}, 3)
	p.end(t, b)
	for _, n := range []*node{a, b, c} {
		if n.ClusterID() != testCluster {
			t.Errorf("%s is of cluster %q", n.id, n.ClusterID())
		}
	}
	ctx := deadline(t)
	for {
		now, changed := c.Leadership()
		if id, addr := c.Leader(); id != "" && addr == g.nodes[id].addr {
			break
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("c follows %+v", now)
		}
	}
	g.start("d")
	g.start("e")
	g.steer(Policy{Voters: 5}, 5)
	g.steer(Policy{Voters: 3}, 3)
}

// TestSnapshot: the log is replaced by snapshots, from which a new member and a
// restarted one get what is no longer in the log.
func TestSnapshot(t *testing.T) {
	g := newGroup(t, Options{SnapshotEvery: 10})
	a := g.start("a")
	bootstrap(t, a)
	register(t, a)
	taken := uint64(0)
	for compacted := false; !compacted; {
		taken = must(t, a, metadatatest.Allocate(metadatatest.Job, 1)).Checkpoint
		first, err := a.file.FirstIndex()
		if err != nil {
			t.Fatal(err)
		}
		compacted = first > 3
	}
	g.start("b")
	c := g.start("c")
	g.steer(Policy{}, 3)
	if first, err := c.file.FirstIndex(); err != nil || first == 1 {
		t.Fatalf("the new member's log begins at the beginning (%v): it got no snapshot", err)
	}
	for _, id := range []string{"a", "b", "c"} {
		g.stop(g.nodes[id])
	}
	for _, id := range []string{"a", "b", "c"} {
		g.start(id)
	}
	if r := record(t, c); r.LastCheckpoint != taken {
		t.Fatalf("the last id is %d, not %d", r.LastCheckpoint, taken)
	}
	snapshots, err := filepath.Glob(filepath.Join(a.dir, "snapshots", "*"))
	if err != nil || len(snapshots) == 0 || len(snapshots) > 2 {
		t.Fatalf("%d snapshots are kept: %v", len(snapshots), err)
	}
}

// TestReplace: a voter that is dead for long is replaced by another node, and taken
// in again without a vote when it returns.
func TestReplace(t *testing.T) {
	g := three(t, Options{})
	register(t, g.leader())
	dead := g.others(g.leader())[0]
	g.stop(dead)
	g.start("d")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	votes := func(id string) bool {
		return slices.ContainsFunc(g.leader().Members(), func(m Member) bool { return m.ID == id && m.Voter })
	}
	for !votes("d") || votes(dead.id) {
		if _, err := g.leader().Steer(ctx, Policy{}, 1_000_000, g.known()); err != nil && ctx.Err() != nil {
			t.Fatal(err)
		}
	}
	back := g.start(dead.id)
	if _, err := g.leader().Steer(ctx, Policy{}, 1_000_000, g.known()); err != nil {
		t.Fatal(err)
	}
	if r := record(t, back); r.Epoch != 1 || g.leader().Status().Voters != 3 || votes(back.id) {
		t.Fatalf("the returned node reads %v; members %v", r, g.leader().Members())
	}
}

// TestLeave: a member leaves, the leader first hands over, and the last voter gives
// its vote away, or waits in vain for somebody to take it.
func TestLeave(t *testing.T) {
	g := three(t, Options{})
	register(t, g.leader())
	ctx := context.Background()
	leader := g.leader()
	if err := leader.Leave(ctx); err != nil {
		t.Fatal(err)
	}
	g.stop(leader)
	next := g.leader()
	if s := next.Status(); s.Voters != 1 || s.Members != 2 {
		t.Fatalf("after one of three has left: %v", next.Members())
	}
	if err := next.Leave(ctx); err != nil {
		t.Fatal(err)
	}
	g.stop(next)
	last := g.leader()
	if s := last.Status(); s.Voters != 1 || s.Members != 1 {
		t.Fatalf("after two have left: %v", last.Members())
	}
	if r := record(t, last); r.Epoch != 1 {
		t.Fatalf("the record is %v", r)
	}
	if err := last.Leave(ctx); err != nil {
		t.Fatal(err)
	}
	// A member that was never there cannot catch up.
	if _, err := last.apply(deadline(t), []Change{{Kind: AddNonvoter, ID: "ghost", Addr: "127.0.0.1:1"}}); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if err := last.Leave(short); !errors.Is(err, ErrLastVoter) {
		t.Fatalf("the last voter left: %v", err)
	}
}

func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// TestMoved: when all members come back under other addresses they find each other by
// what membership knows, and the log learns where they are.
func TestMoved(t *testing.T) {
	g := newGroup(t, Options{})
	g.options.Locate = g.locate
	bootstrap(t, g.start("a"))
	g.start("b")
	g.start("c")
	g.steer(Policy{}, 3)
	register(t, g.leader())
	for _, n := range g.running() {
		g.stop(n)
		n.addr = "127.0.0.1:0"
	}
	for _, id := range []string{"a", "b", "c"} {
		g.start(id)
	}
	for _, n := range g.running() {
		if r := record(t, n); r.Epoch != 1 {
			t.Fatalf("%s reads %v", n.id, r)
		}
	}
	at := func() (known int) {
		for _, m := range g.leader().Members() {
			if m.Addr == g.nodes[m.ID].addr {
				known++
			}
		}
		return known
	}
	for ctx := deadline(t); at() < 3; {
		if _, err := g.leader().Steer(ctx, Policy{}, 1_000_000, g.known()); err != nil && ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}

// TestAlone: a node that is no member of anything says so.
func TestAlone(t *testing.T) {
	g := newGroup(t, Options{TimeoutMs: 20})
	n := g.start("a")
	_, err := n.Propose(context.Background(), metadatatest.Register(metadatatest.Job))
	if !errors.Is(err, metadata.ErrUnavailable) || !strings.Contains(fmt.Sprint(err), "no member of a cluster") {
		t.Fatalf("answered %v", err)
	}
	if changes, err := n.Steer(context.Background(), Policy{}, 0, g.known()); changes != nil || err != nil {
		t.Fatalf("steered %v, %v", changes, err)
	}
	if err := n.Bootstrap(context.Background(), "c"); err == nil {
		t.Fatal("a cluster id of one digit was taken")
	}
}
