package dispatch

import (
	"fmt"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"cutwater/messages"
	"cutwater/protocol"
)

// TestRandomClaims lets jobs ask for random numbers of slots while nodes come, leave
// and are lost and dispatchers follow each other, and proves:
//
//   - no more slots are granted than a node has, and none of a node that leaves;
//   - an offer is all that was asked for, or says what is missing;
//   - a job with enough slots keeps them while their nodes stay;
//   - once nothing changes any more, nobody lacks slots for whom enough are free.
func TestRandomClaims(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &crowd{t: t, jobs: map[string]*member{}}
		c.lead()
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			c.something()
		}
		for range 12 { // longer than a new dispatcher learns
			c.pass()
		}
		c.settled()
	})
}

// crowd is some jobs that share the slots of some nodes.
type crowd struct {
	t     *rapid.T
	d     *Dispatcher
	nowMs int64
	nodes []Node
	start int // of every node, in its name: another one after a loss
	term  uint64
	jobs  map[string]*member
	names []string
}

// member is a job with an honest coordinator.
type member struct {
	wanted int
	offer  *messages.SlotOffer
	uses   bool // its tasks run in all that was offered
}

func (c *crowd) something() {
	switch rapid.SampledFrom([]string{"pass", "pass", "nodes", "lost", "job", "wants", "uses", "lead"}).Draw(c.t, "what") {
	case "pass":
		c.pass()
	case "nodes":
		c.drawNodes()
		c.look(c.d.SetNodes(c.nowMs, c.nodes))
	case "lost":
		if len(c.nodes) > 0 {
			i := rapid.IntRange(0, len(c.nodes)-1).Draw(c.t, "node")
			name := c.nodes[i].Name
			c.nodes = slices.Delete(slices.Clone(c.nodes), i, i+1)
			c.start++
			c.look(c.d.Step(c.nowMs, &messages.NodeLost{Node: name}))
		}
	case "job":
		name := fmt.Sprintf("j%d", len(c.jobs))
		c.jobs[name] = &member{wanted: rapid.IntRange(0, 9).Draw(c.t, "wanted")}
		c.names = append(c.names, name)
	case "wants":
		if j := c.one(); j != nil {
			j.wanted = rapid.IntRange(0, 9).Draw(c.t, "wanted")
		}
	case "uses":
		if j := c.one(); j != nil && j.offer.GetMissing() == "" {
			j.uses = !j.uses
		}
	case "lead":
		if rapid.IntRange(0, 4).Draw(c.t, "chance") == 0 {
			c.lead()
		}
	}
}

func (c *crowd) one() *member {
	if len(c.names) == 0 {
		return nil
	}
	return c.jobs[rapid.SampledFrom(c.names).Draw(c.t, "job")]
}

func (c *crowd) drawNodes() {
	c.nodes = nil
	for i := range rapid.IntRange(0, 4).Draw(c.t, "nodes") {
		c.nodes = append(c.nodes, Node{Name: fmt.Sprintf("n%d.%d", i, c.start), Slots: rapid.IntRange(0, 5).Draw(c.t, "slots"),
			Leaving: rapid.IntRange(0, 5).Draw(c.t, "leaving") == 0})
	}
}

// lead begins another leadership, in which nobody has been heard.
func (c *crowd) lead() {
	c.drawNodes()
	c.term++
	c.d = New("d|dispatcher", c.term)
	c.look(c.d.Start(c.nowMs, c.nodes))
}

// pass lets a second go by, in which every coordinator asks, most agents answer, and the
// metadata store tells of no job.
func (c *crowd) pass() {
	c.look(c.d.Step(c.nowMs, &messages.WorkDone{Op: c.d.reading, Result: &messages.WorkDone_JobsRead{JobsRead: &messages.JobsRead{}}}))
	for _, n := range c.nodes {
		if rapid.IntRange(0, 3).Draw(c.t, "deaf") > 0 {
			c.look(c.d.Step(c.nowMs, &messages.SlotInquiryAnswer{Node: n.Name, Term: c.term}))
		}
	}
	for _, name := range c.names {
		j := c.jobs[name]
		r := &messages.SlotRequest{Job: name, Epoch: 1, Coordinator: "n|coordinator/" + name, Wanted: uint32(j.wanted), Term: c.term}
		if j.uses {
			for _, n := range j.offer.GetNodes() {
				if c.slots(n.Node) > 0 { // tasks on others are lost
					r.Held = append(r.Held, n)
				}
			}
		}
		before := c.grants()
		c.look(c.d.Step(c.nowMs, r))
		c.kept(before, name)
	}
	for range 1000 / tickMs {
		c.nowMs += tickMs
		before := c.grants()
		c.look(c.d.Step(c.nowMs, &messages.TimerFired{Key: tickTimer, Generation: c.d.generation}))
		c.kept(before, "")
	}
}

// slots are what a node offers.
func (c *crowd) slots(node string) int {
	for _, n := range c.nodes {
		if n.Name == node && !n.Leaving {
			return n.Slots
		}
	}
	return 0
}

// grants are the slots of those that have enough.
func (c *crowd) grants() map[string]map[string]int {
	all := map[string]map[string]int{}
	for _, j := range c.d.claims {
		if !j.claim.short {
			all[j.id] = j.claim.granted
		}
	}
	return all
}

// kept looks that nobody has lost a slot, but the one that asked: it may want fewer.
func (c *crowd) kept(before map[string]map[string]int, asked string) {
	for _, j := range c.d.claims {
		for node, n := range before[j.id] {
			if j.id != asked && j.claim.granted[node] != n {
				c.t.Fatalf("job %s had %v and has %v", j.id, before[j.id], j.claim.granted)
			}
		}
	}
}

// look takes the offers in and looks at the grants.
func (c *crowd) look(e *protocol.Effects) {
	for _, s := range e.Send {
		if o, ok := s.Message.(*messages.SlotOffer); ok {
			total := 0
			for _, n := range o.Nodes {
				total += int(n.Slots)
			}
			j := c.jobs[o.Job]
			if (o.Missing == "") != (total >= c.claim(o.Job).wanted) {
				c.t.Fatalf("job %s wants %d slots and is offered %v", o.Job, j.wanted, o)
			}
			j.offer = proto.CloneOf(o)
		}
	}
	used := map[string]int{}
	for _, j := range c.d.claims {
		for node, n := range j.claim.granted {
			used[node] += n
		}
	}
	for node, n := range used {
		if n > c.slots(node) {
			c.t.Fatalf("node %s has %d slots, and %d are granted", node, c.slots(node), n)
		}
	}
}

func (c *crowd) claim(id string) *claim {
	i, known := c.d.find(id)
	if !known || c.d.jobs[i].claim == nil {
		c.t.Fatalf("job %s has no claim", id)
	}
	return c.d.jobs[i].claim
}

// settled looks that nobody waits in vain.
func (c *crowd) settled() {
	free := 0
	for _, n := range c.nodes {
		free += c.slots(n.Name)
	}
	for _, j := range c.d.claims {
		for _, n := range j.claim.granted {
			free -= n
		}
	}
	for _, j := range c.d.claims {
		has := 0
		for _, n := range j.claim.granted {
			has += n
		}
		if j.claim.short && has+free >= j.claim.wanted {
			c.t.Fatalf("job %s wants %d slots and has %d while %d are free", j.id, j.claim.wanted, has, free)
		}
	}
}
