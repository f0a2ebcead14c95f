package testkit

import (
	"context"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"cutwater/actors/system"
	"cutwater/messages"
	"cutwater/node"
	"cutwater/protocol"
	machine "cutwater/protocol/metadata"
	"cutwater/storage/vfs"
	"cutwater/stream"
	"cutwater/stream/operator"
	"cutwater/topology"
)

// Cluster is several nodes in the simulation, for a test of your own topology: the
// production actors on a virtual clock, network and disk that all nodes share. It
// takes no time but that of its work, and the same seed gives the same run. Nothing
// goes wrong in it but what the test does: kill nodes, cut them off, start them again.
// World has more to do to it.
//
// Time passes only inside of Run and of the methods that wait.
type Cluster struct {
	// Timeout bounds each wait, in virtual time; NewCluster sets 5 minutes.
	Timeout time.Duration

	t        TB
	world    *World
	plane    *controlPlane
	programs map[string]operator.Program
	jobs     []*ClusterJob
	probes   []interface{ started(*messages.JobGraph) }
	events   []string
	views    map[string]*messages.JobView
}

// ClusterJob is a job that was deployed to a Cluster.
type ClusterJob struct {
	cluster *Cluster
	id      string
}

// slotsPerNode of a Cluster.
const slotsPerNode = 4

// NewCluster starts nodes of those names, with four slots each. They find each other
// and a leader as time passes.
func NewCluster(t TB, seed uint64, nodes ...string) *Cluster {
	t.Helper()
	c := &Cluster{Timeout: 5 * time.Minute, t: t, world: NewWorld(seed, Faults{}), programs: map[string]operator.Program{},
		views: map[string]*messages.JobView{}}
	t.Cleanup(c.Close)
	c.plane = newControlPlane(c.world, func(*Node) int { return slotsPerNode }, c.deps)
	for _, name := range nodes {
		if strings.ContainsAny(name, ".|") || name == "" || c.world.byID(name) != nil {
			t.Fatalf("testkit: %q is no name for a node of a cluster: it is taken, is empty, or has a dot or a bar", name)
		}
		if _, err := c.world.addNode(name, c.boot); err != nil {
			t.Fatalf("testkit: node %s does not start: %v", name, err)
		}
	}
	return c
}

// World is the simulation in which the nodes live. Its nodes have the names that
// NewCluster was given as their ID.
func (c *Cluster) World() *World { return c.world }

func (c *Cluster) boot(n *Node) (*node.Runtime, error) {
	rt, err := c.plane.boot(n)
	if err != nil {
		return nil, err
	}
	_, err = n.System().Spawn(lookoutName, &lookout{c}, system.NewMailbox(0, nil))
	return rt, err
}

func (c *Cluster) deps(n *Node) node.Deps {
	note := func(job string, e protocol.Event) {
		line := fmt.Sprintf("%d ms %s: %v", c.world.ElapsedMs(), n.ID, e)
		if job != "" {
			line = fmt.Sprintf("%d ms %s, job %s: %v", c.world.ElapsedMs(), n.ID, job[len(job)-4:], e)
		}
		c.events = append(c.events, line)
		c.world.remark("EVENT %s", line)
	}
	return node.Deps{
		Programs: func(name string) (operator.Program, error) {
			if p := c.programs[name]; p != nil {
				return p, nil
			}
			return nil, fmt.Errorf("testkit: no program %q was deployed", name)
		},
		PollRecords: 16,
		Event:       func(e protocol.Event) { note("", e) },
		JobEvent:    note,
	}
}

// Close removes the nodes; the test's end does it, too.
func (c *Cluster) Close() { c.world.Close() }

// Events are what has happened so far, a line for each: on which node, of which job
// (by the end of its id), and what.
func (c *Cluster) Events() []string { return slices.Clone(c.events) }

// WriteFile puts a file on the disk that all nodes see.
func (c *Cluster) WriteFile(name, content string) {
	c.t.Helper()
	if err := writeInput(c.world.Disk(), name, content); err != nil {
		c.t.Fatalf("testkit: %v", err)
	}
}

// Rows are the lines of the visible files that a file sink has written to a folder,
// sorted, without headers.
func (c *Cluster) Rows(dir string) []string {
	c.t.Helper()
	files, err := c.world.Disk().Glob(path.Join(dir, "part-*"))
	if err != nil {
		c.t.Fatalf("testkit: %v", err)
	}
	rows := []string{}
	for _, f := range files {
		content, err := vfs.ReadFile(c.world.Disk(), f)
		if err != nil {
			c.t.Fatalf("testkit: %v", err)
		}
		rows = append(rows, strings.Split(strings.TrimSuffix(string(content), "\n"), "\n")[1:]...)
	}
	slices.Sort(rows)
	return rows
}

