package node_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cutwater/cluster/metadata/replicated"
	"cutwater/cluster/secret"
	"cutwater/connector/file"
	"cutwater/connector/filesink"
	"cutwater/messages"
	"cutwater/node"
	"cutwater/storage/vfs"
	"cutwater/stream/catalog"
	"cutwater/stream/operator"
	"cutwater/topology"
)

// cluster is what the nodes of one test have in common.
type cluster struct {
	t    *testing.T
	name string
	port uint16
}

func newCluster(t *testing.T) *cluster {
	return &cluster{t, fmt.Sprintf("test-%d", rand.Uint64()), uint16(20_000 + rand.IntN(10_000))}
}

func (c *cluster) catalog() *catalog.Catalog {
	return &catalog.Catalog{Sources: []catalog.SourceSpec{file.Spec()}, Sinks: []catalog.SinkSpec{filesink.Spec()}}
}

func (c *cluster) build(s *messages.TopologySource) (operator.Program, *messages.JobSettings, error) {
	top, err := topology.LoadSource(s, c.catalog())
	if err != nil {
		return nil, nil, err
	}
	p, settings, err := topology.Build(top, c.catalog())
	return p, settings, err
}

// start starts a node on loopback with a data folder of its own.
func (c *cluster) start(change ...func(*node.MemberOptions)) *node.Member {
	c.t.Helper()
	o := node.MemberOptions{DataDir: c.t.TempDir(), FS: vfs.OS(), ClusterName: c.name, Bind: netip.MustParseAddr("127.0.0.1"),
		AnnouncePort: c.port, Slots: 4, Build: c.build, Voters: replicated.Policy{StableMs: 500}}
	for _, f := range change {
		f(&o)
	}
	m, err := node.StartMember(o)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		if err := m.Close(); err != nil {
			c.t.Error(err)
		}
	})
	return m
}

// ready waits until the nodes are one cluster, each knows all, and all can serve.
func (c *cluster) ready(members ...*node.Member) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 30*time.Second)
	defer cancel()
	for _, m := range members {
		for {
			if err := m.AwaitReady(ctx); err != nil {
				c.t.Fatal(err)
			}
			nodes, err := m.Nodes()
			if err != nil {
				c.t.Fatal(err)
			}
			if m.ClusterID() == members[0].ClusterID() && alive(nodes) == len(members) {
				break
			}
			select {
			case <-m.Changed():
			case <-ctx.Done():
				c.t.Fatalf("node %s is in cluster %s with %v", m.Name(), m.ClusterID(), nodes)
			}
		}
	}
}

func alive(nodes []node.NodeStatus) (n int) {
	for _, s := range nodes {
		if s.Alive {
			n++
		}
	}
	return n
}

// Nodes that start together find each other, and are one cluster with one leader.
func TestMembersFindEachOther(t *testing.T) {
	c := newCluster(t)
	begun := time.Now()
	first := c.start()
	c.ready(first)
	t.Logf("alone: %v", time.Since(begun))
	begun = time.Now()
	second := c.start()
	c.ready(first, second)
	t.Logf("second: %v", time.Since(begun))
	if first.ClusterID() != second.ClusterID() {
		t.Errorf("clusters %s and %s", first.ClusterID(), second.ClusterID())
	}
}

// until waits, with a look each time that the node looks at its cluster.
func (c *cluster) until(m *node.Member, what string, done func() bool) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	for {
		changed := m.Changed()
		if done() {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			c.t.Fatalf("not within a minute: %s", what)
		}
	}
}

// status is how a job stands, as a node reads it.
func (c *cluster) status(m *node.Member, id string) *messages.JobRecord {
	c.t.Helper()
	r, err := m.Job(c.t.Context(), id)
	if err != nil {
		c.t.Logf("job %s: %v", id, err)
		return &messages.JobRecord{}
	}
	return r
}

// deploy deploys a job that copies n rows, with an exchange between, and returns its
// id and the folder that it writes to.
func (c *cluster) deploy(m *node.Member, parallelism, rows, rate int) (id, out string) {
	c.t.Helper()
	dir := c.t.TempDir()
	out = filepath.Join(dir, "out")
	var b strings.Builder
	b.WriteString("n,key\n")
	for i := range rows {
		fmt.Fprintf(&b, "%d,k%d\n", i, i%97)
	}
	if err := os.WriteFile(filepath.Join(dir, "in.csv"), []byte(b.String()), 0o644); err != nil {
		c.t.Fatal(err)
	}
	text := fmt.Sprintf(`
name: rows
parallelism: %d
checkpointing: {interval: 100ms, dir: checkpoints}
operators:
  - {uid: rows, source: {file: {path: in.csv, format: csv, split-size: 4KiB, rate: %d, schema: {n: int, key: string}}}}
  - {uid: counts, input: rows, key-by: key, aggregate: {count: count(), last: max(n)}}
  - {uid: out, input: counts, sink: {file: {path: out, format: csv}}}
`, parallelism, rate)
	id, err := m.Deploy(c.t.Context(), &messages.TopologySource{File: filepath.Join(dir, "rows.yaml"), Text: []byte(text)}, node.DeployOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	return id, out
}

// exact holds what was written to the result without any fault: for each key the
// counts from 1 to n, each once.
func (c *cluster) exact(out string, rows int) {
	c.t.Helper()
	files, _ := filepath.Glob(filepath.Join(out, "*.csv"))
	seen := map[string]int{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			c.t.Fatal(err)
		}
		for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n")[1:] {
			fields := strings.Split(line, ",")
			seen[fields[0]+" "+fields[1]]++
		}
	}
	wrong := 0
	for i := range rows {
		key := fmt.Sprintf("k%d %d", i%97, i/97+1)
		if seen[key] != 1 {
			wrong++
		}
	}
	if wrong > 0 || len(seen) != rows {
		c.t.Errorf("%d of %d rows are missing or were written twice; %d different rows in %d files", wrong, rows, len(seen), len(files))
	}
}

