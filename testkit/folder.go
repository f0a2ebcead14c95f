package testkit

import (
	"io"
	"io/fs"
	"slices"
	"strings"

	"cutwater/storage/vfs"
)

// OwnFolder gives a node a folder of its own at dir, in place of the one that all nodes
// see: as if a shared folder were not mounted there. It ends that, too. What the node
// wrote there stays its own.
func (c *Cluster) OwnFolder(name, dir string, own bool) {
	c.t.Helper()
	n := c.node(name)
	n.own = slices.DeleteFunc(n.own, func(d string) bool { return d == dir })
	if own {
		n.own = append(n.own, dir)
	}
}

// folders is the world's disk as one node sees it: its own folders are elsewhere.
type folders struct {
	disk vfs.FS
	node *Node
}

// at is where a path is on the world's disk.
func (f *folders) at(name string) string {
	for _, dir := range f.node.own {
		if name == dir || strings.HasPrefix(name, dir+"/") {
			return f.home() + name
		}
	}
	return name
}

func (f *folders) home() string { return "/own/" + f.node.ID }

// Open implements vfs.FS.
func (f *folders) Open(name string) (vfs.File, error) { return f.disk.Open(f.at(name)) }

// Create implements vfs.FS.
func (f *folders) Create(name string) (vfs.File, error) { return f.disk.Create(f.at(name)) }

// OpenAppend implements vfs.FS.
func (f *folders) OpenAppend(name string) (vfs.File, error) { return f.disk.OpenAppend(f.at(name)) }

// Link implements vfs.FS.
func (f *folders) Link(from, to string) error { return f.disk.Link(f.at(from), f.at(to)) }

// Rename implements vfs.FS.
func (f *folders) Rename(from, to string) error { return f.disk.Rename(f.at(from), f.at(to)) }

// Remove implements vfs.FS.
func (f *folders) Remove(name string) error { return f.disk.Remove(f.at(name)) }

// RemoveAll implements vfs.FS.
func (f *folders) RemoveAll(name string) error { return f.disk.RemoveAll(f.at(name)) }

// MkdirAll implements vfs.FS.
func (f *folders) MkdirAll(name string) error { return f.disk.MkdirAll(f.at(name)) }

// ReadDir implements vfs.FS.
func (f *folders) ReadDir(name string) ([]fs.DirEntry, error) { return f.disk.ReadDir(f.at(name)) }

// Stat implements vfs.FS.
func (f *folders) Stat(name string) (fs.FileInfo, error) { return f.disk.Stat(f.at(name)) }

// SyncDir implements vfs.FS.
func (f *folders) SyncDir(name string) error { return f.disk.SyncDir(f.at(name)) }

// Glob implements vfs.FS.
func (f *folders) Glob(pattern string) ([]string, error) {
	names, err := f.disk.Glob(f.at(pattern))
	for i, name := range names {
		names[i] = strings.TrimPrefix(name, f.home())
	}
	return names, err
}

// Lock implements vfs.FS.
func (f *folders) Lock(name string) (io.Closer, error) { return f.disk.Lock(f.at(name)) }
