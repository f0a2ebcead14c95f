package vfs

import (
	"io"
	"io/fs"
	"path"
	"sort"
	"strings"
	"sync"
	"syscall"
)

// MemFS is a file system in memory that can crash. It keeps what a reader sees
// now beside what is durable: a crash falls back to the durable part, plus what
// the seed says the disk had reached on its own.
//
// The model of a disk: File.Sync makes the content durable and nothing else. A
// change of a name waits in the journal of its directory, in order; SyncDir makes
// all of it durable. Relative paths start at the root. Modification times count
// operations, so that a run repeats exactly.
type MemFS struct {
	mu    sync.Mutex
	root  *node
	locks map[string]*memLock
	// life grows at each crash: handles of an earlier life are dead.
	life  int
	ticks int64
}

// Mem returns an empty file system in memory.
func Mem() *MemFS {
	m := &MemFS{locks: map[string]*memLock{}}
	m.root = m.newNode(true)
	return m
}

func rooted(p string) string { return path.Clean("/" + p) }

func failed(op, p string, err error) error { return &fs.PathError{Op: op, Path: p, Err: err} }

// find returns the node at a path, or nil and the reason.
func (m *MemFS) find(p string) (*node, error) {
	n := m.root
	for _, name := range strings.Split(strings.TrimPrefix(rooted(p), "/"), "/") {
		if name == "" {
			continue
		}
		if !n.dir {
			return nil, syscall.ENOTDIR
		}
		if n = n.names[name]; n == nil {
			return nil, fs.ErrNotExist
		}
	}
	return n, nil
}

// findParent returns the directory of a path and the path's last name.
func (m *MemFS) findParent(p string) (*node, string, error) {
	dir, name := path.Split(rooted(p))
	if name == "" {
		return nil, "", fs.ErrInvalid
	}
	n, err := m.find(dir)
	if err == nil && !n.dir {
		err = syscall.ENOTDIR
	}
	return n, name, err
}

// Open implements FS.
func (m *MemFS) Open(p string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find(p)
	if err == nil && n.dir {
		err = syscall.EISDIR
	}
	if err != nil {
		return nil, failed("open", p, err)
	}
	return &memFile{fs: m, node: n, name: p, life: m.life, readOnly: true}, nil
}

// Create implements FS.
func (m *MemFS) Create(p string) (File, error) { return m.make("create", p, false) }

// OpenAppend implements FS.
func (m *MemFS) OpenAppend(p string) (File, error) { return m.make("open", p, true) }

func (m *MemFS) make(op, p string, appending bool) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, name, err := m.findParent(p)
	if err != nil {
		return nil, failed(op, p, err)
	}
	n := dir.names[name]
	switch {
	case n == nil:
		n = m.newNode(false)
		m.apply(edit{dir, name, n})
	case n.dir:
		return nil, failed(op, p, syscall.EISDIR)
	case !appending:
		n.data, n.dirty, n.modified = nil, true, m.tick()
	}
	return &memFile{fs: m, node: n, name: p, life: m.life, appending: appending}, nil
}

// Link implements FS.
func (m *MemFS) Link(oldPath, newPath string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find(oldPath)
	if err == nil && n.dir {
		err = fs.ErrPermission
	}
	if err != nil {
		return failed("link", oldPath, err)
	}
	dir, name, err := m.findParent(newPath)
	if err == nil && dir.names[name] != nil {
		err = fs.ErrExist
	}
	if err != nil {
		return failed("link", newPath, err)
	}
	m.apply(edit{dir, name, n})
	return nil
}

