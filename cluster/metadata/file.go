package metadata

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"cutwater/messages"
)

// The file: bucket "format" holds the version of the format; "snapshot" the
// newest messages.MetadataSnapshot; "log" the commands after it, under their
// index as 8 bytes, big endian. Snapshot and commands stand behind a CRC-32C of
// key and body, 4 bytes, little endian.
const formatVersion = 1

var (
	formatBucket   = []byte("format")
	snapshotBucket = []byte("snapshot")
	logBucket      = []byte("log")

	versionKey  = []byte("version")
	snapshotKey = []byte("newest")
)

func indexKey(index uint64) []byte { return binary.BigEndian.AppendUint64(nil, index) }

func openBolt(path string, lockTimeout time.Duration) (db *bolt.DB, err error) {
	var file *os.File
	open := func(name string, flag int, mode os.FileMode) (*os.File, error) {
		var err error
		file, err = os.OpenFile(name, flag, mode)
		return file, err
	}
	err = guarded(path, func() error {
		db, err = bolt.Open(path, 0o600, &bolt.Options{Timeout: lockTimeout, FreelistType: bolt.FreelistMapType, OpenFile: open})
		return err
	})
	if err != nil && file != nil {
		_ = file.Close() // where bbolt panicked it is still open, and locked; else this does nothing
	}
	switch {
	case err == nil:
		return db, nil
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, fmt.Errorf("%w: %s; stop the other node, or use another data folder", ErrLocked, path)
	case errors.Is(err, bolterrors.ErrVersionMismatch):
		return nil, newerFormat(path)
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrChecksum):
		return nil, corrupt(path, err)
	}
	var failed *os.PathError
	var errno syscall.Errno
	if errors.As(err, &failed) || errors.As(err, &errno) || errors.Is(err, io.ErrShortWrite) || errors.Is(err, ErrCorrupt) {
		return nil, err
	}
	return nil, corrupt(path, err)
}

// guarded turns what bbolt does about damaged pages, a panic or a fault in the
// mapped file, into ErrCorrupt.
func guarded(path string, f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = corrupt(path, fmt.Errorf("%v", r))
		}
	}()
	return f()
}

func corrupt(path string, cause error) error {
	return fmt.Errorf("%w: %s: %w; restore the file from a backup, or move it away and restore the jobs from their checkpoints (--restore PATH)", ErrCorrupt, path, cause)
}

func newerFormat(path string) error {
	return fmt.Errorf("%w: %s was written by a newer version of the program; update this node", ErrNewerFormat, path)
}

// load replays the file into the machine. One that was never laid out holds no
// command: an older version left it when it could not go on.
func (l *Local) load(db *bolt.DB) error {
	return guarded(l.path, func() error {
		fresh := false
		err := db.View(func(tx *bolt.Tx) error {
			if fresh = tx.Bucket(formatBucket) == nil; fresh {
				return nil
			}
			return l.replay(tx)
		})
		if err == nil && fresh {
			err = db.Update(layOut)
		}
		return err
	})
}

func layOut(tx *bolt.Tx) error {
	for _, name := range [][]byte{formatBucket, snapshotBucket, logBucket} {
		if _, err := tx.CreateBucketIfNotExists(name); err != nil {
			return err
		}
	}
	return tx.Bucket(formatBucket).Put(versionKey, []byte{formatVersion})
}

func (l *Local) replay(tx *bolt.Tx) error {
	version := tx.Bucket(formatBucket).Get(versionKey)
	switch {
	case len(version) != 1 || version[0] == 0:
		return corrupt(l.path, errors.New("it names no format version"))
	case version[0] > formatVersion:
		return newerFormat(l.path)
	case tx.Bucket(snapshotBucket) == nil || tx.Bucket(logBucket) == nil:
		return corrupt(l.path, errors.New("a part is missing"))
	}
	if value := tx.Bucket(snapshotBucket).Get(snapshotKey); value != nil {
		snapshot := &messages.MetadataSnapshot{}
		if err := unseal(snapshotKey, value, snapshot); err != nil {
			return corrupt(l.path, fmt.Errorf("snapshot: %w", err))
		}
		if err := l.machine.Restore(snapshot); err != nil {
			return corrupt(l.path, err)
		}
	}
	return tx.Bucket(logBucket).ForEach(func(key, value []byte) error {
		next := l.machine.Index() + 1
		if len(key) != 8 || binary.BigEndian.Uint64(key) != next {
			return corrupt(l.path, fmt.Errorf("command %d is missing", next))
		}
		command := &messages.MetadataCommand{}
		if err := unseal(key, value, command); err != nil {
			return corrupt(l.path, fmt.Errorf("command %d: %w", next, err))
		}
		l.machine.Apply(next, command)
		l.logged++
		return nil
	})
}

func putEntry(tx *bolt.Tx, index uint64, body []byte) error {
	key := indexKey(index)
	return tx.Bucket(logBucket).Put(key, seal(key, body))
}

// putSnapshot replaces the whole log by a snapshot.
func putSnapshot(tx *bolt.Tx, snapshot *messages.MetadataSnapshot) error {
	body, err := encode(snapshot)
	if err != nil {
		return err
	}
	if err := tx.DeleteBucket(logBucket); err != nil {
		return err
	}
	if _, err := tx.CreateBucket(logBucket); err != nil {
		return err
	}
	return tx.Bucket(snapshotBucket).Put(snapshotKey, seal(snapshotKey, body))
}
