package state

import (
	"bytes"
	"fmt"

	"cutwater/protocol/keygroup"
)

// Table maps (key, namespace) to a value. Entries lie flat in chunks of up to
// 256 slots, placed by the top bits of their hash, so chunk order is key group
// order. Slices that it returns are views, valid until the next call on the
// backend; nothing but what Update returned may be written.
//
// The hash must be keygroup.Hash of the key; in namespaced, map and internal
// tables, of the part of it that decides the key group. A key that is not KeyWidth bytes long in a table of fixed-width
// keys, or Update on a table of variable-width values, is a mistake in the
// calling code: it panics.
type Table struct {
	layout
	home  *Tables
	root  *node
	gen   uint32 // of changes that are made now
	floor uint32 // tombstones up to this generation are needed no more
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
	spare        [9][]*chunk
	copied, kept int // chunks, since the last seal and before it
}

// minSpare is how many spare chunks of one size a table may always keep, maxSpare
// how many if its memory is bounded.
const minSpare, maxSpare = 64, 1024

func newTable(home *Tables, d Descriptor) *Table {
	t := &Table{layout: newLayout(d), home: home, gen: home.gen, floor: home.floor}
	t.quick = t.key8 && t.ValueWidth > 0 && home.cache == nil
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
	any := byte(0)
	for _, slot := range homes[:n] {
		any |= *slot
	}
	t.touched = any
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
		slots, arena, err := t.home.read(&t.layout, c)
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
	if t.home.cache != nil {
		return t.home.cache.get(t, p)
	}
	return t.root.find(p)
}

