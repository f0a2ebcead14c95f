package stream

import (
	"fmt"
	"path/filepath"
	"runtime"

	"cutwater/codec"
	"cutwater/messages"
	"cutwater/stream/operator"
)

// Topology collects declarations; Build makes a Program of them. It is used by
// one goroutine.
type Topology struct {
	name           string
	parallelism    uint32
	maxParallelism uint32
	nodes          []*node
	hooks          []operator.MasterHook
	errs           []error
}

// New starts an empty topology of that name, [a-z][a-z0-9-]*.
func New(name string) *Topology { return &Topology{name: name} }

// Parallelism sets the parallelism of operators that do not set their own; a
// deployment may overrule it. 0 means 1.
func (t *Topology) Parallelism(n int) *Topology {
	t.parallelism = uint32(max(n, 0))
	return t
}

// MaxParallelism sets the number of key groups of operators that do not set
// their own; 0 means a default that follows from the parallelism.
func (t *Topology) MaxParallelism(n int) *Topology {
	t.maxParallelism = uint32(max(n, 0))
	return t
}

// MasterHook adds a hook that runs on the coordinator's side with each checkpoint.
func (t *Topology) MasterHook(h operator.MasterHook) *Topology {
	t.hooks = append(t.hooks, h)
	return t
}

// Stream is a stream of records of type T: the output of an operator, or a side
// output, or a union. It is a value; using it several times sends every record
// to each use.
type Stream[T any] struct {
	t *Topology
	// ends are where the records come from: several for a union.
	ends  []end
	codec codec.Codec[T]
}

// Codec encodes the stream's records where they leave a task; nil if none was
// found, which Build reports.
func (s Stream[T]) Codec() codec.Codec[T] { return s.codec }

// end is one output of an operator.
type end struct {
	from *node
	side string
}

// node is an operator as declared, its types erased.
type node struct {
	uid, kind, declared string
	inputs              []input
	options             options
	keyed, bounded      bool
	schema              string
	// codec is the any of the codec.Codec of its main output, nil if that is missing.
	codec any
	// sides are the side outputs: name and the any of the codec.Codec.
	sides []side
	// build makes the operator for one subtask.
	build func(*chain, *node) (*instance, error)
	// source lists the splits; nil unless the operator is a source.
	source discoverer
	sink   bool
}

type side struct {
	name  string
	codec any
}

// input is one edge into an operator.
type input struct {
	end
	// key is the any of the func(dst []byte, v T) []byte of a keyed edge.
	key   any
	width int // of the codec
}

// instance is an operator in a chain.
type instance struct {
	operator operator.Operator
	// emit is the any of the Emit[T] that takes its input.
	emit   any
	source operator.Source
	head   func(*chain) operator.Input
}

// failf records an error of a declaration.
func (t *Topology) failf(n *node, format string, args ...any) {
	t.errs = append(t.errs, &DeclarationError{Uid: n.uid, Declared: n.declared, Problem: fmt.Sprintf(format, args...)})
}

// DeclarationError is one mistake in a topology.
type DeclarationError struct {
	Uid string
	// Declared is file:line of the declaration.
	Declared string
	Problem  string
}

// Error says where, which operator and what.
func (e *DeclarationError) Error() string {
	if e.Uid == "" {
		return fmt.Sprintf("%s: %s", e.Declared, e.Problem)
	}
	return fmt.Sprintf("%s: operator %q: %s", e.Declared, e.Uid, e.Problem)
}

// declare adds an operator; it is called by exported functions only, whose
// caller is where the operator was declared.
func (t *Topology) declare(kind, uid string, opts []Option) *node {
	n := &node{uid: uid, kind: kind, declared: callerOutside()}
	t.nodes = append(t.nodes, n)
	for _, o := range opts {
		o(&n.options)
	}
	if n.options.declared != "" {
		n.declared = n.options.declared
	}
	return n
}

// callerOutside is the position of the nearest caller outside this package.
func callerOutside() string {
	var pcs [16]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	for {
		f, more := frames.Next()
		if !more || !isOurs(f.Function) {
			return fmt.Sprintf("%s:%d", filepath.Base(f.File), f.Line)
		}
	}
}

// output makes the stream of an operator's main output. A codec that is given
// wins over one that is found.
func output[T any](t *Topology, n *node, found codec.Codec[T]) Stream[T] {
	c := found
	if n.options.codec != nil {
		given, ok := n.options.codec.(codec.Codec[T])
		if !ok {
			var zero T
			t.failf(n, "WithCodec has a %T, but the operator emits %T", n.options.codec, zero)
		}
		c = given
	} else if c == nil {
		var err error
		if c, err = codec.Of[T](); err != nil {
			t.failf(n, "the records that it emits have no codec: %v; give one by WithCodec", err)
		}
	}
	if c != nil {
		n.codec = c
	}
	return Stream[T]{t: t, ends: []end{{n, ""}}, codec: c}
}

// connect makes the stream an input of the operator.
func connect[T any](n *node, s Stream[T], key any) {
	width := 0
	if s.codec != nil {
		width = s.codec.Width()
	}
	for _, e := range s.ends {
		n.inputs = append(n.inputs, input{end: e, key: key, width: width})
	}
}

func partitioning(consumer *node, in *input) messages.Partitioning {
	switch {
	case in.key != nil:
		return messages.Partitioning_HASH
	case in.from.options.parallelism == consumer.options.parallelism:
		return messages.Partitioning_FORWARD
	}
	return messages.Partitioning_REBALANCE
}
