// Package state is keyed state: tables of one operator subtask, their typed
// handles, timers, and the snapshots that become segments of a checkpoint.
//
// There is one table (see Table): flat, open addressed, in chunks that are
// copied on the first write after a seal. The heap backend is that table alone;
// the bolt backend is the same table as a bounded write-back cache over one
// bbolt file. So both behave alike, which package state/statetest checks.
//
// Every change bears the generation in which it was made, and a seal begins the
// next one. That is all a seal does: it keeps the roots of the tables, and what
// changes later changes in copies. A delta is what bears a generation after the
// seal that it builds on, deletes (tombstones) included.
//
// A table's operations return no errors, for they are called for every record.
// What cannot go on panics with a typed error and so fails the task, which
// restarts from its last checkpoint: *ScratchError (the bolt backend's disk),
// *LimitError (a value of 4 GiB), *DecodeError (bytes that a codec did not
// write). What a user or an operator can get wrong at the start is an ordinary
// error: *SchemaError and others of Backend.Table and Backend.Load.
package state

import (
	"context"
	"io"
	"strconv"

	"cutwater/messages"
)

// Kind is what a table is used for; it is part of the schema.
type Kind uint8

// Kinds of keyed state.
const (
	ValueKind Kind = iota + 1
	ListKind
	MapKind
	ReducingKind
	AggregatingKind
	TimerKind
	// InternalKind is for operators' own bookkeeping.
	InternalKind
)

// Descriptor declares one keyed state of an operator.
type Descriptor struct {
	// Name is unique within the operator.
	Name string
	Kind Kind
	// KeyWidth is the width of the canonical key bytes; 0 means that they vary.
	KeyWidth int
	// ValueWidth is the width of the value; 0 means that it varies.
	ValueWidth int
	// Namespaced adds an int64 (a window's start, a timer's time) to the key.
	Namespaced bool
	// Schema describes the key and value types; restoring state of another
	// schema is refused.
	Schema string
}

// String describes the layout and the types.
func (d *Descriptor) String() string {
	width := func(n int) string {
		if n == 0 {
			return "any"
		}
		return strconv.Itoa(n)
	}
	s := d.Kind.String() + " [key " + width(d.KeyWidth) + ", value " + width(d.ValueWidth)
	if d.Namespaced {
		s += ", namespaced"
	}
	return s + "] " + d.Schema
}

// hashesKeys says that entries of tables of this kind lie by the hash of their
// whole key.
func (k Kind) hashesKeys() bool {
	return k == ValueKind || k == ListKind || k == ReducingKind || k == AggregatingKind
}

// String is the kind in words.
func (k Kind) String() string {
	names := [...]string{"kind 0", "value", "list", "map", "reducing", "aggregating", "timer", "internal"}
	if int(k) < len(names) {
		return names[k]
	}
	return "kind " + strconv.Itoa(int(k))
}

// Backend keeps the keyed state of one operator subtask. Its owner's task calls
// it, one call at a time; only Sealed.Write runs elsewhere.
type Backend interface {
	// Table returns the table of a descriptor and makes it if need be. It fails
	// with a *SchemaError if restored state has another schema.
	Table(Descriptor) (*Table, error)
	// Load reads one restored segment; call it before Table, oldest segment
	// first, on the Executor. Entries outside the backend's key groups are
	// skipped; if r is a segment.ReaderAt too, as what a storage.Store opens is,
	// their blocks are not even read. Errors: segment.ErrCorrupt,
	// segment.ErrNewerFormat.
	Load(ctx context.Context, r io.Reader) error
	// Seal takes the synchronous part of a snapshot: O(1), no copying. The
	// sealed view stays as it is while the tables go on.
	Seal(checkpoint uint64, o SealOptions) (*Sealed, error)
	// Confirm says that the checkpoint completed: the next delta may build on it.
	Confirm(checkpoint uint64)
	// Abort says that the checkpoint will not complete.
	Abort(checkpoint uint64)
	// Close releases memory and scratch files.
	Close() error
}

// SealOptions choose what a snapshot holds.
type SealOptions struct {
	// Incremental writes a delta on the last confirmed checkpoint where there is
	// one; otherwise, or without it, a base.
	Incremental bool
	// Savepoint never moves the base of later deltas.
	Savepoint bool
}

// Sealed is the keyed state at one barrier. Write or Release must be called, or the
// tables keep for it whatever they replace; both may run on another goroutine than the
// backend's.
type Sealed struct {
	// Checkpoint is the one it was sealed for.
	Checkpoint uint64
	// Base is false for a delta.
	Base bool
	// Before are the segments that a delta builds on, oldest first.
	Before []*messages.Segment
	// Empty is true if there is nothing to write: no entry for a base, no change
	// for a delta.
	Empty bool
	// FullBytes estimates the size of the whole state.
	FullBytes uint64

	write    func(ctx context.Context, w io.Writer) (entries uint64, err error)
	release  func() // idempotent, for any goroutine
	recorded func(*messages.Segment)
}

// Write streams the segment and releases the view.
func (s *Sealed) Write(ctx context.Context, w io.Writer) (entries uint64, err error) {
	defer s.Release()
	return s.write(ctx, w)
}

// Release gives the view up; calling it again does nothing. A task that ends calls it
// while Write may still run: then the tables must not change any more.
func (s *Sealed) Release() { s.release() }

// Recorded tells the backend, in the task, which segment Write became, so that
// later deltas can name it.
func (s *Sealed) Recorded(segment *messages.Segment) {
	if s.recorded != nil {
		s.recorded(segment)
	}
}

// SchemaError: restored state was written with other types.
type SchemaError struct {
	State, Restored, Declared string
}

// Error says which state and both schemas.
func (e *SchemaError) Error() string {
	return "state " + e.State + " was written as " + e.Restored + " and is declared as " + e.Declared +
		"; keep the old type under the old name, or give the new state another name"
}

// Cursor is the current key: handles read and write the state of that key.
type Cursor struct {
	// Hash is keygroup.Hash of Key.
	Hash uint64
	// Key is the key's canonical bytes.
	Key []byte
	// Namespace is the current window or the like, for handles whose scope is
	// namespaced.
	Namespace int64
	// tables are those that Ahead is about.
	tables []*Table
}

// AheadAtOnce is how many keys at a time Ahead serves best.
const AheadAtOnce = 64

// Ahead says by their hashes which keys come next, so that their entries come
// from memory all at once and not each when it is needed: with many keys most of
// a look-up is waiting. It changes nothing and may be left out.
func (c *Cursor) Ahead(hashes []uint64) {
	for _, t := range c.tables {
		t.touch(hashes)
	}
}
