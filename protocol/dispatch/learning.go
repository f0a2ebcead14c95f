package dispatch

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"cutwater/messages"
	"cutwater/protocol"
)

const (
	// learnMs is how long a node is waited for that does not say which jobs it
	// coordinates, or whose coordinators do not say what they use.
	learnMs = 2000
	// orphanedMs is how long tasks live whose coordinator is silent: so long their slots
	// are not free (package taskmanager).
	orphanedMs = 3 * 60_000
)

// inquiry is what a node was asked: which jobs it coordinates.
type inquiry struct {
	sinceMs      int64
	answered     bool
	coordinators []*messages.JobEpoch
}

// inquire asks the living nodes that have not answered.
func (d *Dispatcher) inquire() {
	for _, n := range d.nodes {
		q := d.inquiries[n.Name]
		if q == nil {
			q = &inquiry{sinceMs: d.elapsedMs}
			d.inquiries[n.Name] = q
		}
		if !q.answered {
			d.send(AgentAddress(n.Name), d.inquiry())
		}
	}
}

func (d *Dispatcher) inquiry() proto.Message {
	return &messages.SlotInquiry{Term: d.term, Dispatcher: string(d.self)}
}

// inquiryAnswered notes which jobs a node coordinates.
func (d *Dispatcher) inquiryAnswered(a *messages.SlotInquiryAnswer) {
	q := d.inquiries[a.Node]
	if a.Term != d.term || q == nil || q.answered {
		d.stale++
		return
	}
	q.answered, q.coordinators = true, a.Coordinators
	d.allocate(nil)
}

// unheard says for whose word the dispatcher waits before it grants anything, or
// nothing.
func (d *Dispatcher) unheard() string {
	if !d.read {
		return "the jobs are being read"
	}
	for _, n := range d.nodes {
		q := d.inquiries[n.Name]
		if q == nil || d.elapsedMs-q.sinceMs >= learnMs {
			continue
		}
		if !q.answered {
			return fmt.Sprintf("node %s is asked which jobs it coordinates, for up to %d ms", n.Name, learnMs)
		}
		for _, c := range q.coordinators {
			// One that has ended on record is not waited for, nor one that was overtaken.
			i, known := d.find(c.Job)
			if known && d.jobs[i].epoch <= c.Epoch && d.jobs[i].claim == nil {
				return fmt.Sprintf("the coordinator of job %s on node %s is asked which slots it uses, for up to %d ms", c.Job, n.Name, learnMs)
			}
		}
	}
	return ""
}

// reserve takes from what is free the slots in which tasks run, by the record, of jobs
// whose coordinator has not been heard.
func (d *Dispatcher) reserve(free []int) {
	for _, j := range d.jobs {
		if j.claim != nil || d.elapsedMs-j.heardMs >= orphanedMs {
			continue
		}
		for _, s := range j.deployed {
			if i := slices.IndexFunc(d.nodes, func(n Node) bool { return n.Name == s.Node }); i >= 0 {
				free[i] -= min(int(s.Slots), free[i])
			}
		}
	}
}

// deployedAt is in which slots the tasks of a job run, as far as the record says.
func deployedAt(r *messages.JobRecord) []*messages.NodeSlots {
	if r.Status != messages.JobStatus_RUNNING {
		return nil
	}
	return r.GetDeployment().GetSlots()
}

// newer asks a coordinator again that does not know of this dispatcher: until then it
// may take an offer of the one before.
func (d *Dispatcher) newer(coordinator string) {
	d.send(protocol.Address(coordinator), d.inquiry())
}
