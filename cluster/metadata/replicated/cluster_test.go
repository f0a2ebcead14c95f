package replicated

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"cutwater/cluster/metadata"
	"cutwater/cluster/metadata/metadatatest"
	"cutwater/messages"
)

// TestMeet: both sides come to opposite verdicts, jobs are never given up, and of two
// provisional clusters the smaller id stays.
func TestMeet(t *testing.T) {
	opposite := map[Verdict]Verdict{Same: Same, Stay: Join, Join: Stay, Conflict: Conflict}
	none := Identity{Provisional: true}
	a, b := Identity{ClusterID: testCluster, Provisional: true}, Identity{ClusterID: otherCluster, Provisional: true}
	withJobs := func(i Identity) Identity { return Identity{ClusterID: i.ClusterID} }
	for _, test := range []struct {
		mine, theirs Identity
		want         Verdict
	}{
		{none, none, Same}, {a, a, Same}, {withJobs(a), a, Same},
		{a, none, Stay}, {withJobs(b), none, Stay},
		{a, b, Stay}, {withJobs(b), a, Stay}, {withJobs(a), b, Stay},
		{withJobs(a), withJobs(b), Conflict},
	} {
		if got := Meet(test.mine, test.theirs); got != test.want {
			t.Errorf("%+v meets %+v: %d, not %d", test.mine, test.theirs, got, test.want)
		}
		if got := Meet(test.theirs, test.mine); got != opposite[test.want] {
			t.Errorf("%+v meets %+v: %d, not %d", test.theirs, test.mine, got, opposite[test.want])
		}
	}
}

// TestYield: a provisional cluster gives itself up, all its members know, and their
// empty folders join another cluster; before that none of it may be deleted.
func TestYield(t *testing.T) {
	g := three(t, Options{})
	leader := g.leader()
	if err := leader.Abandon(); !errors.Is(err, ErrNotYielded) {
		t.Fatalf("abandoned: %v", err)
	}
	if !leader.Status().Provisional {
		t.Fatalf("status %+v", leader.Status())
	}
	if r, err := leader.Yield(context.Background(), otherCluster); err != nil || r.Outcome != messages.MetadataOutcome_APPLIED {
		t.Fatalf("yield: %v, %v", r, err)
	}
	if r := must(t, leader, metadatatest.Register(metadatatest.Job)); r.Outcome != messages.MetadataOutcome_REFUSED {
		t.Fatalf("a job after it: %v", r)
	}
	for _, n := range append(g.others(leader), leader) {
		if got := n.Status().YieldedTo; got != otherCluster {
			t.Fatalf("%s does not know: %q", n.id, got)
		}
		if err := n.Abandon(); err != nil {
			t.Fatal(err)
		}
		n.Store = nil
	}
	if err := g.start("d").Bootstrap(context.Background(), otherCluster); err != nil {
		t.Fatal(err)
	}
	register(t, g.nodes["d"])
	for _, id := range []string{"a", "b", "c"} {
		g.start(id)
	}
	g.steer(Policy{}, 3)
	if r := record(t, g.nodes["a"]); r.Epoch != 1 {
		t.Fatalf("in the other cluster: %v", r)
	}
	if r, err := g.nodes["a"].Yield(context.Background(), testCluster); err != nil || r.Outcome != messages.MetadataOutcome_REFUSED {
		t.Fatalf("a cluster with a job yields: %v, %v", r, err)
	}
}

// lines is a log that tests read while it is written.
type lines struct {
	mu sync.Mutex
	bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.Write(b)
}

func (l *lines) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.String(), what)
}

// TestForeign: a leader that has the address of another cluster's node changes nothing
// there, and is reported once.
func TestForeign(t *testing.T) {
	said := &lines{}
	g := newGroup(t, Options{Log: said, ElectionTimeoutMs: 60})
	a, b := g.start("a"), g.start("b")
	bootstrap(t, a)
	register(t, a)
	if err := b.Bootstrap(context.Background(), otherCluster); err != nil {
		t.Fatal(err)
	}
	term := b.Status().Term
	if _, err := a.apply(deadline(t), []Change{{Kind: AddNonvoter, ID: "b", Addr: b.addr}}); err != nil {
		t.Fatal(err)
	}
	for said.count("refused a node of another cluster") == 0 {
		must(t, a, metadatatest.Allocate(metadatatest.Job, 1)) // each is sent to b
	}
	if s := b.Status(); s.Term != term || s.ClusterID != otherCluster || !s.Here || s.Commands != 1 {
		t.Fatalf("b is changed: %+v", s)
	}
	must(t, a, metadatatest.Allocate(metadatatest.Job, 1))
	if n := said.count("refused a node of another cluster"); n != 1 {
		t.Fatalf("reported %d times", n)
	}
}

