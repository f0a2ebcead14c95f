package replicated

import (
	"cmp"
	"fmt"
	"slices"
)

// Node is what is known of one node of the cluster, as plain values: where they come
// from is the caller's business.
type Node struct {
	ID, Addr string
	// Zone is what may fail at once; voters are spread over zones.
	Zone string
	// Alive, or seemingly dead, since SinceMs.
	Alive   bool
	SinceMs int64
}

// Member is a node that has a copy of the log.
type Member struct {
	ID, Addr string
	Voter    bool
	// CaughtUp: it answers, and its copy is nearly complete. Only the leader knows.
	CaughtUp bool
}

// View is all that Decide looks at. Times are of one clock, the leader's.
type View struct {
	NowMs   int64
	Leader  string
	Nodes   []Node
	Members []Member
}

// Policy is what Decide wants.
type Policy struct {
	// Voters is how many there should be, if there are as many nodes: 1, 3 or 5; 0
	// means 3. An even number counts as the next smaller one.
	Voters int
	// StableMs is how long a node must have been alive before it votes; 0 means
	// 10,000.
	StableMs int64
	// DeadAfterMs is for how long a member must have seemed dead before it is
	// replaced, or taken off if it does not vote; 0 means 60,000.
	DeadAfterMs int64
}

func (p Policy) withDefaults() Policy {
	if p.Voters <= 0 {
		p.Voters = 3
	}
	p.Voters -= 1 - p.Voters%2
	if p.StableMs == 0 {
		p.StableMs = 10_000
	}
	if p.DeadAfterMs == 0 {
		p.DeadAfterMs = 60_000
	}
	return p
}

// ChangeKind is what is done to a member.
type ChangeKind uint8

const (
	// AddNonvoter takes a node in, or corrects the address of one that does not vote.
	AddNonvoter ChangeKind = iota + 1
	// AddVoter lets a node vote, or corrects the address of one that does.
	AddVoter
	// Demote takes its vote from a node.
	Demote
	// Remove takes a node off the members.
	Remove
)

// String returns the kind in words.
func (k ChangeKind) String() string {
	switch k {
	case AddNonvoter:
		return "add non-voter"
	case AddVoter:
		return "add voter"
	case Demote:
		return "demote"
	case Remove:
		return "remove"
	}
	return fmt.Sprintf("change %d", uint8(k))
}

// Change is one step.
type Change struct {
	Kind     ChangeKind
	ID, Addr string // the address only where a node is added
	Reason   string
}

// String returns the step in words.
func (c Change) String() string { return fmt.Sprintf("%s %s: %s", c.Kind, c.ID, c.Reason) }

// Decide returns the steps, in order, that bring the members nearer to the policy;
// none if nothing is to be done now. It is a function of its arguments. What it holds
// to:
//
//   - every node that is alive becomes a member without a vote, which costs no
//     majority;
//   - votes are given only to nodes that are stable and caught up, and only while the
//     voters that are alive remain a majority of all after the step;
//   - the number of voters grows from odd to odd, two at a time; an even number is
//     what a failure between two steps has left, and is mended first;
//   - a voter that is dead for long gives its place to another node; without another
//     one it stays, until two of them can go;
//   - a member that Nodes does not mention is left alone.
func Decide(p Policy, v View) []Change {
	d := decision{policy: p.withDefaults(), view: v}
	d.admit()
	d.sort()
	d.replace()
	d.mend()
	d.grow()
	d.shrink()
	d.forget()
	return d.changes
}

type decision struct {
	policy  Policy
	view    View
	changes []Change

	voters []Member // what they will be after the changes so far
	dead   []Member // voters that are dead for long; a part of voters
	alive  int      // of voters
	ready  []Member // non-voters that may become voters, the best first
}

func (d *decision) node(id string) (Node, bool) {
	i := slices.IndexFunc(d.view.Nodes, func(n Node) bool { return n.ID == id })
	if i < 0 {
		return Node{}, false
	}
	return d.view.Nodes[i], true
}

func (d *decision) deadLong(id string) bool {
	n, known := d.node(id)
	return known && !n.Alive && d.view.NowMs-n.SinceMs >= d.policy.DeadAfterMs && id != d.view.Leader
}

