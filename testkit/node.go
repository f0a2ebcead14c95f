package testkit

import (
	"fmt"

	"cutwater/actors/system"
	"cutwater/node"
	"cutwater/storage/vfs"
)

// Node is one simulated machine: the same assembly of actors as in production,
// on the world's seams.
type Node struct {
	// ID names it in the world: "n1", "n2", ... Name is its address; in a cluster each
	// start has one of its own, "n1.1", "n1.2", ...
	ID, Name string
	// Runtime runs its tasks and coordinators; replaced by Restart.
	Runtime *node.Runtime

	world  *World
	boot   func(n *Node) (*node.Runtime, error)
	life   int // counts restarts; what belongs to an earlier life is void
	alive  bool
	halted bool  // died in the middle of the step in hand
	cut    bool  // partitioned from all others
	skewMs int64 // what its wall clock is ahead
	sys    *system.System
	disk   *vfs.FaultyFS
	own    []string // folders that are not those of the world, see folders
	// control is the node's part in its cluster; nil in a world that is none.
	control *node.Control
}

// AddNode boots a node. Boot assembles it, now and at each Restart.
func (w *World) AddNode(boot func(n *Node) (*node.Runtime, error)) (*Node, error) {
	return w.addNode(fmt.Sprintf("n%d", len(w.nodes)+1), boot)
}

func (w *World) addNode(id string, boot func(n *Node) (*node.Runtime, error)) (*Node, error) {
	n := &Node{ID: id, Name: id, world: w, boot: boot}
	w.nodes = append(w.nodes, n)
	return n, n.Restart()
}

// Nodes lists the world's nodes.
func (w *World) Nodes() []*Node { return w.nodes }

func (w *World) node(name string) *Node {
	for _, n := range w.nodes {
		if n.Name == name {
			return n
		}
	}
	return nil
}

// System is the node's present system of actors.
func (n *Node) System() *system.System { return n.sys }

// FS is the world's disk as the node sees it, with its faults.
func (n *Node) FS() vfs.FS { return n.disk }

// Alive reports whether the node runs.
func (n *Node) Alive() bool { return n.alive }

// lives reports whether the node runs and is still in this life.
func (n *Node) lives(life int) bool { return n.alive && n.life == life }

// Restart boots a node that does not run.
func (n *Node) Restart() (err error) {
	n.life++
	n.alive, n.halted = true, false
	if n.world.plane != nil {
		if n.Name = fmt.Sprintf("%s.%d", n.ID, n.life); n.life > 1 {
			n.world.happened(NewName)
		}
	}
	n.world.note("BOOT %s", n.Name)
	n.openDisk()
	n.sys = system.New(system.Options{
		Node:       n.Name,
		Clock:      clock{n},
		Executor:   executor{n},
		Dispatcher: dispatcher{n},
		Transport:  network{n.world},
		Observe:    n.world.observe,
		Actors:     n.world.actors,
		Prefix:     fmt.Sprintf("%s%d:", n.world.prefix, n.life),
	})
	n.Runtime, err = n.boot(n)
	return err
}

// Crash ends the node as a kill does: nothing of it runs any more, and what was
// on its way to it is lost.
func (n *Node) Crash() {
	n.world.happened(NodeCrash)
	n.end()
}

// CrashFor ends the node and boots it again after a while. A node that does not
// run is left alone.
func (n *Node) CrashFor(ms int64) {
	if n.alive {
		n.world.happened(NodeCrash)
		n.crash(ms)
	}
}

// LoseFor ends the node for longer than its coordinators wait for its heartbeat.
func (n *Node) LoseFor(ms int64) {
	if n.alive {
		n.world.happened(NodeLoss)
		n.crash(ms)
	}
}

// crash ends the node, if it runs, and boots it again after a while.
func (n *Node) crash(ms int64) {
	if !n.alive {
		return
	}
	n.end()
	life := n.life
	n.world.After(ms, func() {
		if n.alive || n.life != life {
			return
		}
		if err := n.Restart(); err != nil {
			n.world.Fail(fmt.Errorf("node %s does not start again: %w", n.Name, err))
		}
	})
}

func (n *Node) end() {
	n.world.note("DOWN %s", n.Name)
	n.alive = false
	n.sys.Abandon()
	if p := n.world.plane; p != nil {
		p.down(n)
	}
}

// Partition cuts the node off from all others, or joins it again.
func (n *Node) Partition(cut bool) {
	if cut {
		n.world.happened(Partitioned)
	}
	n.cut = cut
}

// Close removes the world's actors; call it when a run is over.
func (w *World) Close() {
	for _, n := range w.nodes {
		n.alive = false
		n.sys.Abandon()
	}
}
