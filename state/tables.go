package state

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"

	"cutwater/messages"
)

// Groups are the key groups of a subtask, First and Last included, of
// MaxParallelism in all.
type Groups struct {
	MaxParallelism, First, Last int
}

// Tables is the Backend of both kinds: heap without a pager, bolt with one.
//
// Every change is marked with the present generation, which each seal raises. So
// a seal has only to remember the roots of the tables, and a delta is what bears
// a generation after the seal that it builds on.
type Tables struct {
	groups Groups
	tables []*Table // by name
	gen    uint32
	floor  uint32 // see Table
	seals  []*view
	// dropped is what seals may still read, in the order of dropping.
	dropped drops
	// pending are the incremental snapshots whose checkpoints are undecided,
	// oldest first; confirmed is the last that completed, or nil.
	pending   []*lineage
	confirmed *lineage
	cache     *cache // nil: all is in memory
}

// lineage is an incremental snapshot that a later delta may build on.
type lineage struct {
	checkpoint uint64
	gen        uint32
	before     []*messages.Segment
	segment    *messages.Segment // nil until recorded
	empty      bool              // nothing was written
}

// chain is the segments that restore the snapshot.
func (l *lineage) chain() []*messages.Segment {
	if l.segment == nil {
		return l.before
	}
	return append(slices.Clip(l.before), l.segment)
}

const (
	// maxDeltas is how many deltas may lie on a base.
	maxDeltas = 8
	// lastGeneration leaves the top bit for tombstones.
	lastGeneration = math.MaxInt32
	// noDelta is the floor while no delta can follow: tombstones are not kept.
	noDelta = math.MaxUint32
)

// NewTables returns an empty backend for these key groups. With a pager, chunks
// beyond cacheBytes are evicted to it; it then belongs to the backend. Packages
// heap and bolt are the ways to call this.
func NewTables(g Groups, pager Pager, cacheBytes int64) *Tables {
	b := &Tables{groups: g, gen: 1, floor: noDelta}
	if pager != nil {
		b.cache = newCache(b, pager, cacheBytes)
	}
	return b
}

// Table returns the table of a descriptor and makes it if need be.
func (b *Tables) Table(d Descriptor) (*Table, error) {
	if err := check(d); err != nil {
		return nil, err
	}
	t := b.lookup(d.Name)
	switch {
	case t == nil:
		t = b.add(d)
	case t.Descriptor != d && t.restored && !t.declared:
		return nil, &SchemaError{State: d.Name, Restored: t.Descriptor.String(), Declared: d.String()}
	case t.Descriptor != d:
		return nil, fmt.Errorf("state %s is declared twice, as %s and as %s; give one of them another name",
			d.Name, &t.Descriptor, &d)
	}
	t.declared = true
	return t, nil
}

func check(d Descriptor) error {
	const limit = 1 << 20
	switch {
	case d.Name == "":
		return errors.New("a state without a name; give it one that is unique within the operator")
	case d.KeyWidth < 0 || d.KeyWidth > limit || d.ValueWidth < 0 || d.ValueWidth > limit:
		return fmt.Errorf("state %s has widths of %d and %d bytes; use 0 for keys or values above %d bytes",
			d.Name, d.KeyWidth, d.ValueWidth, limit)
	}
	return nil
}

func (b *Tables) lookup(name string) *Table {
	i, ok := b.position(name)
	if !ok {
		return nil
	}
	return b.tables[i]
}

func (b *Tables) position(name string) (int, bool) {
	return slices.BinarySearchFunc(b.tables, name, func(t *Table, name string) int {
		return strings.Compare(t.Name, name)
	})
}

func (b *Tables) add(d Descriptor) *Table {
	i, _ := b.position(d.Name)
	t := newTable(b, d)
	b.tables = slices.Insert(b.tables, i, t)
	return t
}

