package boltdb_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"cutwater/internal/leak"
	"cutwater/storage/boltdb"
)

func TestMain(m *testing.M) { leak.VerifyTestMain(m) }

var (
	errDamaged = errors.New("damaged")
	bucket     = []byte("bucket")
)

func open(t *testing.T, path string) *boltdb.DB {
	t.Helper()
	d, err := boltdb.Open(path, bbolt.Options{Timeout: time.Millisecond}, func(cause error) error { return fmt.Errorf("%w: %s: %w", errDamaged, path, cause) })
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func put(d *boltdb.DB, n int) error {
	return d.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists(bucket)
		if err != nil {
			return err
		}
		for i := range n {
			if err := b.Put(fmt.Appendf(nil, "%06d", i), make([]byte, 100)); err != nil {
				return err
			}
		}
		return nil
	})
}

func readAll(d *boltdb.DB) error {
	return d.View(func(tx *bbolt.Tx) error {
		return tx.Bucket(bucket).ForEach(func(_, v []byte) error { _ = string(v); return nil })
	})
}

// A file that loses its end while it is open ends neither a reader nor a writer of
// it: both get the owner's error, again and again, and the file can be closed and its
// lock taken by the next.
func TestCutWhileOpen(t *testing.T) {
	for name, use := range map[string]func(*boltdb.DB) error{
		"read":  readAll,
		"write": func(d *boltdb.DB) error { return put(d, 2000) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "file.db")
			d := open(t, path)
			if err := put(d, 2000); err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(path, 8192); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := use(d); !errors.Is(err, errDamaged) || !strings.Contains(err.Error(), path) {
					t.Errorf("the damaged file: %v", err)
				}
			}
			if d.Broken() == nil {
				t.Error("it is not known to be broken")
			}
			if err := d.Close(); err != nil {
				t.Error(err)
			}
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if err := open(t, path).Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A panic in a transaction, wherever it comes from, is the file's: what it wrote is
// not committed as far as anybody can tell, and Close does not wait for locks that
// the library holds.
func TestPanic(t *testing.T) {
	d := open(t, filepath.Join(t.TempDir(), "file.db"))
	err := d.Update(func(tx *bbolt.Tx) error { panic("page 7 already freed") })
	if !errors.Is(err, errDamaged) || !strings.Contains(err.Error(), "page 7 already freed") {
		t.Errorf("a panic: %v", err)
	}
	if err := put(d, 1); !errors.Is(err, errDamaged) {
		t.Errorf("after it: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// What is not damage stays what it is, and the file can be used again.
func TestErrors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file.db")
	d := open(t, path)
	no := errors.New("no")
	if err := d.Update(func(*bbolt.Tx) error { return no }); err != no {
		t.Errorf("%v", err)
	}
	if err := put(d, 10); err != nil {
		t.Error(err)
	}
	if _, err := boltdb.Open(path, bbolt.Options{Timeout: time.Millisecond}, nil); !errors.Is(err, bolterrors.ErrTimeout) {
		t.Errorf("a second opening: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}
