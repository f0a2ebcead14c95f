package testkit_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cutwater/messages"
	"cutwater/stream"
	"cutwater/testkit"
)

// A topology on three nodes loses the node that coordinates it, and then the one that
// leads; what its sink commits is exact.
func ExampleCluster() {
	c := testkit.NewCluster(testkit.Panics, 1, "a", "b", "c")
	defer c.Close()
	c.WriteFile("/job/in.csv", "n\n"+numbers(1, 300))
	job := c.DeployText(`
name: evens
parallelism: 2
checkpointing: {interval: 50ms}
operators:
  - {uid: in, source: {file: {path: in.csv, format: csv, rate: 20, schema: {n: int}}}}
  - {uid: even, input: in, filter: n % 2 == 0}
  - {uid: out, input: even, sink: {file: {path: out, format: csv}}}
`)
	job.Wait(messages.JobStatus_RUNNING)
	c.Run(time.Second)
	coordinator := job.Coordinator()
	c.Kill(coordinator)
	c.Run(10 * time.Second)
	fmt.Println("coordinated by another node:", job.Coordinator() != coordinator)
	c.Restart(coordinator)
	c.Run(time.Second)
	c.Kill(c.Leader())
	job.Wait(messages.JobStatus_FINISHED)
	fmt.Println(len(c.Rows("/job/out")), "rows")
	// Output:
	// coordinated by another node: true
	// 150 rows
}

// numbers are lines.
func numbers(from, to int) string {
	var b strings.Builder
	for n := from; n <= to; n++ {
		fmt.Fprintln(&b, n)
	}
	return b.String()
}

// A topology in Go is deployed, and a probe waits in virtual time; a node that is cut
// off costs nothing but a restart; the same seed gives the same events.
func TestClusterOfATopology(t *testing.T) {
	run := func() []string {
		c := testkit.NewCluster(t, 7, "a", "b", "c")
		top := stream.New("clicks")
		feed := testkit.NewFeed[timed]()
		in := stream.From(top, "in", feed.Source(), stream.EventTime(timed.at, 0))
		probe, _ := testkit.Tap(c, in, "probe")
		job := c.Deploy(top)
		job.Wait(messages.JobStatus_RUNNING)
		all := clicks(40)
		feed.Send(all[:20]...)
		probe.WaitRecords(20)
		probe.WaitCheckpoint()
		cut := job.Coordinator()
		c.Isolate(cut, true)
		c.Run(20 * time.Second)
		feed.Send(all[20:]...)
		feed.End()
		c.Isolate(cut, false)
		job.Wait(messages.JobStatus_FINISHED)
		if job.Coordinator() == cut {
			t.Errorf("node %s was cut off and coordinates still\n%s", cut, strings.Join(c.Events(), "\n"))
		}
		var got []int64
		for _, v := range probe.Values() {
			got = append(got, v.N)
		}
		slices.Sort(got)
		if len(got) != 40 || got[0] != 0 || got[39] != 39 {
			t.Errorf("the probe has %v", got)
		}
		return c.Events()
	}
	first := run()
	if again := run(); !slices.Equal(first, again) {
		t.Errorf("%d events, then %d others", len(first), len(again))
	}
}

// A pair of nodes that do not reach each other, and a job that waits for slots, tell so;
// a name that is no node's is refused.
func TestClusterWaits(t *testing.T) {
	c := testkit.NewCluster(t, 3, "a", "b")
	c.Run(2 * time.Second)
	top := stream.New("wide").Parallelism(9)
	testkit.Tap(c, stream.From(top, "in", testkit.NewFeed[timed]().Source()), "probe")
	job := c.Deploy(top)
	c.Run(3 * time.Second)
	if v := job.View(); !strings.Contains(v.GetWaiting(), "9 slots") || !strings.Contains(v.GetWaiting(), "8 free") {
		t.Errorf("the job waits for %q, and is %v", v.GetWaiting(), job.Status())
	}
	c.Partition("a", "b")
	c.Run(10 * time.Second)
	if c.Leader() != "" {
		t.Errorf("%s leads without a majority", c.Leader())
	}
	c.Heal("a", "b")
	c.Run(10 * time.Second)
	if c.Leader() == "" {
		t.Error("nobody leads after the partition")
	}
	defer func() {
		if r := recover(); r == nil || !strings.Contains(fmt.Sprint(r), `no node "z"`) {
			t.Errorf("killing a node that is not there: %v", r)
		}
	}()
	p := testkit.NewCluster(testkit.Panics, 1, "a")
	defer p.Close()
	p.Kill("z")
}
