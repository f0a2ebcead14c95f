package job

import (
	"fmt"
	"slices"
	"strings"

	"cutwater/messages"
)

// places says on which node the subtasks of each number were last. It only helps: a
// subtask that goes somewhere else is as right there, and reads its state from the
// checkpoint directory instead of a copy of its own.
type places map[uint32]string

// record adds them to the deployment that they are of, for the next coordinator.
func (p places) record(d *messages.Deployment) {
	for i := range uint32(len(p)) {
		d.Places = append(d.Places, uint32(slices.IndexFunc(d.Slots, func(s *messages.NodeSlots) bool { return s.Node == p[i] })))
	}
}

// placesOf is the inverse of record.
func placesOf(d *messages.Deployment) places {
	p := make(places)
	for i, at := range d.GetPlaces() {
		if int(at) < len(d.Slots) {
			p[uint32(i)] = d.Slots[at].Node
		}
	}
	return p
}

// slots counts them by node, in the order of the subtasks.
func (p places) slots() (slots []*messages.NodeSlots) {
	for i := range uint32(len(p)) {
		at := slices.IndexFunc(slots, func(s *messages.NodeSlots) bool { return s.Node == p[i] })
		if at < 0 {
			at, slots = len(slots), append(slots, &messages.NodeSlots{Node: p[i]})
		}
		slots[at].Slots++
	}
	return slots
}

// place returns the node of every subtask number: subtask i of every vertex stands in
// the same slot (Flink's slot sharing). In this order:
//
//  0. a subtask number with tasks that go on is where they are: occupied;
//  1. a subtask stays on the node where it was last, which may keep copies of its
//     state, if that node offers a slot for it (Flink: the slot of the previous
//     allocation is preferred);
//  2. else it goes to a later start of that node, which has the copies, too;
//  3. the others fill the slots that are left, each on the node with the fewest
//     subtasks: round robin over the nodes, if nobody was anywhere.
//
// The error says what is missing.
func place(plan *messages.ExecutionPlan, nodes []Node, last, occupied places) (places, error) {
	slots, used := make([]string, slotsNeeded(plan)), make([]int, len(nodes))
	for i := range slots {
		slots[i] = occupied[uint32(i)]
		if n := slices.IndexFunc(nodes, func(n Node) bool { return n.Name == slots[i] }); n >= 0 {
			used[n]++
		}
	}
	fill := func(fits func(node, was string) bool) {
		for i := range slots {
			if slots[i] != "" {
				continue
			}
			least := -1
			for n, node := range nodes {
				if used[n] < node.Slots && fits(node.Name, last[uint32(i)]) && (least < 0 || used[n] < used[least]) {
					least = n
				}
			}
			if least >= 0 {
				slots[i] = nodes[least].Name
				used[least]++
			}
		}
	}
	fill(func(node, was string) bool { return node == was })
	fill(func(node, was string) bool { return was != "" && SameNode(node, was) })
	fill(func(string, string) bool { return true })
	offered := 0
	for _, node := range nodes {
		offered += node.Slots
	}
	if slices.Contains(slots, "") {
		return nil, fmt.Errorf("the job needs %d slots, but its %d nodes offer %d; add a node, or lower the parallelism", len(slots), len(nodes), offered)
	}
	next := make(places, len(slots))
	for i, node := range slots {
		next[uint32(i)] = node
	}
	return next, nil
}

// SameNode reports whether two names are of one node, maybe of two starts of it: a name
// is the id of the node, a dot, and the number of the start.
func SameNode(a, b string) bool { return idOf(a) == idOf(b) }

func idOf(node string) string {
	if dot := strings.LastIndexByte(node, '.'); dot >= 0 {
		return node[:dot]
	}
	return node
}
