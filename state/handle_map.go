package state

import (
	"encoding/binary"
	"fmt"
	"iter"

	"cutwater/codec"
	"cutwater/protocol/keygroup"
)

// Map keeps a map per key (Flink's MapState). Each of its entries is an entry of
// its own in the table, so a large map costs no more per access than a small one.
//
// Two tables serve it. In the first, (key, map key) leads to the entry's ordinal
// and value. The second, the index, leads from (key, ordinal) to the map key,
// and from (key, -1) to the number of entries: it is how one key's map is walked
// without a look at any other's. Removing moves the last ordinal into the gap.
type Map[K, V any] struct {
	scope      Scope
	name       string
	entries    *Table
	index      *Table
	keys       codec.Codec[K]
	values     codec.Codec[V]
	keysFixed  bool
	fixed      bool
	owner      []byte // the current key, and its namespace if there is one
	entry      []byte // owner and map key
	buffer     []byte
	mapKey     K
	value      V // see slot
	mapKeyFrom int
}

const (
	ordinalWidth = 8
	// countOrdinal is the namespace of the index under which the count is.
	countOrdinal = -1
)

// NewMap declares the state of that name. The bytes that keys encodes to decide
// which map keys are equal. Call it when the operator opens; errors:
// *SchemaError, and what Backend.Table returns.
func NewMap[K, V any](s Scope, name string, keys codec.Codec[K], values codec.Codec[V]) (*Map[K, V], error) {
	m := &Map[K, V]{
		scope: s, name: name, keys: keys, values: values,
		keysFixed: !codec.HasText(keys) && keys.Width() > 0,
		fixed:     !codec.HasText(values),
	}
	owner := s.KeyWidth
	if owner > 0 && s.Namespaced {
		owner += 8
	}
	d := s.descriptor(name, MapKind, keys.Schema()+" -> "+values.Schema())
	d.Namespaced = true // by the hash of the map key, which spreads one key's entries
	d.KeyWidth = 0
	if owner > 0 && m.keysFixed {
		d.KeyWidth = owner + keys.Width()
	}
	if m.fixed {
		d.ValueWidth = ordinalWidth + values.Width()
	}
	var err error
	if m.entries, err = s.Backend.Table(d); err != nil {
		return nil, err
	}
	d.Name, d.KeyWidth, d.ValueWidth = name+"/index", owner, 0
	if m.index, err = s.Backend.Table(d); err != nil {
		return nil, err
	}
	return m, nil
}

// Get returns the value of the map key in the current key's map, or ok false.
func (m *Map[K, V]) Get(k K) (v V, ok bool) {
	b, ok := m.find(k)
	if !ok {
		return v, false
	}
	m.decodeValue(b)
	return m.value, true
}

// Contains reports whether the current key's map has the map key.
func (m *Map[K, V]) Contains(k K) bool {
	_, ok := m.find(k)
	return ok
}

// Put sets the value of the map key in the current key's map.
func (m *Map[K, V]) Put(k K, v V) {
	b, existed := m.find(k)
	var ordinal uint64
	if existed {
		ordinal = binary.LittleEndian.Uint64(b)
	} else {
		ordinal = uint64(m.Len())
		m.index.Put(m.scope.Cursor.Hash, m.owner, int64(ordinal), m.entry[m.mapKeyFrom:])
		m.setLen(int(ordinal) + 1)
	}
	m.buffer = binary.LittleEndian.AppendUint64(m.buffer[:0], ordinal)
	m.buffer = appendValue(m.buffer, m.values, v)
	m.entries.Put(m.scope.Cursor.Hash, m.entry, m.spread(), m.buffer)
}

// Remove removes the map key from the current key's map and reports whether it
// was there.
func (m *Map[K, V]) Remove(k K) bool {
	b, ok := m.find(k)
	if !ok {
		return false
	}
	hash := m.scope.Cursor.Hash
	gap, last := binary.LittleEndian.Uint64(b), uint64(m.Len())-1
	m.entries.Delete(hash, m.entry, m.spread())
	if gap != last {
		moved, _ := m.index.Get(hash, m.owner, int64(last))
		m.entry = append(m.entry[:m.mapKeyFrom], moved...)
		m.index.Put(hash, m.owner, int64(gap), m.entry[m.mapKeyFrom:])
		b, _ := m.entries.Get(hash, m.entry, m.spread())
		m.buffer = append(m.buffer[:0], b...)
		if len(m.buffer) < ordinalWidth {
			panic(&DecodeError{m.name, fmt.Errorf("the index names an entry that is not there")})
		}
		binary.LittleEndian.PutUint64(m.buffer, gap)
		m.entries.Put(hash, m.entry, m.spread(), m.buffer)
	}
	m.index.Delete(hash, m.owner, int64(last))
	m.setLen(int(last))
	return true
}