// lives reports whether nothing is known against a member.
func (d *decision) lives(id string) bool {
	n, known := d.node(id)
	return !known || n.Alive || id == d.view.Leader
}

func (d *decision) add(kind ChangeKind, m Member, format string, args ...any) {
	c := Change{Kind: kind, ID: m.ID, Reason: fmt.Sprintf(format, args...)}
	if kind == AddNonvoter || kind == AddVoter {
		c.Addr = m.Addr
	}
	d.changes = append(d.changes, c)
}

// admit takes nodes in, and follows those that have moved.
func (d *decision) admit() {
	nodes := slices.Clone(d.view.Nodes)
	slices.SortFunc(nodes, func(a, b Node) int { return cmp.Compare(a.ID, b.ID) })
	for _, n := range nodes {
		if !n.Alive || n.Addr == "" || n.ID == d.view.Leader {
			continue
		}
		moved := Member{ID: n.ID, Addr: n.Addr}
		i := slices.IndexFunc(d.view.Members, func(m Member) bool { return m.ID == n.ID })
		switch {
		case i < 0:
			d.add(AddNonvoter, moved, "it is alive")
		case d.view.Members[i].Addr != n.Addr && d.view.Members[i].Voter:
			d.add(AddVoter, moved, "it moved from %s", d.view.Members[i].Addr)
		case d.view.Members[i].Addr != n.Addr:
			d.add(AddNonvoter, moved, "it moved from %s", d.view.Members[i].Addr)
		}
	}
}

