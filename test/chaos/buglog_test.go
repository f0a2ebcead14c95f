package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// formed starts a cluster whose nodes have found each other.
func formed(t *testing.T, size int, flags flags) *cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("a cluster of processes, half a minute")
	}
	binary, err := command()
	if err != nil {
		t.Fatal(err)
	}
	c := newCluster(t, binary, size, flags)
	if _, err := c.awaitOne(t.Context(), patience); err != nil {
		t.Fatal(err)
	}
	return c
}

// alive is how many nodes a node lists as alive.
func (c *cluster) alive(t *testing.T, n *node) (alive int) {
	t.Helper()
	members, err := c.members(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range members {
		if m.Alive {
			alive++
		}
	}
	return alive
}

// await returns when something holds, which must happen.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(healTime); !holds(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", healTime, what)
		}
	}
}

// split loses everything that one group of nodes sends to another one, and back.
func (c *cluster) split(t *testing.T, from, to []*node, how loss) {
	t.Helper()
	for _, a := range from {
		for _, b := range to {
			for _, pair := range [][2]int{{a.index, b.index}, {b.index, a.index}} {
				if err := c.net.lose(pair[0], pair[1], how); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// runJob deploys the job of a round.
func (c *cluster) runJob(t *testing.T, seed uint64, span time.Duration) *job {
	t.Helper()
	j, err := newJob(c.dir, fmt.Sprint("round", seed), seed, len(c.nodes), span)
	if err != nil {
		t.Fatal(err)
	}
	if a := c.ask(t.Context(), c.nodes[0], "deploy", j.topology()); a.code != 0 {
		t.Fatalf("the job does not run: %v", a)
	}
	return j
}

// H01: after a partition for which gossip remembers the dead twice over, the nodes are
// one cluster within 30 s.
func TestBugLog_H01_LongPartition(t *testing.T) {
	c := formed(t, 3, preset("short"))
	if !c.net.breakable() {
		t.Skip("it takes network namespaces")
	}
	cut := c.nodes[2:]
	c.split(t, cut, c.nodes[:2], silent)
	await(t, "both sides have forgotten each other", func() bool { return c.alive(t, c.nodes[2]) == 1 && c.alive(t, c.nodes[0]) == 2 })
	time.Sleep(5 * time.Second) // the preset forgets the dead after 1 s, and nothing tells of it
	c.split(t, cut, c.nodes[:2], nothing)
	took, err := c.awaitOne(t.Context(), healTime)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("one cluster after %v", took)
}

// H02: the only seed comes back, finds the others by what it remembers, and founds no
// cluster of its own.
func TestBugLog_H02_SeedRestarts(t *testing.T) {
	port := freePort(t)
	c := formed(t, 3, func(c *cluster, node int) []string {
		seed := []string{"--preset", "short", "--no-announce", "--gossip-port", port}
		if node == 1 {
			return seed
		}
		return append(seed[:3], "--join", net.JoinHostPort(c.net.bind(1), port))
	})
	seed := c.nodes[0]
	seed.kill()
	await(t, "the others have missed it", func() bool { return c.alive(t, c.nodes[1]) == 2 && c.alive(t, c.nodes[2]) == 2 })
	if err := seed.start(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.awaitOne(t.Context(), healTime); err != nil {
		t.Fatal(err)
	}
}

// freePort is a port that is free on this machine.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// H03: the leader stands still while another one is elected; when it goes on it leads
// no more, and the job is exact.
func TestBugLog_H03_LeaderPauses(t *testing.T) {
	c := formed(t, 3, preset("short"))
	if err := c.awaitVoters(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := &round{cluster: c, seed: 3, log: t.Logf, begun: time.Now()}
	j := c.runJob(t, r.seed, 8*time.Second)
	old := c.leader(t.Context())
	if old == nil {
		t.Fatal("nobody leads")
	}
	id := old.id(t)
	old.signal(syscall.SIGSTOP, false)
	await(t, "another node leads", func() bool { now := c.leader(t.Context()); return now != nil && now != old })
	await(t, "the others coordinate the job", func() bool {
		now := c.leader(t.Context())
		return now != nil && now != old && c.coordinatedElsewhere(t.Context(), now, id)
	})
	old.signal(syscall.SIGCONT, false)
	if _, err := c.awaitOne(t.Context(), healTime); err != nil {
		t.Fatal(err)
	}
	c.check(t, r, j)
}

// id is the node's id, from its data folder.
func (n *node) id(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(n.dir, "node"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\nid ")
	id, _, _ := strings.Cut(rest, "\n")
	return id
}

// coordinatedElsewhere reports whether, as n says, all jobs have a coordinator on another
// node than that.
func (c *cluster) coordinatedElsewhere(ctx context.Context, n *node, id string) bool {
	a := c.ask(ctx, n, "jobs", "-a", "-o", "json")
	var jobs []struct{ Status, Coordinator string }
	if a.code != 0 || json.Unmarshal([]byte(a.stdout), &jobs) != nil {
		return false
	}
	for _, j := range jobs {
		if j.Coordinator == id && j.Status != "FINISHED" {
			return false
		}
	}
	return len(jobs) > 0
}

// check waits for the end of the job, which must be exact, and looks for terms with two
// leaders.
func (c *cluster) check(t *testing.T, r *round, j *job) {
	t.Helper()
	if err := r.finished(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	if err := j.exact(true); err != nil {
		t.Fatal(err)
	}
	if err := c.terms(); err != nil {
		t.Fatal(err)
	}
}

// H09: of five nodes two are cut off, one of them the leader. The job goes on on the
// three, whose nodes alone its tasks are on, and is exact when they are together again.
func TestBugLog_H09_SplitBrain(t *testing.T) {
	c := formed(t, 5, preset("short"))
	if !c.net.breakable() {
		t.Skip("it takes network namespaces")
	}
	if err := c.awaitVoters(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := &round{cluster: c, seed: 9, log: t.Logf, begun: time.Now()}
	j := c.runJob(t, r.seed, 10*time.Second)
	few, many := c.halves(t)
	c.split(t, few, many, silent)
	await(t, "the three have a leader of their own", func() bool { return slices.Contains(many, c.leaderOf(t.Context(), many[0])) })
	await(t, "the job runs on the three", func() bool { return c.runsOn(t, j, many) })
	before, err := j.committed()
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the job goes on", func() bool { now, err := j.committed(); return err == nil && now > before })
	c.split(t, few, many, nothing)
	if _, err := c.awaitOne(t.Context(), healTime); err != nil {
		t.Fatal(err)
	}
	c.check(t, r, j)
}

// halves are the leader with another node that does not vote, and all others.
func (c *cluster) halves(t *testing.T) (few, many []*node) {
	t.Helper()
	members, err := c.members(t.Context(), c.nodes[0])
	if err != nil {
		t.Fatal(err)
	}
	others := 0
	for _, m := range members {
		n := c.byAddress(m.HTTP)
		switch {
		case m.Leader, !m.Voter && others == 0:
			if few = append(few, n); !m.Voter {
				others++
			}
		default:
			many = append(many, n)
		}
	}
	if len(few) != 2 || len(many) != 3 {
		t.Fatalf("no halves of %v", members)
	}
	return few, many
}

// runsOn reports whether all tasks of a job run, and on those nodes alone, as the first
// of them says.
func (c *cluster) runsOn(t *testing.T, j *job, nodes []*node) bool {
	t.Helper()
	a := c.ask(t.Context(), nodes[0], "job", "-o", "json", j.name)
	var view struct {
		Status string
		Tasks  []struct{ Node, State string }
	}
	if a.code != 0 {
		return false // its coordinator is not there yet
	}
	members, err := c.members(t.Context(), nodes[0])
	if err = errors.Join(err, json.Unmarshal([]byte(a.stdout), &view)); err != nil {
		t.Fatal(err)
	}
	allowed := map[string]bool{}
	for _, m := range members {
		allowed[m.Node] = m.HTTP != "" && slices.Contains(nodes, c.byAddress(m.HTTP))
	}
	for _, task := range view.Tasks {
		if !allowed[task.Node] || task.State != "RUNNING" {
			return false
		}
	}
	return view.Status == "RUNNING" && len(view.Tasks) > 0
}
