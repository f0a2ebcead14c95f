package replicated

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cutwater/cluster/metadata"
	"cutwater/cluster/metadata/metadatatest"
)

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

// TestMovedUnnoticed: a member that has heard of the leader while membership still had
// an old address of it reaches it as soon as membership knows better.
func TestMovedUnnoticed(t *testing.T) {
	g := newGroup(t, Options{})
	leader := g.start("a")
	bootstrap(t, leader)
	register(t, leader)
	var behind atomic.Bool
	behind.Store(true)
	g.options.Locate = func(id string) (string, bool) {
		if behind.Load() {
			return "127.0.0.1:1", true // nobody listens there
		}
		return g.locate(id)
	}
	asker := g.start("b")
	g.steer(Policy{}, 1)
	for ctx := deadline(t); ; {
		now, changed := asker.Leadership()
		if now.ID == leader.id {
			break
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatal("the new member hears of no leader")
		}
	}
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := asker.Jobs(short); !errors.Is(err, metadata.ErrUnavailable) {
		t.Fatalf("asked where nobody listens: %v", err)
	}
	behind.Store(false)
	if r := record(t, asker); r.Epoch != 1 {
		t.Fatalf("read %v", r)
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