// TestRecover: of three voters two are lost; the survivor goes on alone with what it
// has, and the cluster grows again with new nodes.
func TestRecover(t *testing.T) {
	g := three(t, Options{SnapshotEvery: 20})
	register(t, g.leader())
	account(t, g.leader(), nil, 1<<30)
	p := propose(t, 50, g.leader())
	p.end(t, g.leader())
	survivor := g.others(g.leader())[0]
	// The survivor has all that was answered once it was read through it as a leader.
	for g.leader() != survivor {
		if err := g.leader().TransferLeadership(context.Background()); err != nil {
			t.Log(err)
		}
	}
	account(t, survivor, p.ids, p.unknowns)
	for _, n := range g.running() {
		g.stop(n)
	}
	was, err := Inspect(survivor.dir)
	if err != nil || was.Term < 2 || was.Index < 50 || was.ClusterID != testCluster || len(was.Members) != 3 || len(was.Jobs) != 1 {
		t.Fatalf("the log holds %+v: %v", was, err)
	}

	o := g.options
	o.NodeID, o.Dir = survivor.id, survivor.dir
	empty := o
	empty.Dir = t.TempDir()
	if err := Recover(empty, otherCluster); !errors.Is(err, ErrNoLog) {
		t.Fatalf("an empty folder: %v", err)
	}
	if _, err := Inspect(empty.Dir); !errors.Is(err, ErrNoLog) {
		t.Fatalf("an empty folder: %v", err)
	}
	if err := Recover(o, "nonsense"); err == nil || !strings.Contains(err.Error(), "is not 32 lower-case") {
		t.Fatalf("a bad id: %v", err)
	}
	for range 2 { // one that was cut short is repeated
		if err := Recover(o, otherCluster); err != nil {
			t.Fatal(err)
		}
	}
	if is, err := Inspect(survivor.dir); err != nil || is.ClusterID != otherCluster || len(is.Members) != 1 || is.Members[0].ID != survivor.id || is.Index != was.Index {
		t.Fatalf("the log holds %+v: %v", is, err)
	}

	lost := []string{"a", "b", "c"}
	for _, id := range lost {
		if id != survivor.id {
			delete(g.nodes, id)
		}
	}
	g.start(survivor.id)
	account(t, survivor, p.ids, p.unknowns)
	g.start("d")
	g.start("e")
	g.steer(Policy{}, 3)
	account(t, g.nodes["e"], p.ids, p.unknowns)
	for _, id := range []string{survivor.id, "e"} {
		if s := g.nodes[id].Status(); s.ClusterID != otherCluster || !slices.Contains(s.Supersedes, testCluster) {
			t.Errorf("%s belongs to %s, made of %v", id, s.ClusterID, s.Supersedes)
		}
	}
}

// TestSuperseded: a member that has heard that its cluster goes on as another one
// does not open its log again.
func TestSuperseded(t *testing.T) {
	g := three(t, Options{})
	n := g.others(g.leader())[0]
	if err := n.Supersede(otherCluster); err != nil {
		t.Fatal(err)
	}
	g.stop(n)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := g.options
	o.NodeID, o.Dir, o.Listener = n.id, n.dir, l
	if _, err := Open(o); !errors.Is(err, ErrSuperseded) || !strings.Contains(err.Error(), "recovered as cluster "+otherCluster) {
		t.Fatalf("it opens: %v", err)
	}
}

// TestNewer: a node that meets a command of a newer version stands still, says so, and
// neither leads nor takes snapshots; asked, it refuses to propose one.
func TestNewer(t *testing.T) {
	g := three(t, Options{})
	leader := g.leader()
	register(t, leader)
	follower := g.others(leader)[0]
	// Only this member does not know the command.
	follower.fsm.mu.Lock()
	follower.fsm.broken = fmt.Errorf("%w: a test", metadata.ErrNewerFormat)
	follower.fsm.mu.Unlock()
	if _, err := follower.fsm.Snapshot(); !errors.Is(err, metadata.ErrNewerFormat) {
		t.Fatalf("it takes a snapshot: %v", err)
	}
	if r := must(t, follower, metadatatest.Allocate(metadatatest.Job, 1)); r.Checkpoint != 1 {
		t.Fatalf("through the leader it gets %v", r)
	}
	if s := follower.Status(); !errors.Is(s.Failure, metadata.ErrNewerFormat) {
		t.Fatalf("status %+v", s)
	}
	if err := leader.TransferLeadership(context.Background()); err != nil {
		t.Fatal(err)
	}
	g.stop(leader)
	// The broken one may be elected, but hands over to the other.
	if now := g.leader(g.others(follower)...); now == follower {
		t.Fatal("a member that stands still leads")
	}
	if _, err := follower.Propose(context.Background(), &messages.MetadataCommand{}); err == nil {
		t.Fatal("an empty command was proposed")
	}
}

// TestUnreadable: an entry that is no command this version knows makes the machine
// stand still, not differ.
func TestUnreadable(t *testing.T) {
	for name, data := range map[string][]byte{"unknown": {0xfa, 0x3f, 0x00}, "empty": {}, "garbage": {0xff}} {
		f := newFSM(10, func(string) {})
		f.Apply(entryOf(t, 3, metadatatest.Register(metadatatest.Job)))
		if r := f.Apply(rawEntry(4, data)); r != nil {
			t.Fatalf("%s: answered %v", name, r)
		}
		f.Apply(entryOf(t, 5, metadatatest.StartEpoch(metadatatest.Job)))
		if p := f.progress(); p.commands != 1 || !errors.Is(p.broken, metadata.ErrNewerFormat) {
			t.Fatalf("%s: %+v", name, p)
		}
	}
}