// A job that needs the slots of three nodes runs on all of them, and ends.
func TestMembersRunAJob(t *testing.T) {
	c := newCluster(t)
	members := []*node.Member{c.start(), c.start(), c.start()}
	c.ready(members...)
	id, out := c.deploy(members[2], 12, 10000, 2500)
	c.until(members[1], "the job runs", func() bool { return c.status(members[1], id).Status == messages.JobStatus_RUNNING })
	view, err := members[1].View(t.Context(), id, 0)
	if err != nil {
		t.Fatal(err)
	}
	nodes := map[string]bool{}
	for _, task := range view.Tasks {
		nodes[task.Node] = true
	}
	if len(nodes) != 3 {
		t.Errorf("the tasks run on %d nodes", len(nodes))
	}
	c.until(members[1], "the job ends", func() bool { return c.status(members[1], id).Status == messages.JobStatus_FINISHED })
	c.exact(out, 10000)
	for _, m := range members {
		if view, err := m.View(t.Context(), id, 0); err != nil || view.Status != messages.JobStatus_FINISHED || view.Checkpoints.GetCounts().GetCompleted() == 0 {
			t.Errorf("node %s sees of the ended job %v, %v", m.Name(), view, err)
		}
	}
}

// A node is lost with its tasks: the job goes on without it, and nothing is lost or
// doubled. Then the leader is lost, and with it, perhaps, the coordinator.
func TestMembersAreLost(t *testing.T) {
	c := newCluster(t)
	members := []*node.Member{c.start(), c.start(), c.start()}
	c.ready(members...)
	c.until(members[0], "three voters", func() bool { return c.voters(members[0]) == 3 })
	id, out := c.deploy(members[0], 4, 12000, 1500)
	completed := func(m *node.Member) bool { return c.status(m, id).LastCompleted > 0 }
	c.until(members[0], "a checkpoint", func() bool { return completed(members[0]) })
	leader := c.leader(members[0])
	for i, m := range members {
		if m.Name() != leader {
			if err := m.Close(); err != nil {
				t.Error(err)
			}
			members = append(members[:i], members[i+1:]...)
			break
		}
	}
	c.until(members[0], "the end of the job", func() bool { return c.status(members[0], id).Status == messages.JobStatus_FINISHED })
	c.exact(out, 12000)
}

// Nodes with one secret are a cluster, whose log and messages travel under TLS; a node
// with another one stays alone.
func TestMembersWithASecret(t *testing.T) {
	c := newCluster(t)
	with := func(text string) func(*node.MemberOptions) {
		s, err := secret.New([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return func(o *node.MemberOptions) { o.Secret = s }
	}
	members := []*node.Member{c.start(with("the secret of the cluster")), c.start(with("the secret of the cluster"))}
	c.ready(members...)
	other := c.start(with("the secret of somebody else"), func(o *node.MemberOptions) {
		nodes, err := members[0].Nodes()
		if err != nil {
			t.Fatal(err)
		}
		o.Join = []string{nodes[0].Gossip.String()}
	})
	id, out := c.deploy(members[0], 6, 3000, 3000)
	c.until(members[1], "the end of the job", func() bool { return c.status(members[1], id).Status == messages.JobStatus_FINISHED })
	c.exact(out, 3000)
	c.ready(members...)
	nodes, err := other.Nodes()
	if err != nil {
		t.Fatal(err)
	}
	if alive(nodes) > 1 || other.ClusterID() == members[0].ClusterID() {
		t.Errorf("the node with another secret is in cluster %s with %v", other.ClusterID(), nodes)
	}
}

// The end of a node is seen by all others long before gossip misses it, also where
// nothing runs.
func TestMemberEnds(t *testing.T) {
	c := newCluster(t)
	members := []*node.Member{c.start(), c.start(), c.start()}
	c.ready(members...)
	gone := members[1].Name()
	if err := members[1].Close(); err != nil {
		t.Fatal(err)
	}
	for _, m := range []*node.Member{members[0], members[2]} {
		for e := range m.Events(t.Context(), 0, true) {
			ended, ok := e.Event.(node.NodeEnded)
			if !ok {
				continue
			}
			if ended.Node != gone || strings.Contains(ended.Reason, "gossip") {
				t.Errorf("seen as: %s", ended)
			}
			break
		}
	}
	c.ready(members[0], members[2])
}

func (c *cluster) voters(m *node.Member) (n int) {
	nodes, err := m.Nodes()
	if err != nil {
		c.t.Fatal(err)
	}
	for _, s := range nodes {
		if s.Voter {
			n++
		}
	}
	return n
}

// leader is the name of the node that leads, as another one knows it.
func (c *cluster) leader(m *node.Member) string {
	nodes, err := m.Nodes()
	if err != nil {
		c.t.Fatal(err)
	}
	for _, s := range nodes {
		if s.Leader {
			return s.Name
		}
	}
	return ""
}
