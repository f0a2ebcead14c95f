package state

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"

	"cutwater/protocol/keygroup"
)

// chunk is a small open-addressing table: the entries whose placement has one
// prefix. Its slots lie in one pointer-free slice:
//
//	generation  4 bytes  of the last change; 0: empty; with the top bit: deleted
//	hash        8 bytes  unless the key says it as quickly
//	key         KeyWidth bytes, or a reference: offset and length, 4 bytes each
//	namespace   8 bytes  if the table is namespaced
//	value       ValueWidth bytes, or a reference: offset, length and capacity
//	nothing     up to 4 bytes, where that keeps every slot in one cache line
//
// References point into the arena, which only grows at its end. So an older
// version of the chunk, kept by a seal, may share the arena: what it refers to
// is never overwritten. A slot that is deleted (a tombstone) stays until no
// delta needs it.
type chunk struct {
	slots []byte // nil: evicted to the page
	// owner is the generation in which the chunk may be changed in place.
	owner uint32
	homes
	arena []byte
	// changed is the generation of the last change.
	changed uint32
	live    uint32 // entries
	used    uint32 // entries and tombstones
	depth   uint8  // length of the prefix
	recent  bool   // used since the cache's hand passed
	// frozen is how much of the arena older versions may share.
	frozen int
	// garbage is how much of the arena nothing refers to.
	garbage int
	// page holds the evicted bytes, or equal ones; 0: none.
	page     uint64
	arenaLen int // of the arena in the page
	resident int // bytes that the cache counts
}

// homes says at which slot an entry belongs: it lies there or, if that is taken,
// in one of the next. The slots go by the bits of the placement that follow the
// chunk's prefix, so that the entries lie in the order in which segments want
// them, but for those that had to give way. In namespaced tables they go by the
// last bits: those that follow the prefix are the same for all namespaces of a
// key, which would all want one slot.
type homes struct {
	left, right uint8 // the shifts that leave those bits
}

func (h homes) of(p uint64) uint32 { return uint32(p << (h.left & 63) >> (h.right & 63)) }

// mask is the number of slots - 1.
func (h homes) mask() uint32 { return uint32(1)<<(-h.right&63) - 1 }

func (l *layout) homes(slots int, depth uint8) homes {
	h := homes{right: uint8(64 - bits.TrailingZeros(uint(slots)))}
	h.left = h.right
	if !l.Namespaced {
		h.left = depth & 63
	}
	return h
}

const (
	dead = 1 << 31 // in a slot's generation

	hashAt  = 4 // if the hash is stored
	key8At  = 4 // of keys whose hash is not
	keyRoom = 8 // what a hash takes

	keyRef   = 8
	valueRef = 12

	minSlots  = 8
	cacheLine = 64
	maxSlots  = 256
	// maxChunk bounds the slots of tables with wide entries, in bytes.
	maxChunk = 64 << 10
	// arenaSplit is how many bytes of variable length a chunk of several entries
	// may hold before it is split.
	arenaSplit = 256 << 10
	// arenaWaste is how much garbage an arena may always have.
	arenaWaste = 4 << 10
	// maxArena is the limit of what a chunk, and so one value, can hold.
	maxArena = 1<<32 - 1
)

// LimitError says that a value grew beyond what an entry can hold. It is a
// failed assertion of the operator: the table panics with it.
type LimitError struct {
	State string
	Bytes int
}

// Error names the state, the size and the remedy.
func (e *LimitError) Error() string {
	return fmt.Sprintf("state %s: a value of %d bytes is more than one entry can hold (4 GiB); "+
		"use a map state, whose entries are stored one by one", e.State, e.Bytes)
}

var le = binary.LittleEndian

// layout is where the parts of a slot are; it never changes.
type layout struct {
	Descriptor
	// key8 says that the keys are of 8 bytes and without namespaces, and the hash
	// is keygroup.Hash of them: it need not be stored, and a loop of their own is
	// worth while.
	key8        bool
	keyAt       int
	namespaceAt int
	valueAt     int
	stride      int
	slots       int // most slots of a chunk
}

func newLayout(d Descriptor) layout {
	l := layout{Descriptor: d, key8: d.KeyWidth == 8 && !d.Namespaced && d.Kind.hashesKeys(), keyAt: hashAt + keyRoom}
	if l.key8 {
		l.keyAt = key8At
	}
	l.namespaceAt = l.keyAt + keyRef
	if d.KeyWidth > 0 {
		l.namespaceAt = l.keyAt + d.KeyWidth
	}
	l.valueAt = l.namespaceAt
	if d.Namespaced {
		l.valueAt += 8
	}
	l.stride = l.valueAt + valueRef
	if d.ValueWidth > 0 {
		l.stride = l.valueAt + d.ValueWidth
	}
	if whole := 1 << bits.Len(uint(l.stride-1)); whole <= cacheLine && whole-l.stride <= 4 {
		l.stride = whole
	}
	for l.slots = maxSlots; l.slots > minSlots && l.slots*l.stride > maxChunk; {
		l.slots /= 2
	}
	return l
}

// place is where an entry stands in the table's order.
func (l *layout) place(hash uint64, namespace int64) uint64 {
	if l.Namespaced {
		return keygroup.Namespaced(hash, namespace)
	}
	return hash
}

