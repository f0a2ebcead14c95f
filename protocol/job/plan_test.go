package job

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"cutwater/internal/script"
	"cutwater/messages"
	"cutwater/protocol"
)

// TestPlans runs testdata/plan/*.txt: a graph, and its plan or everything that is
// wrong with it.
func TestPlans(t *testing.T) {
	script.RunDir(t, "testdata/plan", func(*testing.T) script.Handler {
		return func(d *script.Directive) (string, error) {
			plan, err := Plan(parseGraph(d))
			var invalid *InvalidGraphError
			if errors.As(err, &invalid) {
				return err.Error() + "\n", nil
			}
			if err != nil {
				return "", err
			}
			var b strings.Builder
			for _, v := range plan.Vertices {
				fmt.Fprintf(&b, "%s %v parallelism=%d max=%d source=%v\n", v.Id, v.Operators, v.Parallelism, v.MaxParallelism, v.Source)
			}
			for _, e := range plan.Edges {
				fmt.Fprintf(&b, "%d: %s(%s) -> %s(%s)#%d %s %s\n", e.Id, e.From, e.FromUid, e.To, e.ToUid, e.ToInput, e.Partitioning, e.Side)
			}
			return b.String(), nil
		}
	})
}

// TestPlanProperties proves for random graphs: every operator stands in exactly
// one vertex, vertices come after those that feed them, every input is an edge or
// inside a chain, chained operators have one parallelism, equal graphs give equal
// plans, and both ends of every channel agree about its numbers.
func TestPlanProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := randomGraph(t)
		plan, err := Plan(g)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := Plan(proto.CloneOf(g)); err != nil || !proto.Equal(plan, again) {
			t.Fatalf("equal graphs, different plans: %v", err)
		}
		vertexOf := map[string]*messages.Vertex{}
		position := map[string]int{}
		for i, v := range plan.Vertices {
			position[v.Id] = i
			for _, uid := range v.Operators {
				if vertexOf[uid] != nil {
					t.Fatalf("operator %s stands in two vertices", uid)
				}
				vertexOf[uid] = v
			}
		}
		edges := 0
		for _, op := range g.Operators {
			v := vertexOf[op.Uid]
			if v == nil || v.Parallelism != parallelismOf(g, op) {
				t.Fatalf("operator %s is not planned with its parallelism: %v", op.Uid, v)
			}
			if v.Operators[0] == op.Uid {
				edges += len(op.Inputs)
			} else if len(op.Inputs) != 1 || vertexOf[op.Inputs[0].Uid] != v {
				t.Fatalf("operator %s is chained, but not to its only input", op.Uid)
			}
		}
		if edges != len(plan.Edges) {
			t.Fatalf("%d edges are planned, not %d", len(plan.Edges), edges)
		}
		for _, e := range plan.Edges {
			if position[e.From] >= position[e.To] {
				t.Fatalf("vertex %s comes before %s, which feeds it", e.To, e.From)
			}
		}
		checkWiring(t, plan)
	})
}

func randomGraph(t *rapid.T) *messages.JobGraph {
	g := &messages.JobGraph{Parallelism: uint32(rapid.IntRange(1, 3).Draw(t, "parallelism"))}
	for i := range rapid.IntRange(1, 7).Draw(t, "operators") {
		op := &messages.OperatorSpec{Uid: fmt.Sprintf("o%d", i), Parallelism: uint32(rapid.IntRange(0, 3).Draw(t, "own")),
			NeverChain: rapid.IntRange(0, 4).Draw(t, "never") == 0}
		if i == 0 || rapid.IntRange(0, 3).Draw(t, "source") == 0 {
			op.Source = true
		} else {
			for range rapid.IntRange(1, 3).Draw(t, "inputs") {
				op.Inputs = append(op.Inputs, &messages.OperatorInput{
					Uid:          fmt.Sprintf("o%d", rapid.IntRange(0, i-1).Draw(t, "from")),
					Partitioning: messages.Partitioning(rapid.IntRange(0, 4).Draw(t, "how")),
				})
			}
		}
		g.Operators = append(g.Operators, op)
	}
	return g
}

// checkWiring deploys the plan and compares both ends of every channel.
func checkWiring(t *rapid.T, plan *messages.ExecutionPlan) {
	w := newWiring(plan, func(vertex string, subtask uint32) protocol.Address {
		return protocol.Address(fmt.Sprintf("%s/%d", vertex, subtask))
	})
	tasks := map[string]*messages.Deploy{}
	for _, v := range plan.Vertices {
		for i := range v.Parallelism {
			d := &messages.Deploy{Vertex: v, Task: &messages.TaskId{Vertex: v.Id, Subtask: i}}
			w.connect(d)
			tasks[fmt.Sprintf("%s/%d", v.Id, i)] = d
		}
	}
	inputs, outputs := 0, 0
	for name, d := range tasks {
		outputs += len(d.Outputs)
		for channel, in := range d.Inputs {
			inputs++
			sender := tasks[in.Sender]
			if sender == nil || int(in.SenderOutput) >= len(sender.Outputs) {
				t.Fatalf("input %d of %s names output %d of %s, which is not there", channel, name, in.SenderOutput, in.Sender)
			}
			out := sender.Outputs[in.SenderOutput]
			edge := sender.Edges[out.Edge]
			if out.Receiver != name || int(out.ReceiverChannel) != channel || edge.To != d.Vertex.Id || edge.ToInput != in.Input {
				t.Fatalf("input %d of %s (%v) is output %v of %s", channel, name, in, out, in.Sender)
			}
		}
	}
	if inputs != outputs {
		t.Fatalf("%d inputs, but %d outputs", inputs, outputs)
	}
}

// A plan with more channels or tasks than a job may have is refused, with the edge
// that has the most of them; one at the limit is not.
func TestPlanSize(t *testing.T) {
	graph := func(from, to uint32, kind messages.Partitioning) *messages.JobGraph {
		return &messages.JobGraph{Name: "wide", Parallelism: 1, MaxParallelism: 32768, Operators: []*messages.OperatorSpec{
			{Uid: "in", Source: true, Parallelism: from},
			{Uid: "sum", Parallelism: to, Inputs: []*messages.OperatorInput{{Uid: "in", Partitioning: kind}}},
			{Uid: "out", Sink: true, NeverChain: true, Parallelism: to, Inputs: []*messages.OperatorInput{{Uid: "sum", Partitioning: messages.Partitioning_FORWARD}}},
		}}
	}
	for _, c := range []struct {
		from, to uint32
		kind     messages.Partitioning
		want     string
	}{
		{250, 398, messages.Partitioning_REBALANCE, ""}, // and 398 of the other edge
		{250, 400, messages.Partitioning_REBALANCE, "100400 channels, and at most 100000 are allowed: 100000 are of the edge in -> sum, one for each pair of their 250 and 400 subtasks; lower"},
		{32768, 32768, messages.Partitioning_BROADCAST_EDGE, "1073774592 channels"},
		{4000, 4000, messages.Partitioning_FORWARD, ""},
		{6000, 6000, messages.Partitioning_FORWARD, "12000 tasks, and at most 10000 are allowed: 6000 of in, sum; 6000 of out; lower"},
	} {
		_, err := Plan(graph(c.from, c.to, c.kind))
		var large *TooLargeError
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%d to %d: %v", c.from, c.to, err)
		case c.want != "" && (!errors.As(err, &large) || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%d to %d: %v, want %q", c.from, c.to, err, c.want)
		}
	}
}