// Rename implements FS.
func (m *MemFS) Rename(oldPath, newPath string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	from, oldName, err := m.findParent(oldPath)
	if err == nil && from.names[oldName] == nil {
		err = fs.ErrNotExist
	}
	if err != nil {
		return failed("rename", oldPath, err)
	}
	n := from.names[oldName]
	to, newName, err := m.findParent(newPath)
	if err != nil {
		return failed("rename", newPath, err)
	}
	switch old := to.names[newName]; {
	case old == n:
		return nil
	case old != nil && old.dir && !n.dir:
		return failed("rename", newPath, syscall.EISDIR)
	case old != nil && n.dir:
		return failed("rename", newPath, fs.ErrExist)
	case n.dir && strings.HasPrefix(rooted(newPath)+"/", rooted(oldPath)+"/"):
		return failed("rename", newPath, fs.ErrInvalid)
	}
	m.apply(edit{from, oldName, nil}, edit{to, newName, n})
	return nil
}

// Remove implements FS.
func (m *MemFS) Remove(p string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, name, err := m.findParent(p)
	if err == nil {
		switch n := dir.names[name]; {
		case n == nil:
			err = fs.ErrNotExist
		case len(n.names) > 0:
			err = syscall.ENOTEMPTY
		}
	}
	if err != nil {
		return failed("remove", p, err)
	}
	m.apply(edit{dir, name, nil})
	return nil
}

// RemoveAll implements FS: each file is a change of its own, as on a disk.
func (m *MemFS) RemoveAll(p string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, name, err := m.findParent(p)
	if err != nil || dir.names[name] == nil {
		return nil
	}
	m.removeTree(dir, name)
	return nil
}

func (m *MemFS) removeTree(dir *node, name string) {
	n := dir.names[name]
	for _, child := range n.sortedNames() {
		m.removeTree(n, child)
	}
	m.apply(edit{dir, name, nil})
}

// MkdirAll implements FS.
func (m *MemFS) MkdirAll(p string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.root
	for _, name := range strings.Split(strings.TrimPrefix(rooted(p), "/"), "/") {
		if name == "" {
			continue
		}
		child := n.names[name]
		if child == nil {
			child = m.newNode(true)
			m.apply(edit{n, name, child})
			n.settle(len(n.journal))
		}
		if !child.dir {
			return failed("mkdir", p, syscall.ENOTDIR)
		}
		n = child
	}
	return nil
}

// ReadDir implements FS.
func (m *MemFS) ReadDir(p string) ([]fs.DirEntry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find(p)
	if err == nil && !n.dir {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return nil, failed("readdir", p, err)
	}
	entries := make([]fs.DirEntry, 0, len(n.names))
	for _, name := range n.sortedNames() {
		entries = append(entries, fs.FileInfoToDirEntry(n.names[name].info(name)))
	}
	return entries, nil
}

// Stat implements FS.
func (m *MemFS) Stat(p string) (fs.FileInfo, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find(p)
	if err != nil {
		return nil, failed("stat", p, err)
	}
	return n.info(path.Base(rooted(p))), nil
}

// SyncDir implements FS.
func (m *MemFS) SyncDir(p string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find(p)
	if err == nil && !n.dir {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return failed("sync", p, err)
	}
	n.settle(len(n.journal))
	return nil
}

// Glob implements FS.
func (m *MemFS) Glob(pattern string) ([]string, error) {
	if _, err := path.Match(pattern, ""); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var found []string
	m.root.walk("/", func(p string, _ *node) {
		if ok, _ := path.Match(rooted(pattern), p); ok {
			if !path.IsAbs(pattern) {
				p = p[1:]
			}
			found = append(found, p)
		}
	})
	sort.Strings(found)
	return found, nil
}

// Lock implements FS: it is held until it is closed or the file system crashes.
func (m *MemFS) Lock(p string) (io.Closer, error) {
	f, err := m.make("lock", p, true)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	key := rooted(p)
	if m.locks[key] != nil {
		return nil, failed("lock", p, ErrLocked)
	}
	l := &memLock{file: f.(*memFile), key: key}
	m.locks[key] = l
	return l, nil
}

type memLock struct {
	file *memFile
	key  string
}

// Close gives the lock back.
func (l *memLock) Close() error {
	m := l.file.fs
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.locks[l.key] == l {
		delete(m.locks, l.key)
	}
	return nil
}
