package state

import (
	"encoding/binary"
	"fmt"

	"cutwater/codec"
)

// Scope is what the handles of one operator share: where its state is, the
// current key, and what its keys look like.
type Scope struct {
	// Backend has the tables: a Backend, or one that only wants to know them.
	Backend interface {
		Table(Descriptor) (*Table, error)
	}
	Cursor *Cursor
	// KeyWidth is the width of the canonical key bytes; 0 means that they vary.
	KeyWidth int
	// KeySchema describes the key type; restored state of another key type is
	// refused.
	KeySchema string
	// Namespaced handles keep one value per key and Cursor.Namespace, for
	// example one per window; others ignore the cursor's namespace.
	Namespaced bool
}

// DecodeError says that the bytes of a state are not what its codec wrote. The
// schema was checked when the handle was made, so this is a failed assertion:
// handles panic with it, and the task fails. The job ends, since its checkpoints hold
// the same bytes.
type DecodeError struct {
	State string
	Err   error
}

// Error names the state and the codec's complaint.
func (e *DecodeError) Error() string {
	return fmt.Sprintf("state %s: the stored bytes were not written by its codec: %v; "+
		"if the codec was changed under the same schema, give it a new schema or the state a new name", e.State, e.Err)
}

// Unwrap returns the codec's error.
func (e *DecodeError) Unwrap() error { return e.Err }

// slot is one value of type V per key: what Value, Reducing and Aggregating
// share. A value is kept as its fixed part, followed by its text if it has any;
// one without text is read and written in place.
type slot[V any] struct {
	scope   Scope
	name    string
	table   *Table
	codec   codec.Codec[V]
	fixed   bool
	inPlace bool // the codec is codec.InPlace
	scratch []byte
	// value is where codecs decode to: a local variable would escape through
	// their interface and cost an allocation per record.
	value V
}

func newSlot[V any](s Scope, name string, kind Kind, c codec.Codec[V]) (slot[V], error) {
	h := slot[V]{scope: s, name: name, codec: c, fixed: !codec.HasText(c) && c.Width() > 0, inPlace: codec.InPlace(c)}
	d := s.descriptor(name, kind, c.Schema())
	if h.fixed {
		d.ValueWidth = c.Width()
	}
	var err error
	if h.table, err = s.Backend.Table(d); err == nil && !s.Namespaced {
		s.Cursor.tables = append(s.Cursor.tables, h.table)
	}
	return h, err
}

func (s *Scope) descriptor(name string, kind Kind, valueSchema string) Descriptor {
	return Descriptor{
		Name: name, Kind: kind, KeyWidth: s.KeyWidth, Namespaced: s.Namespaced,
		Schema: s.KeySchema + " -> " + valueSchema,
	}
}

func (s *Scope) namespace() int64 {
	if s.Namespaced {
		return s.Cursor.Namespace
	}
	return 0
}

func (h *slot[V]) decode(b []byte) { decodeWhole(h.name, b, h.codec, &h.value) }

// load sets h.value to the current key's value, or to zero if there is none.
func (h *slot[V]) load() bool {
	c := h.scope.Cursor
	b, ok := h.table.Get(c.Hash, c.Key, h.scope.namespace())
	if !ok {
		h.value = *new(V)
		return false
	}
	h.decode(b)
	return true
}

func (h *slot[V]) store(v V) {
	c := h.scope.Cursor
	if h.fixed {
		b, _ := h.table.Update(c.Hash, c.Key, h.scope.namespace())
		h.codec.Encode(b, nil, v)
		return
	}
	h.scratch = appendValue(h.scratch[:0], h.codec, v)
	h.table.Put(c.Hash, c.Key, h.scope.namespace(), h.scratch)
}

// modify replaces the current key's value by what f makes of it.
func (h *slot[V]) modify(f func(v *V, existed bool)) {
	if !h.fixed {
		existed := h.load()
		f(&h.value, existed)
		h.store(h.value)
		return
	}
	c := h.scope.Cursor
	b, existed := h.table.Update(c.Hash, c.Key, h.scope.namespace())
	if h.inPlace {
		f(codec.At[V](b), existed)
		return
	}
	if existed {
		h.decode(b)
	} else {
		h.value = *new(V)
	}
	f(&h.value, existed)
	h.codec.Encode(b, nil, h.value)
}

func (h *slot[V]) clear() {
	c := h.scope.Cursor
	h.table.Delete(c.Hash, c.Key, h.scope.namespace())
}

// appendValue appends the fixed part of v and its text.
func appendValue[V any](b []byte, c codec.Codec[V], v V) []byte {
	from, w := len(b), c.Width()
	b = append(b, make([]byte, w)...)
	text := c.Encode(b[from:from+w:from+w], b[from+w:from+w], v)
	return append(b, text...) // in place, unless the text outgrew b
}

// decodeWhole reads what appendValue wrote.
func decodeWhole[V any](name string, b []byte, c codec.Codec[V], v *V) {
	w := c.Width()
	if len(b) < w {
		panic(&DecodeError{name, fmt.Errorf("%d bytes, want at least %d", len(b), w)})
	}
	if err := c.Decode(b[:w], string(b[w:]), v); err != nil {
		panic(&DecodeError{name, err})
	}
}

// appendItem appends v so that it can be told from what follows: its fixed part
// and, if it may have text, the length of the text and the text.
func appendItem[V any](b []byte, c codec.Codec[V], fixed bool, v V, scratch *[]byte) []byte {
	from, w := len(b), c.Width()
	for i := 0; i < w; i++ {
		b = append(b, 0)
	}
	text := c.Encode(b[from:from+w:from+w], (*scratch)[:0], v)
	if fixed {
		return b
	}
	*scratch = text[:0]
	b = binary.AppendUvarint(b, uint64(len(text)))
	return append(b, text...)
}

// decodeItem reads what appendItem wrote and returns the rest.
func decodeItem[V any](name string, b []byte, c codec.Codec[V], fixed bool, v *V) []byte {
	w := c.Width()
	if len(b) < w {
		panic(&DecodeError{name, fmt.Errorf("%d bytes left, want %d", len(b), w)})
	}
	head, rest, text := b[:w], b[w:], ""
	if !fixed {
		n, used := binary.Uvarint(rest)
		if used <= 0 || uint64(len(rest)-used) < n {
			panic(&DecodeError{name, fmt.Errorf("a text runs past the end")})
		}
		text, rest = string(rest[used:used+int(n)]), rest[used+int(n):]
	}
	if err := c.Decode(head, text, v); err != nil {
		panic(&DecodeError{name, err})
	}
	return rest
}
