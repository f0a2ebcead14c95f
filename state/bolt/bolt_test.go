package bolt_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"cutwater/protocol/keygroup"
	"cutwater/state"
	"cutwater/state/bolt"
	"cutwater/state/statetest"
	"cutwater/storage/vfs"
)

func options(dir string, cacheBytes int64) bolt.Options {
	return bolt.Options{MaxParallelism: 16, LastGroup: 15, FS: vfs.OS(), Dir: dir, CacheBytes: cacheBytes}
}

// The bolt backend passes the conformance suite, with a cache so small that
// nearly every operation evicts.
func TestConformance(t *testing.T) {
	root := t.TempDir()
	var n atomic.Int64
	statetest.Run(t, func(t statetest.TB, g state.Groups) state.Backend {
		o := options(filepath.Join(root, fmt.Sprint(n.Add(1))), 24<<10)
		o.MaxParallelism, o.FirstGroup, o.LastGroup = g.MaxParallelism, g.First, g.Last
		b, err := bolt.New(o)
		if err != nil {
			t.Fatalf("%v", err)
		}
		return b
	})
}

// The scratch file holds what was evicted, and is gone after Close; leftovers of
// a crash are gone after New.
func TestScratch(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "scratch")
	if err := os.MkdirAll(filepath.Join(dir, "old"), 0o700); err != nil {
		t.Fatal(err)
	}
	b, err := bolt.New(options(dir, 16<<10))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "old")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a leftover is still there: %v", err)
	}
	table, err := b.Table(state.Descriptor{Name: "counts", Kind: state.ValueKind, KeyWidth: 8, ValueWidth: 8})
	if err != nil {
		t.Fatal(err)
	}
	const keys = 20_000
	for round := range 2 {
		for i := range int64(keys) {
			k := keygroup.AppendInt(nil, i)
			if v, _ := table.Update(keygroup.Hash(k), k, 0); int(v[0]) != round {
				t.Fatalf("key %d is %d in round %d", i, v[0], round)
			} else {
				v[0]++
			}
		}
	}
	file, err := os.Stat(filepath.Join(dir, "state.db"))
	if err != nil || file.Size() < 100<<10 {
		t.Errorf("the scratch file: %v, %v", file, err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the scratch directory is still there: %v", err)
	}
}

// A directory that cannot be used is an error that names it.
func TestUnusable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := bolt.New(options(filepath.Join(file, "scratch"), 0)); err == nil {
		t.Error("a file served as a directory")
	}
}

// A scratch file that loses its pages fails the task that reads or writes it, with
// the file and what to do, and not the process; the backend can be closed.
func TestDamagedScratch(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "scratch")
	b, err := bolt.New(options(dir, 16<<10))
	if err != nil {
		t.Fatal(err)
	}
	table, err := b.Table(state.Descriptor{Name: "counts", Kind: state.ValueKind, KeyWidth: 8, ValueWidth: 8})
	if err != nil {
		t.Fatal(err)
	}
	const keys = 20_000
	updateAll := func() (failure any) {
		defer func() { failure = recover() }()
		for i := range int64(keys) {
			k := keygroup.AppendInt(nil, i)
			table.Update(keygroup.Hash(k), k, 0)
		}
		return nil
	}
	if failure := updateAll(); failure != nil {
		t.Fatal(failure)
	}
	path := filepath.Join(dir, "state.db")
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		failed, ok := updateAll().(*state.ScratchError)
		if !ok || !strings.Contains(failed.Error(), path) || !strings.Contains(failed.Error(), "heap backend") {
			t.Fatalf("the task met %v", failed)
		}
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}
