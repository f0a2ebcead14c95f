package stream

import "cutwater/stream/operator"

// Map emits one record for each, with the same timestamp.
func Map[T, U any](s Stream[T], uid string, f func(T) U, opts ...Option) Stream[U] {
	return stateless(s, uid, "map", opts, func(b *base, out Emit[U]) Emit[T] {
		c, n := b.chain, b.node
		return func(v T, ts int64) {
			c.at = n
			out(f(v), ts)
		}
	})
}

// TryMap is Map for functions that can fail or leave a record out: what comes
// with ok false is dropped, an error fails the task unless SkipFailed was given.
// New makes the function of one subtask, which may keep scratch memory.
func TryMap[T, U any](s Stream[T], uid string, newFunc func() func(T) (v U, ok bool, err error), opts ...Option) Stream[U] {
	return stateless(s, uid, "map", opts, func(b *base, out Emit[U]) Emit[T] {
		f, c, n := newFunc(), b.chain, b.node
		return func(v T, ts int64) {
			c.at = n
			u, ok, err := f(v)
			if err != nil {
				b.failed(err)
				return
			}
			if ok {
				out(u, ts)
			}
		}
	}, "SkipFailed")
}

// Filter keeps the records for which f is true.
func Filter[T any](s Stream[T], uid string, f func(T) bool, opts ...Option) Stream[T] {
	if s.codec != nil {
		opts = append([]Option{WithCodec(s.codec)}, opts...)
	}
	return stateless(s, uid, "filter", opts, func(b *base, out Emit[T]) Emit[T] {
		c, n := b.chain, b.node
		return func(v T, ts int64) {
			c.at = n
			if f(v) {
				out(v, ts)
			}
		}
	})
}

// FlatMap emits any number of records for each, with the same timestamp.
func FlatMap[T, U any](s Stream[T], uid string, f func(v T, emit func(U)), opts ...Option) Stream[U] {
	return stateless(s, uid, "flat-map", opts, func(b *base, out Emit[U]) Emit[T] {
		c, n := b.chain, b.node
		var now int64
		emit := func(u U) {
			out(u, now)
			c.at = n
		}
		return func(v T, ts int64) {
			c.at, now = n, ts
			f(v, emit)
		}
	})
}

// stateless declares an operator that is only a function from Emit to Emit.
func stateless[T, U any](s Stream[T], uid, kind string, opts []Option, link func(*base, Emit[U]) Emit[T], takes ...string) Stream[U] {
	n := s.t.declare(kind, uid, opts)
	s.t.takes(n, takes...)
	connect(n, s, nil)
	result := output[U](s.t, n, nil)
	n.build = func(c *chain, n *node) (*instance, error) {
		out, err := emitter(c, n, "", result.codec)
		if err != nil {
			return nil, err
		}
		b := newBase(c, n)
		emit := link(&b, out)
		return &instance{operator: &b, emit: emit, head: func(c *chain) operator.Input {
			return newHead(c, n, s.codec, emit, nil)
		}}, nil
	}
	return result
}
