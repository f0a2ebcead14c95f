// Package blackhole is the sink "blackhole": it takes rows and keeps their number,
// for measurements and for topologies whose output is a side effect. The count
// passes through the same two phases as other sinks' rows.
package blackhole

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"cutwater/connector/internal/once"
	"cutwater/messages"
	"cutwater/stream"
	"cutwater/stream/catalog"
	"cutwater/stream/row"
)

// Counter is what the sinks of a process share. The zero value is ready.
type Counter struct {
	committed once.Log
	records   atomic.Uint64
}

// Committed is the number of records whose checkpoint is complete.
func (c *Counter) Committed() uint64 { return c.records.Load() }

// Sink implements stream.Sink for records of any type.
type Sink[T any] struct{ counter *Counter }

// New returns a sink that counts in c.
func New[T any](c *Counter) *Sink[T] { return &Sink[T]{counter: c} }

// Start implements stream.Sink: there is nothing to check or to sweep.
func (s *Sink[T]) Start(context.Context, stream.SinkContext, []*messages.Committable) error {
	return nil
}

// NewWriter implements stream.Sink.
func (s *Sink[T]) NewWriter(c stream.SinkContext) (stream.SinkWriter[T], error) {
	return &writer[T]{context: c}, nil
}

// Commit implements stream.Sink.
func (s *Sink[T]) Commit(_ context.Context, _ stream.SinkContext, c *messages.Committable) error {
	n, size := binary.Uvarint(c.GetPayload())
	if size <= 0 {
		return stream.NoRestart(fmt.Errorf("blackhole sink %q: the committable of checkpoint %d is damaged", c.GetUid(), c.GetCheckpoint()))
	}
	return s.counter.committed.Do(c, func() error {
		s.counter.records.Add(n)
		return nil
	})
}

// Abort implements stream.Sink.
func (s *Sink[T]) Abort(context.Context, stream.SinkContext, *messages.Committable) error { return nil }

// writer counts the records of one part.
type writer[T any] struct {
	context stream.SinkContext
	records uint64
}

// Write implements stream.SinkWriter.
func (w *writer[T]) Write(T, int64) error {
	w.records++
	return nil
}

// Buffered implements stream.SinkWriter.
func (w *writer[T]) Buffered() int { return 0 }

// Flush implements stream.SinkWriter.
func (w *writer[T]) Flush() func(context.Context) error {
	return func(context.Context) error { return nil }
}

// Prepare implements stream.SinkWriter.
func (w *writer[T]) Prepare(checkpoint uint64) func(context.Context) ([]*messages.Committable, error) {
	n := w.records
	w.records = 0
	return func(context.Context) ([]*messages.Committable, error) {
		if n == 0 {
			return nil, nil
		}
		return []*messages.Committable{{
			Job:         w.context.Job,
			Incarnation: w.context.Incarnation,
			Checkpoint:  checkpoint,
			Uid:         w.context.Uid,
			Subtask:     uint32(w.context.Subtask),
			Payload:     binary.AppendUvarint(nil, n),
		}}, nil
	}
}

// Close implements stream.SinkWriter.
func (w *writer[T]) Close() error { return nil }

// Spec describes the sink "blackhole" of a topology.yaml. All sinks made by one
// Spec share a counter.
func Spec() catalog.SinkSpec {
	counter := &Counter{}
	return catalog.SinkSpec{
		Name: "blackhole",
		Doc:  "Takes rows and drops them, for measurements.",
		New: func(catalog.Values) (stream.Sink[row.Row], error) {
			return New[row.Row](counter), nil
		},
	}
}
