package state

import "cutwater/codec"

// Value keeps one value per key (Flink's ValueState).
type Value[V any] struct{ slot slot[V] }

// NewValue declares the state of that name. Call it when the operator opens;
// errors: *SchemaError, and what Backend.Table returns.
func NewValue[V any](s Scope, name string, c codec.Codec[V]) (*Value[V], error) {
	h, err := newSlot(s, name, ValueKind, c)
	if err != nil {
		return nil, err
	}
	return &Value[V]{h}, nil
}

// Get returns the current key's value, or ok false.
func (s *Value[V]) Get() (v V, ok bool) {
	ok = s.slot.load()
	return s.slot.value, ok
}

// Set sets the current key's value.
func (s *Value[V]) Set(v V) { s.slot.store(v) }

// Modify lets f change the current key's value in place, one look-up for both
// reading and writing; *v is zero if there was none. F must not use other state.
func (s *Value[V]) Modify(f func(v *V, existed bool)) { s.slot.modify(f) }

// Clear removes the current key's value.
func (s *Value[V]) Clear() { s.slot.clear() }

// Reducing keeps one value per key that every added one is combined into
// (Flink's ReducingState).
type Reducing[V any] struct {
	slot   slot[V]
	reduce func(a, b V) V
}

// NewReducing declares the state of that name; reduce must be associative. Call
// it when the operator opens; errors: *SchemaError, and what Backend.Table
// returns.
func NewReducing[V any](s Scope, name string, c codec.Codec[V], reduce func(a, b V) V) (*Reducing[V], error) {
	h, err := newSlot(s, name, ReducingKind, c)
	if err != nil {
		return nil, err
	}
	return &Reducing[V]{h, reduce}, nil
}

// Add combines v into the current key's value and returns the result.
func (s *Reducing[V]) Add(v V) V {
	s.slot.modify(func(old *V, existed bool) {
		if existed {
			v = s.reduce(*old, v)
		}
		*old = v
	})
	return v
}

// Get returns the current key's value, or ok false.
func (s *Reducing[V]) Get() (v V, ok bool) {
	ok = s.slot.load()
	return s.slot.value, ok
}

// Clear removes the current key's value.
func (s *Reducing[V]) Clear() { s.slot.clear() }

// Aggregate is a function of many inputs to one output by way of an accumulator
// (Flink's AggregateFunction).
type Aggregate[IN, ACC, OUT any] struct {
	// Create makes an empty accumulator; nil means ACC's zero value.
	Create func() ACC
	// Add adds one input.
	Add func(acc *ACC, in IN)
	// Result is the output so far; it must not change the accumulator.
	Result func(acc *ACC) OUT
}

// Aggregating keeps one accumulator per key (Flink's AggregatingState).
type Aggregating[IN, ACC, OUT any] struct {
	slot slot[ACC]
	f    Aggregate[IN, ACC, OUT]
}

// NewAggregating declares the state of that name. Call it when the operator
// opens; errors: *SchemaError, and what Backend.Table returns.
func NewAggregating[IN, ACC, OUT any](s Scope, name string, c codec.Codec[ACC], f Aggregate[IN, ACC, OUT]) (*Aggregating[IN, ACC, OUT], error) {
	h, err := newSlot(s, name, AggregatingKind, c)
	if err != nil {
		return nil, err
	}
	return &Aggregating[IN, ACC, OUT]{h, f}, nil
}

// Add adds an input to the current key's accumulator.
func (s *Aggregating[IN, ACC, OUT]) Add(in IN) {
	s.slot.modify(func(acc *ACC, existed bool) {
		if !existed && s.f.Create != nil {
			*acc = s.f.Create()
		}
		s.f.Add(acc, in)
	})
}

// Get returns the current key's result, or ok false if nothing was added.
func (s *Aggregating[IN, ACC, OUT]) Get() (out OUT, ok bool) {
	if !s.slot.load() {
		return out, false
	}
	return s.f.Result(&s.slot.value), true
}

// Clear removes the current key's accumulator.
func (s *Aggregating[IN, ACC, OUT]) Clear() { s.slot.clear() }
