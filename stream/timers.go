package stream

import (
	"bytes"
	"cmp"
	"container/heap"
	"encoding/binary"

	"cutwater/state"
)

// timers are the timers of a keyed operator: each is a (key, namespace, time),
// set at most once. They are keyed state, so that a checkpoint holds them; the
// order in which they are due is kept in memory and rebuilt at restore.
type timers struct {
	table *state.Table
	due   timerHeap
	key   []byte
}

// newTimers declares the timers of that name.
func newTimers(s state.Scope, name string) (*timers, error) {
	width := s.KeyWidth
	if width > 0 {
		width += 8
	}
	table, err := s.Backend.Table(state.Descriptor{
		Name: name, Kind: state.TimerKind, KeyWidth: width, ValueWidth: 1, Namespaced: true,
		Schema: s.KeySchema + " -> timer",
	})
	if err != nil {
		return nil, err
	}
	t := &timers{table: table}
	table.Each(func(hash uint64, key []byte, timestampMs int64, _ []byte) bool {
		at := len(key) - 8
		t.due = append(t.due, dueTimer{timestampMs, int64(binary.LittleEndian.Uint64(key[at:])), hash, string(key[:at])})
		return true
	})
	heap.Init(&t.due)
	return t, nil
}

// entry is the table's key of a timer: the operator's key and the namespace.
func (t *timers) entry(key []byte, namespace int64) []byte {
	t.key = append(t.key[:0], key...)
	t.key = binary.LittleEndian.AppendUint64(t.key, uint64(namespace))
	return t.key
}

// Register sets a timer; setting it again changes nothing.
func (t *timers) Register(hash uint64, key []byte, namespace, timestampMs int64) {
	if v, existed := t.table.Update(hash, t.entry(key, namespace), timestampMs); !existed {
		v[0] = 1
		heap.Push(&t.due, dueTimer{timestampMs, namespace, hash, string(key)})
	}
}

// Delete removes a timer.
func (t *timers) Delete(hash uint64, key []byte, namespace, timestampMs int64) {
	t.table.Delete(hash, t.entry(key, namespace), timestampMs)
}

// Next is the time of the earliest timer.
func (t *timers) Next() (timestampMs int64, ok bool) {
	for len(t.due) > 0 {
		d := &t.due[0]
		if _, ok := t.table.Get(d.hash, t.entry([]byte(d.key), d.namespace), d.timestampMs); ok {
			return d.timestampMs, true
		}
		heap.Pop(&t.due) // it was deleted
	}
	return 0, false
}

// Fire removes the timers up to a time, in order, and calls fire for each, which
// may set others. It returns false if stop said to stop before all were fired.
func (t *timers) Fire(upToMs int64, stop func() bool, fire func(hash uint64, key []byte, namespace, timestampMs int64)) (done bool) {
	for {
		at, ok := t.Next()
		if !ok || at > upToMs {
			return true
		}
		if stop() {
			return false
		}
		d := heap.Pop(&t.due).(dueTimer)
		key := []byte(d.key)
		t.table.Delete(d.hash, t.entry(key, d.namespace), d.timestampMs)
		fire(d.hash, key, d.namespace, d.timestampMs)
	}
}

type dueTimer struct {
	timestampMs, namespace int64
	hash                   uint64
	key                    string
}

// timerHeap orders timers by time, and those of one time by key and namespace,
// so that the order does not depend on how they came.
type timerHeap []dueTimer

func (h timerHeap) Len() int      { return len(h) }
func (h timerHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *timerHeap) Push(x any)   { *h = append(*h, x.(dueTimer)) }

func (h timerHeap) Less(i, j int) bool {
	a, b := &h[i], &h[j]
	return cmp.Or(cmp.Compare(a.timestampMs, b.timestampMs), cmp.Compare(a.hash, b.hash),
		bytes.Compare([]byte(a.key), []byte(b.key)), cmp.Compare(a.namespace, b.namespace)) < 0
}

func (h *timerHeap) Pop() any {
	last := len(*h) - 1
	d := (*h)[last]
	(*h)[last] = dueTimer{}
	*h = (*h)[:last]
	return d
}
