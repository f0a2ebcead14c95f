package vfs

import (
	"io/fs"
	"path"
	"sort"
	"time"
)

// node is a file or a directory.
type node struct {
	dir      bool
	modified time.Time

	// Of a file: what is read now, and what a crash cannot take.
	data    []byte
	durable []byte
	dirty   bool

	// Of a directory: the names now, those that a crash cannot take, and the
	// changes that lead from these to those.
	names        map[string]*node
	durableNames map[string]*node
	journal      []*change
}

// change is an atomic change of names, in one directory or, for a rename, two.
type change struct {
	edits []edit
	done  bool
}

// edit sets a name, or removes it if to is nil.
type edit struct {
	dir  *node
	name string
	to   *node
}

func (m *MemFS) newNode(dir bool) *node {
	n := &node{dir: dir, modified: m.tick()}
	if dir {
		n.names, n.durableNames = map[string]*node{}, map[string]*node{}
	}
	return n
}

func (m *MemFS) tick() time.Time {
	m.ticks++
	return time.Unix(m.ticks, 0).UTC()
}

// apply changes the names that are read now and notes it in the journals.
func (m *MemFS) apply(edits ...edit) {
	c := &change{edits: edits}
	for i, e := range edits {
		if e.to == nil {
			delete(e.dir.names, e.name)
		} else {
			e.dir.names[e.name] = e.to
		}
		e.dir.modified = m.tick()
		if i == 0 || edits[i-1].dir != e.dir {
			e.dir.journal = append(e.dir.journal, c)
		}
	}
}

// settle makes the first n changes of the directory's journal durable. A change
// that touches a second directory takes that one's earlier changes along.
func (d *node) settle(n int) {
	head := d.journal[:n]
	d.journal = d.journal[n:]
	for _, c := range head {
		if c.done {
			continue
		}
		c.done = true
		for _, e := range c.edits {
			if e.dir != d {
				for i, other := range e.dir.journal {
					if other == c {
						e.dir.settle(i + 1)
						break
					}
				}
			}
			if e.to == nil {
				delete(e.dir.durableNames, e.name)
			} else {
				e.dir.durableNames[e.name] = e.to
			}
		}
	}
}

func (d *node) sortedNames() []string {
	names := make([]string, 0, len(d.names))
	for name := range d.names {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// walk visits everything below a directory, in the order of names.
func (d *node) walk(at string, visit func(p string, n *node)) {
	for _, name := range d.sortedNames() {
		p := path.Join(at, name)
		visit(p, d.names[name])
		d.names[name].walk(p, visit)
	}
}

func (n *node) info(name string) fs.FileInfo {
	return memInfo{name: name, size: int64(len(n.data)), dir: n.dir, modified: n.modified}
}

type memInfo struct {
	name     string
	size     int64
	dir      bool
	modified time.Time
}

func (i memInfo) Name() string       { return i.name }
func (i memInfo) Size() int64        { return i.size }
func (i memInfo) ModTime() time.Time { return i.modified }
func (i memInfo) IsDir() bool        { return i.dir }
func (i memInfo) Sys() any           { return nil }
func (i memInfo) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o755
	}
	return 0o644
}
