package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cutwater/api"
	"cutwater/api/client"
	"cutwater/messages"
)

// How long people wait when a machine dies, in milliseconds: the median over the
// iterations. Each takes half a minute, so ask for few, on a machine that does nothing
// else:
//
//	go test ./test/chaos -run '^$' -bench . -benchtime 5x

// sampleTime is the time between two looks at the nodes that live on, and so how
// exactly the benchmarks know when something happened.
const sampleTime = 10 * time.Millisecond

// A lone node is ready, and a second one with no flags has joined it.
func BenchmarkStart(b *testing.B) {
	c := started(b, 2)
	ms := medians{}
	for b.Loop() {
		for _, n := range c.nodes {
			n.kill()
			n.wipe(b)
		}
		begun := time.Now()
		c.begins(b, c.nodes[0], 1)
		ms.add("ms/ready", time.Since(begun))
		begun = time.Now()
		c.begins(b, c.nodes[1], 2)
		ms.add("ms/joined", time.Since(begun))
	}
	ms.report(b)
}

// A node that runs tasks of a job with a million keys is killed. Until another node
// has noticed, and until a task processes a record again.
func BenchmarkWorkerKilled(b *testing.B) {
	c := started(b, 3)
	ms := medians{}
	for b.Loop() {
		l := newLoad(b, c, 3, func(l *load, n *node) bool { return l.runs(n) && !l.coordinates(n) && n != c.leader(b.Context()) })
		killed := l.kill()
		ms.add("ms/detected", l.event("NodeLost", "NodeEnded").Sub(killed))
		ms.add("ms/processing-again", l.processes(l.running()).Sub(killed))
		l.end()
	}
	ms.report(b)
}

// started is a cluster whose nodes have found each other.
func started(b *testing.B, size int) *cluster {
	binary, err := command()
	if err != nil {
		b.Fatal(err)
	}
	c := newCluster(b, binary, size, preset("local"))
	c.whole(b)
	return c
}

// whole waits until all nodes are one cluster, with as many votes as it can have.
func (c *cluster) whole(b *testing.B) {
	if _, err := c.awaitOne(b.Context(), patience); err != nil {
		b.Fatal(err)
	}
	if len(c.nodes) < voters {
		return
	}
	if err := c.awaitVoters(b.Context()); err != nil {
		b.Fatal(err)
	}
}

// begins starts a node and waits until it serves, in a cluster of so many.
func (c *cluster) begins(b *testing.B, n *node, size int) {
	if err := n.start(); err != nil {
		b.Fatal(err)
	}
	within(b, fmt.Sprintf("node %d serves", n.index), func() bool {
		ask, err := c.client(n)
		if err != nil || ask.Ready(b.Context()) != nil {
			return false
		}
		nodes, err := ask.Nodes(b.Context())
		return err == nil && len(nodes) == size
	})
}

// wipe empties the data folder of a node that does not run.
func (n *node) wipe(b *testing.B) {
	entries, err := os.ReadDir(n.dir)
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(n.dir, e.Name())))
	}
	if err != nil {
		b.Fatal(err)
	}
}

// medians collects durations by unit.
type medians map[string][]time.Duration

func (m medians) add(unit string, d time.Duration) { m[unit] = append(m[unit], d) }

func (m medians) report(b *testing.B) {
	b.ReportMetric(0, "ns/op")
	for unit, all := range m {
		slices.Sort(all)
		b.Logf("%s: %v", unit, all)
		b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, unit)
	}
}

// load is a job under way in a cluster, one node of which will be killed.
type load struct {
	b       *testing.B
	cluster *cluster
	job     string   // its id
	idle    []string // jobs that were deployed before it
	view    *messages.JobView
	victim  *node
	stop    context.CancelFunc
	looking sync.WaitGroup

	mu      sync.Mutex
	changed chan struct{} // closed at the next look
	events  []api.Event
	grown   []time.Time // when the survivors had received more data than before
}

