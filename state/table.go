package state

import (
	"fmt"

	"cutwater/protocol/keygroup"
)

// Table maps (key, namespace) to a value. Entries lie flat in chunks of up to
// 256 slots, placed by the top bits of their hash, so chunk order is key group
// order. Slices that it returns are views, valid until the next call on the
// backend; nothing but what Update returned may be written.
//
// The hash must be keygroup.Hash of the key; in namespaced, map and internal
// tables, of the part of it that decides the key group. A key that is not KeyWidth
// bytes long in a table of fixed-width keys, or Update on a table of variable-width
// values, is a mistake in the calling code: it panics.
type Table struct {
	layout
	backend *Tables
	root    *node
	gen     uint32 // of changes that are made now
	floor   uint32 // tombstones up to this generation are needed no more
	// changed is the generation of the last change.
	changed uint32
	count   int
	// varying is the number of bytes of variable-width keys and values.
	varying int
	// quick says that Update may try the shortest way first: 8-byte keys, values
	// in place, all in memory.
	quick bool
	// touched keeps the loads of touch from being optimised away.
	touched byte
	// loaded is the depth of the chunk that foresee saw last.
	loaded uint8
	// restored says that Load made the table; declared that Tables.Table did.
	restored, declared bool
	// spare holds dropped chunks for their slots, by log2 of their number. What a
	// checkpoint interval had to copy the next one will: as many are kept.
	spare        [sizeClasses][]*chunk
	copied, kept int // chunks, since the last seal and before it
	stock        *stock
	// spareNode is the largest dropped node, for its slices.
	spareNode *node
}

func newTable(backend *Tables, d Descriptor) *Table {
	t := &Table{layout: newLayout(d), backend: backend, gen: backend.gen, floor: backend.floor}
	t.quick = t.key8 && t.ValueWidth > 0 && backend.cache == nil
	t.root = newNode(t.gen, 0, t.newChunk(minSlots, 0))
	return t
}

// Get returns the value of the key, or ok false.
func (t *Table) Get(hash uint64, key []byte, namespace int64) (value []byte, ok bool) {
	p := t.place(hash, namespace)
	c := t.at(p)
	at := t.probe(c, p, hash, key, namespace)
	if at < 0 {
		return nil, false
	}
	s := c.slots[at : at+t.stride]
	if le.Uint32(s)&dead != 0 {
		return nil, false
	}
	return t.valueOf(s, c.arena), true
}

// Update returns the value of a fixed-width entry for writing in place, made and
// zeroed if it was not there; the entry counts as changed.
func (t *Table) Update(hash uint64, key []byte, namespace int64) (value []byte, existed bool) {
	if t.quick && len(key) == 8 {
		k := t.root.look(hash)
		at := probe8(k.slots, k.homes, t.stride, hash, le.Uint64(key))
		if at >= 0 && k.owner == t.gen {
			s := k.slots[at:][:t.stride]
			if le.Uint32(s)&dead == 0 {
				le.PutUint32(s, t.gen)
				return t.inPlace(s), true
			}
		}
	}
	p := t.place(hash, namespace)
	c := t.at(p)
	at := t.probe(c, p, hash, key, namespace)
	if at < 0 || le.Uint32(c.slots[at:])&dead != 0 {
		t.mustFix()
		c, at = t.insert(p, hash, key, namespace, at)
		s := c.slots[at : at+t.stride]
		value = t.inPlace(s)
		clear(value)
		return value, false
	}
	if c.owner != t.gen {
		c = t.own(p, c)
	}
	s := c.slots[at : at+t.stride]
	le.PutUint32(s, t.gen)
	return t.inPlace(s), true
}

// inPlace is the value of a fixed-width entry.
func (t *Table) inPlace(slot []byte) []byte {
	end := t.valueAt + t.ValueWidth
	return slot[t.valueAt:end:end]
}

