package testkit

import "cutwater/cluster/metadata"

// The leader of the metadata log is one node that a majority reaches. When it is lost
// another one follows after a while; each node hears of that in its own time, and the
// old leader may be the last.

const watchEveryMs = 100

// watch looks for a leader where there is none.
func (c *controlPlane) watch() {
	c.world.After(watchEveryMs, func() {
		if !c.electing && !c.led() {
			c.electing = true
			c.world.After(int64(100+c.world.rng.IntN(900)), func() {
				if c.electing = false; !c.led() {
					c.elect()
				}
			})
		}
		c.watch()
	})
}

// led reports whether there is a leader that a majority reaches.
func (c *controlPlane) led() bool {
	l := c.world.byID(c.group.Leader())
	return l != nil && l.alive && c.hasMajority(l)
}

func (w *World) byID(id string) *Node {
	for _, n := range w.nodes {
		if n.ID == id {
			return n
		}
	}
	return nil
}

func (c *controlPlane) hasMajority(n *Node) bool {
	count := 0
	for _, o := range c.world.nodes {
		if o.alive && c.world.joined(n, o) {
			count++
		}
	}
	return 2*count > len(c.world.nodes)
}

// elect makes one of those the leader that a majority reaches, any but the one that
// led if there is another, or nobody.
func (c *controlPlane) elect() {
	w := c.world
	var all []*Node
	for _, n := range w.nodes {
		if n.alive && c.hasMajority(n) && n.ID != c.group.Leader() {
			all = append(all, n)
		}
	}
	old := w.byID(c.group.Leader())
	var leader *Node
	id := ""
	switch {
	case len(all) > 0:
		leader = all[w.rng.IntN(len(all))]
		id = leader.ID
	case old == nil || c.led():
		return // nobody can, or nobody else
	}
	c.term++
	w.note("LEADER %q in term %d", id, c.term)
	if old != nil && old.alive && leader != nil && c.believes[old] == old.ID {
		w.happened(TwoLeaders)
	}
	c.group.Elect(id, w.rng.IntN(2) == 0)
	if leader != nil {
		c.believe(leader, id)
	}
	for _, n := range w.nodes {
		if n.alive && n != leader {
			c.follow(n)
		}
	}
}

// changeLeader moves the leadership, if anybody else can have it.
func (c *controlPlane) changeLeader() {
	if before := c.term; c.led() {
		if c.elect(); c.term > before {
			c.world.happened(LeaderChanged)
		}
	}
}

// follow lets a node hear who leads, as soon as it reaches that one. One that led or
// reaches nobody notices that later.
func (c *controlPlane) follow(n *Node) {
	w, life, term := c.world, n.life, c.term
	delay := int64(10 + w.rng.IntN(400))
	if c.believes[n] == n.ID {
		delay += int64(w.rng.IntN(1500))
	}
	w.After(delay, func() {
		if !n.lives(life) || c.term != term {
			return
		}
		switch l := w.byID(c.group.Leader()); {
		case l == nil:
			c.believe(n, "")
		case !w.joined(n, l):
			c.believe(n, "")
			c.follow(n)
		default:
			c.believe(n, l.ID)
		}
	})
}

// believe is what a node knows from now on of who leads.
func (c *controlPlane) believe(n *Node, id string) {
	was := c.believes[n]
	c.believes[n], c.termOf[n] = id, c.term
	switch {
	case id == n.ID:
		n.control.Lead(uint64(c.term))
	case was == n.ID:
		n.control.Follow()
	}
	c.look(n)
}

// ask is what becomes of what a node asks of the metadata log.
func (c *controlPlane) ask(n *Node) metadata.Request {
	w := c.world
	r := metadata.Request{Leader: c.believes[n]}
	l := w.byID(r.Leader)
	switch {
	case l == nil:
		return r
	case l != n && (!l.alive || !w.reaches(n, l)):
		r.Fault = metadata.Unavailable
		return r
	case l != n && !w.reaches(l, n):
		r.Fault = metadata.LostAnswer
		return r
	case c.believes[l] != l.ID: // it knows that it does not lead
		r.Fault = metadata.Unavailable
		return r
	}
	switch {
	case r.Leader != c.group.Leader():
		w.happened(StaleLeaderAsked)
	case !c.hasMajority(l): // what it has in its log is decided when it leads again, or another one does
		r.Fault = metadata.LateCommand
		return r
	}
	r.Fault = w.metadataFault()
	if r.Fault == metadata.LostCommand && w.rng.IntN(2) == 0 {
		w.happened(MetadataLate)
		r.Fault = metadata.LateCommand
		w.After(int64(w.rng.IntN(3000)), func() { c.group.Settle(true) })
	}
	return r
}