// Len is the number of entries of the current key's map.
func (m *Map[K, V]) Len() int {
	m.setOwner()
	b, ok := m.index.Get(m.scope.Cursor.Hash, m.owner, countOrdinal)
	if !ok {
		return 0
	}
	if len(b) != 8 {
		panic(&DecodeError{m.name, fmt.Errorf("a count of %d bytes", len(b))})
	}
	return int(binary.LittleEndian.Uint64(b))
}

// All yields the entries of the current key's map, in the order of insertion
// until entries are removed. The loop may remove the entry it was given.
func (m *Map[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for i, n := 0, m.Len(); i < n; {
			m.setOwner()
			b, _ := m.index.Get(m.scope.Cursor.Hash, m.owner, int64(i))
			m.setEntry(b)
			decodeWhole(m.name, m.entry[m.mapKeyFrom:], m.keys, &m.mapKey)
			b, ok := m.entries.Get(m.scope.Cursor.Hash, m.entry, m.spread())
			if !ok {
				panic(&DecodeError{m.name, fmt.Errorf("the index names an entry that is not there")})
			}
			m.decodeValue(b)
			if !yield(m.mapKey, m.value) {
				return
			}
			if left := m.Len(); left < n {
				n = left // the last entry is now the i-th
			} else {
				i++
			}
		}
	}
}

// Clear removes all entries of the current key's map.
func (m *Map[K, V]) Clear() {
	hash := m.scope.Cursor.Hash
	for i := m.Len() - 1; i >= 0; i-- {
		b, _ := m.index.Get(hash, m.owner, int64(i))
		m.setEntry(b)
		m.entries.Delete(hash, m.entry, m.spread())
		m.index.Delete(hash, m.owner, int64(i))
	}
	m.setLen(0)
}

// find looks the entry up and leaves its key in m.entry.
func (m *Map[K, V]) find(k K) (b []byte, ok bool) {
	m.setOwner()
	m.setEntry(nil)
	m.entry = appendValue(m.entry, m.keys, k)
	b, ok = m.entries.Get(m.scope.Cursor.Hash, m.entry, m.spread())
	if ok && len(b) < ordinalWidth {
		panic(&DecodeError{m.name, fmt.Errorf("an entry of %d bytes", len(b))})
	}
	return b, ok
}

func (m *Map[K, V]) setOwner() {
	m.owner = append(m.owner[:0], m.scope.Cursor.Key...)
	if m.scope.Namespaced {
		m.owner = binary.LittleEndian.AppendUint64(m.owner, uint64(m.scope.Cursor.Namespace))
	}
}

// setEntry makes m.entry the key of the map key's entry. An owner of varying
// width is preceded by its length, so that no two entries share their bytes.
func (m *Map[K, V]) setEntry(mapKey []byte) {
	m.entry = m.entry[:0]
	if m.scope.KeyWidth == 0 {
		m.entry = binary.AppendUvarint(m.entry, uint64(len(m.owner)))
	}
	m.entry = append(m.entry, m.owner...)
	m.mapKeyFrom = len(m.entry)
	m.entry = append(m.entry, mapKey...)
}

// spread is the namespace of m.entry.
func (m *Map[K, V]) spread() int64 { return int64(keygroup.Hash(m.entry[m.mapKeyFrom:])) }

func (m *Map[K, V]) setLen(n int) {
	if n == 0 {
		m.index.Delete(m.scope.Cursor.Hash, m.owner, countOrdinal)
		return
	}
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(n))
	m.index.Put(m.scope.Cursor.Hash, m.owner, countOrdinal, b[:])
}

func (m *Map[K, V]) decodeValue(b []byte) {
	decodeWhole(m.name, b[ordinalWidth:], m.values, &m.value)
}
