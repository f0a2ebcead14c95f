// Package statetest is the conformance suite of keyed state: every backend has
// to pass it.
package statetest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"cutwater/messages"
	"cutwater/protocol/keygroup"
	"cutwater/state"
	"cutwater/state/segment"
)

// Open makes an empty backend for some key groups; the suite closes it.
type Open func(t TB, g state.Groups) state.Backend

// TB is what the suite needs of *testing.T, so that property tests fit too.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

// maxParallelism is small, so that a few hundred keys fill every key group.
const maxParallelism = 16

func everything() state.Groups {
	return state.Groups{MaxParallelism: maxParallelism, Last: maxParallelism - 1}
}

// Run runs the suite.
func Run(t *testing.T, open Open) {
	t.Run("Entries", func(t *testing.T) { entries(t, open) })
	t.Run("Declaration", func(t *testing.T) { declaration(t, open) })
	t.Run("Model", func(t *testing.T) { model(t, open) })
	t.Run("ConcurrentWrite", func(t *testing.T) { concurrentWrite(t, open) })
	t.Run("Deltas", func(t *testing.T) { deltas(t, open) })
	t.Run("Rescale", func(t *testing.T) { rescale(t, open) })
	t.Run("PartOfASegment", func(t *testing.T) { partOfASegment(t, open) })
	t.Run("LargeValues", func(t *testing.T) { largeValues(t, open) })
	t.Run("Damage", func(t *testing.T) { damage(t, open) })
	t.Run("Cancelled", func(t *testing.T) { cancelled(t, open) })
	t.Run("Handles", func(t *testing.T) { handles(t, open) })
	t.Run("Timers", func(t *testing.T) { timers(t, open) })
	t.Run("TimersModel", func(t *testing.T) { timersModel(t, open) })
	t.Run("TimersRescale", func(t *testing.T) { timersRescale(t, open) })
}

var (
	counts = state.Descriptor{Name: "counts", Kind: state.ValueKind, KeyWidth: 8, ValueWidth: 8, Schema: "int64 -> int64"}
	lists  = state.Descriptor{Name: "lists", Kind: state.ListKind, KeyWidth: 8, Schema: "int64 -> bytes"}
	words  = state.Descriptor{Name: "words", Kind: state.ReducingKind, ValueWidth: 3, Namespaced: true, Schema: "string -> int24"}
	// windows has all that varies: keys, values, namespaces.
	windows = state.Descriptor{Name: "windows", Kind: state.ValueKind, Namespaced: true, Schema: "string -> string"}
)

func table(t TB, b state.Backend, d state.Descriptor) *state.Table {
	t.Helper()
	table, err := b.Table(d)
	if err != nil {
		t.Fatalf("table %s: %v", d.Name, err)
	}
	return table
}

