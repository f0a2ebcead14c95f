// Package boltfile opens the bbolt files in which the metadata log lives: whole or
// not at all, locked, with a format version, and with damage told apart from what
// the file system says.
//
// A file has a bucket "format" that holds the version, and the buckets of its
// layout. Values that matter stand behind a checksum ([Seal]), because bbolt checks
// none of its pages.
package boltfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"cutwater/storage/boltdb"
)

// Sentinels by which callers decide; the errors that wrap them say what to do.
// Package metadata hands them on.
var (
	// ErrLocked: another process has the file open.
	ErrLocked = errors.New("metadata: in use by another process")
	// ErrCorrupt: the file is not what was written.
	ErrCorrupt = errors.New("metadata: corrupt")
	// ErrNewerFormat: written by a newer version of the program.
	ErrNewerFormat = errors.New("metadata: newer format version")
)

// Layout is what a file must hold.
type Layout struct {
	// Version is the newest format version that the caller reads; it writes this one.
	Version byte
	Buckets [][]byte
	// Advice ends the error about a damaged file: what its user can do.
	Advice string
}

var (
	formatBucket = []byte("format")
	versionKey   = []byte("version")
)

// Open opens the file, which it makes if there is none: whole, or, after an error
// or a crash, not at all. Its directory must exist, and be the caller's alone. It
// waits as long as given for another process to let go. The errors are the
// sentinels or those of the file system. Damage that shows later is an ErrCorrupt of
// the call that meets it.
func (l Layout) Open(path string, lockTimeout time.Duration) (*boltdb.DB, error) {
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		if err := l.create(path, lockTimeout); err != nil {
			return nil, fmt.Errorf("metadata: %s cannot be made: %w; free disk space or repair the disk", path, err)
		}
	}
	db, err := l.open(path, lockTimeout)
	if err != nil {
		return nil, err
	}
	if err := l.check(path, db); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// create makes a file without content. It gets its name when it is whole and
// durable, since a part of one is indistinguishable from a damaged one.
func (l Layout) create(path string, lockTimeout time.Duration) (err error) {
	unborn := path + ".new"
	if err := os.Remove(unborn); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(unborn) // the next opening would
		}
	}()
	db, err := l.open(unborn, lockTimeout)
	if err != nil {
		return err
	}
	if err := errors.Join(db.Update(l.layOut), db.Close()); err != nil {
		return err
	}
	if err := os.Rename(unborn, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes the name of a new file durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (l Layout) open(path string, lockTimeout time.Duration) (*boltdb.DB, error) {
	db, err := boltdb.Open(path, bolt.Options{Timeout: lockTimeout, FreelistType: bolt.FreelistMapType},
		func(cause error) error { return l.Corrupt(path, cause) })
	switch {
	case err == nil:
		return db, nil
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, fmt.Errorf("%w: %s; stop the other node, or use another data folder", ErrLocked, path)
	case errors.Is(err, bolterrors.ErrVersionMismatch):
		return nil, newerFormat(path)
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrChecksum):
		return nil, l.Corrupt(path, err)
	}
	var failed *os.PathError
	var errno syscall.Errno
	if errors.As(err, &failed) || errors.As(err, &errno) || errors.Is(err, io.ErrShortWrite) || errors.Is(err, ErrCorrupt) {
		return nil, err
	}
	return nil, l.Corrupt(path, err)
}

// check holds the file to the layout. One that was never laid out holds nothing: an
// older version left it when it could not go on.
func (l Layout) check(path string, db *boltdb.DB) error {
	fresh := false
	err := db.View(func(tx *bolt.Tx) error {
		format := tx.Bucket(formatBucket)
		if format == nil {
			fresh = true
			return nil
		}
		version := format.Get(versionKey)
		switch {
		case len(version) != 1 || version[0] == 0:
			return l.Corrupt(path, errors.New("it names no format version"))
		case version[0] > l.Version:
			return newerFormat(path)
		}
		for _, name := range l.Buckets {
			if tx.Bucket(name) == nil {
				return l.Corrupt(path, fmt.Errorf("the part %q is missing", name))
			}
		}
		return nil
	})
	if err == nil && fresh {
		err = db.Update(l.layOut)
	}
	if errors.Is(err, bolterrors.ErrIncompatibleValue) {
		return l.Corrupt(path, err)
	}
	return err
}

func (l Layout) layOut(tx *bolt.Tx) error {
	for _, name := range append([][]byte{formatBucket}, l.Buckets...) {
		if _, err := tx.CreateBucketIfNotExists(name); err != nil {
			return err
		}
	}
	return tx.Bucket(formatBucket).Put(versionKey, []byte{l.Version})
}

// Corrupt is an ErrCorrupt about the file.
func (l Layout) Corrupt(path string, cause error) error {
	return fmt.Errorf("%w: %s: %w; %s", ErrCorrupt, path, cause, l.Advice)
}

func newerFormat(path string) error {
	return fmt.Errorf("%w: %s was written by a newer version of the program; update this node", ErrNewerFormat, path)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Seal returns the body behind the CRC-32C of key and body, 4 bytes, little endian.
func Seal(key, body []byte) []byte {
	value := binary.LittleEndian.AppendUint32(make([]byte, 0, 4+len(body)), checksum(key, body))
	return append(value, body...)
}

// Unseal returns the body of what Seal made for the key, as a part of value, or an
// error if it is not that.
func Unseal(key, value []byte) ([]byte, error) {
	if len(value) < 4 || binary.LittleEndian.Uint32(value) != checksum(key, value[4:]) {
		return nil, errors.New("its checksum is wrong")
	}
	return value[4:], nil
}

func checksum(key, body []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, body)
}