func (l *layout) placeOf(slot []byte) uint64 {
	return l.place(l.hashOf(slot), l.namespaceOf(slot))
}

func (l *layout) hashOf(slot []byte) uint64 {
	if l.key8 {
		return keygroup.Hash(slot[key8At : key8At+8])
	}
	return le.Uint64(slot[hashAt:])
}

func (l *layout) namespaceOf(slot []byte) int64 {
	if l.Namespaced {
		return int64(le.Uint64(slot[l.namespaceAt:]))
	}
	return 0
}

func (l *layout) keyOf(slot, arena []byte) []byte {
	if l.KeyWidth > 0 {
		return slot[l.keyAt:l.namespaceAt:l.namespaceAt]
	}
	return deref(slot[l.keyAt:], arena)
}

func (l *layout) valueOf(slot, arena []byte) []byte {
	if l.ValueWidth > 0 {
		end := l.valueAt + l.ValueWidth
		return slot[l.valueAt:end:end]
	}
	return deref(slot[l.valueAt:], arena)
}

func deref(ref, arena []byte) []byte {
	from, n := int(le.Uint32(ref)), int(le.Uint32(ref[4:]))
	return arena[from : from+n : from+n]
}

// probe returns the offset of the slot of an entry or of its tombstone, or -1.
// There is always an empty slot, so it ends.
func (l *layout) probe(c *chunk, p, hash uint64, key []byte, namespace int64) int {
	if l.key8 && len(key) == 8 {
		return probe8(c.slots, c.homes, l.stride, p, le.Uint64(key))
	}
	slots, mask, stride := c.slots, c.mask(), l.stride
	namespace = l.norm(namespace)
	for i := c.of(p); ; i = (i + 1) & mask {
		at := int(i) * stride
		s := slots[at : at+stride]
		if le.Uint32(s) == 0 {
			return -1
		}
		if le.Uint64(s[hashAt:]) == hash && l.namespaceOf(s) == namespace && bytes.Equal(l.keyOf(s, c.arena), key) {
			return at
		}
	}
}

// probe8 is probe for the tables that layout.key8 speaks of.
func probe8(slots []byte, h homes, stride int, p, key uint64) int {
	for i := h.of(p); ; i = (i + 1) & h.mask() {
		at := int(i) * stride
		s := slots[at:][:key8At+8]
		if le.Uint32(s) == 0 {
			return -1
		}
		if le.Uint64(s[key8At:]) == key {
			return at
		}
	}
}

// norm is the namespace as the table sees it.
func (l *layout) norm(namespace int64) int64 {
	if l.Namespaced {
		return namespace
	}
	return 0
}

// vacant returns the offset of the slot where a new entry goes, and whether it
// was never used since the chunk was built.
func (l *layout) vacant(c *chunk, p uint64, floor uint32) (at int, empty bool) {
	for i := c.of(p); ; i = (i + 1) & c.mask() {
		at := int(i) * l.stride
		gen := le.Uint32(c.slots[at:])
		if gen == 0 || droppable(gen, floor) {
			return at, gen == 0
		}
	}
}

// droppable: a tombstone that no delta will ask for.
func droppable(gen, floor uint32) bool { return gen&dead != 0 && gen&^dead <= floor }

// kept says of a slot's generation that a rebuild keeps the slot.
func kept(gen, floor uint32) bool { return gen != 0 && !droppable(gen, floor) }

// needed counts the slots that a rebuild keeps, and the leading bits that their
// placements and p have in common.
func (l *layout) needed(c *chunk, p uint64, floor uint32) (n int, common uint8) {
	differ := uint64(0)
	for at := 0; at < len(c.slots); at += l.stride {
		if s := c.slots[at:][:l.stride]; kept(le.Uint32(s), floor) {
			n++
			differ |= l.placeOf(s) ^ p
		}
	}
	return n, uint8(bits.LeadingZeros64(differ))
}

// slotsFor is the number of slots that leaves at least half of them empty.
func slotsFor(entries int) int {
	return max(minSlots, 1<<bits.Len(uint(2*entries-1)))
}

// move copies a slot and what it refers to into another chunk.
func (l *layout) move(to *chunk, p uint64, slot, arena []byte) {
	at, _ := l.vacant(to, p, 0)
	s := to.slots[at : at+l.stride]
	copy(s, slot)
	to.used++
	gone := le.Uint32(s)&dead != 0
	if !gone {
		to.live++
	}
	if l.KeyWidth == 0 {
		to.refer(s[l.keyAt:], l.keyOf(slot, arena))
	}
	if l.ValueWidth > 0 {
		return
	}
	ref := s[l.valueAt:]
	if gone {
		clear(ref[:valueRef])
		return
	}
	to.refer(ref, l.valueOf(slot, arena))
	le.PutUint32(ref[8:], le.Uint32(ref[4:]))
}

// refer appends b to the arena and lets ref point to it.
func (c *chunk) refer(ref, b []byte) {
	le.PutUint32(ref, uint32(len(c.arena)))
	le.PutUint32(ref[4:], uint32(len(b)))
	c.arena = append(c.arena, b...)
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
