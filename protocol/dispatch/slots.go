package dispatch

import (
	"fmt"
	"maps"
	"slices"

	"cutwater/messages"
	"cutwater/protocol"
)

// claim is what a job has asked for, and what it got.
type claim struct {
	coordinator protocol.Address
	epoch       uint64
	wanted      int
	held        map[string]int // by node, as the coordinator says
	granted     map[string]int // by node, as the last offer says
	offer       uint64         // the number of that
	usable      map[string]int // by node, the most of all offers by which the coordinator may still act
	wish        map[string]int // the last grant that was enough
	short       bool           // granted is not
	missing     string         // why, as the last event said
	heardMs     int64
}

// slotRequest notes what a job needs and has, and answers.
func (d *Dispatcher) slotRequest(r *messages.SlotRequest) {
	switch {
	case r.Term > d.term:
		d.stale++ // another dispatcher works by now
		return
	case r.Term < d.term:
		d.newer(r.Coordinator)
		return
	}
	i, known := d.find(r.Job)
	if !known {
		// Registered since the jobs were read last.
		d.jobs = slices.Insert(d.jobs, i, &job{id: r.Job})
	}
	j := d.jobs[i]
	if r.Epoch < j.epoch {
		d.stale++
		return
	}
	if r.Epoch > j.epoch {
		d.coordinatedBy(j, r.Epoch, nodeOf(r.Coordinator))
	}
	j.heardMs = d.elapsedMs
	if j.claim == nil {
		j.claim = &claim{usable: make(map[string]int)}
		d.claims = append(d.claims, j)
	}
	c := j.claim
	c.coordinator, c.epoch, c.wanted, c.heardMs = protocol.Address(r.Coordinator), r.Epoch, int(r.Wanted), d.elapsedMs
	c.held = make(map[string]int, len(r.Held))
	for _, h := range r.Held {
		c.held[h.Node] += int(h.Slots)
	}
	if r.Offer == c.offer {
		clear(c.usable)
		maps.Copy(c.usable, c.granted)
	}
	d.allocate(j)
}

// allocate brings the grants in line with the nodes and the claims, and tells those
// jobs whose slots have changed, and the one that asked. First every claim keeps
// what it has, as far as the nodes have it; then those that lack slots get them, all
// or none, in the order of first requests. Slots that a job has lost are free for others
// when its coordinator has said that it knows.
func (d *Dispatcher) allocate(asked *job) {
	unheard := d.unheard()
	if unheard == "" && !d.learned {
		d.learned = true
		d.event(Granting{})
	}
	free := make([]int, len(d.nodes)) // by the index of the node
	total, living := 0, 0
	for i, n := range d.nodes {
		if !n.Leaving {
			free[i] = max(n.Slots, 0)
			total += free[i]
			living++
		}
	}
	grants := make([]grant, len(d.claims))
	for i, j := range d.claims {
		grants[i] = j.claim.keep(d.nodes, free)
	}
	for i, j := range d.claims {
		grants[i].withhold(j.claim, d.nodes, free)
	}
	d.reserve(free)
	for i, j := range d.claims {
		c, g := j.claim, &grants[i]
		missing := ""
		switch {
		case g.count >= c.wanted:
		case unheard != "" && c.short:
			missing = c.missing // it has waited before, which is soon decided
		case unheard != "":
			missing = fmt.Sprintf("the job needs %s and has %d: it is not known yet which are in use: %s", counted(c.wanted, "slot"), g.count, unheard)
		default:
			g.release(free)
			missing = d.fill(c, g, free, total, living)
			g.withhold(c, d.nodes, free)
		}
		d.grant(j, g, missing, j == asked)
	}
}

// grant is slots by the index of their node.
type grant struct {
	slots    []int
	count    int
	withheld []int // from other jobs, beside slots
}

func (g *grant) add(node, n int, free []int) {
	g.slots[node] += n
	g.count += n
	free[node] -= n
}

// withhold takes from what is free the slots that are not granted and may be used all the
// same, since the coordinator may still act by an earlier offer. Else two jobs might use
// one:
//
//  1. A is offered slots of n1 and n2, and deploys its tasks there; it has not said so;
//  2. n1 is lost; A lacks slots now, and keeps those that it holds by its last word: none;
//  3. B is granted the slots of n2;
//  4. A's tasks on n2 go on.
//
// (testdata/taken_away.txt, TestRandomClaims)
func (g *grant) withhold(c *claim, nodes []Node, free []int) {
	g.withheld = make([]int, len(nodes))
	for i, n := range nodes {
		g.withheld[i] = min(max(c.usable[n.Name]-g.slots[i], 0), free[i])
		free[i] -= g.withheld[i]
	}
}

// release makes free what was withheld from others, for the job itself.
func (g *grant) release(free []int) {
	for i, n := range g.withheld {
		free[i] += n
	}
}

