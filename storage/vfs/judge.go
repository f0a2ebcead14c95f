package vfs

import (
	"path"
	"syscall"
)

// armed is a fault and how often it matched.
type armed struct {
	Fault
	matches int
	written int64
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

// spoil flips one bit of what was read, if the plan says so.
func (v verdict) spoil(p []byte) {
	if v.bad && len(p) > 0 {
		p[v.flip/8%uint64(len(p))] ^= 1 << (v.flip % 8)
	}
}
