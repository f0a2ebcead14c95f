package state

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
