package testkit

import (
	"cmp"
	"fmt"

	"cutwater/node"
	"cutwater/protocol/job"
)

// What the dispatcher of a cluster does for its jobs (protocol/dispatch), a simulation
// does for its one: n1 coordinates it, also after each of its restarts, and where the
// coordinator was lost otherwise another node does.

// host is where the job is coordinated.
type host struct {
	node *Node
	life int
	job  *node.Job
}

// lives reports whether the coordinator may be there.
func (h *host) lives() bool { return h.node.lives(h.life) && !h.job.Done() }

// coordinate starts the job's coordinator on a node.
func (sim *simulation) coordinate(n *Node, rt *node.Runtime) error {
	var nodes []job.Node
	for i := range max(sim.scenario.Nodes, 1) {
		slots := cmp.Or(sim.scenario.Slots, 4)
		if i == 0 && sim.scenario.Apart {
			slots = 0
		}
		nodes = append(nodes, job.Node{Name: fmt.Sprintf("n%d", i+1), Slots: slots})
	}
	j, err := rt.StartJob(node.JobSpec{Job: jobID, Program: sim.program.Graph().Name, Graph: sim.program.Graph(), Settings: sim.settings, Nodes: nodes})
	if err == nil {
		sim.host = &host{n, n.life, j}
		sim.hosts[n] = sim.host
	}
	return err
}

// leads reports whether the coordinator on a node has the newest epoch: what any other
// one does is of no effect.
func (sim *simulation) leads(n *Node) bool {
	if sim.plane != nil {
		return n.control.Coordinating()[jobID] == sim.rules.epoch
	}
	h := sim.hosts[n]
	return h != nil && h.job.Epoch() == sim.rules.epoch
}

// LoseCoordinator takes the job away from its coordinator: it ends in the middle of
// whatever it does, or lives on without anybody's noticing. Its node and all tasks stay.
// Somewhat later another coordinator is started, on any node.
func (w *World) LoseCoordinator() {
	if w.loseCoordinator != nil {
		w.loseCoordinator()
	}
}

func (sim *simulation) loseCoordinator() {
	w, h := sim.world, sim.host
	if sim.ended() || !h.lives() {
		return
	}
	w.happened(CoordinatorLost)
	except := h.node // where it lives on, its name is taken
	if w.Random(3) > 0 {
		except = nil
		h.node.sys.Stop(job.CoordinatorAddress(h.node.Name, jobID))
	}
	w.After(int64(1+w.Random(300)), func() { sim.replace(except) })
	if !sim.moved {
		sim.moved = true
		sim.watchHost()
	}
}

// replace starts a coordinator on a living node.
func (sim *simulation) replace(except *Node) {
	if sim.ended() {
		return
	}
	var living []*Node
	for _, n := range sim.world.nodes {
		if n.alive && n != except {
			living = append(living, n)
		}
	}
	if len(living) > 0 {
		n := living[sim.world.Random(len(living))]
		if sim.coordinate(n, n.Runtime) == nil {
			return
		}
	}
	sim.world.After(100, func() { sim.replace(nil) }) // none lives, or an older one has not ended there
}

// watchHost replaces a coordinator whose node has died. n1 does that by itself.
func (sim *simulation) watchHost() {
	sim.world.After(1000, func() {
		if sim.ended() {
			return
		}
		if h := sim.host; !h.lives() && (h.node.Name != "n1" || h.node.lives(h.life)) {
			sim.replace(nil)
		}
		sim.watchHost()
	})
}
