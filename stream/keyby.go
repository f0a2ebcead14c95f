package stream

import (
	"fmt"

	"cutwater/codec"
	"cutwater/stream/row"
)

// KeyedStream is a stream whose records reach the subtask that owns their key.
type KeyedStream[K, T any] struct {
	stream Stream[T]
	key    codec.Key[K]
	// appendKey appends the canonical bytes of a record's key.
	appendKey func(dst []byte, v T) []byte
	err       error
}

// Keys encodes the keys; nil if K cannot be a key, which Build reports.
func (s KeyedStream[K, T]) Keys() codec.Key[K] { return s.key }

// KeyBy partitions a stream by a key: an integer, float, bool, string, or a
// struct of these. It is not an operator: it is how the next one gets its input.
func KeyBy[K, T any](s Stream[T], f func(T) K) KeyedStream[K, T] {
	k, err := codec.KeyOf[K]()
	if err != nil {
		return KeyedStream[K, T]{stream: s, err: err}
	}
	return KeyByFunc(s, k, func(dst []byte, v T) []byte { return k.AppendKey(dst, f(v)) })
}

// KeyByFunc is KeyBy for keys with a codec of their own: appendKey appends the
// canonical bytes of the record's key as key would.
func KeyByFunc[K, T any](s Stream[T], key codec.Key[K], appendKey func(dst []byte, v T) []byte) KeyedStream[K, T] {
	return KeyedStream[K, T]{stream: s, key: key, appendKey: appendKey}
}

// declareKeyed declares an operator that reads the stream.
func declareKeyed[K, T any](s KeyedStream[K, T], kind, uid string, opts []Option) *node {
	t := s.stream.t
	n := t.declare(kind, uid, opts)
	n.keyed = true
	if s.err != nil {
		t.failf(n, "its input cannot be keyed: %v", s.err)
	}
	connect(n, s.stream, s.appendKey)
	return n
}

// keyDecodeError reports key bytes that are not the key codec's.
func keyDecodeError(uid string, err error) error {
	return NoRestart(fmt.Errorf("stream: the keyed state of operator %q has a key that its key codec cannot read: %w", uid, err))
}

// KeyByFields is KeyBy for rows: the key is a row of the named fields.
func KeyByFields(s Stream[row.Row], schema *row.Schema, fields ...string) KeyedStream[row.Row, row.Row] {
	k, err := row.Key(schema, fields...)
	if err != nil {
		return KeyedStream[row.Row, row.Row]{stream: s, err: err}
	}
	return KeyByFunc(s, k, k.AppendFrom)
}