// touch reads the home slots of keys without waiting for one before the next:
// first all addresses, from a directory that the processor's cache holds, then
// all slots. (In one loop the processor would look no more than two keys ahead.)
func (t *Table) touch(hashes []uint64) {
	var homes [AheadAtOnce]*byte
	n := 0
	for _, hash := range hashes[:min(len(hashes), AheadAtOnce)] {
		if w := &t.root.ways[t.root.index(hash)]; w.slots != nil {
			homes[n] = &w.slots[int(w.of(hash))*t.stride]
			n++
		}
	}
	read := byte(0)
	for _, slot := range homes[:n] {
		read |= *slot
	}
	t.touched = read
}

func (t *Table) mustFix() {
	if t.ValueWidth == 0 {
		panic(fmt.Sprintf("state %s: Update needs a fixed-width value; use Put", t.Name))
	}
}

// Put sets the value; a variable-width value is copied.
func (t *Table) Put(hash uint64, key []byte, namespace int64, value []byte) {
	if t.ValueWidth > 0 {
		if len(value) != t.ValueWidth {
			panic(fmt.Sprintf("state %s: a value of %d bytes, declared as %d", t.Name, len(value), t.ValueWidth))
		}
		v, _ := t.Update(hash, key, namespace)
		copy(v, value)
		return
	}
	c, s := t.entry(hash, key, namespace, len(value))
	ref := s[t.valueAt:]
	from, size, room := int(le.Uint32(ref)), int(le.Uint32(ref[4:])), int(le.Uint32(ref[8:]))
	t.varying += len(value) - size
	switch {
	case len(value) == 0:
		c.garbage += room
		clear(ref[:valueRef])
	case room >= len(value) && from >= c.frozen:
		copy(c.arena[from:], value)
		le.PutUint32(ref[4:], uint32(len(value)))
	default:
		c.garbage += room
		c.refer(ref, value)
		le.PutUint32(ref[8:], uint32(len(value)))
	}
	t.grown(c)
}

// Append adds bytes to the end of a variable-width value, amortised O(len(more)).
func (t *Table) Append(hash uint64, key []byte, namespace int64, more []byte) {
	if t.ValueWidth > 0 {
		panic(fmt.Sprintf("state %s: Append needs a variable-width value", t.Name))
	}
	c, s := t.entry(hash, key, namespace, 2*len(more))
	ref := s[t.valueAt:]
	from, size, room := int(le.Uint32(ref)), int(le.Uint32(ref[4:])), int(le.Uint32(ref[8:]))
	t.varying += len(more)
	if size+len(more) > room {
		want := size + len(more)
		if size > 0 {
			want += want / 2 // the second time, leave room for more
		}
		if len(c.arena)+want > maxArena {
			panic(&LimitError{t.Name, want})
		}
		if room > 0 && from+room == len(c.arena) {
			c.arena = append(c.arena, make([]byte, want-room)...)
		} else {
			moved := len(c.arena)
			c.arena = append(c.arena, make([]byte, want)...)
			copy(c.arena[moved:], c.arena[from:from+size])
			c.garbage += room
			from = moved
		}
		room = want
	}
	// Bytes behind the end of a value are nobody else's, sealed or not.
	copy(c.arena[from+size:from+room], more)
	le.PutUint32(ref, uint32(from))
	le.PutUint32(ref[4:], uint32(size+len(more)))
	le.PutUint32(ref[8:], uint32(room))
	t.grown(c)
}

// Delete removes the entry and reports whether it was there.
func (t *Table) Delete(hash uint64, key []byte, namespace int64) bool {
	p := t.place(hash, namespace)
	c := t.at(p)
	at := t.probe(c, p, hash, key, namespace)
	if at < 0 || le.Uint32(c.slots[at:])&dead != 0 {
		return false
	}
	if c.owner != t.gen {
		c = t.own(p, c)
	}
	s := c.slots[at : at+t.stride]
	t.count--
	c.live--
	if t.KeyWidth == 0 {
		t.varying -= int(le.Uint32(s[t.keyAt+4:]))
	}
	if t.ValueWidth == 0 {
		ref := s[t.valueAt:]
		t.varying -= int(le.Uint32(ref[4:]))
		c.garbage += int(le.Uint32(ref[8:]))
		clear(ref[:valueRef])
	}
	le.PutUint32(s, t.gen|dead)
	t.bury(c, at)
	return true
}

// Len is the number of entries.
func (t *Table) Len() int { return t.count }