// keep returns what stays: all that was granted and all that is held, if that is
// enough; of less, what is held. Where it is more than wanted, slots that are not
// held go, from the node with the most.
func (c *claim) keep(nodes []Node, free []int) grant {
	has := grant{slots: make([]int, len(nodes))}
	holds := grant{slots: make([]int, len(nodes))}
	for i, n := range nodes {
		holds.slots[i] = min(c.held[n.Name], free[i])
		has.slots[i] = max(min(c.granted[n.Name], free[i]), holds.slots[i])
		has.count += has.slots[i]
		holds.count += holds.slots[i]
	}
	kept := holds
	if has.count >= c.wanted {
		kept = has
	}
	for kept.count > max(c.wanted, holds.count) {
		most := -1
		for i := range nodes {
			if kept.slots[i] > holds.slots[i] && (most < 0 || kept.slots[i] > kept.slots[most]) {
				most = i
			}
		}
		kept.slots[most]--
		kept.count--
	}
	for i, n := range kept.slots {
		free[i] -= n
	}
	return kept
}

// fill adds the slots that are missing, or none and says why: first where the job
// had some, then each on the node that has the most left.
func (d *Dispatcher) fill(c *claim, g *grant, free []int, total, living int) (missing string) {
	left := 0
	for _, n := range free {
		left += n
	}
	if g.count+left < c.wanted {
		remedy := "start another node, or lower the parallelism"
		if c.wanted <= total {
			remedy = "start another node, end another job, or lower the parallelism"
		}
		return fmt.Sprintf("the job needs %s and has %d: %d free of %s on %s; %s",
			counted(c.wanted, "slot"), g.count, left, counted(total, "slot"), counted(living, "node"), remedy)
	}
	for i, n := range d.nodes {
		g.add(i, min(max(c.wish[n.Name]-g.slots[i], 0), free[i], c.wanted-g.count), free)
	}
	for g.count < c.wanted {
		most := 0
		for i := range free {
			if free[i] > free[most] || free[i] == free[most] && g.slots[i] < g.slots[most] {
				most = i
			}
		}
		g.add(most, 1, free)
	}
	return ""
}

// grant makes a grant the job's, and tells it if that is news, or if it asked.
func (d *Dispatcher) grant(j *job, g *grant, missing string, asked bool) {
	c := j.claim
	news := c.short != (missing != "")
	granted := make(map[string]int)
	var offer []*messages.NodeSlots
	for i, n := range d.nodes {
		if g.slots[i] > 0 {
			granted[n.Name] = g.slots[i]
			offer = append(offer, &messages.NodeSlots{Node: n.Name, Slots: uint32(g.slots[i])})
		}
		news = news || c.granted[n.Name] != g.slots[i]
	}
	for name := range c.granted { // the order has no effect
		if granted[name] == 0 {
			news = true // its node is gone
		}
	}
	if news {
		d.offers++
		c.offer = d.offers
	}
	for name, n := range granted { // the order has no effect
		c.usable[name] = max(c.usable[name], n)
	}
	c.granted, c.short = granted, missing != ""
	if !c.short {
		c.wish = granted
	}
	switch {
	case c.short && missing != c.missing:
		d.event(SlotsMissing{Job: j.id, Missing: missing})
	case news && !c.short:
		d.event(SlotsGranted{Job: j.id, Nodes: offer})
	}
	c.missing = missing
	if news || asked {
		d.send(c.coordinator, &messages.SlotOffer{Job: j.id, Epoch: c.epoch, Nodes: offer, Missing: missing, Term: d.term, Number: c.offer})
	}
}

// releaseSilent takes the slots of those that have not been heard for long, but for
// those in which their tasks run by the record.
func (d *Dispatcher) releaseSilent() {
	for _, j := range slices.Clone(d.claims) {
		if d.elapsedMs-j.claim.heardMs < silenceMs {
			continue
		}
		if reason := fmt.Sprintf("nothing was heard from its coordinator for %d ms", silenceMs); len(j.deployed) == 0 {
			d.release(j, reason)
		} else {
			d.unclaim(j)
			d.event(SlotsReserved{Job: j.id, Reason: reason, Nodes: j.deployed})
		}
	}
	d.jobs = slices.DeleteFunc(d.jobs, func(j *job) bool { return !j.recorded && j.claim == nil })
}

// release ends a job's claim.
func (d *Dispatcher) release(j *job, reason string) {
	if j.claim != nil {
		d.unclaim(j)
		d.event(SlotsReleased{Job: j.id, Reason: reason})
	}
}

func (d *Dispatcher) unclaim(j *job) {
	j.claim = nil
	d.claims = slices.DeleteFunc(d.claims, func(other *job) bool { return other == j })
}

// counted is a number of things, for people.
func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
