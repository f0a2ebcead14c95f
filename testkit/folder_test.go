package testkit_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"cutwater/messages"
	"cutwater/testkit"
)

// evens is a job of some seconds.
const evens = `
name: evens
parallelism: %d
checkpointing: {interval: %s}
operators:
  - {uid: in, source: {file: {path: in.csv, format: csv, rate: 20, schema: {n: int}, split-size: 64}}}
  - {uid: even, input: in, filter: n %% 2 == 0}
  - {uid: out, input: even, sink: {file: {path: out, format: csv}}}
`

func deployEvens(t *testing.T, parallelism int, interval string) (*testkit.Cluster, *testkit.ClusterJob) {
	c := testkit.NewCluster(t, 5, "a", "b", "c")
	c.Run(2 * time.Second)
	c.WriteFile("/job/in.csv", "n\n"+numbers(1, 300))
	return c, c.DeployText(fmt.Sprintf(evens, parallelism, interval))
}

// A node whose checkpoint folder is another one is found out when the job is deployed,
// before any checkpoint: the job fails with operator, node, folder and what to do.
func TestFolderOfItsOwn(t *testing.T) {
	c, job := deployEvens(t, 3, "50ms")
	c.OwnFolder("b", "/checkpoints", true) // no time has passed
	job.Wait(messages.JobStatus_FAILED)
	for _, part := range []string{`operator "`, "node b.1", "/checkpoints/" + job.ID(), "mount one folder there on all nodes", "no restart was tried"} {
		if job.Coordinator() == "b" && part == "node b.1" {
			continue // then it is the others that see another folder
		}
		if !strings.Contains(job.Failure(), part) {
			t.Errorf("the failure does not say %q: %s", part, job.Failure())
		}
	}
	for _, e := range c.Events() {
		if strings.Contains(e, "checkpoint 1 completed") {
			t.Error(e)
		}
	}
}

// A mount that is away for a while costs restarts, whose failures say so, and no row.
func TestFolderComesBack(t *testing.T) {
	c, job := deployEvens(t, 12, "200ms") // all slots
	job.Wait(messages.JobStatus_RUNNING)
	c.Run(time.Second)
	away := "a"
	if job.Coordinator() == "a" {
		away = "b"
	}
	c.OwnFolder(away, "/checkpoints", true)
	c.Kill(away)
	c.Restart(away)
	c.Run(8 * time.Second)
	if job.Status() != messages.JobStatus_RESTARTING || !strings.Contains(job.Failure(), "not the folder") {
		t.Errorf("the job is %v: %s", job.Status(), job.Failure())
	}
	c.OwnFolder(away, "/checkpoints", false)
	job.Wait(messages.JobStatus_FINISHED)
	if rows := c.Rows("/job/out"); len(rows) != 150 {
		t.Errorf("%d rows", len(rows))
	}
}

// A coordinator that takes over on a node with another folder does not go on with tasks
// that write to the right one, although no checkpoint has completed that it would miss.
func TestFolderOfTheSuccessor(t *testing.T) {
	c, job := deployEvens(t, 1, "1h")
	job.Wait(messages.JobStatus_RUNNING)
	c.Run(time.Second)
	lost := job.Coordinator()
	for _, name := range []string{"a", "b", "c"} {
		if name != lost {
			c.OwnFolder(name, "/checkpoints", true)
		}
	}
	c.Kill(lost)
	c.Run(20 * time.Second)
	events := strings.Join(c.Events(), "\n")
	if !strings.Contains(events, "another folder than this node sees") {
		t.Errorf("the tasks were taken over:\n%s", events)
	}
}
