package dispatch

import (
	"fmt"
	"maps"
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
//   - tasks of two jobs share no slot, however late offers and requests arrive;
//   - an offer is all that was asked for, or says what is missing;
//   - a job with enough slots keeps them while their nodes stay;
//   - once nothing changes any more, nobody lacks slots for whom enough are free.
func TestRandomClaims(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &crowd{t: t, jobs: map[string]*member{}, sizes: map[string]int{}}
		c.lead()
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			c.something()
			c.apart()
		}
		c.prompt = true
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
	sizes map[string]int // slots of the nodes, by name
	jobs  map[string]*member
	names []string
	// prompt: from now on everything arrives at once.
	prompt bool
}

// member is a job with an honest coordinator.
type member struct {
	wanted int
	offer  *messages.SlotOffer // the newest that it has
	held   map[string]int      // slots that its tasks are in, by node
	// What is on its way to it and from it, and for how many seconds it has been.
	coming []*messages.SlotOffer
	sent   []*messages.SlotRequest
	slow   int
}

func (c *crowd) something() {
	switch rapid.SampledFrom([]string{"pass", "pass", "nodes", "lost", "job", "wants", "deploy", "deploy", "end", "lead"}).Draw(c.t, "what") {
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
			c.bury()
			c.look(c.d.Step(c.nowMs, &messages.NodeLost{Node: name}))
		}
	case "job":
		name := fmt.Sprintf("j%d", len(c.jobs))
		c.jobs[name] = &member{wanted: rapid.IntRange(0, 9).Draw(c.t, "wanted"), held: map[string]int{}}
		c.names = append(c.names, name)
	case "wants":
		if j := c.one(); j != nil {
			j.wanted = rapid.IntRange(0, 9).Draw(c.t, "wanted")
		}
	case "deploy":
		if j := c.one(); j != nil {
			j.deploy()
		}
	case "end":
		if j := c.one(); j != nil {
			c.end(j)
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

// deploy lets tasks run in as many of the slots that were offered as the job wants, if
// there are so many. Those that run stay where they are.
func (j *member) deploy() {
	slots := map[string]int{}
	for _, n := range j.offer.GetNodes() {
		slots[n.Node] = int(n.Slots)
	}
	if total(slots) < j.wanted {
		return
	}
	for _, node := range slices.Sorted(maps.Keys(slots)) {
		for j.held[node] < slots[node] && total(j.held) < j.wanted {
			j.held[node]++
		}
	}
}

// end ends all its tasks, or one.
func (c *crowd) end(j *member) {
	if nodes := slices.Sorted(maps.Keys(j.held)); len(nodes) > 0 && rapid.Bool().Draw(c.t, "one") {
		j.held[nodes[0]]--
		maps.DeleteFunc(j.held, func(_ string, n int) bool { return n == 0 })
		return
	}
	clear(j.held)
}

func total(slots map[string]int) (n int) {
	for _, of := range slots {
		n += of
	}
	return n
}

func (j *member) request(name string, term uint64) *messages.SlotRequest {
	r := &messages.SlotRequest{Job: name, Epoch: 1, Coordinator: "n|coordinator/" + name, Wanted: uint32(j.wanted), Term: term, Offer: j.offer.GetNumber()}
	for _, node := range slices.Sorted(maps.Keys(j.held)) {
		r.Held = append(r.Held, &messages.NodeSlots{Node: node, Slots: uint32(j.held[node])})
	}
	return r
}

// deliver hands over what is on its way to a coordinator and from it.
func (c *crowd) deliver(name string) {
	j := c.jobs[name]
	for j.slow = 0; len(j.coming)+len(j.sent) > 0; {
		if len(j.coming) > 0 {
			o := j.coming[0]
			j.coming = j.coming[1:]
			if o.Number != j.offer.GetNumber() {
				j.offer = o
				j.sent = append(j.sent, j.request(name, c.term))
			}
			continue
		}
		r := j.sent[0]
		j.sent = j.sent[1:]
		before := c.grants()
		c.look(c.d.Step(c.nowMs, r))
		c.kept(before, name)
	}
}

// apart looks that no slot is used twice.
func (c *crowd) apart() {
	used := map[string]int{}
	for _, name := range c.names {
		for node, n := range c.jobs[name].held {
			used[node] += n
		}
	}
	for node, n := range used {
		if n > c.sizes[node] {
			c.t.Fatalf("node %s has %d slots, and tasks in %d", node, c.sizes[node], n)
		}
	}
}

func (c *crowd) drawNodes() {
	c.nodes = nil
	for i := range rapid.IntRange(0, 4).Draw(c.t, "nodes") {
		n := Node{Name: fmt.Sprintf("n%d.%d", i, c.start), Leaving: rapid.IntRange(0, 5).Draw(c.t, "leaving") == 0}
		if _, known := c.sizes[n.Name]; !known {
			c.sizes[n.Name] = rapid.IntRange(0, 5).Draw(c.t, "slots")
		}
		n.Slots = c.sizes[n.Name]
		c.nodes = append(c.nodes, n)
	}
	c.bury()
}

// bury ends the tasks on nodes that are gone.
func (c *crowd) bury() {
	for _, name := range c.names {
		maps.DeleteFunc(c.jobs[name].held, func(node string, _ int) bool {
			return !slices.ContainsFunc(c.nodes, func(n Node) bool { return n.Name == node })
		})
	}
}

// lead begins another leadership, in which nobody has been heard and no tasks run: what
// is known of those is the subject of TestRandomClusters.
func (c *crowd) lead() {
	for _, j := range c.jobs {
		j.offer, j.coming, j.sent = nil, nil, nil
		clear(j.held)
	}
	c.drawNodes()
	c.term++
	c.d = New("d|dispatcher", c.term)
	c.look(c.d.Start(c.nowMs, c.nodes))
}

// pass lets a second go by, in which every coordinator asks, most of them are heard, most
// agents answer, and the metadata store tells of no job.
func (c *crowd) pass() {
	c.look(c.d.Step(c.nowMs, &messages.WorkDone{Op: c.d.reading, Result: &messages.WorkDone_JobsRead{JobsRead: &messages.JobsRead{}}}))
	for _, n := range c.nodes {
		if rapid.IntRange(0, 3).Draw(c.t, "deaf") > 0 {
			c.look(c.d.Step(c.nowMs, &messages.SlotInquiryAnswer{Node: n.Name, Term: c.term}))
		}
	}
	for _, name := range c.names {
		j := c.jobs[name]
		j.sent = append(j.sent, j.request(name, c.term))
		// Nobody is silent for so long that its slots are taken back.
		if j.slow++; c.prompt || j.slow > 3 || rapid.Bool().Draw(c.t, "heard") {
			c.deliver(name)
		}
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
			j.coming = append(j.coming, proto.CloneOf(o))
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
