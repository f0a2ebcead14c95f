// Package vfs is the file system that Cutwater works through, so that tests and
// simulations can put another one in its place:
//
//   - [OS] is the machine's own;
//   - [Mem] is in memory and can crash: what was not made durable is then lost or
//     torn, as a seed decides;
//   - [Faulty] stands before any of them and makes operations fail, tear, lie, wait
//     or halt by plan.
//
// The contract that crash safety rests on: File.Sync makes a file's content
// durable but not its name; SyncDir makes the names in a directory durable but no
// content; Link and Rename are atomic. Package vfstest holds every implementation
// to it.
package vfs

import (
	"errors"
	"io"
	"io/fs"
)

// ErrLocked: another process, or another part of this one, holds the lock.
var ErrLocked = errors.New("vfs: locked")

// FS is a file system. Paths are slash-separated and, for OS, may be absolute.
// Errors wrap the io/fs sentinels (fs.ErrNotExist, fs.ErrExist). All methods may
// be called by several goroutines.
type FS interface {
	// Open opens a file for reading.
	Open(path string) (File, error)
	// Create makes a file for writing, truncating one that exists.
	Create(path string) (File, error)
	// OpenAppend opens or makes a file; writes go to its end.
	OpenAppend(path string) (File, error)
	// Link gives a file a second name; it fails with fs.ErrExist if newPath
	// exists, for every process: this is how files are published.
	Link(oldPath, newPath string) error
	// Rename replaces newPath.
	Rename(oldPath, newPath string) error
	// Remove deletes a file or an empty directory.
	Remove(path string) error
	// RemoveAll deletes a tree; a missing one is no error.
	RemoveAll(path string) error
	// MkdirAll makes a directory and its parents, and makes each new one durable.
	MkdirAll(path string) error
	// ReadDir lists a directory, sorted by name.
	ReadDir(path string) ([]fs.DirEntry, error)
	// Stat describes a file.
	Stat(path string) (fs.FileInfo, error)
	// SyncDir makes the names in a directory durable.
	SyncDir(path string) error
	// Glob returns the paths that match the pattern of path.Match, sorted;
	// path.ErrBadPattern if it is none.
	Glob(pattern string) ([]string, error)
	// Lock takes an exclusive lock on path (made if missing) for as long as the
	// process lives or until it is closed; ErrLocked if another one holds it.
	Lock(path string) (io.Closer, error)
}

// File is an open file.
type File interface {
	io.Reader
	io.ReaderAt
	io.Writer
	io.Seeker
	io.Closer
	// Sync makes the content durable.
	Sync() error
	// Truncate cuts or grows the file to size.
	Truncate(size int64) error
	// Stat describes the file.
	Stat() (fs.FileInfo, error)
	// Name is the path that it was opened with.
	Name() string
}