// Each calls f for every entry in table order until it returns false; f must not
// change the backend. Within a chunk the order depends on the table's past:
// results must not.
func (t *Table) Each(f func(hash uint64, key []byte, namespace int64, value []byte) bool) {
	for p, first := uint64(0), true; first || p != 0; first = false {
		c := t.root.find(p)
		slots, arena, err := t.backend.read(&t.layout, c)
		if err != nil {
			panic(err)
		}
		for at := 0; at < len(slots) && c.live > 0; at += t.stride {
			s := slots[at : at+t.stride]
			if gen := le.Uint32(s); gen == 0 || gen&dead != 0 {
				continue
			}
			if !f(t.hashOf(s), t.keyOf(s, arena), t.namespaceOf(s), t.valueOf(s, arena)) {
				return
			}
		}
		p = c.after(p)
	}
}

// at returns the chunk of a placement, resident.
func (t *Table) at(p uint64) *chunk {
	if t.backend.cache != nil {
		return t.backend.cache.get(t, p)
	}
	return t.root.find(p)
}

// grown tells the cache that the chunk may have another size than before.
func (t *Table) grown(c *chunk) {
	if t.backend.cache != nil {
		t.backend.cache.count(c)
	}
}

// entry returns the owned slot of an entry with a variable-width value, made
// if it was not there, with room in the arena for so many bytes.
func (t *Table) entry(hash uint64, key []byte, namespace int64, room int) (*chunk, []byte) {
	p := t.place(hash, namespace)
	c := t.at(p)
	if room += len(key); len(c.arena)+room > maxArena {
		panic(&LimitError{t.Name, room})
	}
	if c.garbage > arenaWaste && c.garbage > len(c.arena)/2 ||
		len(c.arena)-c.garbage > arenaSplit && c.live >= minSlots && c.depth < 64 {
		t.rebuild(p, len(c.arena)-c.garbage > arenaSplit)
		c = t.root.find(p)
	}
	at := t.probe(c, p, hash, key, namespace)
	if at < 0 || le.Uint32(c.slots[at:])&dead != 0 {
		c, at = t.insert(p, hash, key, namespace, at)
	} else {
		if c.owner != t.gen {
			c = t.own(p, c)
		}
		le.PutUint32(c.slots[at:], t.gen)
	}
	return c, c.slots[at : at+t.stride]
}

// insert makes an entry, of a tombstone at that offset if it is not negative. The
// value is what was there before (fixed width) or empty.
func (t *Table) insert(p, hash uint64, key []byte, namespace int64, tombstone int) (*chunk, int) {
	if t.KeyWidth > 0 && len(key) != t.KeyWidth {
		panic(fmt.Sprintf("state %s: a key of %d bytes, declared as %d", t.Name, len(key), t.KeyWidth))
	}
	if t.key8 && hash != keygroup.Hash(key) {
		panic(fmt.Sprintf("state %s: the hash is not that of the key", t.Name))
	}
	c := t.root.find(p)
	at := tombstone
	if at < 0 {
		var empty bool
		at, empty = t.vacant(c, p, t.floor)
		for empty && 4*(c.used+1) > 3*(c.mask()+1) {
			t.rebuild(p, false)
			c = t.root.find(p)
			at, empty = t.vacant(c, p, t.floor)
		}
	}
	if c.owner != t.gen {
		c = t.own(p, c)
	}
	s := c.slots[at : at+t.stride]
	if le.Uint32(s) == 0 {
		c.used++
	}
	c.live++
	t.count++
	if t.KeyWidth == 0 {
		if tombstone < 0 {
			c.garbage += int(le.Uint32(s[t.keyAt+4:])) // of a tombstone that gives way
			c.refer(s[t.keyAt:], key)
		}
		t.varying += len(key)
	} else {
		copy(s[t.keyAt:], key)
	}
	if t.Namespaced {
		le.PutUint64(s[t.namespaceAt:], uint64(namespace))
	}
	if !t.key8 {
		le.PutUint64(s[hashAt:], hash)
	}
	le.PutUint32(s, t.gen)
	t.grown(c)
	return c, at
}
