// Package boltdb is a bbolt file of which damage is an error, not the end of the
// process.
//
// The library checks none of its pages: over a damaged one, or where the disk does
// not give back what it has, it panics or touches memory that is not there. Both end
// here, as an error that says what the owner of the file wants said. Who decides
// whether that is a node that must be repaired or a task that restarts is the owner.
package boltdb

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync"

	"go.etcd.io/bbolt"
)

// DB is an open file. Any goroutine may use it.
type DB struct {
	db      *bbolt.DB
	file    *os.File
	damaged func(cause error) error

	writer sync.Mutex // one Update at a time, so that none waits for a lock that is lost
	mu     sync.Mutex
	broken error
}

// Open opens or makes a file as bbolt.Open does, and returns its errors. Damaged
// makes of what is wrong with the file the error that is returned.
func Open(path string, options bbolt.Options, damaged func(cause error) error) (*DB, error) {
	d := &DB{damaged: damaged}
	open := options.OpenFile
	if open == nil {
		open = os.OpenFile
	}
	options.OpenFile = func(name string, flag int, mode os.FileMode) (file *os.File, err error) {
		d.file, err = open(name, flag, mode)
		return d.file, err
	}
	err := d.guard(func() (err error) {
		d.db, err = bbolt.Open(path, 0o600, &options)
		return err
	})
	if err != nil {
		if d.file != nil {
			_ = d.file.Close() // where the library panicked it is still open, and locked; else this does nothing
		}
		return nil, err
	}
	return d, nil
}

// View calls f with a transaction that reads. It returns f's error, the library's, or
// that the file is damaged; then and ever after nothing is read or written any more.
func (d *DB) View(f func(*bbolt.Tx) error) error {
	return d.guard(func() error { return d.db.View(f) })
}

// Update calls f with a transaction that writes, and commits it. The errors are those
// of View; after one of damage nobody knows whether it was committed.
func (d *DB) Update(f func(*bbolt.Tx) error) error {
	d.writer.Lock()
	defer d.writer.Unlock()
	return d.guard(func() error { return d.db.Update(f) })
}

// guard calls f, unless the file is known to be damaged.
func (d *DB) guard(f func() error) (err error) {
	if err := d.Broken(); err != nil {
		return err
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = d.fail(r)
		}
	}()
	return f()
}

// fail remembers that the file is damaged; the first reason stays.
func (d *DB) fail(reason any) error {
	cause, isError := reason.(error)
	if !isError {
		cause = fmt.Errorf("%v", reason)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.broken == nil {
		d.broken = d.damaged(cause)
	}
	return d.broken
}

// Broken is the error about the damage, or nil.
func (d *DB) Broken() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.broken
}

// Close closes the file, after the transactions that run. Of a damaged one it closes
// no more than the descriptor, which gives up the lock: the library may have panicked
// with its own locks held, and would wait for them. The mapping stays until the
// process ends.
func (d *DB) Close() error {
	d.writer.Lock()
	defer d.writer.Unlock()
	if d.Broken() == nil {
		if err := d.guard(d.db.Close); d.Broken() == nil {
			return err
		}
	}
	if err := d.file.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}
