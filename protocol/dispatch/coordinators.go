package dispatch

import (
	"fmt"
	"slices"

	"cutwater/messages"
)

const (
	// repeatMs is how often an order is repeated.
	repeatMs = 1000
	// strangeMs is how long a coordinator may be silent whose node was never said to
	// live: longer than its requests are apart.
	strangeMs = 1500
	// orderPatienceMs is how long a node may take to start a coordinator; a node
	// that takes longer counts as one that refuses.
	orderPatienceMs = 30_000
	// restMs is how long nobody is asked after all nodes have refused.
	restMs = 10_000
)

// search is for a node that coordinates a job. The zero value begins anew.
type search struct {
	target      string // the node that is asked, or nothing
	sinceMs     int64  // since when
	sentMs      int64  // when it was asked last; before that, never
	refusals    []Refusal
	restUntilMs int64 // nobody is asked before
}

// never is a time at which nothing was sent.
const never = -1

// Refusal is why a node does not coordinate a job.
type Refusal struct{ Node, Reason string }

// coordinate sees to it that each job has a coordinator.
func (d *Dispatcher) coordinate() {
	for _, j := range d.jobs {
		switch why := d.uncoordinated(j); {
		case why == "":
			j.search = search{}
		case j.recorded:
			d.order(j, why)
		}
	}
}

// uncoordinated says why the job has no coordinator that lives, or nothing.
func (d *Dispatcher) uncoordinated(j *job) string {
	if j.coordinator == "" {
		return "it has no coordinator"
	}
	if j.gone || d.restarted(j.coordinator) {
		return fmt.Sprintf("its coordinator's node %s is gone", j.coordinator)
	}
	patience := int64(silenceMs)
	if _, lives := d.node(j.coordinator); !lives {
		patience = strangeMs
	}
	if d.elapsedMs-j.heardMs >= patience {
		return fmt.Sprintf("its coordinator on node %s was not heard for %d ms", j.coordinator, patience)
	}
	return ""
}

// order asks a node to coordinate the job, again and again.
func (d *Dispatcher) order(j *job, why string) {
	s := &j.search
	if _, lives := d.node(s.target); !lives {
		s.target = ""
	}
	if s.target != "" && d.elapsedMs-s.sinceMs >= orderPatienceMs {
		d.refused(j, fmt.Sprintf("no coordinator started within %d ms", orderPatienceMs))
	}
	if s.target == "" && !d.choose(j, why) {
		return
	}
	if s.sentMs == never || d.elapsedMs-s.sentMs >= repeatMs {
		s.sentMs = d.elapsedMs
		d.send(AgentAddress(s.target), &messages.StartCoordinator{Job: j.id, Epoch: j.epoch})
	}
}

// choose finds the next node to ask: that of the coordinator, if it lives, else the
// one that coordinates the fewest jobs, else the first by name. It reports whether
// there is one now.
func (d *Dispatcher) choose(j *job, why string) bool {
	s := &j.search
	if d.elapsedMs < s.restUntilMs {
		return false
	}
	best, fewest := "", 0
	for _, n := range d.nodes {
		if n.Leaving || slices.ContainsFunc(s.refusals, func(r Refusal) bool { return r.Node == n.Name }) {
			continue
		}
		count := d.coordinators(n.Name)
		if n.Name == j.coordinator {
			count = -1 // before all others
		}
		if best == "" || count < fewest {
			best, fewest = n.Name, count
		}
	}
	if best == "" {
		d.event(CoordinatorUnplaced{Job: j.id, Refusals: s.refusals, RetryMs: restMs})
		s.refusals, s.restUntilMs = nil, d.elapsedMs+restMs
		return false
	}
	s.target, s.sinceMs, s.sentMs = best, d.elapsedMs, never
	d.event(CoordinatorOrdered{Job: j.id, Epoch: j.epoch, Node: best, Why: why})
	return true
}

// coordinators counts the jobs that a node coordinates, or was asked to.
func (d *Dispatcher) coordinators(node string) (n int) {
	for _, j := range d.jobs {
		if j.search.target == node || j.search.target == "" && j.coordinator == node {
			n++
		}
	}
	return n
}

// coordinatorRefused looks for another node.
func (d *Dispatcher) coordinatorRefused(m *messages.CoordinatorRefused) {
	i, known := d.find(m.Job)
	if !known || d.jobs[i].epoch != m.Epoch || d.jobs[i].search.target != m.Node {
		d.stale++
		return
	}
	d.refused(d.jobs[i], m.Reason)
	d.coordinate()
}

func (d *Dispatcher) refused(j *job, reason string) {
	j.search.refusals = append(j.search.refusals, Refusal{j.search.target, reason})
	d.event(CoordinatorRefusedBy{Job: j.id, Node: j.search.target, Reason: reason})
	j.search.target = ""
}
