package stream

import "cutwater/stream/operator"

// To writes a stream to a sink, exactly once: what was written between two
// barriers becomes visible when the checkpoint of the second one is complete.
func To[T any](s Stream[T], uid string, sink Sink[T], opts ...Option) {
	n := s.t.declare("sink", uid, opts)
	s.t.takes(n)
	n.sink = true
	n.schema = "committables"
	connect(n, s, nil)
	n.build = func(c *chain, n *node) (*instance, error) {
		o := newSinkOperator(newBase(c, n), sink)
		emit := Emit[T](o.write)
		return &instance{operator: o, emit: emit, head: func(c *chain) operator.Input {
			return newHead(c, n, s.codec, emit, nil)
		}}, nil
	}
}