// newLoad deploys the job, until there is a node to kill: one of which victim holds.
// After each time that there is none it deploys an idle job, so that coordinators and
// tasks are placed otherwise.
func newLoad(b *testing.B, c *cluster, parallelism int, victim func(*load, *node) bool) *load {
	var idle []string
	for range 12 {
		l := &load{b: b, cluster: c, changed: make(chan struct{}), idle: idle}
		l.deploy(fmt.Sprint("load", time.Now().UnixNano()), parallelism)
		if i := slices.IndexFunc(c.nodes, func(n *node) bool { return victim(l, n) }); i >= 0 {
			l.victim = c.nodes[i]
			l.fill()
			l.look()
			return l
		}
		l.cancel(c.nodes[0], l.job)
		l.deployText(fmt.Sprint("idle", time.Now().UnixNano()), idleJob)
		idle = append(idle, l.job)
	}
	b.Fatal("in 12 placements there was no node to kill")
	return nil
}

// idleJob is a job that takes a slot and does next to nothing.
const idleJob = `
checkpointing: {interval: 10s, storage: coordinator}
operators:
  - uid: in
    source: {datagen: {rate: 1, schema: {n: int}}}
  - {uid: out, input: in, sink: {blackhole: {}}}
`

func (l *load) cancel(by *node, job string) {
	if a := l.cluster.ask(l.b.Context(), by, "cancel", job); a.code != 0 {
		l.b.Fatal(a)
	}
}

const (
	loadKeys = 1_000_000
	loadRate = 400_000
)

// deploy starts a keyed count, with a checkpoint every second, and a sink that commits
// with each of them.
func (l *load) deploy(name string, parallelism int) {
	l.deployText(name, fmt.Sprintf(`
parallelism: %d
checkpointing: {interval: 1s, dir: checkpoints}
operators:
  - uid: in
    source: {datagen: {rate: %d, schema: {key: int}, fields: "key: uniform(0, %d)"}}
  - uid: counts
    input: in
    key-by: key
    aggregate: {n: count()}
  - {uid: some, input: counts, filter: "key < 1000"}
  - {uid: out, input: some, sink: {file: {path: out, format: csv}}}
`, parallelism, loadRate, loadKeys-1))
}

// deployText deploys a topology under that name, in a folder of that name.
func (l *load) deployText(name, text string) {
	dir := filepath.Join(l.cluster.dir, name)
	text = "name: " + name + text
	if err := os.Mkdir(dir, 0o755); err != nil {
		l.b.Fatal(err)
	}
	file := filepath.Join(dir, "topology.yaml")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		l.b.Fatal(err)
	}
	if a := l.cluster.ask(l.b.Context(), l.cluster.nodes[0], "deploy", file); a.code != 0 {
		l.b.Fatal(a)
	}
	jobs, err := l.client(l.cluster.nodes[0]).Jobs(l.b.Context())
	if err != nil {
		l.b.Fatal(err)
	}
	i := slices.IndexFunc(jobs, func(j api.Job) bool { return j.Name == name })
	if i < 0 {
		l.b.Fatalf("job %s is deployed, and not listed", name)
	}
	l.job = jobs[i].ID
	if l.view, err = l.client(l.cluster.nodes[0]).View(l.b.Context(), l.job, 0); err != nil {
		l.b.Fatal(err)
	}
}

func (l *load) client(n *node) *client.Client {
	c, err := l.cluster.client(n)
	if err != nil {
		l.b.Fatal(err)
	}
	return c
}

// fill waits until nearly all keys have come.
func (l *load) fill() {
	const keyBytes = 16 // that a key takes in a checkpoint, at least
	within(l.b, "a checkpoint with all keys", func() bool {
		v, err := l.client(l.cluster.nodes[0]).View(l.b.Context(), l.job, 0)
		return err == nil && v.GetCheckpoints().GetLatestCompleted().GetSums().GetStateBytes() > loadKeys*keyBytes
	})
}

// runs reports whether a node runs a task of the job.
func (l *load) runs(n *node) bool {
	id := l.id(n)
	return slices.ContainsFunc(l.view.Tasks, func(t *messages.TaskView) bool { return strings.HasPrefix(t.Node, id) })
}

// coordinates reports whether a node runs the coordinator of the job.
func (l *load) coordinates(n *node) bool { return strings.HasPrefix(l.view.Node, l.id(n)) }