func closeAll(t TB, b ...state.Backend) {
	t.Helper()
	for _, b := range b {
		if err := b.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
}

// intKey is the canonical key of an integer, and its hash.
func intKey(i int) (uint64, []byte) {
	k := keygroup.AppendInt(nil, int64(i))
	return keygroup.Hash(k), k
}

func textKey(i int) (uint64, []byte) {
	k := []byte(strings.Repeat("k", i%20) + fmt.Sprint(i))
	return keygroup.Hash(k), k
}

func seal(t TB, b state.Backend, checkpoint uint64, o state.SealOptions) *state.Sealed {
	t.Helper()
	s, err := b.Seal(checkpoint, o)
	if err != nil {
		t.Fatalf("seal %d: %v", checkpoint, err)
	}
	return s
}

// write writes a seal and tells the backend, as a task does.
func write(t TB, s *state.Sealed) *messages.Segment {
	t.Helper()
	var b bytes.Buffer
	n, err := s.Write(context.Background(), &b)
	if err != nil {
		t.Fatalf("write %d: %v", s.Checkpoint, err)
	}
	m := &messages.Segment{
		Handle: &messages.StateHandle{Where: &messages.StateHandle_Inline{Inline: b.Bytes()}},
		Base:   s.Base, Created: s.Checkpoint, Entries: n,
	}
	s.Recorded(m)
	return m
}

// restored opens a backend on segments, oldest first.
func restored(t TB, open Open, g state.Groups, segments ...*messages.Segment) state.Backend {
	t.Helper()
	b := open(t, g)
	for _, s := range segments {
		if err := b.Load(context.Background(), bytes.NewReader(s.Handle.GetInline())); err != nil {
			t.Fatalf("load: %v", err)
		}
	}
	return b
}

// content is a table as text, sorted.
func content(t *state.Table) []string {
	var all []string
	t.Each(func(hash uint64, key []byte, namespace int64, value []byte) bool {
		all = append(all, fmt.Sprintf("%016x %q %d = %q", hash, key, namespace, value))
		return true
	})
	slices.Sort(all)
	return all
}

func same(t TB, what string, got, want []string) {
	t.Helper()
	if slices.Equal(got, want) {
		return
	}
	for _, s := range want {
		if _, ok := slices.BinarySearch(got, s); !ok {
			t.Errorf("%s: missing %s", what, s)
			break
		}
	}
	for _, s := range got {
		if _, ok := slices.BinarySearch(want, s); !ok {
			t.Errorf("%s: too much: %s", what, s)
			break
		}
	}
	t.Fatalf("%s: %d entries, want %d", what, len(got), len(want))
}

// entries: each operation on one entry does what it says, and leaves others be.
func entries(t TB, open Open) {
	b := open(t, everything())
	defer closeAll(t, b)
	c, w := table(t, b, counts), table(t, b, windows)
	h, k := intKey(1)
	if _, ok := c.Get(h, k, 0); ok || c.Len() != 0 || c.Delete(h, k, 0) {
		t.Fatalf("an empty table is not empty")
	}
	v, existed := c.Update(h, k, 0)
	if existed || !bytes.Equal(v, make([]byte, 8)) {
		t.Fatalf("a new value is %v, existed %v", v, existed)
	}
	binary.LittleEndian.PutUint64(v, 7)
	if v, existed = c.Update(h, k, 0); !existed || binary.LittleEndian.Uint64(v) != 7 {
		t.Fatalf("the value is %v, existed %v", v, existed)
	}
	if !c.Delete(h, k, 0) || c.Len() != 0 {
		t.Fatalf("delete did not")
	}
	if v, existed = c.Update(h, k, 0); existed || !bytes.Equal(v, make([]byte, 8)) {
		t.Fatalf("a value after delete is %v, existed %v", v, existed)
	}
	h, k = textKey(3)
	w.Put(h, k, 10, []byte("ten"))
	w.Put(h, k, 20, []byte("twenty"))
	w.Append(h, k, 10, []byte(" and more"))
	w.Append(h, k, 30, []byte("thirty"))
	w.Put(h, k, 40, nil)
	w.Delete(h, k, 20)
	w.Put(h, k, 20, []byte("20"))
	for namespace, want := range map[int64]string{10: "ten and more", 20: "20", 30: "thirty", 40: ""} {
		if v, ok := w.Get(h, k, namespace); !ok || string(v) != want {
			t.Errorf("namespace %d is %q, %v, want %q", namespace, v, ok, want)
		}
	}
	if w.Len() != 4 {
		t.Errorf("%d entries, want 4", w.Len())
	}
}

// declaration: a state is one table under one name, and restored state of other
// types is refused with both schemas.
func declaration(t TB, open Open) {
	b := open(t, everything())
	c := table(t, b, counts)
	if table(t, b, counts) != c {
		t.Errorf("the same descriptor gave another table")
	}
	other := counts
	other.Schema = "int64 -> float64"
	if _, err := b.Table(other); err == nil {
		t.Errorf("a second declaration with other types was accepted")
	}
	if _, err := b.Table(state.Descriptor{Kind: state.ValueKind}); err == nil {
		t.Errorf("a state without a name was accepted")
	}
	h, k := intKey(1)
	c.Update(h, k, 0)
	m := write(t, seal(t, b, 1, state.SealOptions{}))
	r := restored(t, open, everything(), m)
	defer closeAll(t, b, r)
	var schema *state.SchemaError
	if _, err := r.Table(other); !errors.As(err, &schema) || schema.State != "counts" ||
		!strings.Contains(schema.Restored, counts.Schema) || !strings.Contains(schema.Declared, other.Schema) {
		t.Errorf("other types gave %v", err)
	}
	if table(t, r, counts).Len() != 1 {
		t.Errorf("the restored entry is gone")
	}
}

// largeValues: values that are much larger than a chunk, grown piece by piece
// under a seal.
func largeValues(t TB, open Open) {
	b := open(t, everything())
	defer closeAll(t, b)
	l := table(t, b, lists)
	piece := bytes.Repeat([]byte("0123456789abcdef"), 256)
	const keys, pieces = 40, 40
	var before []string
	var s *state.Sealed
	for n := range pieces {
		if n == pieces/2 {
			before = content(l)
			s = seal(t, b, 1, state.SealOptions{})
		}
		for i := range keys {
			h, k := intKey(i)
			l.Append(h, k, 0, piece)
		}
	}
	for i := range keys {
		h, k := intKey(i)
		if v, ok := l.Get(h, k, 0); !ok || !bytes.Equal(v, bytes.Repeat(piece, pieces)) {
			t.Fatalf("list %d has %d bytes, want %d", i, len(v), pieces*len(piece))
		}
	}
	r := restored(t, open, everything(), write(t, s))
	defer closeAll(t, r)
	same(t, "sealed", content(table(t, r, lists)), before)
}

// damage: a segment with any byte changed, or cut anywhere, is refused.
func damage(t TB, open Open) {
	b := open(t, everything())
	defer closeAll(t, b)
	c := table(t, b, counts)
	for i := range 20 {
		h, k := intKey(i)
		c.Update(h, k, 0)
	}
	file := write(t, seal(t, b, 1, state.SealOptions{})).Handle.GetInline()
	r := open(t, everything())
	defer closeAll(t, r)
	for i := range file {
		bad := bytes.Clone(file)
		bad[i] ^= 0x41
		err := r.Load(context.Background(), bytes.NewReader(bad))
		if !errors.Is(err, segment.ErrCorrupt) && !errors.Is(err, segment.ErrNewerFormat) {
			t.Errorf("byte %d changed: %v", i, err)
		}
		if err := r.Load(context.Background(), bytes.NewReader(file[:i])); !errors.Is(err, segment.ErrCorrupt) {
			t.Errorf("cut at byte %d: %v", i, err)
		}
	}
}

// cancelled: writing stops when its context ends, with the context's cause, and
// so does a failing writer.
func cancelled(t TB, open Open) {
	b := open(t, everything())
	defer closeAll(t, b)
	c := table(t, b, counts)
	for i := range 1000 {
		h, k := intKey(i)
		c.Update(h, k, 0)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	cause := errors.New("the checkpoint expired")
	cancel(cause)
	if _, err := seal(t, b, 1, state.SealOptions{}).Write(ctx, io.Discard); !errors.Is(err, cause) {
		t.Errorf("a cancelled write gave %v", err)
	}
	full := errors.New("disk full")
	if _, err := seal(t, b, 2, state.SealOptions{}).Write(context.Background(), failing{full}); !errors.Is(err, full) {
		t.Errorf("a failing writer gave %v", err)
	}
	b.Abort(1)
	b.Abort(2)
	if c.Len() != 1000 {
		t.Errorf("the table has %d entries", c.Len())
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
