package job

import (
	"fmt"
	"strings"

	"cutwater/messages"
	"cutwater/protocol/keygroup"
)

// Plan turns a logical graph into what is deployed. The error is an
// *InvalidGraphError with everything that is wrong, or a *TooLargeError.
//
// Operators that need no exchange between them become one vertex, which one task
// runs as a chain of function calls. An operator joins the chain of its input if
// it has exactly that one input, the edge is FORWARD and carries the main
// output, both have the same parallelism, neither is never_chain, and no other
// consumer of the input could join too: of two candidates none is chained, so
// that a chain never branches. Any other edge of a chained operator leaves the
// vertex from the operator in the middle.
//
// An edge without partitioning, and a FORWARD edge between different
// parallelisms, is REBALANCE: Flink's rule for edges that ask for nothing.
//
// Vertices are in topological order, operators declared first coming first, so
// that equal graphs give equal plans.
func Plan(graph *messages.JobGraph) (*messages.ExecutionPlan, error) {
	if problems := check(graph); len(problems) > 0 {
		return nil, &InvalidGraphError{Problems: problems}
	}
	ordered := topological(graph)
	chainedTo := chain(graph)
	plan := &messages.ExecutionPlan{}
	vertexOf := make(map[string]*messages.Vertex, len(ordered))
	for _, op := range ordered {
		if up, ok := chainedTo[op.Uid]; ok {
			v := vertexOf[up]
			v.Operators = append(v.Operators, op.Uid)
			vertexOf[op.Uid] = v
			continue
		}
		v := &messages.Vertex{
			Operators:      []string{op.Uid},
			Parallelism:    parallelismOf(graph, op),
			MaxParallelism: maxParallelismOf(graph, op),
			Source:         op.Source,
		}
		plan.Vertices = append(plan.Vertices, v)
		vertexOf[op.Uid] = v
	}
	for _, v := range plan.Vertices {
		v.Id = vertexID(v.Operators)
	}
	byUid := index(graph)
	for _, v := range plan.Vertices {
		// Only the head has inputs from other vertices.
		head := byUid[v.Operators[0]]
		for i, in := range head.Inputs {
			from := vertexOf[in.Uid]
			plan.Edges = append(plan.Edges, &messages.PlanEdge{
				Id:           uint32(len(plan.Edges) + 1),
				From:         from.Id,
				To:           v.Id,
				FromUid:      in.Uid,
				ToUid:        head.Uid,
				ToInput:      uint32(i),
				Side:         in.Side,
				Partitioning: partitioningOf(in, from.Parallelism, v.Parallelism),
			})
		}
	}
	if err := checkSize(graph, plan); err != nil {
		return nil, err
	}
	return plan, nil
}

func index(graph *messages.JobGraph) map[string]*messages.OperatorSpec {
	byUid := make(map[string]*messages.OperatorSpec, len(graph.Operators))
	for _, op := range graph.Operators {
		byUid[op.Uid] = op
	}
	return byUid
}

// topological orders the operators of a checked graph: each after its inputs,
// otherwise as declared.
func topological(graph *messages.JobGraph) []*messages.OperatorSpec {
	byUid := index(graph)
	seen := make(map[string]bool, len(graph.Operators))
	ordered := make([]*messages.OperatorSpec, 0, len(graph.Operators))
	var visit func(op *messages.OperatorSpec)
	visit = func(op *messages.OperatorSpec) {
		if seen[op.Uid] {
			return
		}
		seen[op.Uid] = true
		for _, in := range op.Inputs {
			visit(byUid[in.Uid])
		}
		ordered = append(ordered, op)
	}
	for _, op := range graph.Operators {
		visit(op)
	}
	return ordered
}

// chain returns, by uid, the operator whose chain each chained operator joins.
func chain(graph *messages.JobGraph) map[string]string {
	byUid := index(graph)
	candidates := make(map[string][]string, len(graph.Operators))
	for _, op := range graph.Operators {
		if len(op.Inputs) != 1 || op.NeverChain {
			continue
		}
		in, up := op.Inputs[0], byUid[op.Inputs[0].Uid]
		if in.Partitioning == messages.Partitioning_FORWARD && in.Side == "" && !up.NeverChain &&
			parallelismOf(graph, op) == parallelismOf(graph, up) {
			candidates[up.Uid] = append(candidates[up.Uid], op.Uid)
		}
	}
	chained := make(map[string]string, len(candidates))
	for up, ops := range candidates {
		if len(ops) == 1 {
			chained[ops[0]] = up
		}
	}
	return chained
}

func partitioningOf(in *messages.OperatorInput, from, to uint32) messages.Partitioning {
	switch in.Partitioning {
	case messages.Partitioning_PARTITIONING_UNSPECIFIED:
		return messages.Partitioning_REBALANCE
	case messages.Partitioning_FORWARD:
		if from != to {
			return messages.Partitioning_REBALANCE
		}
	}
	return in.Partitioning
}

// vertexID is the head's uid, for people, and a hash of all uids, so that a
// vertex with other operators has another id.
func vertexID(uids []string) string {
	hash := keygroup.Hash([]byte(strings.Join(uids, "/")))
	return fmt.Sprintf("%s-%08x", uids[0], uint32(hash>>32))
}
