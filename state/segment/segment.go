// Package segment is the file format of keyed state: one immutable file per
// snapshot of one operator subtask. A base holds every entry, a delta the
// entries that were put or deleted since an earlier segment.
//
// Entries are ordered by key group, then by state (their names ascending), then
// by placement (keygroup.Namespaced of hash and namespace, or the hash alone
// where the state has no namespaces), key and namespace. Key groups come first
// so that a rescaled job reads only the part of a file that it needs, by the
// index at the file's end; the order within them is nearly that in which a table
// keeps its entries, so that writing sorts little.
//
// docs/format.md describes the bytes. Formats are versioned: a newer program
// reads what an older one wrote, and an older one says ErrNewerFormat.
package segment

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"

	"cutwater/protocol/keygroup"
)

// Errors by which callers decide; what wraps them says where and what.
var (
	// ErrCorrupt: the bytes are not what a Writer wrote.
	ErrCorrupt = errors.New("segment: corrupt")
	// ErrNewerFormat: written by a newer version of the program.
	ErrNewerFormat = errors.New("segment: newer format version")
)

// Version is the format version that this package writes, and the newest that
// it reads.
const Version = 1

// Header is what a file says about itself.
type Header struct {
	// MaxParallelism is the number of key groups of the operator.
	MaxParallelism int
	// FirstGroup and LastGroup are the writer's key groups, both included.
	FirstGroup, LastGroup int
	// States are the states of the entries, by name.
	States []State
}

// State describes one state; package state says what the fields mean.
type State struct {
	Name       string
	Kind       uint8
	KeyWidth   int
	ValueWidth int
	Namespaced bool
	Schema     string
}

// Entry is one put or deleted entry.
type Entry struct {
	// State is an index of Header.States.
	State     int
	Delete    bool
	Hash      uint64
	Key       []byte
	Namespace int64
	// Value is empty if Delete is set.
	Value []byte
}

// group is the entry's key group.
func (e *Entry) group(h *Header) int { return keygroup.Of(e.Hash, h.MaxParallelism) }

// compareWithin orders entries of one key group and state.
func compareWithin(s *State, a, b *Entry) int {
	p, q := a.Hash, b.Hash
	if s.Namespaced {
		p, q = keygroup.Namespaced(p, a.Namespace), keygroup.Namespaced(q, b.Namespace)
	}
	if p != q {
		return cmp.Compare(p, q)
	}
	return cmp.Or(bytes.Compare(a.Key, b.Key), cmp.Compare(a.Namespace, b.Namespace))
}

const (
	magic = "CWSEG\r\n\x1a"
	// fixedHeader is magic, version and the length of what follows.
	fixedHeader = len(magic) + 4 + 4
	// trailerSize is the index's offset, the entry count, a checksum, the magic.
	trailerSize = 8 + 8 + 4 + len(magic)

	entriesBlock = 1
	indexBlock   = 2
	// blockHead is the kind, key group, state and payload length of a block.
	blockHead = 1 + 4 + 4 + 4
	// blockSize is when a block is closed; a larger entry makes a larger block.
	blockSize = 32 << 10

	opPut    = 1
	opDelete = 2
	// indexEntry is key group, offset, length and entry count.
	indexEntry = 4 + 8 + 8 + 8
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func corrupt(offset int64, format string, args ...any) error {
	return fmt.Errorf("%w: at byte %d: %s; restore from another checkpoint or savepoint",
		ErrCorrupt, offset, fmt.Sprintf(format, args...))
}
