package state

import (
	"iter"

	"cutwater/codec"
)

// List keeps a list of values per key (Flink's ListState). Adding costs the size
// of what is added, whatever the length of the list.
type List[V any] struct {
	scope   Scope
	name    string
	table   *Table
	codec   codec.Codec[V]
	fixed   bool
	item    []byte
	scratch []byte
	value   V // see slot
}

// NewList declares the state of that name. Call it when the operator opens;
// errors: *SchemaError, and what Backend.Table returns.
func NewList[V any](s Scope, name string, c codec.Codec[V]) (*List[V], error) {
	t, err := s.Backend.Table(s.descriptor(name, ListKind, c.Schema()))
	if err != nil {
		return nil, err
	}
	return &List[V]{scope: s, name: name, table: t, codec: c, fixed: !codec.HasText(c) && c.Width() > 0}, nil
}

// Add puts v at the end of the current key's list.
func (s *List[V]) Add(v V) {
	s.item = appendItem(s.item[:0], s.codec, s.fixed, v, &s.scratch)
	c := s.scope.Cursor
	s.table.Append(c.Hash, c.Key, s.scope.namespace(), s.item)
}

// Set replaces the current key's list; an empty one is no list.
func (s *List[V]) Set(list []V) {
	if len(list) == 0 {
		s.Clear()
		return
	}
	s.item = s.item[:0]
	for _, v := range list {
		s.item = appendItem(s.item, s.codec, s.fixed, v, &s.scratch)
	}
	c := s.scope.Cursor
	s.table.Put(c.Hash, c.Key, s.scope.namespace(), s.item)
}

// All yields the current key's list in order. The loop must not use other state.
func (s *List[V]) All() iter.Seq[V] {
	return func(yield func(V) bool) {
		c := s.scope.Cursor
		b, _ := s.table.Get(c.Hash, c.Key, s.scope.namespace())
		for len(b) > 0 {
			b = decodeItem(s.name, b, s.codec, s.fixed, &s.value)
			if !yield(s.value) {
				return
			}
		}
	}
}

// Get returns the current key's list, nil if there is none.
func (s *List[V]) Get() []V {
	var list []V
	for v := range s.All() {
		list = append(list, v)
	}
	return list
}

// Clear removes the current key's list.
func (s *List[V]) Clear() {
	c := s.scope.Cursor
	s.table.Delete(c.Hash, c.Key, s.scope.namespace())
}
