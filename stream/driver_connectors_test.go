package stream_test

import (
	"context"
	"errors"
	"fmt"

	"cutwater/codec"
	"cutwater/messages"
	"cutwater/storage/vfs"
	"cutwater/stream"
)

// ev is the record of the tests.
type ev struct {
	Key   string
	Ms    int64
	Value int64
}

// listSource is a source of splits in memory; a nil error entry is a record.
type listSource struct {
	splits [][]ev
	// groups names the splits' groups; one group if nil.
	groups []string
	// bad are the values that cannot be read.
	bad     int64
	openErr error
	opened  int
}

func (s *listSource) Discover(context.Context, vfs.FS, int) (*messages.SplitsDiscovered, error) {
	d := &messages.SplitsDiscovered{}
	for i := range s.splits {
		group := "all"
		if s.groups != nil {
			group = s.groups[i]
		}
		d.Splits = append(d.Splits, &messages.Split{Id: fmt.Sprint(i), Group: group, Ordinal: uint64(i), Payload: []byte{byte(i)}})
	}
	return d, nil
}

func (s *listSource) Open(_ context.Context, _ vfs.FS, split *messages.Split) (stream.SplitReader[ev], error) {
	r := &listReader{source: s, records: s.splits[split.Payload[0]]}
	if len(split.Position) > 0 {
		r.at = int(split.Position[0])<<8 | int(split.Position[1])
	}
	if s.openErr != nil {
		return nil, s.openErr
	}
	s.opened++
	return r, nil
}

func (s *listSource) Bounded() bool          { return true }
func (s *listSource) Codec() codec.Codec[ev] { return codec.Must(codec.Struct[ev]()) }

type listReader struct {
	source  *listSource
	records []ev
	at      int
}

func (r *listReader) Next(v *ev) (stream.ReadStatus, error) {
	if r.at == len(r.records) {
		return stream.ReadEnd, nil
	}
	*v = r.records[r.at]
	r.at++
	if r.source.bad != 0 && v.Value == r.source.bad {
		return 0, &stream.MalformedError{Where: "list", Offset: int64(r.at - 1), Problem: "a bad value", Raw: v.Key}
	}
	return stream.ReadRecord, nil
}

func (r *listReader) Position() []byte  { return []byte{byte(r.at >> 8), byte(r.at)} }
func (r *listReader) BytesRead() uint64 { return uint64(r.at) }
func (r *listReader) Close() error {
	r.source.opened--
	return nil
}

// memorySink is a sink whose committed output is a list of strings.
type memorySink[T any] struct {
	log       []string
	prepared  map[string][]string
	committed []string
	failures  int // of Commit, to come
	text      func(T) string
	// batch is the size of a record, to reach the flush limit.
	recordBytes int
}

func newMemorySink[T any]() *memorySink[T] {
	return &memorySink[T]{prepared: map[string][]string{}, text: func(v T) string { return fmt.Sprint(v) }, recordBytes: 1}
}

func (s *memorySink[T]) Start(_ context.Context, _ stream.SinkContext, restored []*messages.Committable) error {
	s.log = append(s.log, fmt.Sprintf("start %d", len(restored)))
	return nil
}

func (s *memorySink[T]) NewWriter(stream.SinkContext) (stream.SinkWriter[T], error) {
	return &memoryWriter[T]{sink: s}, nil
}

func (s *memorySink[T]) Commit(_ context.Context, _ stream.SinkContext, c *messages.Committable) error {
	if s.failures > 0 {
		s.failures--
		return errors.New("target is away")
	}
	s.log = append(s.log, fmt.Sprintf("commit %d", c.Checkpoint))
	s.committed = append(s.committed, s.prepared[string(c.Payload)]...)
	delete(s.prepared, string(c.Payload)) // a second commit does nothing
	return nil
}

func (s *memorySink[T]) Abort(_ context.Context, _ stream.SinkContext, c *messages.Committable) error {
	s.log = append(s.log, fmt.Sprintf("abort %d", c.Checkpoint))
	delete(s.prepared, string(c.Payload))
	return nil
}

type memoryWriter[T any] struct {
	sink            *memorySink[T]
	buffer, flushed []string
}

func (w *memoryWriter[T]) Write(v T, _ int64) error {
	w.buffer = append(w.buffer, w.sink.text(v))
	return nil
}

func (w *memoryWriter[T]) Buffered() int { return len(w.buffer) * w.sink.recordBytes }

func (w *memoryWriter[T]) Flush() func(context.Context) error {
	b := w.buffer
	w.buffer = nil
	return func(context.Context) error {
		w.sink.log = append(w.sink.log, fmt.Sprintf("flush %d", len(b)))
		w.flushed = append(w.flushed, b...)
		return nil
	}
}

func (w *memoryWriter[T]) Prepare(checkpoint uint64) func(context.Context) ([]*messages.Committable, error) {
	b := w.buffer
	w.buffer = nil
	return func(context.Context) ([]*messages.Committable, error) {
		all := append(w.flushed, b...)
		w.flushed = nil
		if len(all) == 0 {
			return nil, nil
		}
		name := fmt.Sprintf("part-%d-%d", checkpoint, len(w.sink.log))
		w.sink.log = append(w.sink.log, fmt.Sprintf("prepare %d", checkpoint))
		w.sink.prepared[name] = all
		return []*messages.Committable{{Payload: []byte(name)}}, nil
	}
}

func (w *memoryWriter[T]) Close() error { return nil }

// total is an aggregate with key and window.
type total struct {
	Key          string
	StartMs      int64
	EndMs        int64
	Count, Value int64
}

type sums struct{ Count, Value int64 }

type summing struct{}

func newSumming() summing { return summing{} }

func (summing) Init(acc *sums) { *acc = sums{} }
func (summing) Add(acc *sums, v ev) error {
	if v.Value == -999 {
		return errors.New("value -999 is not wanted")
	}
	acc.Count++
	acc.Value += v.Value
	return nil
}
func (summing) Merge(acc, other *sums) error {
	acc.Count += other.Count
	acc.Value += other.Value
	return nil
}
func (summing) Result(key string, w stream.Interval, acc *sums) (total, error) {
	return total{key, w.StartMs, w.EndMs, acc.Count, acc.Value}, nil
}

func keyOf(v ev) string { return v.Key }
func msOf(v ev) int64   { return v.Ms }
