package job

import (
	"fmt"
	"strings"
	"testing"

	"cutwater/messages"
)

// Slots are filled round robin; a subtask that was somewhere stays there, or goes to a
// later start of that node, as far as there are slots; too few slots are an error that
// says what is missing.
func TestPlace(t *testing.T) {
	plan := &messages.ExecutionPlan{Vertices: []*messages.Vertex{{Parallelism: 2}, {Parallelism: 5}}}
	for _, c := range []struct {
		name  string
		nodes []Node
		last  []string // by subtask; "" was nowhere
		want  string
	}{
		{"nobody was anywhere", []Node{{"a", 3}, {"b", 1}, {"c", 2}}, nil, "[a b c a c]"},
		{"all stay, whatever the order of the nodes", []Node{{"c", 2}, {"b", 1}, {"a", 3}}, []string{"a", "b", "c", "a", "c"}, "[a b c a c]"},
		{"b is lost: its subtask moves, and no other", []Node{{"c", 3}, {"a", 3}}, []string{"a", "b", "c", "a", "c"}, "[a c c a c]"},
		{"a was nearly full and lost a slot: the first stay", []Node{{"a", 1}, {"b", 4}}, []string{"a", "a", "b", "b", "b"}, "[a b b b b]"},
		{"a node is new: it gets only who must move", []Node{{"a", 2}, {"b", 2}, {"d", 9}}, []string{"a", "b", "c", "a", "b"}, "[a b d a b]"},
		{"both nodes began anew: each gets its own back", []Node{{"b.2", 3}, {"a.7", 3}}, []string{"a.6", "a.6", "b.1", "b.1", "b.1"}, "[a.7 a.7 b.2 b.2 b.2]"},
		{"the same start before a later one", []Node{{"a.7", 1}, {"a.6", 4}}, []string{"a.6", "a.6", "a.6", "a.6", ""}, "[a.6 a.6 a.6 a.6 a.7]"},
		{"who was somewhere goes before who was not", []Node{{"a", 1}, {"b", 4}}, []string{"", "", "", "", "a"}, "[b b b b a]"},
		{"four slots for five", []Node{{"a", 3}, {"b", 1}}, []string{"a"}, "the job needs 5 slots, but its 2 nodes offer 4"},
		{"no nodes", nil, []string{"a"}, "the job needs 5 slots, but its 0 nodes offer 0"},
	} {
		last := places{}
		for i, node := range c.last {
			if node != "" {
				last[uint32(i)] = node
			}
		}
		got, err := place(plan, c.nodes, last, nil)
		if text := inOrder(got); err == nil && text != c.want || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: placed %v, %v; want %s", c.name, got, err, c.want)
		}
	}
}

// inOrder lists them by subtask.
func inOrder(p places) string {
	var nodes []string
	for i := range uint32(len(p)) {
		nodes = append(nodes, p[i])
	}
	return fmt.Sprint(nodes)
}
