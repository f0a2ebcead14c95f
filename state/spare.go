package state

import "math"

// Chunks and directory nodes that the tables have replaced are used again: first a
// live seal may read them, then they are spare. Fresh memory would cost the task
// several times what the copy does: the machine maps it page by page.

// dropped is a chunk or a node that a table has replaced while a seal was live.
type dropped struct {
	table *Table
	chunk *chunk
	node  *node // instead of a chunk
	page  uint64
	// gen is when it was dropped: only seals of earlier generations see it.
	gen uint32
	// class is the chunk's size class, so that recycling need not look at it.
	class int
}

// drops is a queue of what was dropped. It grows by blocks, so that no push copies
// what is there, and keeps them.
type drops struct {
	head, tail, spare *dropBlock
}

// dropBlock holds list[from:to] of a queue.
type dropBlock struct {
	list     [128]dropped
	from, to int
	next     *dropBlock
}

func (q *drops) push(d dropped) {
	b := q.tail
	if b == nil || b.to == len(b.list) {
		if b = q.spare; b == nil {
			b = new(dropBlock)
		}
		q.spare, b.next = b.next, nil
		if q.head == nil {
			q.head = b
		} else {
			q.tail.next = b
		}
		q.tail = b
	}
	b.list[b.to] = d
	b.to++
}

// first is nil if the queue is empty.
func (q *drops) first() *dropped {
	if b := q.head; b != nil && b.from < b.to {
		return &b.list[b.from]
	}
	return nil
}

func (q *drops) pop() {
	b := q.head
	b.list[b.from] = dropped{}
	if b.from++; b.from < b.to {
		return
	}
	b.from, b.to = 0, 0
	if b != q.tail {
		q.head = b.next
		b.next, q.spare = q.spare, b
	}
}

// minSpare is how many spare chunks of one size a table may always keep, maxSpare
// how many if its memory is bounded.
const minSpare, maxSpare = 64, 1024

// own makes the chunk of placement p one that may be changed in place: by a copy
// if a seal may hold it.
func (t *Table) own(p uint64, c *chunk) *chunk {
	n, i := t.leaf(p)
	t.changed = t.gen
	if !t.backend.sealed() {
		t.backend.freePage(c.page)
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

// drop gives a chunk up that the table has replaced. Seals may still read it.
func (t *Table) drop(c *chunk) {
	if t.backend.cache != nil {
		t.backend.cache.uncount(c)
	}
	t.discard(c, c.page)
}

// discard gives up a chunk and a page as soon as no seal may read them.
func (t *Table) discard(c *chunk, page uint64) {
	d := dropped{table: t, chunk: c, page: page, gen: t.gen, class: sizeClass(len(c.slots) / t.stride)}
	if t.backend.sealed() {
		t.backend.dropped.push(d)
	} else {
		t.recycle(&d)
	}
}

func (t *Table) recycle(d *dropped) {
	if d.node != nil {
		d.node.clear()
		if t.spareNode == nil || len(t.spareNode.kids) < len(d.node.kids) {
			t.spareNode = d.node
		}
		return
	}
	t.backend.freePage(d.page)
	if d.class >= 0 && len(t.spare[d.class]) < t.spareLimit() {
		if t.KeyWidth == 0 || t.ValueWidth == 0 {
			d.chunk.arena = nil
		}
		t.spare[d.class] = append(t.spare[d.class], d.chunk)
	}
}

func (t *Table) spareLimit() int {
	n := max(minSpare, t.copied, t.kept)
	if t.backend.cache != nil {
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
	t.backend.reap(reapAtOnce)
	list := t.spare[class]
	if len(list) == 0 {
		return t.stock.take(class)
	}
	c := list[len(list)-1]
	list[len(list)-1] = nil
	t.spare[class] = list[:len(list)-1]
	return c
}

// sizeClasses are those up to maxSlots.
const sizeClasses = 9

// sizeClass is log2 of the number of slots, or -1 if it is not worth keeping.
func sizeClass(slots int) int {
	for class := 5; class < sizeClasses; class++ {
		if slots == 1<<class {
			return class
		}
	}
	return -1
}

// reap recycles up to so many of what was dropped and no live seal can read any
// more.
func (b *Tables) reap(most int) {
	d := b.dropped.first()
	if d == nil {
		return
	}
	oldest := uint32(noDelta)
	if b.sealed() {
		oldest = b.seals[0].gen
	}
	for ; d != nil && d.gen <= oldest && most > 0; most-- {
		d.table.recycle(d)
		b.dropped.pop()
		d = b.dropped.first()
	}
}

// reapAtOnce spreads the recycling after a seal over the changes that follow.
const reapAtOnce = 128

// settle recycles what seals kept, once no seal is live. With a cache that is
// done as chunks are evicted, because pages are deleted along.
func (b *Tables) settle() {
	if b.cache == nil && !b.sealed() {
		b.reap(math.MaxInt)
	}
}
