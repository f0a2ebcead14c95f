package stream

import (
	"errors"
	"fmt"
	"regexp"
	"slices"

	"cutwater/messages"
	"cutwater/protocol/keygroup"
)

var uidPattern = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)

// Build checks the topology and makes its program. Its error holds every
// mistake, each a *DeclarationError, joined by errors.Join.
func (t *Topology) Build() (*Program, error) {
	errs := append([]error(nil), t.errs...)
	failf := func(n *node, format string, args ...any) {
		errs = append(errs, &DeclarationError{n.uid, n.declared, fmt.Sprintf(format, args...)})
	}
	if !uidPattern.MatchString(t.name) {
		errs = append(errs, fmt.Errorf("stream: topology name %q: a name is lower-case letters, digits and hyphens and starts with a letter", t.name))
	}
	p := &Program{
		graph: &messages.JobGraph{Name: t.name, Parallelism: max(t.parallelism, 1), MaxParallelism: t.maxParallelism},
		nodes: make(map[string]*node, len(t.nodes)),
		hooks: slices.Clone(t.hooks),
	}
	sources := 0
	for _, n := range t.nodes {
		switch other := p.nodes[n.uid]; {
		case n.uid == "":
			failf(n, "the %s has no uid; state is found by it, so give one that stays", n.kind)
		case !uidPattern.MatchString(n.uid):
			failf(n, "a uid is lower-case letters, digits and hyphens and starts with a letter")
		case other != nil:
			failf(n, "the uid is taken by the %s declared at %s", other.kind, other.declared)
		default:
			p.nodes[n.uid] = n
		}
		if n.source != nil {
			sources++
		}
		o := &n.options
		limit := o.maxParallelism
		if limit == 0 {
			limit = t.maxParallelism
		}
		if limit > keygroup.MaxParallelismLimit {
			failf(n, "maximum parallelism %d is above %d", limit, keygroup.MaxParallelismLimit)
		}
		if limit > 0 && max(o.parallelism, 1) > limit {
			failf(n, "parallelism %d is above the maximum parallelism %d", o.parallelism, limit)
		}
		p.graph.Operators = append(p.graph.Operators, n.spec())
	}
	if sources == 0 {
		errs = append(errs, fmt.Errorf("stream: topology %q has no source; start with stream.From", t.name))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return p, nil
}

// spec is the node of the logical graph.
func (n *node) spec() *messages.OperatorSpec {
	s := &messages.OperatorSpec{
		Uid: n.uid, Kind: n.kind, Declared: n.declared, StateSchema: n.schema,
		Parallelism: n.options.parallelism, MaxParallelism: n.options.maxParallelism,
		Source: n.source != nil, Sink: n.sink, Keyed: n.keyed, Bounded: n.bounded, NeverChain: n.options.neverChain,
	}
	for i := range n.inputs {
		in := &n.inputs[i]
		s.Inputs = append(s.Inputs, &messages.OperatorInput{Uid: in.from.uid, Side: in.side, Partitioning: partitioning(n, in)})
	}
	return s
}
