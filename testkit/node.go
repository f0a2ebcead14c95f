package testkit

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"cutwater/actors/system"
	"cutwater/messages"
	"cutwater/node"
	"cutwater/protocol"
)

// Node is one simulated machine: the same assembly of actors as in production,
// on the world's seams.
type Node struct {
	// Name is its address in the world: "n1", "n2", ...
	Name string
	// Runtime runs its tasks and coordinators; replaced by Restart.
	Runtime *node.Runtime

	world *World
	boot  func(n *Node) (*node.Runtime, error)
	life  int // counts restarts; what belongs to an earlier life is void
	alive bool
	cut   bool // partitioned from all others
	sys   *system.System
}

// AddNode boots a node. Boot assembles it, now and at each Restart.
func (w *World) AddNode(boot func(n *Node) (*node.Runtime, error)) (*Node, error) {
	n := &Node{Name: fmt.Sprintf("n%d", len(w.nodes)+1), world: w, boot: boot}
	w.nodes = append(w.nodes, n)
	return n, n.start()
}

func (n *Node) start() (err error) {
	n.life++
	n.alive = true
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

// System is the node's present system of actors.
func (n *Node) System() *system.System { return n.sys }

// Alive reports whether the node runs.
func (n *Node) Alive() bool { return n.alive }

// Crash ends the node as a power failure does: nothing of it runs any more, and
// what was on its way to it is lost.
func (n *Node) Crash() {
	n.world.Faults["node crash"]++
	n.alive = false
	n.sys.Abandon()
}

// Restart boots a crashed node again.
func (n *Node) Restart() error { return n.start() }

// Partition cuts the node off from all others, or joins it again.
func (n *Node) Partition(cut bool) {
	if cut {
		n.world.Faults["partition"]++
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

func (w *World) node(name string) *Node {
	for _, n := range w.nodes {
		if n.Name == name {
			return n
		}
	}
	return nil
}

// network carries messages between nodes. Data channels and credit keep their
// order and are only lost with a node or a partition; control messages may be
// dropped, repeated or overtaken.
type network struct{ world *World }

// Send implements system.Transport.
func (t network) Send(from, to protocol.Address, m proto.Message) {
	w := t.world
	source, target := w.node(system.NodeOf(from)), w.node(system.NodeOf(to))
	if target == nil || source.cut || target.cut {
		return
	}
	if w.encode {
		m = reencode(m)
	}
	arrival := w.nowUs + 50 + int64(w.rng.IntN(1000))
	if ordered(m) {
		link := [2]string{string(from), string(to)}
		arrival = max(arrival, w.links[link]+1)
		w.links[link] = arrival
		t.deliver(arrival, target, to, m)
		return
	}
	if w.inject("control dropped", w.faults.DropControl) {
		return
	}
	if w.inject("control delayed", w.faults.DelayControl) {
		arrival += int64(w.rng.IntN(200_000))
	}
	t.deliver(arrival, target, to, m)
	if w.inject("control duplicated", w.faults.DuplicateControl) {
		t.deliver(arrival+int64(w.rng.IntN(20_000)), target, to, proto.Clone(m))
	}
}

func (t network) deliver(atUs int64, target *Node, to protocol.Address, m proto.Message) {
	life := target.life
	t.world.at(atUs, func() {
		if target.alive && target.life == life && !target.cut {
			target.sys.Deliver(to, m)
		}
	})
}

// ordered reports whether a message belongs to a data channel.
func ordered(m proto.Message) bool {
	switch m.(type) {
	case *messages.RecordBatch, *messages.Barrier, *messages.BarrierAnnouncement, *messages.CancelBarrier,
		*messages.Watermark, *messages.WatermarkIdle, *messages.EndOfData, *messages.EndOfPartition, *messages.Credit, *messages.ChannelRequest:
		return true
	}
	return false
}

// reencode sends a message through its wire form.
func reencode(m proto.Message) proto.Message {
	if b, ok := m.(*messages.RecordBatch); ok {
		b.References = 0 // holders in this process do not travel
	}
	raw, err := proto.Marshal(m)
	if err != nil {
		panic(fmt.Sprintf("testkit: %T does not encode: %v", m, err))
	}
	decoded := m.ProtoReflect().New().Interface()
	if err := proto.Unmarshal(raw, decoded); err != nil {
		panic(fmt.Sprintf("testkit: %T does not decode: %v", m, err))
	}
	return decoded
}

// Nodes lists the world's nodes.
func (w *World) Nodes() []*Node { return w.nodes }
