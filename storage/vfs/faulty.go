package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"path"
	"strings"
	"sync"
	"syscall"
)

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

// FaultyFS is a file system in which things go wrong by plan.
type FaultyFS struct {
	inner FS
	slow  func(op Op, path string)
	hit   func(kind FaultKind, op Op, path string)

	mu     sync.Mutex
	random *rand.Rand
	faults []*armed
	fired  [numFaultKinds]int
	ops    int
	halted bool
}

// armed is a fault and how often it matched.
type armed struct {
	Fault
	matches int
	written int64
}

// Faulty puts a plan in front of a file system.
func Faulty(inner FS, plan Plan) *FaultyFS {
	f := &FaultyFS{inner: inner, slow: plan.Slow, hit: plan.Hit, random: rand.New(rand.NewPCG(plan.Seed, 1))}
	f.SetFaults(plan.Faults...)
	return f
}

// SetFaults replaces the faults and ends a halt; without any, the disk is healed.
// Open files stay open.
func (f *FaultyFS) SetFaults(faults ...Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.halted, f.faults = false, nil
	for _, fault := range faults {
		f.faults = append(f.faults, &armed{Fault: fault})
	}
}

// Ops is the number of operations so far: to halt at each of them in turn, count
// those of a run without faults first.
func (f *FaultyFS) Ops() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ops
}

// Fired is how often faults of a kind fired.
func (f *FaultyFS) Fired(kind FaultKind) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fired[kind]
}

// Coverage is one line with the count of each kind, for the report of a run.
func (f *FaultyFS) Coverage() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var parts []string
	for kind, n := range f.fired {
		parts = append(parts, fmt.Sprintf("%s %d", FaultKind(kind), n))
	}
	return strings.Join(parts, ", ")
}

// verdict is what the plan says about one operation.
type verdict struct {
	err error
	// torn: write this many bytes, then return err.
	torn int
	lost bool
	flip uint64
	bad  bool
}

// judge asks the plan about an operation; size is the length of a write.
func (f *FaultyFS) judge(op Op, p string, size int) verdict {
	f.mu.Lock()
	f.ops++
	v := verdict{torn: -1}
	slow := false
	for _, a := range f.faults {
		if f.halted || v.err != nil {
			break
		}
		if !a.concerns(op, p) || !f.fires(a, size) {
			continue
		}
		f.fired[a.Kind]++
		if f.hit != nil {
			f.hit(a.Kind, op, p)
		}
		err := a.Err
		if err == nil {
			err = ErrInjected
		}
		switch a.Kind {
		case Fail:
			v.err = failed(string(op), p, err)
		case TornWrite:
			v.err, v.torn = failed(string(op), p, err), f.random.IntN(size+1)
		case LostSync:
			v.lost = true
		case Slow:
			slow = true
		case Full:
			v.err = failed(string(op), p, syscall.ENOSPC)
			v.torn = int(max(0, a.Bytes-a.written))
			a.written = a.Bytes
		case Flip:
			v.bad, v.flip = true, f.random.Uint64()
		case Halt:
			f.halted = true
		}
	}
	if f.halted {
		v = verdict{err: failed(string(op), p, ErrHalted), torn: -1}
	}
	f.mu.Unlock()
	if slow && f.slow != nil {
		f.slow(op, p)
	}
	return v
}

// concerns reports whether the fault is about this operation at all.
func (a *armed) concerns(op Op, p string) bool {
	if a.Op != "" && a.Op != op {
		return false
	}
	switch a.Kind {
	case TornWrite, Full:
		if op != OpWrite {
			return false
		}
	case LostSync:
		if op != OpSync && op != OpSyncDir {
			return false
		}
	case Flip:
		if op != OpRead {
			return false
		}
	}
	if a.Path == "" {
		return true
	}
	whole, _ := path.Match(a.Path, p)
	last, _ := path.Match(a.Path, path.Base(p))
	return whole || last
}

// fires reports whether it hits this match.
func (f *FaultyFS) fires(a *armed, size int) bool {
	if a.Kind == Full {
		if a.written+int64(size) <= a.Bytes {
			a.written += int64(size)
			return false
		}
		return true
	}
	a.matches++
	switch {
	case a.Nth > 0:
		return a.matches == a.Nth
	case a.Chance > 0:
		return f.random.Float64() < a.Chance
	}
	return true
}

// Open implements FS.
func (f *FaultyFS) Open(p string) (File, error) { return f.file(OpOpen, p, f.inner.Open) }

// Create implements FS.
func (f *FaultyFS) Create(p string) (File, error) { return f.file(OpCreate, p, f.inner.Create) }

// OpenAppend implements FS.
func (f *FaultyFS) OpenAppend(p string) (File, error) {
	return f.file(OpAppend, p, f.inner.OpenAppend)
}

