package testkit

import (
	"slices"
	"strings"
	"testing"
	"time"

	"cutwater/messages"
)

const ticks = `
name: ticks
parallelism: 3
checkpointing: {interval: 1s}
operators:
  - {uid: in, parallelism: 1, source: {datagen: {rate: 100, schema: {n: int}}}}
  - {uid: sums, input: in, key-by: n, aggregate: {sum: sum(n)}}
  - {uid: out, input: sums, sink: {file: {path: out, format: csv}}}
`

// ticking is a job on three nodes with checkpoints each second.
type ticking struct {
	*Cluster
	job  *ClusterJob
	from int // events before the fault
}

// runTicks runs the job, with some words of it changed, until its first checkpoints are
// complete and the next one begins.
func runTicks(t *testing.T, changed ...string) *ticking {
	t.Helper()
	c := NewCluster(t, 5, "a", "b", "c")
	p := &ticking{Cluster: c, job: c.DeployText(strings.NewReplacer(changed...).Replace(ticks))}
	p.job.Wait(messages.JobStatus_RUNNING)
	c.Run(3 * time.Second)
	if p.completed() < 2 {
		t.Fatal("before anything goes wrong no checkpoints complete")
	}
	p.from = len(c.events)
	c.runUntil(func() bool { return p.said("triggered") })
	return p
}

func (p *ticking) said(what string) bool {
	return slices.ContainsFunc(p.events[p.from:], func(e string) bool { return strings.Contains(e, what) })
}

func (p *ticking) completed() uint64 { return p.job.View().GetCheckpoints().GetCounts().GetCompleted() }

// A07 (FLINK-20816): an abort was not heard while a snapshot was being written. Here the
// writing holds up neither the abort nor the checkpoints behind it, and costs no restart.
func TestBugLog_A07_AbortWhileWriting(t *testing.T) {
	p := runTicks(t, "{interval: 1s}", "{interval: 1s, timeout: 2s, tolerable-failures: 3}")
	held := ""
	p.World().Hang(func(n *Node, work string) bool { // one snapshot on one node, for ever
		if held == "" && strings.HasPrefix(work, "checkpoint ") {
			held = n.ID + work
		}
		return held == n.ID+work
	})
	before := p.completed()
	p.Run(8 * time.Second)
	v := p.job.View()
	if held == "" || v.GetCheckpoints().GetCounts().GetFailed() == 0 || p.completed() < before+3 || v.GetStatus() != messages.JobStatus_RUNNING || p.said("RESTARTING") {
		t.Errorf("%q hangs; %d checkpoints completed before, now %v; the job is %v", held, before, v.GetCheckpoints().GetCounts(), v.GetStatus())
	}
}

// E04 (risingwave #21142, #13349): a recovery kept to the workers that were there when it
// began. Here it takes those that join while it waits.
func TestBugLog_E04_NodesJoinDuringRecovery(t *testing.T) {
	c := NewCluster(t, 4, "a", "b", "c", "d", "e")
	c.Run(12 * time.Second) // three of them vote
	c.WriteFile("/job/in.csv", "n\n"+strings.Repeat("1\n", 2000))
	job := c.DeployText(strings.NewReplacer("parallelism: 3", "parallelism: 20", "datagen: {rate: 100, schema: {n: int}}",
		"file: {path: in.csv, format: csv, rate: 100, schema: {n: int}}").Replace(ticks))
	job.Wait(messages.JobStatus_RUNNING)
	c.Run(2 * time.Second)
	c.Kill("d")
	c.Kill("e")
	c.Run(8 * time.Second)
	if v := job.View(); !strings.Contains(v.GetWaiting(), "20 slots") {
		t.Fatalf("the recovery does not wait: %v, %q", v.GetStatus(), v.GetWaiting())
	}
	c.Restart("d")
	c.Run(time.Second)
	c.Restart("e")
	job.Wait(messages.JobStatus_RUNNING)
	used := map[string]bool{}
	for _, task := range job.View().GetTasks() {
		used[task.Node] = true
	}
	if len(used) != 5 || !used["d.2"] || !used["e.2"] {
		t.Errorf("the tasks are on %v", used)
	}
	job.Wait(messages.JobStatus_FINISHED)
}

