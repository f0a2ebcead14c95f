package job

import (
	"fmt"
	"testing"

	"cutwater/messages"
)

// Regions are what channels connect: subtask by subtask where edges are FORWARD, both
// sides whole where they are not.
func TestRegions(t *testing.T) {
	vertices := func(parallelism ...uint32) (list []*messages.Vertex) {
		for i, p := range parallelism {
			list = append(list, &messages.Vertex{Id: fmt.Sprint(i), Parallelism: p})
		}
		return list
	}
	forward := func(from, to int) *messages.PlanEdge {
		return &messages.PlanEdge{From: fmt.Sprint(from), To: fmt.Sprint(to), Partitioning: messages.Partitioning_FORWARD}
	}
	all := func(from, to int) *messages.PlanEdge {
		return &messages.PlanEdge{From: fmt.Sprint(from), To: fmt.Sprint(to), Partitioning: messages.Partitioning_HASH}
	}
	for _, c := range []struct {
		name     string
		vertices []*messages.Vertex
		edges    []*messages.PlanEdge
		want     string
		count    int
	}{
		{"one vertex, no edge", vertices(3), nil, "[0 1 2]", 3},
		{"forward", vertices(4, 4), []*messages.PlanEdge{forward(0, 1)}, "[0 1 2 3 0 1 2 3]", 4},
		{"all to all", vertices(2, 3), []*messages.PlanEdge{all(0, 1)}, "[0 0 0 0 0]", 1},
		{"all to all ties forward edges before and behind it", vertices(2, 2, 2, 2), []*messages.PlanEdge{forward(0, 1), all(1, 2), forward(2, 3)}, "[0 0 0 0 0 0 0 0]", 1},
		{"two pipelines", vertices(2, 2, 2, 2), []*messages.PlanEdge{all(0, 1), all(2, 3)}, "[0 0 0 0 1 1 1 1]", 2},
		{"one of two is forward", vertices(2, 2, 2, 2), []*messages.PlanEdge{all(0, 2), forward(1, 3)}, "[0 0 1 2 0 0 1 2]", 3},
		{"two inputs", vertices(2, 2, 2), []*messages.PlanEdge{forward(0, 2), forward(1, 2)}, "[0 1 0 1 0 1]", 2},
		{"diamond", vertices(2, 2, 2, 2), []*messages.PlanEdge{forward(0, 1), forward(0, 2), forward(1, 3), forward(2, 3)}, "[0 1 0 1 0 1 0 1]", 2},
	} {
		r := regionsOf(&messages.ExecutionPlan{Vertices: c.vertices, Edges: c.edges})
		if got := fmt.Sprint(r.of); got != c.want || r.count != c.count {
			t.Errorf("%s: %s in %d regions, want %s in %d", c.name, got, r.count, c.want, c.count)
		}
	}
}
