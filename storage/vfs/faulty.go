package vfs

import (
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"strings"
	"sync"
)

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