func (f *FaultyFS) file(op Op, p string, open func(string) (File, error)) (File, error) {
	if v := f.judge(op, p, 0); v.err != nil {
		return nil, v.err
	}
	inner, err := open(p)
	if err != nil {
		return nil, err
	}
	return &faultyFile{File: inner, fs: f}, nil
}

// Link implements FS; faults match the new path.
func (f *FaultyFS) Link(oldPath, newPath string) error {
	if v := f.judge(OpLink, newPath, 0); v.err != nil {
		return v.err
	}
	return f.inner.Link(oldPath, newPath)
}

// Rename implements FS; faults match the new path.
func (f *FaultyFS) Rename(oldPath, newPath string) error {
	if v := f.judge(OpRename, newPath, 0); v.err != nil {
		return v.err
	}
	return f.inner.Rename(oldPath, newPath)
}

// Remove implements FS.
func (f *FaultyFS) Remove(p string) error {
	if v := f.judge(OpRemove, p, 0); v.err != nil {
		return v.err
	}
	return f.inner.Remove(p)
}

// RemoveAll implements FS.
func (f *FaultyFS) RemoveAll(p string) error {
	if v := f.judge(OpRemoveAll, p, 0); v.err != nil {
		return v.err
	}
	return f.inner.RemoveAll(p)
}

// MkdirAll implements FS.
func (f *FaultyFS) MkdirAll(p string) error {
	if v := f.judge(OpMkdir, p, 0); v.err != nil {
		return v.err
	}
	return f.inner.MkdirAll(p)
}

// ReadDir implements FS.
func (f *FaultyFS) ReadDir(p string) ([]fs.DirEntry, error) {
	if v := f.judge(OpReadDir, p, 0); v.err != nil {
		return nil, v.err
	}
	return f.inner.ReadDir(p)
}

// Stat implements FS.
func (f *FaultyFS) Stat(p string) (fs.FileInfo, error) {
	if v := f.judge(OpStat, p, 0); v.err != nil {
		return nil, v.err
	}
	return f.inner.Stat(p)
}

// SyncDir implements FS.
func (f *FaultyFS) SyncDir(p string) error {
	if v := f.judge(OpSyncDir, p, 0); v.err != nil || v.lost {
		return v.err
	}
	return f.inner.SyncDir(p)
}

// Glob implements FS.
func (f *FaultyFS) Glob(pattern string) ([]string, error) {
	if v := f.judge(OpGlob, pattern, 0); v.err != nil {
		return nil, v.err
	}
	return f.inner.Glob(pattern)
}

// Lock implements FS.
func (f *FaultyFS) Lock(p string) (io.Closer, error) {
	if v := f.judge(OpLock, p, 0); v.err != nil {
		return nil, v.err
	}
	return f.inner.Lock(p)
}

// faultyFile is an open file of a FaultyFS.
type faultyFile struct {
	File
	fs *FaultyFS
}

func (f *faultyFile) Read(p []byte) (int, error) {
	v := f.fs.judge(OpRead, f.Name(), 0)
	if v.err != nil {
		return 0, v.err
	}
	n, err := f.File.Read(p)
	v.spoil(p[:n])
	return n, err
}

func (f *faultyFile) ReadAt(p []byte, offset int64) (int, error) {
	v := f.fs.judge(OpRead, f.Name(), 0)
	if v.err != nil {
		return 0, v.err
	}
	n, err := f.File.ReadAt(p, offset)
	v.spoil(p[:n])
	return n, err
}

// spoil flips one bit of what was read, if the plan says so.
func (v verdict) spoil(p []byte) {
	if v.bad && len(p) > 0 {
		p[v.flip/8%uint64(len(p))] ^= 1 << (v.flip % 8)
	}
}

func (f *faultyFile) Write(p []byte) (int, error) {
	v := f.fs.judge(OpWrite, f.Name(), len(p))
	switch {
	case v.err != nil && v.torn >= 0:
		n, err := f.File.Write(p[:min(v.torn, len(p))])
		return n, errors.Join(v.err, err)
	case v.err != nil:
		return 0, v.err
	}
	return f.File.Write(p)
}

func (f *faultyFile) Sync() error {
	if v := f.fs.judge(OpSync, f.Name(), 0); v.err != nil || v.lost {
		return v.err
	}
	return f.File.Sync()
}

func (f *faultyFile) Truncate(size int64) error {
	if v := f.fs.judge(OpTruncate, f.Name(), 0); v.err != nil {
		return v.err
	}
	return f.File.Truncate(size)
}

// Close closes the file even if the plan makes it fail.
func (f *faultyFile) Close() error {
	v := f.fs.judge(OpClose, f.Name(), 0)
	return errors.Join(v.err, f.File.Close())
}
