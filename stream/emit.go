package stream

import (
	"fmt"

	"cutwater/codec"
	"cutwater/messages"
	"cutwater/protocol/keygroup"
	"cutwater/stream/operator"
)

// Emit is one hop of a chain: it hands a record with its timestamp (Unix time in
// ms) to whatever comes next, as a plain function call.
type Emit[T any] func(v T, timestampMs int64)

// NoTimestamp is the timestamp of a record that has none.
const NoTimestamp = -1 << 63

// emitter returns the function that takes what an output of n emits: to the
// operators chained to it and to the edges that leave the task.
func emitter[T any](c *chain, n *node, sideName string, cd codec.Codec[T]) (Emit[T], error) {
	var all []Emit[T]
	for _, consumer := range c.consumers(n, sideName) {
		e, ok := consumer.(Emit[T])
		if !ok {
			return nil, fmt.Errorf("stream: output %q of operator %q is an %T and its consumer takes %T", sideName, n.uid, Emit[T](nil), consumer)
		}
		all = append(all, e)
	}
	for _, w := range c.edges {
		if w.Edge.FromUid != n.uid || w.Edge.Side != sideName {
			continue
		}
		e, err := edgeEmit(c.program, w, cd)
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	switch len(all) {
	case 0:
		return func(T, int64) {}, nil
	case 1:
		return all[0], nil
	case 2:
		first, second := all[0], all[1]
		return func(v T, ts int64) {
			first(v, ts)
			second(v, ts)
		}, nil
	}
	return func(v T, ts int64) {
		for _, e := range all {
			e(v, ts)
		}
	}, nil
}

// edgeEmit returns the function that encodes records into an edge's builders.
func edgeEmit[T any](p *Program, w *operator.EdgeWriter, cd codec.Codec[T]) (Emit[T], error) {
	w.Init(cd.Width())
	put := putter(w, cd)
	switch w.Edge.Partitioning {
	case messages.Partitioning_HASH:
		to := p.nodes[w.Edge.ToUid]
		if to == nil || int(w.Edge.ToInput) >= len(to.inputs) {
			return nil, fmt.Errorf("stream: edge to input %d of %q, which the program does not have: the plan belongs to another program", w.Edge.ToInput, w.Edge.ToUid)
		}
		key, ok := to.inputs[w.Edge.ToInput].key.(func([]byte, T) []byte)
		if !ok {
			return nil, fmt.Errorf("stream: the edge from %q to %q is keyed and its input is not: the plan belongs to another program", w.Edge.FromUid, w.Edge.ToUid)
		}
		return hashEmit(w, cd, key), nil
	case messages.Partitioning_REBALANCE:
		return func(v T, ts int64) { put(w.NextRoundRobin(), 0, v, ts) }, nil
	case messages.Partitioning_BROADCAST_EDGE:
		return func(v T, ts int64) {
			for channel := range w.Builders {
				put(channel, 0, v, ts)
			}
		}, nil
	case messages.Partitioning_FORWARD:
		if len(w.Builders) != 1 {
			return nil, fmt.Errorf("stream: the forward edge from %q to %q has %d channels", w.Edge.FromUid, w.Edge.ToUid, len(w.Builders))
		}
		return forwardEmit(w, cd), nil
	}
	return nil, fmt.Errorf("stream: the edge from %q to %q has no partitioning", w.Edge.FromUid, w.Edge.ToUid)
}

// forwardEmit and hashEmit are hot paths: for records without text they do what
// putter's function does, each in its own body, because a call costs a tenth of
// what the whole chain does (bench.BenchmarkChain).
func forwardEmit[T any](w *operator.EdgeWriter, cd codec.Codec[T]) Emit[T] {
	if codec.HasText(cd) {
		put := putter(w, cd)
		return func(v T, ts int64) { put(0, 0, v, ts) }
	}
	b := &w.Builders[0]
	if !codec.InPlace(cd) {
		return func(v T, ts int64) {
			cd.Encode(b.NextFixed(ts), nil, v)
			if b.FixedSize() >= w.Limit {
				w.Cut(0)
			}
		}
	}
	return func(v T, ts int64) {
		*codec.At[T](b.NextFixed(ts)) = v
		if b.FixedSize() >= w.Limit {
			w.Cut(0)
		}
	}
}

func hashEmit[T any](w *operator.EdgeWriter, cd codec.Codec[T], key func([]byte, T) []byte) Emit[T] {
	var buf []byte
	if !codec.HasText(cd) {
		inPlace := codec.InPlace(cd)
		return func(v T, ts int64) {
			buf = key(buf[:0], v)
			hash := keygroup.Hash(buf)
			channel := w.Owner(hash)
			b := &w.Builders[channel]
			if fixed := b.NextKeyed(ts, hash); inPlace {
				*codec.At[T](fixed) = v
			} else {
				cd.Encode(fixed, nil, v)
			}
			if b.FixedSize() >= w.Limit {
				w.Cut(channel)
			}
		}
	}
	put := putter(w, cd)
	return func(v T, ts int64) {
		buf = key(buf[:0], v)
		hash := keygroup.Hash(buf)
		put(w.Owner(hash), hash, v, ts)
	}
}

// putter returns the function that encodes a record into a channel's batch, which
// it cuts when it is full.
func putter[T any](w *operator.EdgeWriter, cd codec.Codec[T]) func(channel int, hash uint64, v T, ts int64) {
	return func(channel int, hash uint64, v T, ts int64) {
		b := &w.Builders[channel]
		fixed, text := b.Next(ts, hash)
		b.SetText(cd.Encode(fixed, text, v))
		if b.Size() >= w.Limit {
			w.Cut(channel)
		}
	}
}
