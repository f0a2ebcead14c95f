package replicated

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"

	"cutwater/cluster/metadata"
	"cutwater/cluster/metadata/metadatatest"
	"cutwater/messages"
)

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