// Deploy builds the topology and registers it as a job. Settings are the keys of a
// topology.yaml, as in Job.Start; without any there are checkpoints every 20 ms.
func (c *Cluster) Deploy(t *stream.Topology, settings ...string) *ClusterJob {
	c.t.Helper()
	if len(settings) == 0 {
		settings = []string{defaultSettings}
	}
	program, err := t.Build()
	if err != nil {
		c.t.Fatalf("testkit: the topology does not build: %v", err)
	}
	config, err := topology.Settings("settings", []byte(strings.Join(settings, "\n")+"\n"), os.LookupEnv)
	if err != nil {
		c.t.Fatalf("testkit: %v", err)
	}
	return c.deploy(program, config)
}

// DeployText registers the content of a topology.yaml that stands in the folder /job:
// files that it names are there.
func (c *Cluster) DeployText(text string) *ClusterJob {
	c.t.Helper()
	t, err := topology.Load("/job/topology.yaml", []byte(text), Catalog(), noEnvironment)
	if err != nil {
		c.t.Fatalf("testkit: %v", err)
	}
	program, config, err := topology.Build(t, Catalog())
	if err != nil {
		c.t.Fatalf("testkit: %v", err)
	}
	return c.deploy(program, config)
}

func (c *Cluster) deploy(program *stream.Program, config *messages.JobSettings) *ClusterJob {
	c.t.Helper()
	j := &ClusterJob{c, fmt.Sprintf("%032x", len(c.jobs)+1)}
	if config.Checkpointing.Dir == "" {
		config.Checkpointing.Dir = "/checkpoints"
	}
	graph := program.Graph()
	source := &messages.TopologySource{File: j.id}
	c.programs[node.ProgramName(source)] = program
	for _, p := range c.probes {
		p.started(graph)
	}
	result, err := c.plane.group.Propose(context.Background(), &messages.MetadataCommand{Command: &messages.MetadataCommand_RegisterJob{RegisterJob: &messages.RegisterJob{
		Job: j.id, Name: graph.Name, Graph: graph, Settings: config, Topology: source, AtMs: c.world.NowMs()}}})
	if err != nil || result.Outcome != messages.MetadataOutcome_APPLIED {
		c.t.Fatalf("testkit: the job is not registered: %v, %v", result, err)
	}
	c.jobs = append(c.jobs, j)
	return j
}

// Run lets virtual time pass.
func (c *Cluster) Run(d time.Duration) {
	c.t.Helper()
	end := c.world.ElapsedMs() + d.Milliseconds()
	c.runUntil(func() bool { return c.world.ElapsedMs() >= end })
}

// runUntil runs until done, and fails the test if the world broke or time is up.
func (c *Cluster) runUntil(done func() bool) bool {
	c.t.Helper()
	end := c.world.ElapsedMs() + c.Timeout.Milliseconds()
	for !done() {
		if c.world.ElapsedMs() > end || !c.world.Step() {
			return false
		}
		if err := c.world.Err(); err != nil {
			c.t.Fatalf("testkit: after %d ms: %v", c.world.ElapsedMs(), err)
		}
	}
	return true
}

// Kill ends a node as kill -9 does.
func (c *Cluster) Kill(name string) { c.node(name).Crash() }

// Restart starts a node that was killed.
func (c *Cluster) Restart(name string) {
	c.t.Helper()
	n := c.node(name)
	if n.Alive() {
		c.t.Fatalf("testkit: node %s runs already", name)
	}
	if err := n.Restart(); err != nil {
		c.t.Fatalf("testkit: node %s does not start: %v", name, err)
	}
}

// Partition cuts two nodes off from each other, until Heal. Others reach both.
func (c *Cluster) Partition(a, b string) { c.sever(a, b, true) }

// Heal ends a Partition.
func (c *Cluster) Heal(a, b string) { c.sever(a, b, false) }

func (c *Cluster) sever(a, b string, cut bool) {
	c.t.Helper()
	one, other := c.node(a), c.node(b)
	c.world.Sever(one, other, cut)
	c.world.Sever(other, one, cut)
}

// Isolate cuts a node off from all others, or joins it again.
func (c *Cluster) Isolate(name string, cut bool) {
	c.t.Helper()
	for _, n := range c.world.nodes {
		if n.ID != name {
			c.sever(name, n.ID, cut)
		}
	}
}

// Leader is the node that leads the cluster, or nothing.
func (c *Cluster) Leader() string { return c.plane.group.Leader() }

