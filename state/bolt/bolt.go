// Package bolt is the backend for keyed state that does not fit in memory: the
// tables of package state as a bounded write-back cache over one bbolt file.
//
// The file is scratch. It holds chunks that were evicted from memory, nothing is
// ever made durable in it, and it is deleted when the backend is opened and when
// it is closed: the checkpoint is the truth. A chunk is written when it has to
// leave memory and has changed since it was last written, always as a new page;
// a seal therefore finds every page that it saw, however much is evicted after
// it, and the page is deleted once no seal can see it. No read transaction is
// held open for that, so the file does not grow with the time that a snapshot
// takes.
//
// In memory remain the directory and about 100 bytes for each chunk of some 150
// entries; the chunks themselves up to CacheBytes; and for each live seal what
// was in memory when it was taken.
//
// Reading an evicted entry may fault pages of the file: an allowed wait in a
// task. A failing disk panics with *state.ScratchError, which fails the task; so does
// a file that is damaged or loses a part while it is open.
package bolt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"

	"cutwater/state"
	"cutwater/storage/boltdb"
	"cutwater/storage/vfs"
)

// Options say where the scratch file is, how much may be in memory, and which
// key groups the state is for.
type Options struct {
	// MaxParallelism is the number of key groups of the operator.
	MaxParallelism int
	// FirstGroup and LastGroup are this subtask's key groups, both included.
	FirstGroup, LastGroup int
	// FS makes and cleans the directory. Bbolt maps its file into memory, which
	// needs a file of the operating system.
	FS vfs.FS
	// Dir is the scratch directory; it must belong to this backend alone.
	Dir string
	// CacheBytes bounds the chunks in memory; 0 means DefaultCacheBytes.
	CacheBytes int64
}

// DefaultCacheBytes is 64 MiB.
const DefaultCacheBytes = 64 << 20

// mapBytes is how much address space is set aside, so that bbolt never has to
// map the file anew while a snapshot reads it.
const mapBytes = min(64<<30, math.MaxInt)

// New returns an empty backend; whatever is in the directory is deleted.
func New(o Options) (state.Backend, error) {
	if o.CacheBytes == 0 {
		o.CacheBytes = DefaultCacheBytes
	}
	p, err := open(o.FS, o.Dir)
	if err != nil {
		return nil, err
	}
	return state.NewTables(state.Groups{
		MaxParallelism: o.MaxParallelism, First: o.FirstGroup, Last: o.LastGroup,
	}, p, o.CacheBytes), nil
}

// pager keeps pages in one bucket, by id.
type pager struct {
	fs  vfs.FS
	dir string
	db  *boltdb.DB
}

var bucket = []byte("pages")

func open(fsys vfs.FS, dir string) (*pager, error) {
	path := filepath.Join(dir, "state.db")
	fail := func(err error) (*pager, error) {
		return nil, fmt.Errorf("cannot use the scratch directory %s of the bolt backend: %w; "+
			"make it writable, or choose another data directory", dir, err)
	}
	if err := errors.Join(fsys.RemoveAll(dir), fsys.MkdirAll(dir)); err != nil {
		return fail(err)
	}
	damaged := func(cause error) error { return fmt.Errorf("%s does not give back what was written: %w", path, cause) }
	db, err := boltdb.Open(path, bbolt.Options{
		NoSync: true, NoGrowSync: true, NoFreelistSync: true, NoStatistics: true,
		FreelistType: bbolt.FreelistMapType, InitialMmapSize: mapBytes,
		OpenFile: func(name string, flag int, mode fs.FileMode) (*os.File, error) {
			return os.OpenFile(name, flag|os.O_TRUNC, mode)
		},
	}, damaged)
	if err != nil {
		return fail(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucket(bucket)
		return err
	})
	if err != nil {
		return fail(errors.Join(err, db.Close()))
	}
	return &pager{fsys, dir, db}, nil
}

// Apply implements state.Pager.
func (p *pager) Apply(put []state.Page, free []uint64) error {
	return p.db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket(bucket)
		b.FillPercent = 0.9 // ids ascend
		for _, id := range free {
			if err := b.Delete(key(id)); err != nil {
				return err
			}
		}
		for _, page := range put {
			if err := b.Put(key(page.ID), page.Data); err != nil {
				return err
			}
		}
		return nil
	})
}

// Load implements state.Pager.
func (p *pager) Load(id uint64) (data []byte, err error) {
	err = p.db.View(func(tx *bbolt.Tx) error {
		b := tx.Bucket(bucket).Get(key(id))
		if b == nil {
			return fmt.Errorf("page %d is not there", id)
		}
		data = append(data, b...)
		return nil
	})
	return data, err
}

// Close implements state.Pager.
func (p *pager) Close() error { return errors.Join(p.db.Close(), p.fs.RemoveAll(p.dir)) }

func key(id uint64) []byte { return binary.BigEndian.AppendUint64(nil, id) }