// entry returns the owned slot of an entry with a variable-width value, made
// if it was not there, with room in the arena for so many bytes.
func (t *Table) entry(hash uint64, key []byte, namespace int64, room int) (*chunk, []byte) {
	p := t.place(hash, namespace)
	c := t.at(p)
	if len(c.arena)+room > maxArena {
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

// own makes the chunk of placement p one that may be changed in place: by a copy
// if a seal may hold it.
func (t *Table) own(p uint64, c *chunk) *chunk {
	n, i := t.leaf(p)
	t.changed = t.gen
	if !t.home.sealed() {
		t.home.freePage(c.page)
		c.owner, c.changed, c.page, c.frozen = t.gen, t.gen, 0, 0
		n.put(i, c)
		return c
	}
	t.copied++
	d := t.reuse(sizeClass(len(c.slots) / t.stride))
	slots := append(d.slots[:0], c.slots...)
	*d = *c
	d.slots, d.owner, d.changed, d.page, d.frozen = slots, t.gen, t.gen, 0, len(c.arena)
	n.put(i, d)
	t.drop(c)
	return d
}

// rebuild makes room in the chunk of placement p: without the tombstones and
// arena bytes that nobody needs, larger if need be, or as two if it would be too
// large or apart is true.
func (t *Table) rebuild(p uint64, apart bool) {
	old := t.root.find(p)
	t.changed = t.gen
	keep, common := t.needed(old, p, t.floor)
	want, half := slotsFor(keep+1), old.depth
	if want > t.slots || apart {
		half = t.descend(p, old, common)
	}
	if half == 64 || want <= t.slots && !apart {
		c := t.newChunk(want, half)
		t.moveAll(old, c, c)
		t.replace(p, c)
	} else {
		ones := 0
		for at := 0; at < len(old.slots); at += t.stride {
			s := old.slots[at : at+t.stride]
			if kept(le.Uint32(s), t.floor) && t.placeOf(s)>>(63-half)&1 == 1 {
				ones++
			}
		}
		low := t.newChunk(min(slotsFor(keep-ones+1), t.grownSlots(old)), half+1)
		high := t.newChunk(min(slotsFor(ones+1), t.grownSlots(old)), half+1)
		t.moveAll(old, low, high)
		t.split(p, low, high)
	}
	t.drop(old)
}

// descend gives the part of a chunk's range that none of its entries is in to
// empty chunks, until the halves of what remains both have some, and returns the
// depth of that. Entries that come in order, as from a segment, crowd in the first
// part of a large range: without this their chunk would be split again and again.
// The chunks that it leaves for the range of placement p are the caller's to
// replace.
func (t *Table) descend(p uint64, old *chunk, common uint8) (depth uint8) {
	for depth = old.depth; depth < common; depth++ {
		crowded, empty := &chunk{slots: old.slots, depth: depth + 1}, t.newChunk(minSlots, depth+1)
		if p>>(63-depth)&1 == 0 {
			t.split(p, crowded, empty)
		} else {
			t.split(p, empty, crowded)
		}
	}
	return depth
}

// foresee makes room for an entry of a segment, which come in order: where its
// chunk is empty and large in range, it gets one of the depth of its predecessor's.
// Without that it and those that follow would crowd in the chunk's first slots.
func (t *Table) foresee(p uint64) {
	c := t.root.find(p)
	if depth := t.loaded; c.used == 0 && c.depth < depth {
		t.descend(p, c, depth)
		t.replace(p, t.newChunk(minSlots, depth))
		t.drop(c)
		return
	}
	t.loaded = c.depth
}

// grownSlots bounds the halves of a split: all entries may land in one of them,
// which is then as full as before and is split again.
func (t *Table) grownSlots(old *chunk) int { return max(t.slots, int(old.mask())+1) }

func (t *Table) moveAll(from, low, high *chunk) {
	for at := 0; at < len(from.slots); at += t.stride {
		s := from.slots[at : at+t.stride]
		if !kept(le.Uint32(s), t.floor) {
			continue
		}
		p := t.placeOf(s)
		to := low
		if low != high && p>>(64-low.depth)&1 == 1 {
			to = high
		}
		t.move(to, p, s, from.arena)
	}
	t.grown(low)
	if high != low {
		t.grown(high)
	}
}

// bury turns the tombstone at an offset into an empty slot if nobody needs it
// and no other entry was placed past it.
func (t *Table) bury(c *chunk, at int) {
	size := len(c.slots)
	next := func(at, step int) int { return (at + step + size) % size }
	if le.Uint32(c.slots[next(at, t.stride):]) != 0 {
		return
	}
	for droppable(le.Uint32(c.slots[at:]), t.floor) {
		if t.KeyWidth == 0 {
			c.garbage += int(le.Uint32(c.slots[at+t.keyAt+4:]))
		}
		clear(c.slots[at : at+t.stride])
		c.used--
		at = next(at, -t.stride)
	}
}

func (t *Table) newChunk(slots int, depth uint8) *chunk {
	c := t.reuse(sizeClass(slots))
	b := c.slots
	*c = chunk{owner: t.gen, changed: t.gen, homes: t.homes(slots, depth), depth: depth, recent: true}
	if c.slots = b; b == nil {
		c.slots = make([]byte, slots*t.stride)
	} else {
		clear(b)
	}
	t.grown(c)
	return c
}

// grown tells the cache that the chunk may have another size than before.
func (t *Table) grown(c *chunk) {
	if t.home.cache != nil {
		t.home.cache.count(c)
	}
}

// drop gives a chunk up that the table has replaced. Seals may still read it.
func (t *Table) drop(c *chunk) {
	if t.home.cache != nil {
		t.home.cache.uncount(c)
	}
	t.discard(c, c.page)
}

// discard gives up a chunk and a page as soon as no seal may read them.
func (t *Table) discard(c *chunk, page uint64) {
	d := dropped{t, c, page, t.gen, sizeClass(len(c.slots) / t.stride)}
	if t.home.sealed() {
		t.home.dropped = append(t.home.dropped, d)
	} else {
		t.recycle(&d)
	}
}

func (t *Table) recycle(d *dropped) {
	t.home.freePage(d.page)
	if d.class >= 0 && len(t.spare[d.class]) < t.spareLimit() {
		if t.KeyWidth == 0 || t.ValueWidth == 0 {
			d.chunk.arena = nil
		}
		t.spare[d.class] = append(t.spare[d.class], d.chunk)
	}
}

func (t *Table) spareLimit() int {
	n := max(minSpare, t.copied, t.kept)
	if t.home.cache != nil {
		n = min(n, maxSpare)
	}
	return n
}

// trim begins a checkpoint interval: spare chunks that the one before did not
// need go.
func (t *Table) trim() {
	t.kept, t.copied = t.copied, 0
	limit := t.spareLimit()
	for i, list := range t.spare {
		if len(list) > limit {
			t.spare[i] = append([]*chunk(nil), list[:limit]...)
		}
	}
}

// reuse returns a chunk of a size class: a dropped one, of which only the slots
// are of use, or an empty one.
func (t *Table) reuse(class int) *chunk {
	if class < 0 {
		return new(chunk)
	}
	t.home.reap(reapAtOnce)
	list := t.spare[class]
	if len(list) == 0 {
		return new(chunk)
	}
	c := list[len(list)-1]
	list[len(list)-1] = nil
	t.spare[class] = list[:len(list)-1]
	return c
}

// sizeClass is log2 of the number of slots, or -1 if it is not worth keeping.
func sizeClass(slots int) int {
	for class := 5; class < 9; class++ {
		if slots == 1<<class {
			return class
		}
	}
	return -1
}

// compare orders entries of one placement, which are in one chunk.
func (l *layout) compare(a, b []byte, arena []byte) int {
	if c := bytes.Compare(l.keyOf(a, arena), l.keyOf(b, arena)); c != 0 {
		return c
	}
	x, y := l.namespaceOf(a), l.namespaceOf(b)
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}
