package chaos

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

var (
	rounds  = flag.Int("rounds", 1, "how many rounds")
	first   = flag.Uint64("seed", 1, "the seed of the first round")
	size    = flag.Int("nodes", 0, "how many nodes; 0 means three, and five for every fourth cluster")
	span    = flag.Duration("span", 12*time.Second, "the time in which faults begin")
	built   = flag.String("binary", "", "the command; empty builds it")
	only    = flag.String("kinds", "", "the kinds of faults, with commas; empty means all")
	longest = flag.Duration("longest-pause", 8*time.Second, "the longest pause of a process")
)

// roundsPerCluster is how many rounds go on with the same cluster.
const roundsPerCluster = 3

// finishTime is how long the job may take to finish when all is mended.
const finishTime = 90 * time.Second

// command is the file of the command, built once.
var command = sync.OnceValues(func() (string, error) {
	if *built != "" {
		return filepath.Abs(*built)
	}
	file := filepath.Join(buildDir, "cutwater")
	if out, err := exec.Command("go", "build", "-o", file, "../../cmd/cutwater").CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return file, nil
})

// buildDir is where the command is built.
var buildDir string

func TestMain(m *testing.M) {
	var err error
	if buildDir, err = os.MkdirTemp("", "cutwater-chaos-bin-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(buildDir) // in the folder for temporary files
	os.Exit(code)
}

// Whatever happens to nodes, disks and cables, the job's result is exact, the nodes
// are one cluster again, no term has two leaders, and what clients saw of the
// registered jobs is linearizable.
func TestChaos(t *testing.T) {
	if testing.Short() {
		t.Skip("a cluster of processes, a minute a round")
	}
	binary, err := command()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[kind]int{}
	for done := 0; done < *rounds; done += roundsPerCluster {
		seed := *first + uint64(done)
		n := min(roundsPerCluster, *rounds-done)
		t.Run(fmt.Sprint("seed", seed), func(t *testing.T) { campaign(t, binary, seed, n, seen) })
	}
	t.Logf("faults: %v", seen)
}

// campaign runs some rounds on one cluster; the first that fails is the last.
func campaign(t *testing.T, binary string, seed uint64, rounds int, seen map[kind]int) {
	nodes := *size
	if nodes == 0 {
		nodes = 3
		if seed/roundsPerCluster%4 == 3 {
			nodes = 5
		}
	}
	timeouts := []string{"short", "local"}[seed/roundsPerCluster%2]
	c := newCluster(t, binary, nodes, preset(timeouts))
	took, err := c.awaitOne(t.Context(), patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d nodes, preset %s, one cluster after %v", nodes, timeouts, took.Round(time.Millisecond))
	if err := c.awaitVoters(t.Context()); err != nil {
		t.Fatal(err)
	}
	l := limits{nodes: nodes, kinds: kindsOf(c.net), span: *span, pause: *longest}
	if *only != "" {
		l.kinds = nil
		for k := range strings.SplitSeq(*only, ",") {
			l.kinds = append(l.kinds, kind(k))
		}
	}
	idle := &idle{}
	if err := idle.flat(c, t.Logf); err != nil {
		t.Fatal(err)
	}
	for i := range rounds {
		r := &round{cluster: c, seed: seed + uint64(i), log: t.Logf}
		r.faults = schedule(r.seed, l)
		for _, f := range r.faults {
			seen[f.kind]++
			t.Logf("round %d: %v", r.seed, f)
		}
		err := r.run(t.Context())
		if err == nil {
			err = idle.flat(c, t.Logf)
		}
		if err != nil {
			c.keepEvents(t.Context())
			t.Fatalf("round %d: %v\nthe same again: go test ./test/chaos -run 'TestChaos$' -v -seed %d -rounds %d -nodes %d -span %v -longest-pause %v -kinds %q",
				r.seed, err, seed, i+1, nodes, *span, *longest, *only)
		}
	}
}

// round is a job, faults, and clients.
type round struct {
	cluster *cluster
	seed    uint64
	faults  []*fault
	log     func(format string, args ...any)
	begun   time.Time
}

// note logs a line with the time since the round began.
func (r *round) note(format string, args ...any) {
	r.log("round %d %6.2fs: %s", r.seed, time.Since(r.begun).Seconds(), fmt.Sprintf(format, args...))
}

// run plays the round and returns what was not as it must be.
func (r *round) run(ctx context.Context) error {
	c := r.cluster
	r.begun = time.Now()
	name := fmt.Sprint("round", r.seed)
	j, err := newJob(c.dir, name, r.seed, len(c.nodes), *span)
	if err != nil {
		return err
	}
	if a := c.ask(ctx, c.nodes[r.seed%uint64(len(c.nodes))], "deploy", j.topology()); a.code != 0 {
		return fmt.Errorf("the job does not run: %v", a)
	}
	r.note("the job runs")
	clients, err := newClients(c, name, r.seed)
	if err != nil {
		return err
	}
	trouble := c.cause(ctx, r.faults, func(what string) { r.note("%s", what) })
	trouble = errors.Join(trouble, c.mend())
	took, err := c.awaitOne(ctx, healTime)
	if err = errors.Join(trouble, err); err != nil {
		clients.stop()
		clients.running.Wait()
		return err
	}
	rows, _ := j.committed() // what is wrong with them is found below
	r.note("one cluster after %v; %d of %d rows are committed", took.Round(time.Millisecond), rows, j.total())
	err = errors.Join(clients.end(ctx), r.finished(ctx, j))
	if err == nil {
		err = errors.Join(j.exact(true), c.viewed(ctx, j))
	}
	if err = errors.Join(err, c.terms(), clients.history.check(filepath.Join(c.logs, name+"-history.json"))); err != nil {
		return err
	}
	r.note("exact; %d operations of clients are linearizable", len(clients.history.operations))
	return nil
}

// mend ends all faults, and starts the nodes that do not run.
func (c *cluster) mend() error {
	var errs []error
	for _, n := range c.nodes {
		errs = append(errs, n.mishap(), n.free())
		n.signal(syscall.SIGCONT, false)
		if c.net.breakable() {
			errs = append(errs, c.net.cable(n.index, true))
			for _, other := range c.nodes {
				if other != n {
					errs = append(errs, c.net.lose(n.index, other.index, nothing))
				}
			}
		}
		errs = append(errs, n.start())
	}
	return errors.Join(errs...)
}

// finished waits for the end of the job, and looks at the output meanwhile.
func (r *round) finished(ctx context.Context, j *job) error {
	c := r.cluster
	stale, last := 0.0, answer{}
	before, _ := j.committed() // what is wrong with them is found below
	ctx, cancel := context.WithTimeout(ctx, finishTime)
	defer cancel()
	for resumed := false; ; {
		a := c.ask(ctx, c.nodes[0], "jobs", "--all", "-o", "json")
		if ctx.Err() != nil {
			return fmt.Errorf("the job does not finish within %v: %v", finishTime, last)
		}
		last = a
		if ended, err := j.ended(a.stdout); err != nil || ended {
			r.note("the job has finished; %v stale messages were dropped", stale)
			return err
		}
		if m, err := c.metrics(c.nodes[0]); err == nil {
			stale = max(stale, m["cutwater_job_stale_messages"])
		}
		if err := j.exact(false); err != nil {
			return err
		}
		if rows, err := j.committed(); err == nil && rows > before && !resumed {
			resumed = true
			r.note("more rows are committed")
		}
		for _, n := range c.nodes {
			if err := n.mishap(); err != nil {
				return err
			}
		}
		time.Sleep(300 * time.Millisecond)
	}
}

// viewed is why not every node can tell how the job that has ended stood.
func (c *cluster) viewed(ctx context.Context, j *job) error {
	for _, n := range c.nodes {
		if a := c.ask(ctx, n, "job", "-o", "json", j.name); !strings.Contains(a.stdout, `"status":"FINISHED"`) {
			return fmt.Errorf("node %d does not tell how the job stood: %v", n.index, a)
		}
	}
	return nil
}

// terms looks in the logs for a term in which two nodes led.
func (c *cluster) terms() error {
	led := map[string]int{}
	for _, n := range c.nodes {
		text, err := os.ReadFile(n.log)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(text)) {
			_, term, ok := strings.Cut(strings.TrimSpace(line), "this node leads the metadata in term ")
			if other := led[term]; ok && other != 0 && other != n.index {
				return fmt.Errorf("in term %s the nodes %d and %d led", term, other, n.index)
			}
			if ok {
				led[term] = n.index
			}
		}
	}
	if len(led) == 0 {
		return errors.New("no log tells who led in which term")
	}
	return nil
}

// idle is what the nodes of a cluster needed when they had nothing to do.
type idle struct{ goroutines, files int }

// settleTime is how long a node may take to become idle.
const settleTime = 15 * time.Second

// more is what a node may need beyond that: the lanes to others that tasks have used.
const more = 30

// flat compares what the nodes need now, idle, with what they needed before the first
// round.
func (i *idle) flat(c *cluster, log func(string, ...any)) error {
	for end := time.Now().Add(settleTime); ; time.Sleep(500 * time.Millisecond) {
		goroutines, files, err := c.needs()
		if err != nil && time.Now().After(end) {
			return err
		}
		if err != nil {
			continue
		}
		first := i.goroutines == 0
		if !first && (goroutines > i.goroutines+more || files > i.files+more) && time.Now().Before(end) {
			continue
		}
		log("idle: at most %d goroutines and %d open files", goroutines, files)
		switch {
		case first:
			i.goroutines, i.files = goroutines, files
		case goroutines > i.goroutines+more:
			return fmt.Errorf("an idle node has %d goroutines, before the first round it were %d", goroutines, i.goroutines)
		case files > i.files+more:
			return fmt.Errorf("an idle node has %d open files, before the first round it were %d", files, i.files)
		}
		return nil
	}
}

// needs is the most that a node has, of goroutines and of open files.
func (c *cluster) needs() (goroutines, files int, err error) {
	for _, n := range c.nodes {
		m, err := c.metrics(n)
		if err != nil {
			return 0, 0, err
		}
		open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", n.pid()))
		if err != nil {
			return 0, 0, err
		}
		goroutines, files = max(goroutines, int(m["cutwater_node_goroutines"])), max(files, len(open))
	}
	return goroutines, files, nil
}

// A schedule is the same for the same seed, and all kinds of faults come up.
func TestSchedule(t *testing.T) {
	l := limits{nodes: 3, kinds: kindsOf(namespaces{}), span: 12 * time.Second, pause: 8 * time.Second}
	seen := map[kind]bool{}
	for seed := range uint64(100) {
		faults := schedule(seed, l)
		if a, b := fmt.Sprint(faults), fmt.Sprint(schedule(seed, l)); a != b {
			t.Fatalf("seed %d: %s, and then %s", seed, a, b)
		}
		for _, f := range faults {
			seen[f.kind] = true
			if f.node < 1 || f.node > l.nodes || f.other < 1 || f.other > l.nodes || f.other == f.node || f.at > l.span || f.lasts > l.span {
				if f.kind != roll {
					t.Fatalf("seed %d: %v", seed, f)
				}
			}
		}
	}
	if want := []kind{blind, cut, flap, full, kill, pause, power, roll, lost}; len(seen) != len(want) {
		t.Errorf("only %v came up, want %v", slices.Sorted(maps.Keys(seen)), want)
	}
}
