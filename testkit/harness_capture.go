package testkit

import (
	"context"
	"errors"

	"cutwater/codec"
	"cutwater/messages"
	"cutwater/storage/vfs"
	"cutwater/stream"
)

// Record is a record that came out of an operator.
type Record[V any] struct {
	// TimestampMs is its timestamp (Unix time in ms).
	TimestampMs int64
	Value       V
}

// Captured is what came out of one output of an operator in a Harness.
type Captured[V any] struct{ records []Record[V] }

// Records returns what has come since the last call, in order.
func (c *Captured[V]) Records() []Record[V] {
	r := c.records
	c.records = nil
	return r
}

// Values is Records without timestamps.
func (c *Captured[V]) Values() []V {
	var values []V
	for _, r := range c.Records() {
		values = append(values, r.Value)
	}
	return values
}

// capture adds the operator that keeps what comes by the stream.
func capture[V, T, U any](h *Harness[T, U], s stream.Stream[V], uid string) *Captured[V] {
	c := &Captured[V]{}
	h.captures = append(h.captures, uid)
	stream.Transform(s, uid, func() *capturing[V] { return &capturing[V]{c, s.Codec()} })
	return c
}

type capturing[V any] struct {
	to    *Captured[V]
	codec codec.Codec[V]
}

// Process keeps a copy: the operator may use the record's memory again.
func (c *capturing[V]) Process(ctx *stream.Context[stream.NoKey, int64], v V) error {
	own, err := cloned(c.codec, v)
	c.to.records = append(c.to.records, Record[V]{ctx.TimestampMs(), own})
	return err
}

// cloned sends a value through its codec.
func cloned[V any](c codec.Codec[V], v V) (own V, err error) {
	fixed := make([]byte, c.Width())
	text := c.Encode(fixed, nil, v)
	err = c.Decode(fixed, string(text), &own)
	return own, err
}

// neverRead is a source that only says what its records are.
type neverRead[T any] struct{ codec codec.Codec[T] }

var errNeverRead = errors.New("testkit: the source of a harness is not read")

func (neverRead[T]) Discover(context.Context, vfs.FS, int) (*messages.SplitsDiscovered, error) {
	return nil, errNeverRead
}

func (neverRead[T]) Open(context.Context, vfs.FS, *messages.Split) (stream.SplitReader[T], error) {
	return nil, errNeverRead
}

func (neverRead[T]) Bounded() bool           { return true }
func (s neverRead[T]) Codec() codec.Codec[T] { return s.codec }