func (c *Cluster) node(name string) *Node {
	c.t.Helper()
	n := c.world.byID(name)
	if n == nil {
		c.t.Fatalf("testkit: the cluster has no node %q", name)
	}
	return n
}

// ID is the job's id.
func (j *ClusterJob) ID() string { return j.id }

// Status is how the job stands, as the metadata log says.
func (j *ClusterJob) Status() messages.JobStatus { return j.record().Status }

// Failure is why the job ended as FAILED, or why its last attempt ended; else nothing.
func (j *ClusterJob) Failure() string { return j.record().Failure }

// Coordinator is the node that coordinates the job, or did last; nothing before the
// first.
func (j *ClusterJob) Coordinator() string {
	name := system.NodeOf(protocol.Address(j.record().Coordinator))
	id, _, _ := strings.Cut(name, ".")
	return id
}

func (j *ClusterJob) record() *messages.JobRecord {
	r, _ := j.cluster.plane.group.Job(context.Background(), j.id) // a model that is open answers
	return r
}

// Wait lets time pass until the job has that status. The test fails if it ends
// otherwise, or after Cluster.Timeout.
func (j *ClusterJob) Wait(status messages.JobStatus) {
	j.cluster.t.Helper()
	now := j.Status
	if !j.cluster.runUntil(func() bool { return now() == status || machine.Ended(now()) }) || now() != status {
		j.cluster.t.Fatalf("testkit: waited for the job to be %v: %s; what happened last:\n%s", status, j.state(), j.cluster.lastEvents())
	}
}

func (j *ClusterJob) state() string {
	state := fmt.Sprintf("it is %v", j.Status())
	if v := j.View(); v.GetWaiting() != "" {
		state += ", and waits: " + v.Waiting
	}
	if f := j.Failure(); f != "" {
		state += "; " + f
	}
	return state
}

func (c *Cluster) lastEvents() string {
	return strings.Join(c.events[max(0, len(c.events)-20):], "\n")
}

// View asks the job's coordinator how the job stands, as the HTTP API does; nil if it
// does not answer within a second.
func (j *ClusterJob) View() *messages.JobView {
	c, r := j.cluster, j.record()
	n := c.world.node(system.NodeOf(protocol.Address(r.Coordinator)))
	if n == nil || !n.alive {
		return nil
	}
	delete(c.views, j.id)
	n.sys.Deliver(protocol.Address(r.Coordinator), &messages.JobQuery{Job: j.id, Asker: string(n.sys.Address(lookoutName))})
	end := c.world.ElapsedMs() + 1000
	c.runUntil(func() bool { return c.views[j.id] != nil || c.world.ElapsedMs() > end })
	return c.views[j.id]
}

// Cancel asks the job's coordinator to end the job; Wait waits for that.
func (j *ClusterJob) Cancel() {
	to := protocol.Address(j.record().Coordinator)
	if n := j.cluster.world.node(system.NodeOf(to)); n != nil && n.alive {
		n.sys.Deliver(to, &messages.CancelJob{Job: j.id})
	}
}

// lookout takes the answers of coordinators.
type lookout struct{ cluster *Cluster }

const lookoutName = "lookout"

// Started implements system.Handler.
func (*lookout) Started(*system.Self) {}

// Stopped implements system.Handler.
func (*lookout) Stopped() {}

// Receive implements system.Handler.
func (l *lookout) Receive(m proto.Message) {
	if v, ok := m.(*messages.JobView); ok {
		l.cluster.views[v.Job] = v
	}
}

// The rest is what a Probe needs.

func (c *Cluster) tb() TB { return c.t }

func (c *Cluster) watch(p interface{ started(*messages.JobGraph) }) { c.probes = append(c.probes, p) }

func (c *Cluster) await(what string, met func() bool, _ func() <-chan struct{}, seen func() string) bool {
	c.t.Helper()
	if len(c.jobs) == 0 {
		c.t.Fatalf("testkit: a wait for %s, and no job was deployed", what)
	}
	ended := func() bool {
		return !slices.ContainsFunc(c.jobs, func(j *ClusterJob) bool { return !machine.Ended(j.Status()) })
	}
	if !c.runUntil(func() bool { return met() || ended() }) {
		c.t.Fatalf("testkit: waited %s of virtual time for %s; %s%s", c.Timeout, what, seen(), c.state())
	}
	return met()
}

// state is the jobs' status, for people.
func (c *Cluster) state() string {
	var all []string
	for _, j := range c.jobs {
		all = append(all, j.state())
	}
	return strings.Join(all, "; ")
}
