package state

import (
	"cmp"
	"slices"
	"strings"
)

// Timers are the timers of a keyed operator in one time domain, event time or
// processing time (Flink's InternalTimerService): each is a (key, namespace,
// time) that is set at most once. They are keyed state, so that checkpoints and
// rescaling treat them like any other; of those in the table the earliest are
// kept in memory in the order in which they are due.
type Timers struct {
	table *Table
	near  []timer // a binary heap; may hold timers that were deleted
	// far says that the table holds timers after horizon, which are not in near.
	far     bool
	horizon timer
	limit   int // of near, before the later half goes
	key     []byte
	fired   []byte
}

type timer struct {
	timeMs, namespace int64
	hash              uint64
	key               string
}

// nearLimit is the least number of timers that memory has room for. With many
// more in the table the limit grows along, so that the table is searched for the
// next ones a few times over its whole life, not every so many timers.
const nearLimit = 1 << 17

// NewTimers declares the timers of that name, restored ones included. Call it
// when the operator opens; errors: *SchemaError, and what Backend.Table returns.
// Scope.Namespaced is ignored: timers always have a namespace.
func NewTimers(s Scope, name string) (*Timers, error) { return newTimers(s, name, nearLimit) }

func newTimers(s Scope, name string, limit int) (*Timers, error) {
	width := s.KeyWidth
	if width > 0 {
		width += 8
	}
	table, err := s.Backend.Table(Descriptor{
		Name: name, Kind: TimerKind, KeyWidth: width, ValueWidth: 1, Namespaced: true,
		Schema: s.KeySchema + " -> timer",
	})
	if err != nil {
		return nil, err
	}
	t := &Timers{table: table, limit: limit, far: true}
	t.refill()
	return t, nil
}

// Register sets a timer; setting it again changes nothing.
func (t *Timers) Register(hash uint64, key []byte, namespace, timeMs int64) {
	v, existed := t.table.Update(hash, t.entry(key, namespace), timeMs)
	if existed {
		return
	}
	v[0] = 1
	due := timer{timeMs, namespace, hash, string(key)}
	if t.far && compareTimers(&due, &t.horizon) > 0 {
		return
	}
	t.push(due)
	if len(t.near) > t.bound() {
		t.trim()
	}
}

// Delete removes a timer; one that is not set is no error.
func (t *Timers) Delete(hash uint64, key []byte, namespace, timeMs int64) {
	t.table.Delete(hash, t.entry(key, namespace), timeMs)
}

// Next is the time of the earliest timer, or ok false.
func (t *Timers) Next() (timeMs int64, ok bool) {
	for {
		for len(t.near) > 0 {
			d := &t.near[0]
			t.key = append(t.key[:0], d.key...)
			if _, ok := t.table.Get(d.hash, t.entry(t.key, d.namespace), d.timeMs); ok {
				return d.timeMs, true
			}
			t.pop() // it was deleted
		}
		if !t.far {
			return 0, false
		}
		t.refill()
	}
}

// Len is the number of timers.
func (t *Timers) Len() int { return t.table.Len() }

// Fire removes the timers up to a time and calls fire for each, ordered by time,
// then by hash, key and namespace: the order does not depend on when they were
// set. Fire may set and delete timers; its key is valid during the call. Fire
// returns false if yield, asked before each timer, said to stop: call it again.
func (t *Timers) Fire(upToMs int64, yield func() bool, fire func(hash uint64, key []byte, namespace, timeMs int64)) (done bool) {
	for {
		at, ok := t.Next()
		if !ok || at > upToMs {
			return true
		}
		if yield() {
			return false
		}
		d := t.pop()
		t.fired = append(t.fired[:0], d.key...)
		t.Delete(d.hash, t.fired, d.namespace, d.timeMs)
		fire(d.hash, t.fired, d.namespace, d.timeMs)
	}
}

// entry is the table's key of a timer: the operator's key and the namespace; the
// time is the table's namespace.
func (t *Timers) entry(key []byte, namespace int64) []byte {
	t.key = le.AppendUint64(append(t.key[:0], key...), uint64(namespace))
	return t.key
}

func (t *Timers) bound() int { return max(t.limit, t.table.Len()/4) }

// trim keeps the earlier half in memory.
func (t *Timers) trim() {
	slices.SortFunc(t.near, func(a, b timer) int { return compareTimers(&a, &b) })
	keep := len(t.near) / 2
	t.horizon, t.far = t.near[keep-1], true
	clear(t.near[keep:])
	t.near = t.near[:keep] // sorted, so a heap
}

// refill finds the earliest timers in the table.
func (t *Timers) refill() {
	t.near, t.far = t.near[:0], false
	bound := t.bound()
	t.table.Each(func(hash uint64, key []byte, timeMs int64, _ []byte) bool {
		at := len(key) - 8
		due := timer{timeMs: timeMs, namespace: int64(le.Uint64(key[at:])), hash: hash, key: string(key[:at])}
		if !t.far || compareTimers(&due, &t.horizon) <= 0 {
			if t.near = append(t.near, due); len(t.near) > bound {
				t.trim()
			}
		}
		return true
	})
	slices.SortFunc(t.near, func(a, b timer) int { return compareTimers(&a, &b) })
}

func compareTimers(a, b *timer) int {
	return cmp.Or(cmp.Compare(a.timeMs, b.timeMs), cmp.Compare(a.hash, b.hash),
		strings.Compare(a.key, b.key), cmp.Compare(a.namespace, b.namespace))
}

func (t *Timers) push(d timer) {
	t.near = append(t.near, d)
	for i := len(t.near) - 1; i > 0; {
		parent := (i - 1) / 2
		if compareTimers(&t.near[parent], &t.near[i]) <= 0 {
			return
		}
		t.near[parent], t.near[i] = t.near[i], t.near[parent]
		i = parent
	}
}

func (t *Timers) pop() timer {
	d, last := t.near[0], len(t.near)-1
	t.near[0], t.near[last] = t.near[last], timer{}
	t.near = t.near[:last]
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if compareTimers(&t.near[child], &t.near[least]) < 0 {
				least = child
			}
		}
		if least == i {
			return d
		}
		t.near[i], t.near[least] = t.near[least], t.near[i]
		i = least
	}
}
