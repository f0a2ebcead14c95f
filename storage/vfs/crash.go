package vfs

import (
	"math/rand/v2"
	"slices"
)

// Crash is a power failure: open files and locks are gone, and of all that was
// not synced the seed decides what the disk had reached. The journal of each
// directory keeps a prefix of its changes; a file that was not synced has its
// durable content, its new content, or a torn mixture of both. The file system
// can be used again at once, as after a restart.
func (m *MemFS) Crash(seed uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.life++
	clear(m.locks)
	random := rand.New(rand.NewPCG(seed, 0))

	// First the names: a directory may appear only because its parent's journal
	// kept it, so decide from the top.
	seen := map[*node]bool{}
	var files []*node
	var settle func(d *node)
	settle = func(d *node) {
		d.settle(random.IntN(len(d.journal) + 1))
		d.revert()
		for _, name := range d.sortedNames() {
			n := d.names[name]
			if seen[n] {
				continue
			}
			seen[n] = true
			if n.dir {
				settle(n)
			} else {
				files = append(files, n)
			}
		}
	}
	settle(m.root)

	for _, n := range files {
		if n.dirty {
			n.data = torn(random, n.durable, n.data)
		}
		n.durable, n.dirty = slices.Clone(n.data), false
	}
}

// Kill is the end of the process while the machine lives: open files and locks
// are gone, but nothing that was written is lost.
func (m *MemFS) Kill() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.life++
	clear(m.locks)
}

// revert makes the durable names the ones that are read.
func (d *node) revert() {
	for _, c := range d.journal {
		// A rename into another directory is lost as a whole.
		c.done = true
	}
	d.journal = nil
	d.names = map[string]*node{}
	for name, n := range d.durableNames {
		d.names[name] = n
	}
}

// torn is what a disk may hold of a file when the power fails during a write.
func torn(random *rand.Rand, old, now []byte) []byte {
	switch random.IntN(4) {
	case 0:
		return slices.Clone(old)
	case 1:
		return slices.Clone(now)
	case 2:
		// The length arrived, a part of the blocks did not.
		mixed := slices.Clone(now)
		if len(now) > 0 {
			from := random.IntN(len(now))
			to := from + random.IntN(len(now)-from) + 1
			clear(mixed[from:to])
			if from < len(old) {
				copy(mixed[from:to], old[from:])
			}
		}
		return mixed
	default:
		return slices.Clone(now[:random.IntN(len(now)+1)])
	}
}
