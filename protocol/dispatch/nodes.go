package dispatch

import (
	"slices"
	"strings"

	"cutwater/messages"
)

// maxOver bounds the memory of starts that have ended.
const maxOver = 1024

// setNodes takes in which nodes live. One that was lost stays so until it is no
// longer listed: whoever lists it has not noticed yet.
func (d *Dispatcher) setNodes(nodes []Node) {
	nodes = slices.Clone(nodes)
	slices.SortFunc(nodes, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	for name := range d.lost { // the order has no effect
		if !slices.ContainsFunc(nodes, func(n Node) bool { return n.Name == name }) {
			delete(d.lost, name)
		}
	}
	for name := range d.inquiries { // the order has no effect
		if !slices.ContainsFunc(nodes, func(n Node) bool { return n.Name == name }) {
			delete(d.inquiries, name)
		}
	}
	nodes = slices.DeleteFunc(nodes, func(n Node) bool { return d.lost[n.Name] })
	before := d.nodes
	d.nodes = nodes
	for _, n := range before {
		if _, lives := d.node(n.Name); !lives {
			d.gone(n.Name, "")
		}
	}
	for _, n := range nodes {
		if !slices.ContainsFunc(before, func(b Node) bool { return b.Name == n.Name }) {
			d.event(NodeJoined{Node: n.Name, Slots: n.Slots})
		}
	}
	if !slices.Equal(before, nodes) {
		d.nodesChanged()
	}
}

// nodeLost ends a node before SetNodes says so.
func (d *Dispatcher) nodeLost(m *messages.NodeLost) {
	if len(d.over) == maxOver {
		clear(d.over) // who is forgotten is silent, too
	}
	d.over[m.Node] = true
	i := slices.IndexFunc(d.nodes, func(n Node) bool { return n.Name == m.Node })
	if i < 0 {
		// It ended before this dispatcher began: what it coordinated waits for nothing.
		for _, j := range d.jobs {
			j.gone = j.gone || j.coordinator == m.Node
		}
		d.coordinate()
		return
	}
	d.lost[m.Node] = true
	d.nodes = slices.Delete(d.nodes, i, i+1)
	d.gone(m.Node, m.Reason)
	d.nodesChanged()
}

func (d *Dispatcher) gone(node, reason string) {
	d.event(NodeGone{Node: node, Reason: reason})
	for _, j := range d.jobs {
		j.gone = j.gone || j.coordinator == node
	}
}

// nodesChanged gives everybody another chance. What the nodes that went coordinated
// may have moved already, so the jobs are read too.
func (d *Dispatcher) nodesChanged() {
	d.jobsChanged()
	d.inquire()
	for _, j := range d.jobs {
		j.search.refusals, j.search.restUntilMs = nil, 0
	}
	d.allocate(nil)
	d.coordinate()
}

// node finds a living node.
func (d *Dispatcher) node(name string) (Node, bool) {
	for _, n := range d.nodes {
		if n.Name == name {
			return n, true
		}
	}
	return Node{}, false
}

// restarted reports whether another start of the same node lives: then this one is
// over. A name is the id of the node, a dot, and the number of the start.
func (d *Dispatcher) restarted(name string) bool {
	dot := strings.LastIndexByte(name, '.')
	return dot >= 0 && slices.ContainsFunc(d.nodes, func(n Node) bool {
		return n.Name != name && strings.HasPrefix(n.Name, name[:dot+1])
	})
}
