// Package statetest is the conformance suite of state.Backend. The heap and the
// bolt backend run it, so that a job behaves alike on either.
package statetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"cutwater/messages"
	"cutwater/protocol/keygroup"
	"cutwater/state"
	"cutwater/state/segment"
)

// MaxParallelism is the number of key groups in the suite.
const MaxParallelism = 128

// Fresh makes an empty backend for these key groups, of MaxParallelism. The
// suite closes it.
type Fresh func(t testing.TB, first, last int) state.Backend

// Run holds a backend to the contract.
func Run(t *testing.T, fresh Fresh) {
	tests := []struct {
		name string
		run  func(t *testing.T, fresh Fresh)
	}{
		{"every operation equals a map, through seals, aborts, confirms and restores", model},
		{"a seal stays as it was while the table grows and shrinks", sealStays},
		{"a delete reaches the restored state", deleteRestored},
		{"a load skips the key groups of others", groupsAtLoad},
		{"a state of another schema is refused", otherSchema},
		{"large values append, restore and go", largeValues},
		{"damage is found wherever it is", damage},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { test.run(t, fresh) })
	}
}

func open(t testing.TB, fresh Fresh, first, last int) state.Backend {
	t.Helper()
	b := fresh(t, first, last)
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func table(t rapid.TB, b state.Backend, d state.Descriptor) *state.Table {
	t.Helper()
	table, err := b.Table(d)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func seal(t rapid.TB, b state.Backend, checkpoint uint64, o state.SealOptions) *state.Sealed {
	t.Helper()
	s, err := b.Seal(checkpoint, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func write(t rapid.TB, s *state.Sealed) []byte {
	t.Helper()
	var b bytes.Buffer
	if _, err := s.Write(context.Background(), &b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func load(t rapid.TB, b state.Backend, file []byte) {
	t.Helper()
	if err := b.Load(context.Background(), bytes.NewReader(file)); err != nil {
		t.Fatal(err)
	}
}

// inline is the segment that a file became.
func inline(file []byte, base bool) *messages.Segment {
	return &messages.Segment{
		Base:   base,
		Handle: &messages.StateHandle{Where: &messages.StateHandle_Inline{Inline: file}},
	}
}

func intKey(i int64) (hash uint64, key []byte) {
	key = keygroup.AppendInt(nil, i)
	return keygroup.Hash(key), key
}

var counts = state.Descriptor{Name: "counts", Kind: state.ValueKind, KeyWidth: 8, ValueWidth: 8, Schema: "int -> int"}

// sealStays: several live seals, each written only after the table has moved on.
func sealStays(t *testing.T, fresh Fresh) {
	b := open(t, fresh, 0, MaxParallelism-1)
	c := table(t, b, counts)
	const step, rounds = 3000, 4
	var seals []*state.Sealed
	for round := range int64(rounds) {
		for i := range int64(step) {
			hash, key := intKey(round*step + i)
			v, _ := c.Update(hash, key, 0)
			v[0] = byte(round)
			if round > 0 && i%2 == 0 {
				hash, key = intKey((round-1)*step + i)
				c.Delete(hash, key, 0)
			}
		}
		seals = append(seals, seal(t, b, uint64(round+1), state.SealOptions{}))
	}
	for i := range int64(rounds * step) {
		hash, key := intKey(i)
		c.Delete(hash, key, 0)
	}
	for round := rounds - 1; round >= 0; round-- { // released newest first
		restored := open(t, fresh, 0, MaxParallelism-1)
		load(t, restored, write(t, seals[round]))
		if got, want := table(t, restored, counts).Len(), step+round*step/2; got != want {
			t.Errorf("seal %d has %d entries, want %d", round, got, want)
		}
	}
	if c.Len() != 0 {
		t.Errorf("%d entries are left", c.Len())
	}
}

// deleteRestored: an entry of the base that a delta deletes is not in the result.
func deleteRestored(t *testing.T, fresh Fresh) {
	b := open(t, fresh, 0, MaxParallelism-1)
	c := table(t, b, counts)
	for i := range int64(100) {
		hash, key := intKey(i)
		c.Update(hash, key, 0)
	}
	first := seal(t, b, 1, state.SealOptions{Incremental: true})
	base := write(t, first)
	first.Recorded(inline(base, true))
	b.Confirm(1)
	hash, key := intKey(7)
	c.Delete(hash, key, 0)
	second := seal(t, b, 2, state.SealOptions{Incremental: true})
	if second.Base || second.Empty || len(second.Before) != 1 {
		t.Fatalf("the second is no delta on the first: %+v", second)
	}
	restored := open(t, fresh, 0, MaxParallelism-1)
	load(t, restored, base)
	load(t, restored, write(t, second))
	r := table(t, restored, counts)
	if _, ok := r.Get(hash, key, 0); ok || r.Len() != 99 {
		t.Errorf("the key is there: %v; %d entries, want 99", ok, r.Len())
	}
}

// groupsAtLoad: two halves of the key groups restore to the whole.
func groupsAtLoad(t *testing.T, fresh Fresh) {
	b := open(t, fresh, 0, MaxParallelism-1)
	c := table(t, b, counts)
	const n = 1000
	for i := range int64(n) {
		hash, key := intKey(i)
		c.Update(hash, key, 0)
	}
	file := write(t, seal(t, b, 1, state.SealOptions{}))
	sum := 0
	for _, half := range [][2]int{{0, MaxParallelism/2 - 1}, {MaxParallelism / 2, MaxParallelism - 1}} {
		r := open(t, fresh, half[0], half[1])
		load(t, r, file)
		part := table(t, r, counts)
		part.Each(func(hash uint64, _ []byte, _ int64, _ []byte) bool {
			if g := keygroup.Of(hash, MaxParallelism); g < half[0] || g > half[1] {
				t.Errorf("key group %d in %v", g, half)
			}
			return true
		})
		sum += part.Len()
	}
	if sum != n {
		t.Errorf("%d entries, want %d", sum, n)
	}
}

// otherSchema: restored state is not read as another type.
func otherSchema(t *testing.T, fresh Fresh) {
	b := open(t, fresh, 0, MaxParallelism-1)
	hash, key := intKey(1)
	table(t, b, counts).Update(hash, key, 0)
	restored := open(t, fresh, 0, MaxParallelism-1)
	load(t, restored, write(t, seal(t, b, 1, state.SealOptions{})))
	d := counts
	d.Schema = "int -> float"
	var refused *state.SchemaError
	if _, err := restored.Table(d); !errors.As(err, &refused) || refused.State != d.Name {
		t.Errorf("got %v, want a SchemaError", err)
	}
}

// largeValues: values far beyond a chunk's usual size, by Put and by Append,
// while a seal keeps the older ones.
func largeValues(t *testing.T, fresh Fresh) {
	d := state.Descriptor{Name: "texts", Kind: state.ListKind, Schema: "text"}
	b := open(t, fresh, 0, MaxParallelism-1)
	c := table(t, b, d)
	piece := bytes.Repeat([]byte("0123456789abcdef"), 1<<10)
	key := func(i int) (uint64, []byte) {
		k := fmt.Append(nil, "key ", i)
		return keygroup.Hash(k), k
	}
	const keys, pieces = 20, 20
	var before *state.Sealed
	for p := range pieces {
		if p == pieces/2 {
			before = seal(t, b, 1, state.SealOptions{})
		}
		for i := range keys {
			hash, k := key(i)
			c.Append(hash, k, 0, piece)
		}
	}
	check := func(b state.Backend, pieces int) {
		t.Helper()
		c := table(t, b, d)
		for i := range keys {
			hash, k := key(i)
			if v, _ := c.Get(hash, k, 0); !bytes.Equal(v, bytes.Repeat(piece, pieces)) {
				t.Errorf("key %d has %d bytes of %d, or others", i, len(v), pieces*len(piece))
			}
		}
	}
	check(b, pieces)
	for _, test := range []struct {
		s      *state.Sealed
		pieces int
	}{{before, pieces / 2}, {seal(t, b, 2, state.SealOptions{}), pieces}} {
		restored := open(t, fresh, 0, MaxParallelism-1)
		load(t, restored, write(t, test.s))
		check(restored, test.pieces)
	}
	for i := range keys {
		hash, k := key(i)
		c.Delete(hash, k, 0)
	}
	if s := seal(t, b, 3, state.SealOptions{}); !s.Empty || s.FullBytes != 0 {
		t.Errorf("after the deletes: empty %v, %d bytes", s.Empty, s.FullBytes)
	} else {
		s.Release()
	}
}

// damage: any flipped byte and any cut is an error, never other state.
func damage(t *testing.T, fresh Fresh) {
	b := open(t, fresh, 0, MaxParallelism-1)
	c := table(t, b, counts)
	for i := range int64(20) {
		hash, key := intKey(i)
		c.Update(hash, key, 0)
	}
	file := write(t, seal(t, b, 1, state.SealOptions{}))
	for i := range file {
		bad := bytes.Clone(file)
		bad[i] ^= 0x41
		r := fresh(t, 0, MaxParallelism-1)
		err := r.Load(context.Background(), bytes.NewReader(bad))
		if !errors.Is(err, segment.ErrCorrupt) && !errors.Is(err, segment.ErrNewerFormat) {
			t.Errorf("byte %d flipped: %v", i, err)
		}
		if err := r.Load(context.Background(), bytes.NewReader(file[:i])); !errors.Is(err, segment.ErrCorrupt) {
			t.Errorf("cut at byte %d: %v", i, err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}