// E08 (hazelcast-jet #1234): a member that joined during a snapshot changed where its
// parts were. Here files stay where they are: whenever a node joins, the checkpoint of
// that moment restores whole.
func TestBugLog_E08_NodeJoinsDuringACheckpoint(t *testing.T) {
	for ms := 0; ms < 60; ms += 20 {
		c := NewCluster(t, uint64(ms), "a", "b", "c", "d")
		c.WriteFile("/job/in.csv", "n\n"+strings.Repeat("1\n2\n3\n", 200))
		job := c.DeployText(strings.NewReplacer("interval: 1s", "interval: 60ms, inline-threshold: 0B",
			"datagen: {rate: 100, schema: {n: int}}", "file: {path: in.csv, format: csv, rate: 100, schema: {n: int}}").Replace(ticks))
		job.Wait(messages.JobStatus_RUNNING)
		var others []string
		for _, n := range c.World().Nodes() {
			if n.ID != job.Coordinator() && n.ID != c.Leader() {
				others = append(others, n.ID)
			}
		}
		free, lost := others[0], others[1]
		c.Kill(free)
		c.Run(2 * time.Second)
		from := len(c.events)
		c.runUntil(func() bool { return strings.Contains(strings.Join(c.events[from:], "\n"), "triggered") })
		c.Run(time.Duration(ms) * time.Millisecond)
		c.Restart(free)
		c.Run(300 * time.Millisecond)
		c.Kill(lost) // which has a task
		job.Wait(messages.JobStatus_FINISHED)
		if events := strings.Join(c.Events(), "\n"); !strings.Contains(events, "restoring") || strings.Contains(events, "cannot be read") {
			t.Errorf("%d ms: nothing was restored, or not at once", ms)
		}
		if rows := c.Rows("/job/out"); len(rows) != 600 || !strings.Contains(strings.Join(rows, " "), "3,600") {
			t.Errorf("%d ms: %d rows", ms, len(rows))
		}
		c.Close()
	}
}

// G03 (risingwave #6571, #9723, #2625, #23230): under overload barriers queued behind
// data without end. Here a source that is faster than its sink waits for credit: the
// tenth minute's checkpoints take as long as the first's, and one is in flight.
func TestBugLog_G03_Overload(t *testing.T) {
	p := runTicks(t, "rate: 100", "rate: 400", "{interval: 1s}", "{interval: 1s, max-concurrent: 1}")
	slow := p.World()
	slow.faults.SlowTask = 1
	longest := func(d time.Duration) (ms int64) {
		for range 5 {
			p.Run(d / 5)
			v := p.job.View().GetCheckpoints()
			if v.GetCounts().GetInProgress() > 1 {
				t.Errorf("%d checkpoints are in flight", v.GetCounts().GetInProgress())
			}
			ms = max(ms, v.GetLatestCompleted().GetDurationMs())
		}
		return ms
	}
	early := longest(10 * time.Second)
	p.Run(20 * time.Second)
	late := longest(10 * time.Second)
	if late > 2*early+100 || p.job.Status() != messages.JobStatus_RUNNING {
		t.Errorf("checkpoints took up to %d ms, and then %d ms; the job is %v", early, late, p.job.Status())
	}
	t.Logf("checkpoints took up to %d ms, and then %d ms", early, late)
}

// J05 (numaflow #826, redpanda connect #919): a consumer stayed stuck after its outside
// had come back. Here the outside is the disk: full for ten minutes, it is in use again
// within thirty seconds of virtual time.
func TestBugLog_J05_DiskFullForTenMinutes(t *testing.T) {
	p := runTicks(t, "operators:", "restart: {max-backoff: 20s}\noperators:")
	p.World().DiskFull(true)
	p.Timeout = 15 * time.Minute
	p.Run(10 * time.Minute)
	p.World().DiskFull(false)
	from := len(p.events)
	p.Run(30 * time.Second)
	if v := p.job.View(); v.GetStatus() != messages.JobStatus_RUNNING || !strings.Contains(strings.Join(p.events[from:], "\n"), "completed") {
		t.Errorf("the job is %v; %v", v.GetStatus(), v.GetCheckpoints().GetCounts())
	}
}
