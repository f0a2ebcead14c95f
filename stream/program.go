package stream

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	"cutwater/messages"
	"cutwater/storage/vfs"
	"cutwater/stream/operator"
)

// Program is the code of a topology, made by Build. It implements
// operator.Program and is safe for concurrent use.
type Program struct {
	graph *messages.JobGraph
	nodes map[string]*node
	hooks []operator.MasterHook
}

var (
	_ operator.Program = (*Program)(nil)
	_ operator.Hooked  = (*Program)(nil)
)

// discoverer is the part of a Source that has no type parameter.
type discoverer interface {
	Discover(ctx context.Context, fsys vfs.FS, parallelism int) (*messages.SplitsDiscovered, error)
	Bounded() bool
}

// Graph returns a copy of the logical graph.
func (p *Program) Graph() *messages.JobGraph { return proto.Clone(p.graph).(*messages.JobGraph) }

// MasterHooks returns the hooks of the topology, in the order of declaration.
func (p *Program) MasterHooks() []operator.MasterHook { return p.hooks }

// Sources returns the uids of the sources, in the order of declaration.
func (p *Program) Sources() []string {
	var uids []string
	for _, o := range p.graph.Operators {
		if o.Source {
			uids = append(uids, o.Uid)
		}
	}
	return uids
}

// Discover lists the splits of a source.
func (p *Program) Discover(ctx context.Context, uid string, fsys vfs.FS, parallelism int) (*messages.SplitsDiscovered, error) {
	n := p.nodes[uid]
	if n == nil || n.source == nil {
		return nil, fmt.Errorf("stream: program %q has no source %q", p.graph.Name, uid)
	}
	d, err := n.source.Discover(ctx, fsys, parallelism)
	if err != nil {
		return nil, err
	}
	return d, markGroups(d, uid)
}

// NewChain instantiates operators, head first, for one subtask.
func (p *Program) NewChain(operators []string, outputs []*operator.EdgeWriter) (*operator.Chain, error) {
	if len(operators) == 0 {
		return nil, fmt.Errorf("stream: a chain of program %q has no operators", p.graph.Name)
	}
	c := &chain{program: p, edges: outputs}
	result := &operator.Chain{Operators: make([]operator.Operator, len(operators))}
	for i := len(operators) - 1; i >= 0; i-- {
		n := p.nodes[operators[i]]
		if n == nil {
			return nil, fmt.Errorf("stream: program %q has no operator %q; every node must run the binary that the job was planned with", p.graph.Name, operators[i])
		}
		if n.keyed && i > 0 {
			return nil, fmt.Errorf("stream: operator %q is keyed and cannot be chained behind %q", n.uid, operators[i-1])
		}
		made1, err := n.build(c, n)
		if err != nil {
			return nil, err
		}
		c.made = append(c.made, made{n, made1})
		result.Operators[i] = made1.operator
		if i > 0 {
			continue
		}
		if made1.source != nil {
			result.Source = made1.source
		} else {
			result.Input = made1.head(c)
		}
	}
	return result, nil
}