// sort fills the lists that the steps work on.
func (d *decision) sort() {
	members := slices.Clone(d.view.Members)
	slices.SortFunc(members, func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
	for _, m := range members {
		n, known := d.node(m.ID)
		if known && n.Addr != "" {
			m.Addr = n.Addr
		}
		switch {
		case m.Voter:
			d.voters = append(d.voters, m)
			if d.lives(m.ID) {
				d.alive++
			}
			if d.deadLong(m.ID) {
				d.dead = append(d.dead, m)
			}
		case known && n.Alive && d.view.NowMs-n.SinceMs >= d.policy.StableMs && m.CaughtUp:
			d.ready = append(d.ready, m)
		}
	}
}

// next takes the ready node whose zone has the fewest voters, and of these the one
// with the least id.
func (d *decision) next() Member {
	inZone := map[string]int{}
	for _, m := range d.voters {
		if n, known := d.node(m.ID); known {
			inZone[n.Zone]++
		}
	}
	best := 0
	crowd := func(i int) int {
		n, _ := d.node(d.ready[i].ID)
		return inZone[n.Zone]
	}
	for i := range d.ready {
		if crowd(i) < crowd(best) {
			best = i
		}
	}
	m := d.ready[best]
	d.ready = slices.Delete(d.ready, best, best+1)
	return m
}

// canPromote reports whether n more voters leave those alive a majority at each step.
func (d *decision) canPromote(n int) bool {
	if len(d.ready) < n {
		return false
	}
	for i := 1; i <= n; i++ {
		if d.alive+i < (len(d.voters)+i)/2+1 {
			return false
		}
	}
	return true
}

func (d *decision) promote(format string, args ...any) {
	m := d.next()
	d.add(AddVoter, m, format, args...)
	d.voters = append(d.voters, m)
	d.alive++
}

// drop ends the vote of a voter: by removing it where it is dead.
func (d *decision) drop(m Member, format string, args ...any) {
	same := func(other Member) bool { return other.ID == m.ID }
	kind := Demote
	if slices.ContainsFunc(d.dead, same) {
		kind = Remove
	}
	if d.lives(m.ID) {
		d.alive--
	}
	d.add(kind, m, format, args...)
	d.voters = slices.DeleteFunc(d.voters, same)
	d.dead = slices.DeleteFunc(d.dead, same)
}

// replace gives the places of dead voters to others.
func (d *decision) replace() {
	for len(d.dead) > 0 && len(d.voters) <= d.policy.Voters && d.canPromote(1) {
		dead := d.dead[0]
		d.promote("in place of %s, which is dead", dead.ID)
		d.drop(dead, "it is dead, and replaced")
	}
}

// mend makes an even number of voters odd.
func (d *decision) mend() {
	switch {
	case len(d.voters)%2 != 0 || len(d.voters) == 0:
	case len(d.voters) < d.policy.Voters && d.canPromote(1):
		d.promote("%d voters are no better than %d", len(d.voters), len(d.voters)-1)
	default:
		if m, ok := d.spare(""); ok {
			d.drop(m, "%d voters are no better than %d", len(d.voters), len(d.voters)-1)
		}
	}
}

// spare returns the voter whose vote is missed least: one that is dead rather than one
// that lives, and of these the one with the greatest id; never the leader or the one
// that is named, and none without which those alive are no majority.
func (d *decision) spare(not string) (spare Member, ok bool) {
	for _, m := range slices.Backward(d.voters) {
		if m.ID != d.view.Leader && m.ID != not && (!ok || d.lives(spare.ID) && !d.lives(m.ID)) {
			spare, ok = m, true
		}
	}
	return spare, ok && d.canDrop(spare.ID)
}

// canDrop reports whether those alive are a majority without a voter.
func (d *decision) canDrop(id string) bool {
	alive := d.alive
	if d.lives(id) {
		alive--
	}
	return alive >= (len(d.voters)-1)/2+1
}

// grow adds voters by twos.
func (d *decision) grow() {
	for len(d.voters)+2 <= d.policy.Voters && len(d.voters)%2 == 1 && d.canPromote(2) {
		why := fmt.Sprintf("%d voters become %d", len(d.voters), len(d.voters)+2)
		d.promote("%s", why)
		d.promote("%s", why)
	}
}

// shrink takes voters off by twos: those above the policy, and dead ones that nobody
// can replace, whose silence costs more than their vote is worth.
func (d *decision) shrink() {
	for len(d.dead) >= 2 && len(d.voters) > 2 && len(d.voters)%2 == 1 {
		d.drop(d.dead[0], "it is dead, as another voter is")
		d.drop(d.dead[0], "it is dead, as another voter is")
	}
	for len(d.voters) >= d.policy.Voters+2 {
		for range 2 {
			m, ok := d.spare("")
			if !ok {
				return
			}
			d.drop(m, "more than %d voters", d.policy.Voters)
		}
	}
}

// forget takes dead members without a vote off.
func (d *decision) forget() {
	for _, m := range d.view.Members {
		if !m.Voter && d.deadLong(m.ID) {
			d.add(Remove, m, "it is dead")
		}
	}
}

// Depart returns the steps by which a member leaves of its own will, and whether it is
// gone after them: the last voter cannot leave before another node is caught up, the
// leader not before another one leads, and nobody without whom those that answer are
// no majority. The number of voters stays odd.
func Depart(leader, id string, members []Member) (changes []Change, gone bool) {
	d := decision{view: View{Leader: leader}}
	members = slices.Clone(members)
	slices.SortFunc(members, func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
	var leaving *Member
	for _, m := range members {
		d.view.Nodes = append(d.view.Nodes, Node{ID: m.ID, Alive: m.CaughtUp})
		if m.ID == id {
			leaving = &m
		}
		switch {
		case m.Voter:
			d.voters = append(d.voters, m)
			if d.lives(m.ID) {
				d.alive++
			}
		case m.CaughtUp && m.ID != id:
			d.ready = append(d.ready, m)
		}
	}
	switch {
	case leaving == nil:
		return nil, true // it has left
	case !leaving.Voter:
		d.add(Remove, *leaving, "it leaves")
		return d.changes, true
	case len(d.voters)%2 == 0:
		// Its place is taken already.
	case d.canPromote(1):
		d.promote("%s leaves", id)
	case id == leader:
		// Whoever leads next takes a vote off.
	default:
		m, ok := d.spare(id)
		if !ok {
			return nil, false
		}
		d.drop(m, "%s leaves, and %d voters are no better than %d", id, len(d.voters)-1, len(d.voters)-2)
	}
	if id == leader || !d.canDrop(id) {
		return d.changes, false
	}
	d.add(Remove, *leaving, "it leaves")
	return d.changes, true
}
