package vfs

import "errors"

// ErrInjected is the error of a fault that names no other one.
var ErrInjected = errors.New("vfs: injected fault")

// ErrHalted: the file system has stopped for good, as if the process had died.
var ErrHalted = errors.New("vfs: halted")

// Op is an operation on a file system or on an open file.
type Op string

// The operations that faults can name.
const (
	OpOpen      Op = "open"
	OpCreate    Op = "create"
	OpAppend    Op = "append"
	OpLink      Op = "link"
	OpRename    Op = "rename"
	OpRemove    Op = "remove"
	OpRemoveAll Op = "remove-all"
	OpMkdir     Op = "mkdir"
	OpReadDir   Op = "read-dir"
	OpStat      Op = "stat"
	OpSyncDir   Op = "sync-dir"
	OpGlob      Op = "glob"
	OpLock      Op = "lock"
	OpRead      Op = "read"
	OpWrite     Op = "write"
	OpSync      Op = "sync"
	OpTruncate  Op = "truncate"
	OpClose     Op = "close"
)

// FaultKind is what goes wrong.
type FaultKind uint8

const (
	// Fail: the operation does nothing and returns Err.
	Fail FaultKind = iota
	// TornWrite: a write stores a part of its bytes and returns Err.
	TornWrite
	// LostSync: a Sync or SyncDir returns success and does nothing.
	LostSync
	// Slow: the plan's Slow hook runs before the operation.
	Slow
	// Full: writes fail with ENOSPC once Bytes were written.
	Full
	// Flip: a read returns one bit wrong.
	Flip
	// Halt: this operation and every later one fail with ErrHalted.
	Halt
	numFaultKinds
)

var faultNames = [numFaultKinds]string{"fail", "torn-write", "lost-sync", "slow", "full", "flip", "halt"}

// String is the kind's name in coverage lines.
func (k FaultKind) String() string { return faultNames[k] }

// Fault is one rule. It fires on operations that match Op and Path.
type Fault struct {
	Kind FaultKind
	// Op restricts it to one operation; empty means every one.
	Op Op
	// Path is a pattern of path.Match, for the whole path or, if it has no slash,
	// the last name; empty means every path.
	Path string
	// Nth fires at the n-th match only, from 1. With 0 each match fires, or, if
	// Chance is set, each with that probability.
	Nth    int
	Chance float64
	// Err is returned by Fail and TornWrite; nil means ErrInjected.
	Err error
	// Bytes is how much can still be written before Full fires.
	Bytes int64
}

// Plan is what will go wrong.
type Plan struct {
	// Seed decides chances, how much of a torn write arrives and which bit flips.
	Seed   uint64
	Faults []Fault
	// Slow runs, outside any lock, before an operation that a Slow fault hits. It
	// may block.
	Slow func(op Op, path string)
	// Hit is told of each fault that fires. It runs under a lock: it may count, and
	// not call the file system.
	Hit func(kind FaultKind, op Op, path string)
}
