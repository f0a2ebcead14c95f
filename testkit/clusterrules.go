package testkit

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"cutwater/actors/system"
	"cutwater/actors/taskmanager"
	"cutwater/messages"
	"cutwater/protocol"
)

// clusterRules are what must be true in a cluster at all times, besides the
// invariants:
//
//  9. Of a job's coordinators one at most has the newest epoch, and completions are
//     recorded by that one alone.
//  10. Tasks are deployed in an epoch by the coordinator alone that was given it.
//  11. No slot is used by two jobs, but behind a moment in which the dispatcher that
//     granted it could not know better. Tasks of a coordinator that was overtaken do
//     not count: on a node that the new one took for lost they live until their task
//     manager has missed their coordinator for three minutes.
type clusterRules struct {
	epochs map[string]map[uint64]string // job, epoch: the address of its coordinator
	ended  map[string]bool              // addresses of tasks that have, and may tell so for a while
	// disturbedMs is when somebody last could not know better: a leader changed, a
	// node came, went or was cut off.
	disturbedMs int64
	said        int // faults and terms that were counted in disturbedMs
}

// applied is told of each metadata command that is applied.
func (i *invariants) applied(c *messages.MetadataCommand, r *messages.MetadataResult) {
	i.commanded = true
	switch r.Outcome {
	case messages.MetadataOutcome_STALE_EPOCH:
		i.sim.noticed[fenced]++
		return
	case messages.MetadataOutcome_APPLIED:
	default:
		return
	}
	if s := c.GetStartEpoch(); s != nil {
		if i.cluster.epochs == nil {
			i.cluster.epochs = map[string]map[uint64]string{}
		}
		if i.cluster.epochs[s.Job] == nil {
			i.cluster.epochs[s.Job] = map[uint64]string{}
		}
		i.cluster.epochs[s.Job][r.Epoch] = s.Coordinator
		if s.Job == jobID {
			i.epochGiven(r.Epoch)
		}
	}
	if m := c.GetRecordCompletion(); m != nil && m.Job == jobID && m.Epoch != i.epoch {
		i.broken("checkpoint %d was completed in epoch %d, and the newest is %d", m.Checkpoint.Checkpoint, m.Epoch, i.epoch)
	}
}

// clusterMessage looks at what is delivered in a cluster.
func (i *invariants) clusterMessage(to protocol.Address, m proto.Message) {
	if t, ok := m.(*messages.TaskStateChanged); ok && strings.HasSuffix(string(to), "|"+taskmanager.Name) {
		if i.cluster.ended == nil {
			i.cluster.ended = map[string]bool{}
		}
		i.cluster.ended[system.NodeOf(to)+"|"+taskmanager.TaskName(t.Fence, t.Task)] = true
		return
	}
	d, ok := m.(*messages.Deploy)
	if !ok {
		return
	}
	if given := i.cluster.epochs[d.Fence.Job][d.Fence.Epoch]; given != d.Coordinator {
		i.broken("%s deploys in epoch %d of job %s, which was given to %q", d.Coordinator, d.Fence.Epoch, d.Fence.Job, given)
	}
	i.slotsUsed(i.world.node(system.NodeOf(to)), d)
}

// quietMs is how long behind a disturbance slots may be used twice: a new dispatcher
// learns for two seconds, and gives up who is silent after ten.
const quietMs = 13_000

// slotsUsed checks that a node has a slot for a task that is deployed.
func (i *invariants) slotsUsed(n *Node, d *messages.Deploy) {
	if i.disturbed() {
		return
	}
	used := map[string]bool{d.Fence.Job + "/" + strconv.Itoa(int(d.Task.Subtask)): true}
	for _, a := range n.sys.Running() {
		// <node>|task/<job>/<vertex>/<subtask>/<attempt>
		if _, name, _ := strings.Cut(string(a), "|"); strings.HasPrefix(name, "task/") && !i.cluster.ended[string(a)] {
			parts := strings.Split(name, "/")
			if attempt, err := strconv.Atoi(parts[4]); err == nil && uint64(attempt/attemptsPerEpoch) == i.newestEpoch(parts[1]) {
				used[parts[1]+"/"+parts[3]] = true
			}
		}
	}
	if slots := i.sim.plane.slots(n); len(used) > slots {
		i.broken("node %s has %d slots, and %d are used: %v", n.Name, slots, len(used), slices.Sorted(maps.Keys(used)))
	}
}

// attemptsPerEpoch is how attempts are numbered.
const attemptsPerEpoch = 1_000_000

func (i *invariants) newestEpoch(job string) (newest uint64) {
	for epoch := range i.cluster.epochs[job] { // the largest is the same in any order
		newest = max(newest, epoch)
	}
	return newest
}

// disturbed reports whether something has happened lately that a dispatcher may not
// know of.
func (i *invariants) disturbed() bool {
	c := &i.cluster
	said := i.sim.plane.term - 1 // the first leader disturbs nobody
	for _, kind := range []string{NodeCrash, NodeLoss, CrashInWork, PowerFailure, LeaderLost, CoordinatorNodeLost, PairPartitioned,
		OneWayPartitioned, FlappingPartition, LeaderUnreachable, NodeIsolated, FalselySuspected, NewName} {
		said += i.world.Faults[kind]
	}
	if said != c.said || len(i.world.severed) > 0 {
		c.said, c.disturbedMs = said, i.world.ElapsedMs()
	}
	return c.said > 0 && i.world.ElapsedMs()-c.disturbedMs < quietMs
}
