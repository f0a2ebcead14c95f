package testkit

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"

	"cutwater/codec"
	"cutwater/messages"
	"cutwater/storage/vfs"
	"cutwater/stream"
)

// Records is a bounded source of records in memory, one split for each list. It
// can be read again from any position, so it is exact; it does not change and may
// be used by several topologies. Event time is not held to any order between the
// splits: none is late because another one was read first.
//
// The codec of T is found by codec.Of, or given by stream.WithCodec.
func Records[T any](splits ...[]T) stream.Source[T] {
	s := memorySource[T]{bounded: true}
	for _, records := range splits {
		s.logs = append(s.logs, &memoryLog[T]{records: records, ended: true})
	}
	return s
}

// Feed is a source that a test fills while the topology runs. What was sent stays
// in memory and is read again after a failure. Its methods may be called by any
// goroutine.
type Feed[T any] struct{ log memoryLog[T] }

// NewFeed makes an empty feed; End ends it.
func NewFeed[T any]() *Feed[T] { return &Feed[T]{} }

// Source is the feed as the source of a topology.
func (f *Feed[T]) Source() stream.Source[T] { return memorySource[T]{logs: []*memoryLog[T]{&f.log}} }

// Send adds records; after End it panics, for nobody would read them.
func (f *Feed[T]) Send(records ...T) {
	f.log.mu.Lock()
	defer f.log.mu.Unlock()
	if f.log.ended {
		panic("testkit: a record was sent to a feed that has ended")
	}
	f.log.records = append(f.log.records, records...)
}

// End says that no record will follow: the topology finishes once it has read all.
func (f *Feed[T]) End() {
	f.log.mu.Lock()
	defer f.log.mu.Unlock()
	f.log.ended = true
}

// memoryLog is what one split holds.
type memoryLog[T any] struct {
	mu      sync.Mutex
	records []T
	ended   bool
}

// memorySource reads logs.
type memorySource[T any] struct {
	logs    []*memoryLog[T]
	bounded bool
}

// Discover lists the logs, each a group of its own.
func (s memorySource[T]) Discover(context.Context, vfs.FS, int) (*messages.SplitsDiscovered, error) {
	d := &messages.SplitsDiscovered{}
	for i := range s.logs {
		name := fmt.Sprintf("records-%d", i)
		d.Splits = append(d.Splits, &messages.Split{
			Id: name, Group: name, Ordinal: uint64(i), Payload: binary.LittleEndian.AppendUint64(nil, uint64(i)),
		})
	}
	return d, nil
}

// Open goes on at the split's position.
func (s memorySource[T]) Open(_ context.Context, _ vfs.FS, split *messages.Split) (stream.SplitReader[T], error) {
	i, ok := number(split.Payload)
	if !ok || i >= uint64(len(s.logs)) {
		return nil, fmt.Errorf("testkit: the split %q is of another source", split.Id)
	}
	r := &memoryReader[T]{log: s.logs[i]}
	if len(split.Position) > 0 {
		if r.at, ok = number(split.Position); !ok {
			return nil, fmt.Errorf("testkit: the position of split %q is of another source", split.Id)
		}
	}
	return r, nil
}

func number(b []byte) (n uint64, ok bool) {
	if len(b) != 8 {
		return 0, false
	}
	return binary.LittleEndian.Uint64(b), true
}

// Bounded tells records from a feed.
func (s memorySource[T]) Bounded() bool { return s.bounded }

// Codec is found by the topology.
func (s memorySource[T]) Codec() codec.Codec[T] { return nil }

type memoryReader[T any] struct {
	log *memoryLog[T]
	at  uint64
}

// Next implements stream.SplitReader.
func (r *memoryReader[T]) Next(v *T) (stream.ReadStatus, error) {
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	switch {
	case r.at < uint64(len(r.log.records)):
		*v = r.log.records[r.at]
		r.at++
		return stream.ReadRecord, nil
	case r.log.ended:
		return stream.ReadEnd, nil
	}
	return stream.ReadNothing, nil
}

// Position implements stream.SplitReader.
func (r *memoryReader[T]) Position() []byte { return binary.LittleEndian.AppendUint64(nil, r.at) }

// BytesRead implements stream.SplitReader; it counts records.
func (r *memoryReader[T]) BytesRead() uint64 { return r.at }

// Close implements stream.SplitReader.
func (r *memoryReader[T]) Close() error { return nil }
