package testkit

import (
	"context"
	"errors"

	"cutwater/cluster/membership"
	"cutwater/cluster/metadata"
	"cutwater/cluster/transport"
	"cutwater/messages"
	"cutwater/node"
)

// controlPlane makes the nodes of a world a cluster. On each of them run the
// production agent and dispatcher; what stands under these are models: a metadata log
// with a leader (election.go), and gossip. Gossip is late, wrong for a while, and says
// other things to each node; it decides nothing.
type controlPlane struct {
	world *World
	group *metadata.Group
	// deps is what a node has besides: programs, and who is told of events.
	deps  func(n *Node) node.Deps
	slots func(n *Node) int

	// heard is who seems to be alive, by the node to whom it seems so and the other.
	heard map[[2]*Node]*messages.NodeMeta

	// believes is the leader that each node knows, by its id.
	believes map[*Node]string
	termOf   map[*Node]int // of what it believes
	term     int
	electing bool
}

func newControlPlane(w *World, slots func(*Node) int, deps func(*Node) node.Deps) *controlPlane {
	c := &controlPlane{world: w, group: metadata.NewGroup(), deps: deps, slots: slots,
		heard: map[[2]*Node]*messages.NodeMeta{}, believes: map[*Node]string{}, termOf: map[*Node]int{}}
	w.plane = c
	c.watch()
	return c
}

// boot assembles a node.
func (c *controlPlane) boot(n *Node) (*node.Runtime, error) {
	w := c.world
	d := c.deps(n)
	d.System, d.FS, d.ScratchDir, d.CopiesDir = n.System(), n.FS(), "/scratch/"+n.Name, copiesDir(n)
	d.Metadata = c.group.Member(func() metadata.Request { return c.ask(n) })
	d.Random = func() uint64 { return w.rng.Uint64() }
	rt, err := node.NewRuntime(d)
	if err != nil {
		return nil, err
	}
	delete(c.believes, n)
	delete(c.termOf, n)
	n.control, err = node.NewControl(node.ControlConfig{Runtime: rt, NowMs: w.ElapsedMs, Event: d.Event,
		Leader: func() (string, uint64) { return c.believes[n], uint64(c.termOf[n]) }})
	if err != nil {
		return nil, err
	}
	for _, o := range w.nodes {
		if o != n {
			delete(c.heard, [2]*Node{n, o})
			c.meet(n, o)
			c.meet(o, n)
		}
	}
	c.lookOften(n)
	c.follow(n)
	return rt, nil
}

const lookEveryMs = 500

func (c *controlPlane) lookOften(n *Node) {
	c.look(n)
	life := n.life
	c.world.After(lookEveryMs, func() {
		if n.lives(life) {
			_ = n.Runtime.SweepCopies(context.Background()) // what it could not do, it does next time
			c.lookOften(n)
		}
	})
}

// look tells a node who seems to be alive.
func (c *controlPlane) look(n *Node) {
	members := []membership.Member{{Meta: c.meta(n)}}
	for _, o := range c.world.nodes {
		if m := c.heard[[2]*Node{n, o}]; m != nil {
			members = append(members, membership.Member{Meta: m})
		}
	}
	n.control.Look(members, nil)
}

// meta is what a node says of itself.
func (c *controlPlane) meta(n *Node) *messages.NodeMeta {
	return &messages.NodeMeta{Node: n.ID, Start: uint64(n.life), Slots: uint32(c.slots(n))}
}

// meet lets a node hear of another one, as soon as they reach each other.
func (c *controlPlane) meet(n, other *Node) {
	w, life, otherLife := c.world, n.life, other.life
	delay := int64(20 + w.rng.IntN(300))
	if w.inject(GossipIsLate, w.faults.GossipLate) {
		delay += int64(w.rng.IntN(3000))
	}
	w.After(delay, func() {
		switch {
		case !n.lives(life) || !other.lives(otherLife):
		case !w.joined(n, other):
			c.meet(n, other)
		default:
			c.heard[[2]*Node{n, other}] = c.meta(other)
			c.look(n)
		}
	})
}

// miss lets a node hear of another one no more, unless that is another start by then.
func (c *controlPlane) miss(n, other *Node, start uint64) {
	if pair := [2]*Node{n, other}; c.heard[pair].GetStart() == start {
		delete(c.heard, pair)
		c.look(n)
	}
}

// suspect lets a node think for a while that another one is gone, which is not so.
func (c *controlPlane) suspect(n, other *Node, ms int64) {
	if n == other || !n.alive || !other.alive {
		return
	}
	c.world.happened(FalselySuspected)
	c.miss(n, other, uint64(other.life))
	life := n.life
	c.world.After(ms, func() {
		if n.lives(life) {
			c.meet(n, other)
		}
	})
}

var (
	errEnded  = errors.New("its process has ended")
	errBroken = errors.New("the connection broke")
)

// down tells the others that a node has died: by the end of its connections, at once,
// late or not at all, and by gossip.
func (c *controlPlane) down(n *Node) {
	w := c.world
	if c.group.Leader() == n.ID {
		c.group.Elect("", false)
	}
	name, start := n.Name, uint64(n.life)
	for _, o := range w.nodes {
		if o == n || !o.alive {
			continue
		}
		if w.joined(o, n) {
			c.lose(o, name, transport.Control, errEnded, LossToldLate, LossNotTold)
			c.lose(o, name, transport.Data, errBroken, LinkLossToldLate, LinkLossNotTold)
		}
		life := o.life
		w.After(int64(2000+w.rng.IntN(4000)), func() {
			if o.lives(life) {
				c.miss(o, n, start)
			}
		})
	}
}

// lose tells a node of the end of a connection: in half of the cases at once, in the
// others late, or never.
func (c *controlPlane) lose(n *Node, name string, lane transport.Lane, why error, late, never string) {
	w, life := c.world, n.life
	delay := int64(w.rng.IntN(10))
	switch w.rng.IntN(4) {
	case 0:
		w.happened(late)
		delay += int64(300 + w.rng.IntN(3000))
	case 1:
		w.happened(never)
		return
	}
	w.After(delay, func() {
		if n.lives(life) {
			n.control.Lost(name, lane, why)
		}
	})
}

// separated is called when what a node sends to another arrives no more. Each of both
// may notice, and gossip may believe for a while that the other one is gone.
func (c *controlPlane) separated(from, to *Node) {
	w := c.world
	for _, pair := range [][2]*Node{{from, to}, {to, from}} {
		n, other := pair[0], pair[1]
		if !n.alive || !other.alive {
			continue
		}
		c.lose(n, other.Name, transport.Data, errBroken, LinkLossToldLate, LinkLossNotTold)
		wrong, life, start := w.rng.IntN(2) == 0, n.life, other.life
		w.After(int64(2000+w.rng.IntN(4000)), func() {
			if n.lives(life) && other.lives(start) && !w.joined(n, other) && (wrong || !w.relayed(n, other)) {
				c.miss(n, other, uint64(start))
				c.meet(n, other)
			}
		})
	}
}

// relayed reports whether a third node reaches two.
func (w *World) relayed(a, b *Node) bool {
	for _, n := range w.nodes {
		if n != a && n != b && n.alive && w.joined(n, a) && w.joined(n, b) {
			return true
		}
	}
	return false
}