// Seal takes the synchronous part of a snapshot; see Backend. It fails only if
// the generations are used up, after two thousand million seals.
func (b *Tables) Seal(checkpoint uint64, o SealOptions) (*Sealed, error) {
	if b.gen == lastGeneration {
		return nil, errors.New("state: no generation is left to seal; restart the job from its last checkpoint")
	}
	v := &view{backend: b, gen: b.gen, tables: make([]tableView, len(b.tables))}
	s := &Sealed{Checkpoint: checkpoint, Base: true, write: v.write, release: v.release}
	entries, changed := 0, uint32(0)
	for i, t := range b.tables {
		v.tables[i] = tableView{&t.layout, t.root, t.stockFor()}
		entries += t.count
		changed = max(changed, t.changed)
		s.FullBytes += t.fullBytes()
		t.trim()
	}
	s.Empty = entries == 0
	if c := b.confirmed; o.Incremental && c != nil && worthDelta(c.chain()) {
		s.Base, s.Before, s.Empty = false, c.chain(), changed <= c.gen
		v.delta, v.since = true, c.gen
	}
	if o.Incremental && !o.Savepoint {
		l := &lineage{checkpoint: checkpoint, gen: b.gen, before: s.Before, empty: s.Empty}
		b.pending = append(b.pending, l)
		s.recorded = func(m *messages.Segment) { l.segment = m }
	}
	b.seals = append(b.seals, v)
	b.gen++
	b.mark()
	return s, nil
}

// worthDelta says that a delta on these segments is better than a new base.
func worthDelta(chain []*messages.Segment) bool {
	if len(chain) == 0 || len(chain) > maxDeltas {
		return false
	}
	deltas := uint64(0)
	for _, s := range chain[1:] {
		deltas += segmentBytes(s)
	}
	return deltas <= segmentBytes(chain[0])
}

func segmentBytes(s *messages.Segment) uint64 {
	if f := s.GetHandle().GetFile(); f != nil {
		return f.GetSize()
	}
	return uint64(len(s.GetHandle().GetInline()))
}

// Confirm says that the checkpoint completed; see Backend. Undecided ones before
// it will never be built on, so they are forgotten.
func (b *Tables) Confirm(checkpoint uint64) {
	i := slices.IndexFunc(b.pending, func(l *lineage) bool { return l.checkpoint == checkpoint })
	if i < 0 {
		return
	}
	if l := b.pending[i]; l.segment != nil || l.empty {
		b.confirmed = l
	}
	b.pending = slices.Delete(b.pending, 0, i+1)
	b.mark()
	b.settle()
}

// Abort says that the checkpoint will not complete; see Backend.
func (b *Tables) Abort(checkpoint uint64) {
	b.pending = slices.DeleteFunc(b.pending, func(l *lineage) bool { return l.checkpoint == checkpoint })
	b.mark()
	b.settle()
}

// mark hands the generation and the floor to the tables. A tombstone is needed
// while a delta may build on a snapshot from before it.
func (b *Tables) mark() {
	b.floor = noDelta
	if len(b.pending) > 0 {
		b.floor = b.pending[0].gen
	}
	if b.confirmed != nil {
		b.floor = min(b.floor, b.confirmed.gen)
	}
	for _, t := range b.tables {
		t.gen, t.floor = b.gen, b.floor
	}
}

// Close releases memory and scratch files.
func (b *Tables) Close() error {
	b.tables, b.dropped, b.pending, b.confirmed = nil, drops{}, nil, nil
	if b.cache != nil {
		return b.cache.pager.Close()
	}
	return nil
}

// sealed reports whether a seal is live, and forgets those that are not.
func (b *Tables) sealed() bool {
	if len(b.seals) == 0 {
		return false
	}
	b.seals = slices.DeleteFunc(b.seals, func(v *view) bool { return v.released.Load() })
	return len(b.seals) > 0
}

// freePage says that nobody will read a page again.
func (b *Tables) freePage(page uint64) {
	if page != 0 {
		b.cache.freed = append(b.cache.freed, page)
	}
}

// read returns a chunk's bytes, wherever they are, without making it resident.
// It may run on any goroutine, for chunks of a live seal.
func (b *Tables) read(l *layout, c *chunk) (slots, arena []byte, err error) {
	if c.slots != nil {
		return c.slots, c.arena, nil
	}
	return b.cache.load(l, c)
}

// fullBytes estimates what a base of the table takes.
func (t *Table) fullBytes() uint64 {
	entry := 1 + 8 + t.KeyWidth + t.ValueWidth // operation, hash, key, value
	if t.Namespaced {
		entry += 8
	}
	return uint64(t.count*entry + t.varying)
}

// view is the tables as they were at a seal.
type view struct {
	backend  *Tables
	gen      uint32
	delta    bool
	since    uint32 // a delta holds the changes after this generation
	tables   []tableView
	released atomic.Bool
}

type tableView struct {
	layout *layout
	root   *node
	stock  *stock // nil if the table needs none
}

func (v *view) release() { v.released.Store(true) }