// id is that of a node's data folder.
func (l *load) id(n *node) string {
	address, err := n.address()
	if err != nil {
		l.b.Fatal(err)
	}
	nodes, err := l.client(n).Nodes(l.b.Context())
	if err != nil {
		l.b.Fatal(err)
	}
	for _, of := range nodes {
		if of.HTTP == address {
			return of.ID
		}
	}
	l.b.Fatalf("node %d does not list itself", n.index)
	return ""
}

// look begins to watch the nodes that will live on.
func (l *load) look() {
	ctx, stop := context.WithCancel(l.b.Context())
	l.stop = stop
	for _, n := range l.cluster.nodes {
		if n == l.victim {
			continue
		}
		l.looking.Go(func() { l.hear(ctx, n) })
		if l.runs(n) {
			l.looking.Go(func() { l.sample(ctx, n) })
		}
	}
}

// hear notes the events of a node.
func (l *load) hear(ctx context.Context, n *node) {
	for e, err := range l.client(n).Events(ctx, api.EventOptions{Follow: true}) {
		if err != nil {
			l.b.Errorf("the events of node %d: %v", n.index, err)
			return
		}
		l.mu.Lock()
		l.events = append(l.events, e)
		l.tell()
		l.mu.Unlock()
	}
}

// sample notes when a node has received more data than before: its tasks process
// records then, as batches are only sent for credit.
func (l *load) sample(ctx context.Context, n *node) {
	before := 0.0
	for ctx.Err() == nil {
		m, err := l.cluster.metrics(n)
		if err != nil {
			continue // it answers late
		}
		l.mu.Lock()
		if bytes := m[`cutwater_transport_received_bytes_total{lane="data"}`]; bytes > before+1000 {
			before = bytes
			l.grown = append(l.grown, time.Now())
			l.tell()
		}
		l.mu.Unlock()
		time.Sleep(sampleTime)
	}
}

// tell wakes those who wait. The caller holds the lock.
func (l *load) tell() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// kill kills the node, and returns when.
func (l *load) kill() time.Time {
	killed := time.Now()
	l.victim.kill()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = slices.DeleteFunc(l.events, func(e api.Event) bool { return e.AtMs < killed.UnixMilli() })
	return killed
}

// until returns what look finds; the caller of look has the lock.
func until[T any](l *load, what string, look func() (T, bool)) T {
	patience := time.After(healTime)
	for {
		l.mu.Lock()
		found, ok := look()
		changed := l.changed
		l.mu.Unlock()
		if ok {
			return found
		}
		select {
		case <-changed:
		case <-patience:
			l.b.Fatalf("not within %v after the kill: %s", healTime, what)
		}
	}
}

// running is when all tasks ran again, with their state. Before that a task takes in
// what it has room for, but processes nothing.
func (l *load) running() time.Time {
	return until(l, "all tasks run", func() (time.Time, bool) {
		for _, e := range l.events {
			if e.Kind == "StatusChanged" && e.Job == l.job && strings.HasSuffix(e.Text, "-> RUNNING") {
				return time.UnixMilli(e.AtMs), true
			}
		}
		return time.Time{}, false
	})
}

// event is when the first event of one of the kinds was after the kill.
func (l *load) event(kinds ...string) time.Time {
	return until(l, fmt.Sprint("an event ", kinds), func() (at time.Time, ok bool) {
		for _, e := range l.events {
			if t := time.UnixMilli(e.AtMs); slices.Contains(kinds, e.Kind) && (!ok || t.Before(at)) {
				at, ok = t, true
			}
		}
		return at, ok
	})
}

// processes is when a task has processed a record after that time.
func (l *load) processes(after time.Time) time.Time {
	return until(l, "tasks process records", func() (time.Time, bool) {
		for _, t := range l.grown {
			if t.After(after) {
				return t, true
			}
		}
		return after, false
	})
}

// end ends the job, and starts the node again.
func (l *load) end() {
	l.stop()
	l.looking.Wait()
	for _, job := range append(l.idle, l.job) {
		l.cancel(l.cluster.nodes[l.victim.index%len(l.cluster.nodes)], job)
	}
	if err := l.victim.start(); err != nil {
		l.b.Fatal(err)
	}
	l.cluster.whole(l.b)
}

// within returns when something holds, which must happen.
func within(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(sampleTime / 2) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}
