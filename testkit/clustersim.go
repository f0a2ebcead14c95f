package testkit

import (
	"cmp"
	"context"
	"fmt"

	"cutwater/actors/system"
	"cutwater/messages"
	"cutwater/node"
	"cutwater/protocol"
	"cutwater/protocol/dispatch"
	machine "cutwater/protocol/metadata"
	"cutwater/stream/operator"
	"cutwater/topology"
)

// A scenario in a cluster: the job is registered, and everything after that is done by
// the production dispatchers, agents and coordinators. A second job, which nobody
// checks but that it ends, wants slots, too.

const (
	otherJob  = "00000000000000000000000000000002"
	otherText = `
name: other
parallelism: 2
checkpointing: {interval: 500ms, timeout: 2s, tolerable-failures: 3, dir: /checkpoints}
operators:
  - {uid: numbers, source: {datagen: {rows: 400, rate: 200, schema: {n: int}}}}
  - {uid: out, input: numbers, sink: {blackhole: }}
`
)

// newCluster makes the control plane.
func (sim *simulation) newCluster() {
	slots := func(n *Node) int {
		if sim.scenario.Apart && n == sim.world.nodes[0] {
			return 0
		}
		return cmp.Or(sim.scenario.Slots, 4)
	}
	sim.plane = newControlPlane(sim.world, slots, sim.deps)
	sim.metadata = sim.plane.group.Model
	sim.plane.group.Observe(func(c *messages.MetadataCommand, r *messages.MetadataResult) {
		sim.rules.applied(c, r)
	})
}

// topology names the program of the job where there are several.
func (sim *simulation) topology() *messages.TopologySource {
	if sim.plane == nil {
		return nil
	}
	return &messages.TopologySource{File: jobID}
}

// startCluster registers the other job soon.
func (sim *simulation) startCluster() error {
	w := sim.world
	t, err := topology.Load("/job/other.yaml", []byte(otherText), Catalog(), noEnvironment)
	if err != nil {
		return err
	}
	program, settings, err := topology.Build(t, Catalog())
	if err != nil {
		return err
	}
	sim.other = program
	w.After(int64(w.Random(1500)), func() {
		_, err := sim.metadata.Propose(context.Background(), &messages.MetadataCommand{Command: &messages.MetadataCommand_RegisterJob{RegisterJob: &messages.RegisterJob{
			Job: otherJob, Name: program.Graph().Name, Graph: program.Graph(), Settings: settings, AtMs: w.NowMs(), Topology: &messages.TopologySource{File: otherJob}}}})
		if err != nil {
			w.Fail(err)
		}
	})
	return nil
}

// deps is what a node of the cluster has besides what every node has.
func (sim *simulation) deps(n *Node) node.Deps {
	return node.Deps{
		Programs: func(name string) (operator.Program, error) {
			if name == node.ProgramName(sim.topology()) {
				return sim.program, nil
			}
			return sim.other, nil
		},
		PollRecords:        cmp.Or(sim.scenario.PollRecords, 16),
		ChannelMemoryBytes: sim.scenario.ChannelMemoryBytes,
		Event:              func(e protocol.Event) { sim.nodeEvent(n, e) },
		JobEvent: func(job string, e protocol.Event) {
			if job == jobID {
				sim.jobEvent(n, e)
				return
			}
			sim.world.remark("EVENT %s other job: %v", n.Name, e)
		},
	}
}

// What the control plane does about faults, as Run.Noticed counts it.
const (
	coordinatorOrdered  = "coordinators ordered"
	coordinatorRefused  = "coordinators refused"
	coordinatorUnplaced = "jobs that no node coordinated"
	slotsMissing        = "jobs that lacked slots"
	fenced              = "commands of an old epoch refused"
	overtaken           = "moments of two coordinators of one job"
)

// nodeEvent counts what the dispatcher and the tasks of a node do.
func (sim *simulation) nodeEvent(n *Node, e protocol.Event) {
	switch e.(type) {
	case dispatch.CoordinatorOrdered:
		sim.noticed[coordinatorOrdered]++
	case dispatch.CoordinatorRefusedBy:
		sim.noticed[coordinatorRefused]++
	case dispatch.CoordinatorUnplaced:
		sim.noticed[coordinatorUnplaced]++
	case dispatch.SlotsMissing:
		sim.noticed[slotsMissing]++
	}
	sim.event(n, e)
}

// jobEvent counts what a coordinator of the job does, also one that was overtaken and
// does not know yet.
func (sim *simulation) jobEvent(n *Node, e protocol.Event) {
	if epoch := n.control.Coordinating()[jobID]; epoch != 0 && epoch < sim.rules.epoch {
		sim.noticed[overtaken]++
	}
	sim.event(n, e)
}

// coordinates reports whether any node that lives coordinates a job.
func (c *controlPlane) coordinates(job string) bool {
	for _, n := range c.world.nodes {
		if n.alive {
			if _, does := n.control.Coordinating()[job]; does {
				return true
			}
		}
	}
	return false
}

// coordinator is the node whose coordinator has the job, by its record.
func (c *controlPlane) coordinator() *Node {
	r, err := c.group.Job(context.Background(), jobID)
	if err != nil {
		panic(fmt.Sprintf("testkit: a model that is open answers: %v", err))
	}
	return c.world.node(system.NodeOf(protocol.Address(r.Coordinator)))
}

// endOther runs a cluster on until the second job has ended, too.
func (sim *simulation) endOther() error {
	if sim.plane == nil {
		return nil
	}
	status := func() messages.JobStatus {
		r, _ := sim.metadata.Job(context.Background(), otherJob) // a model that is open answers
		return r.Status
	}
	sim.world.Run(maxSteps, func() bool { return machine.Ended(status()) })
	switch end := status(); {
	case sim.world.Err() != nil:
		return sim.world.Err()
	case end != messages.JobStatus_FINISHED:
		return fmt.Errorf("the second job is %v and was to finish", end)
	}
	return sim.checkCopies()
}
