package bolt_test

import (
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"cutwater/protocol/keygroup"
	"cutwater/state"
	"cutwater/state/bolt"
	"cutwater/state/heap"
)

// G05 (materialize #19866, #15974): a restore took memory for all of the source, and was
// killed for it again and again. Here state that is ten times the cache is restored within
// a bound that the cache sets, and is all there.
func TestBugLog_G05_RestoreIsBounded(t *testing.T) {
	const keys, width, cache = 60_000, 64, 512 << 10 // written by the other backend, which is faster
	descriptor := state.Descriptor{Name: "counts", Kind: state.ValueKind, KeyWidth: 8, ValueWidth: width}
	segment := filepath.Join(t.TempDir(), "segment")
	from := heap.New(heap.Options{MaxParallelism: 16, LastGroup: 15})
	table, err := from.Table(descriptor)
	must(t, err)
	for i := range int64(keys) {
		k := keygroup.AppendInt(nil, i)
		v, _ := table.Update(keygroup.Hash(k), k, 0)
		v[0], v[width-1] = byte(i), byte(i>>8)
	}
	sealed, err := from.Seal(1, state.SealOptions{})
	must(t, err)
	out, err := os.Create(segment)
	must(t, err)
	entries, err := sealed.Write(t.Context(), out)
	must(t, err)
	must(t, out.Close())
	must(t, from.Close())
	if entries != keys {
		t.Fatalf("%d of %d entries were written", entries, keys)
	}

	in, err := os.Open(segment)
	must(t, err)
	defer in.Close()
	b, err := bolt.New(options(filepath.Join(t.TempDir(), "scratch"), cache))
	must(t, err)
	watched := &watcher{r: in, base: inUse()}
	must(t, b.Load(t.Context(), watched))
	const bound = 4 * cache
	if size := int64(keys * (8 + width)); watched.peak > bound || size < 2*bound {
		t.Errorf("restoring %d bytes took %d bytes of memory, want at most %d", size, watched.peak, bound)
	}
	if watched.looks < 10 {
		t.Errorf("progress was seen %d times", watched.looks)
	}
	table, err = b.Table(descriptor)
	must(t, err)
	for i := int64(0); i < keys; i += 50 {
		k := keygroup.AppendInt(nil, i)
		if v, _ := table.Update(keygroup.Hash(k), k, 0); v[0] != byte(i) || v[width-1] != byte(i>>8) {
			t.Fatalf("key %d is restored as %v", i, v)
		}
	}
	must(t, b.Close())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// watcher looks at the memory in use each quarter of a MiB that is read.
type watcher struct {
	r          io.Reader
	n, next    int64
	base, peak int64
	looks      int
}

// Read implements io.Reader.
func (w *watcher) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	if w.n += int64(n); w.n >= w.next {
		w.next += 256 << 10
		w.looks++
		w.peak = max(w.peak, inUse()-w.base)
	}
	return n, err
}

// inUse is what is reachable on the heap.
func inUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
