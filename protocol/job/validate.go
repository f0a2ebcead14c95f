package job

import (
	"fmt"
	"strings"

	"cutwater/messages"
	"cutwater/protocol/keygroup"
)

// Problem is one thing that is wrong with a graph.
type Problem struct {
	// Uid names the operator, if there is one to name.
	Uid string
	// Declared is where the operator was declared, file:line, if that is known.
	Declared string
	// Text says what is wrong and what to do.
	Text string
}

// String is the problem as one line, with the uid and the place in front.
func (p Problem) String() string {
	var b strings.Builder
	if p.Declared != "" {
		b.WriteString(p.Declared + ": ")
	}
	if p.Uid != "" {
		fmt.Fprintf(&b, "operator %q: ", p.Uid)
	}
	b.WriteString(p.Text)
	return b.String()
}

// InvalidGraphError is everything that is wrong with a graph, in the order of
// its operators.
type InvalidGraphError struct {
	Problems []Problem
}

// Error returns the problems, one a line.
func (e *InvalidGraphError) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// checker collects the problems of a graph.
type checker struct {
	graph    *messages.JobGraph
	byUid    map[string]*messages.OperatorSpec
	problems []Problem
}

func (c *checker) report(op *messages.OperatorSpec, format string, args ...any) {
	c.problems = append(c.problems, Problem{Uid: op.GetUid(), Declared: op.GetDeclared(), Text: fmt.Sprintf(format, args...)})
}

// check returns every problem of the graph; a graph without one can be planned.
func check(graph *messages.JobGraph) []Problem {
	c := &checker{graph: graph, byUid: make(map[string]*messages.OperatorSpec, len(graph.GetOperators()))}
	if len(graph.GetOperators()) == 0 {
		c.report(nil, "the topology has no operators; declare at least a source")
		return c.problems
	}
	c.names()
	sources := 0
	for _, op := range graph.Operators {
		if op.Source {
			sources++
		}
		c.inputs(op)
		c.parallelism(op)
	}
	if sources == 0 {
		c.report(nil, "the topology has no source; declare at least one")
	}
	c.cycles()
	return c.problems
}

// names checks the uids and indexes the operators by them.
func (c *checker) names() {
	for _, op := range c.graph.Operators {
		first := c.byUid[op.Uid]
		switch {
		case op.Uid == "":
			c.report(op, "an operator (%s) has no uid; give it a name that stays when the topology changes", kindOf(op))
		case !ValidUid(op.Uid):
			c.report(op, "a uid starts with a lower-case letter and goes on with lower-case letters, digits and dashes")
		case first != nil && first.Declared != "":
			c.report(op, "the uid is used twice, first at %s; rename one of the two", first.Declared)
		case first != nil:
			c.report(op, "the uid is used twice; rename one of the two operators")
		}
		if first == nil {
			c.byUid[op.Uid] = op
		}
	}
}

// ValidUid reports whether a uid has the form [a-z][a-z0-9-]*. Addresses, file
// names and messages rely on it.
func ValidUid(uid string) bool {
	for i := range len(uid) {
		c := uid[i]
		letter := c >= 'a' && c <= 'z'
		if !letter && (i == 0 || c != '-' && (c < '0' || c > '9')) {
			return false
		}
	}
	return uid != ""
}

func kindOf(op *messages.OperatorSpec) string {
	if op.Kind == "" {
		return "of no kind"
	}
	return op.Kind
}

func (c *checker) inputs(op *messages.OperatorSpec) {
	if op.Source && len(op.Inputs) > 0 {
		c.report(op, "a source reads no input, but this one names %q", op.Inputs[0].Uid)
	}
	if !op.Source && len(op.Inputs) == 0 {
		c.report(op, "the operator has no input; name the operator that it reads")
	}
	keyed := false
	for _, in := range op.Inputs {
		from := c.byUid[in.Uid]
		switch {
		case from == nil:
			c.report(op, "its input %q is not an operator of this topology; known are %s", in.Uid, c.known())
		case from.Sink:
			c.report(op, "its input %q is a sink, which has no output", in.Uid)
		}
		if in.Partitioning < messages.Partitioning_PARTITIONING_UNSPECIFIED || in.Partitioning > messages.Partitioning_BROADCAST_EDGE {
			c.report(op, "the partitioning %d of its input %q is from a newer version of the program", in.Partitioning, in.Uid)
		}
		keyed = keyed || in.Partitioning == messages.Partitioning_HASH
	}
	if op.Keyed && !keyed && len(op.Inputs) > 0 {
		c.report(op, "it keeps state per key, but none of its inputs is partitioned by key")
	}
}

func (c *checker) known() string {
	names := make([]string, 0, len(c.graph.Operators))
	for _, op := range c.graph.Operators {
		if c.byUid[op.Uid] == op && op.Uid != "" {
			names = append(names, op.Uid)
		}
	}
	return strings.Join(names, ", ")
}

func (c *checker) parallelism(op *messages.OperatorSpec) {
	parallelism, limit := parallelismOf(c.graph, op), maxParallelismOf(c.graph, op)
	switch {
	case limit > keygroup.MaxParallelismLimit:
		c.report(op, "its maximum parallelism %d is above %d", limit, keygroup.MaxParallelismLimit)
	case parallelism > limit:
		c.report(op, "its parallelism %d is above its maximum parallelism %d; lower the one, or raise the other if the job has no state yet", parallelism, limit)
	}
}

// parallelismOf returns the operator's own parallelism, or the job's, or 1.
func parallelismOf(graph *messages.JobGraph, op *messages.OperatorSpec) uint32 {
	return max(1, first(op.Parallelism, graph.Parallelism))
}

// maxParallelismOf returns the operator's own maximum parallelism, or the job's,
// or the default for its parallelism.
func maxParallelismOf(graph *messages.JobGraph, op *messages.OperatorSpec) uint32 {
	parallelism := min(parallelismOf(graph, op), keygroup.MaxParallelismLimit)
	return first(op.MaxParallelism, graph.MaxParallelism, uint32(keygroup.DefaultMaxParallelism(int(parallelism))))
}

// first returns the first value that is set.
func first(values ...uint32) uint32 {
	for _, v := range values {
		if v != 0 {
			return v
		}
	}
	return 0
}

// cycles reports each cycle once, at the operator that was declared first.
func (c *checker) cycles() {
	const (
		open   = 1
		closed = 2
	)
	mark := make(map[*messages.OperatorSpec]int, len(c.graph.Operators))
	var path []*messages.OperatorSpec
	var visit func(op *messages.OperatorSpec)
	visit = func(op *messages.OperatorSpec) {
		mark[op] = open
		path = append(path, op)
		for _, in := range op.Inputs {
			from := c.byUid[in.Uid]
			switch {
			case from == nil:
			case mark[from] == 0:
				visit(from)
			case mark[from] == open:
				c.report(from, "it feeds itself: %s; remove one of these inputs", cycleText(path, from))
			}
		}
		path = path[:len(path)-1]
		mark[op] = closed
	}
	for _, op := range c.graph.Operators {
		if mark[op] == 0 {
			visit(op)
		}
	}
}

// cycleText prints the cycle that ends the path, in the direction of the data.
func cycleText(path []*messages.OperatorSpec, from *messages.OperatorSpec) string {
	names := []string{from.Uid}
	for i := len(path) - 1; i >= 0; i-- {
		names = append(names, path[i].Uid)
		if path[i] == from {
			break
		}
	}
	return strings.Join(names, " -> ")
}
