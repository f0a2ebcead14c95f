package chaos

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	// diskBytes is the size of the file system of a node's data folder.
	diskBytes = 64 << 20
	// patience bounds what takes a moment on an idle machine.
	patience = 60 * time.Second
	// healTime is how long the nodes may take to be one cluster again.
	healTime = 30 * time.Second
)

// cluster is some nodes, running or not.
type cluster struct {
	binary string
	dir    string // of everything
	logs   string // the folder of the logs
	net    network
	secret string
	env    []string
	flags  flags
	nodes  []*node
}

// flags are those of start that a node is given beyond its folder and its address.
type flags func(c *cluster, node int) []string

// preset gives all nodes the same time-outs of gossip.
func preset(name string) flags {
	return func(*cluster, int) []string { return []string{"--preset", name} }
}

// newCluster starts nodes that find each other. The folder is kept if the test fails.
func newCluster(t testing.TB, binary string, size int, flags flags) *cluster {
	t.Helper()
	dir, err := os.MkdirTemp("", "cutwater-chaos-")
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{binary: binary, dir: dir, logs: filepath.Join(dir, "logs"), net: newNetwork(t, size), secret: rand.Text() + rand.Text(), flags: flags}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "CUTWATER_") {
			c.env = append(c.env, v)
		}
	}
	c.env = append(c.env, "CUTWATER_CLUSTER=chaos-"+rand.Text(), "CUTWATER_SECRET="+c.secret)
	if err := os.Mkdir(c.logs, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.close(t) })
	for i := 1; i <= size; i++ {
		n := &node{index: i, cluster: c, dir: filepath.Join(dir, fmt.Sprint("node", i)), log: filepath.Join(c.logs, fmt.Sprint("node", i, ".log"))}
		c.nodes = append(c.nodes, n)
		if err := os.Mkdir(n.dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if c.net.breakable() {
			if err := mountMemory(ownPrefix(), n.dir, diskBytes); err != nil {
				t.Fatalf("no file system for a node: %v", err)
			}
		}
		if err := n.start(); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// close ends everything, and keeps the logs of a test that has failed.
func (c *cluster) close(t testing.TB) {
	if t.Failed() {
		c.showLogs(t)
		for _, n := range c.nodes {
			n.signal(syscall.SIGSTOP, false)
		}
	}
	for _, n := range c.nodes {
		if t.Failed() {
			n.tellStacks()
		}
		n.kill()
	}
	for _, n := range c.nodes {
		if c.net.breakable() {
			if err := unmount(n.dir); err != nil {
				t.Errorf("the file system of node %d stays: %v", n.index, err)
			}
		}
	}
	if !t.Failed() {
		if err := os.RemoveAll(c.dir); err != nil {
			t.Error(err)
		}
		return
	}
	t.Logf("all logs are in %s", c.logs)
}

// showLogs prints the ends of the logs.
func (c *cluster) showLogs(t testing.TB) {
	for _, n := range c.nodes {
		text, _ := os.ReadFile(n.log) // without one there is nothing to show
		lines := strings.SplitAfter(string(text), "\n")
		t.Logf("the end of %s:\n%s", n.log, strings.Join(lines[max(0, len(lines)-25):], ""))
	}
}

// answer is what a command said.
type answer struct {
	stdout, stderr string
	code           int // -1 if it was killed, as it took too long
}

func (a answer) String() string {
	return fmt.Sprintf("exit code %d\n%s%s", a.code, a.stdout, a.stderr)
}

// ask runs a command on the machine of a node, and asks that node.
func (c *cluster) ask(ctx context.Context, n *node, args ...string) answer {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := c.net.command(ctx, n.index, c.binary, append(args, "--data-dir", n.dir)...)
	cmd.Stdout, cmd.Stderr, cmd.Env = &stdout, &stderr, c.env
	err := cmd.Run()
	a := answer{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
	if _, isExit := errors.AsType[*exec.ExitError](err); err != nil && !isExit {
		a.code, a.stderr = -1, a.stderr+err.Error()
	}
	return a
}

// member is an element of `nodes -o json`.
type member struct {
	Node, HTTP           string
	Voter, Leader, Alive bool
}

// members is how a node sees the cluster.
func (c *cluster) members(ctx context.Context, n *node) (members []member, err error) {
	a := c.ask(ctx, n, "nodes", "-o", "json")
	if a.code != 0 {
		return nil, errors.New(a.String())
	}
	return members, json.Unmarshal([]byte(a.stdout), &members)
}

// leaderTime bounds the search for the leader.
const leaderTime = 2 * time.Second

// leader is the node that leads, as the first that answers sees it, or nil.
func (c *cluster) leader(ctx context.Context) *node {
	ctx, cancel := context.WithTimeout(ctx, leaderTime)
	defer cancel()
	for _, n := range c.nodes {
		if leads := c.leaderOf(ctx, n); leads != nil {
			return leads
		}
	}
	return nil
}

// leaderOf is the one that a node takes for the leader, or nil.
func (c *cluster) leaderOf(ctx context.Context, n *node) *node {
	if !n.answers() {
		return nil
	}
	members, err := c.members(ctx, n)
	for _, m := range members {
		if m.Leader && err == nil {
			return c.byAddress(m.HTTP)
		}
	}
	return nil
}

// byAddress finds a node by that of its API.
func (c *cluster) byAddress(http string) *node {
	for _, n := range c.nodes {
		if text, err := os.ReadFile(filepath.Join(n.dir, "addresses")); err == nil && strings.Contains(string(text), `"`+http+`"`) {
			return n
		}
	}
	return nil
}

// awaitOne returns when every node lists every node as alive, and the same one as the
// leader, and how long that took.
func (c *cluster) awaitOne(ctx context.Context, limit time.Duration) (time.Duration, error) {
	begun := time.Now()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		err := c.one(ctx)
		switch {
		case err == nil:
			return time.Since(begun), nil
		case ctx.Err() != nil:
			return limit, fmt.Errorf("not one cluster within %v: %w", limit, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// voters is how many votes a cluster grows to.
const voters = 3

// awaitVoters returns when as many nodes vote as there are to.
func (c *cluster) awaitVoters(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		members, err := c.members(ctx, c.nodes[0])
		votes := 0
		for _, m := range members {
			if m.Voter {
				votes++
			}
		}
		switch {
		case err == nil && votes == voters:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("%d nodes vote after %v (%v)", votes, patience, err)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// one is why the nodes are not one cluster.
func (c *cluster) one(ctx context.Context) error {
	var first []string // of the first node, its id and role for each
	for _, n := range c.nodes {
		members, err := c.members(ctx, n)
		if err != nil {
			return fmt.Errorf("node %d: %w", n.index, err)
		}
		var alive []string
		leaders := 0
		for _, m := range members {
			if m.Alive {
				alive = append(alive, fmt.Sprint(m.Node, " leads: ", m.Leader))
			}
			if m.Leader {
				leaders++
			}
		}
		slices.Sort(alive)
		switch {
		case len(alive) != len(c.nodes) || leaders != 1:
			return fmt.Errorf("node %d lists %d nodes alive and %d leaders", n.index, len(alive), leaders)
		case first != nil && !slices.Equal(first, alive):
			return fmt.Errorf("node %d lists %v, node 1 %v", n.index, alive, first)
		}
		first = alive
	}
	return nil
}

// keepEvents writes the events of all nodes beside the logs.
func (c *cluster) keepEvents(ctx context.Context) {
	for _, n := range c.nodes {
		if n.answers() {
			a := c.ask(ctx, n, "events")
			_ = os.WriteFile(filepath.Join(c.logs, fmt.Sprint("events", n.index, ".txt")), []byte(a.stdout+a.stderr), 0o644) // for people
		}
	}
}
