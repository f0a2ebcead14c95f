package testkit

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"cutwater/messages"
	"cutwater/protocol"
)

// What goes wrong is named within three intervals of checkpoints, which are a second
// here: by what the job is said to wait for, by an event, and by what metrics count.
// A seed that is dead is told of by package discovery, and by its tests.

const intervalMs = 1000

// planted is a job on three nodes with checkpoints each second; a is its coordinator's,
// and each node has a part of it.
type planted struct {
	*Cluster
	t    *testing.T
	job  *ClusterJob
	from int // events before the fault
}

const ticks = `
name: ticks
parallelism: 3
checkpointing: {interval: 1s}
operators:
  - {uid: in, parallelism: 1, source: {datagen: {rate: 100, schema: {n: int}}}}
  - {uid: sums, input: in, key-by: n, aggregate: {sum: sum(n)}}
  - {uid: out, input: sums, sink: {file: {path: out, format: csv}}}
`

// plant runs the job until its first checkpoints are complete.
func plant(t *testing.T, parallelism int, changed ...string) *planted {
	t.Helper()
	c := NewCluster(t, 5, "a", "b", "c")
	text := strings.Replace(strings.NewReplacer(changed...).Replace(ticks), "parallelism: 3", fmt.Sprint("parallelism: ", parallelism), 1)
	p := &planted{Cluster: c, t: t, job: c.DeployText(text)}
	p.job.Wait(messages.JobStatus_RUNNING)
	c.Run(3 * intervalMs * time.Millisecond)
	if v := p.job.View(); v.GetWaiting() != "" || v.GetCheckpoints().GetCounts().GetCompleted() < 2 {
		t.Fatalf("before anything is planted the job waits for %q, with %v", v.GetWaiting(), v.GetCheckpoints().GetCounts())
	}
	p.from = len(c.events) // and it meets the next checkpoint from its beginning on
	c.runUntil(func() bool { return p.said("triggered") })
	return p
}

// named runs for three intervals; then the job's view and an event say so.
func (p *planted) named(status, event string, metric func(*messages.JobView) bool) {
	p.t.Helper()
	start := p.World().ElapsedMs()
	for !p.said(event) && p.World().ElapsedMs()-start < 3*intervalMs {
		p.Run(50 * time.Millisecond)
	}
	v := p.job.View()
	standing := v.GetWaiting() + "; " + v.GetFailure() + "; last failed: " + v.GetCheckpoints().GetLatestFailed().GetCause()
	if !strings.Contains(standing, status) {
		p.t.Errorf("after %d ms the job is %v and waits for %q, not for %q", p.World().ElapsedMs()-start, v.GetStatus(), standing, status)
	}
	if !p.said(event) {
		p.t.Errorf("no event says %q:\n%s", event, strings.Join(p.events[p.from:], "\n"))
	}
	if !metric(v) {
		p.t.Errorf("no metric shows it: %v, %v", v.GetStatus(), v.GetCheckpoints().GetCounts())
	}
	p.t.Logf("after %d ms: %s", p.World().ElapsedMs()-start, standing)
}

func (p *planted) said(what string) bool {
	return slices.ContainsFunc(p.events[p.from:], func(e string) bool { return strings.Contains(e, what) })
}

// hanging: a checkpoint is in progress for long (gauge inProgressCheckpoints), and the
// job waits (cutwater_job_waits).
func hanging(v *messages.JobView) bool {
	return v.GetCheckpoints().GetCounts().GetInProgress() > 0 && v.Waiting != ""
}

// failing: checkpoints fail (counter numberOfFailedCheckpoints).
func failing(v *messages.JobView) bool { return v.GetCheckpoints().GetCounts().GetFailed() > 0 }

// to matches the messages of a type to an address that ends so.
func to[M proto.Message](suffix string) func(protocol.Address, proto.Message) bool {
	return func(a protocol.Address, m proto.Message) bool {
		_, is := m.(M)
		return is && strings.Contains(string(a), suffix)
	}
}

// An acknowledgement that is lost.
func TestPlantedLostAck(t *testing.T) {
	p := plant(t, 3)
	p.World().lose = to[*messages.AcknowledgeCheckpoint]("coordinator/")
	p.named("its acknowledgement was lost", "late: checkpoint", hanging)
}

// A storage that hangs: as it takes a task's state, or the checkpoint's metadata.
func TestPlantedHungStorage(t *testing.T) {
	p := plant(t, 3)
	p.World().hang = func(_ *Node, work string) bool { return strings.HasPrefix(work, "checkpoint ") }
	p.named("is being written to the checkpoint storage", "is being written to the checkpoint storage", hanging)
	p = plant(t, 3)
	p.World().hang = func(_ *Node, work string) bool { return work == "*messages.WriteMetadata" }
	p.named("the storage has not written its _metadata", "the storage has not written its _metadata", hanging)
}

// A task that is busy with a record, or in a call of an operator, a sink's for example,
// does not answer: its node's task manager does.
func TestPlantedSlowTask(t *testing.T) {
	p := plant(t, 3)
	p.World().lose = func(a protocol.Address, m proto.Message) bool { return strings.Contains(string(a), "|task/") }
	p.named("it does not answer, so it is busy", "it does not answer, so it is busy", hanging)
}

// A sink whose target does not answer a commit, which holds up no checkpoint.
func TestPlantedStuckSink(t *testing.T) {
	p := plant(t, 3)
	p.World().hang = func(_ *Node, work string) bool { return work == "out" }
	p.named("", "out unanswered: it is under way for", func(*messages.JobView) bool { return true })
}

// A voter majority that is lost, while the job's tasks go on.
func TestPlantedNoMajority(t *testing.T) {
	p := plant(t, 1)
	p.Isolate("a", true)
	p.Isolate("b", true)
	p.named("the metadata store", "the store is not available now", func(v *messages.JobView) bool { return v.Waiting != "" })
}

// A disk that is full.
func TestPlantedFullDisk(t *testing.T) {
	p := plant(t, 3)
	p.World().DiskFull(true)
	p.named("no space left on device", "no space left on device", failing)
}

// Slots that are missing: a second job wants more than are left.
func TestPlantedNoSlots(t *testing.T) {
	p := plant(t, 3)
	p.job = p.DeployText(strings.NewReplacer("name: ticks", "name: more", "parallelism: 3", "parallelism: 10", "path: out", "path: more").Replace(ticks))
	p.named("the job needs 10 slots and has 0: 9 free of 12 slots on 3 nodes", "waiting for slots: the job needs 10 slots", func(v *messages.JobView) bool { return v.Waiting != "" })
}

// A node whose clock is an hour ahead: nothing waits for it.
func TestPlantedSkewedClock(t *testing.T) {
	p := plant(t, 3)
	for _, n := range p.World().Nodes() {
		if n.ID != p.job.Coordinator() {
			n.skewMs = 3_600_000
		}
	}
	p.named("", "ms ahead of this node's", func(v *messages.JobView) bool { return v.Waiting == "" })
}

// Credit that does not come back, so that a task waits for room. Barriers need none.
func TestPlantedBlockedCredit(t *testing.T) {
	p := plant(t, 3, "rate: 100", "rate: 2000")
	p.World().lose = to[*messages.Credit]("task/")
	p.named("", "in blocked: for", func(*messages.JobView) bool { return true })
}
