package statetest

import (
	"slices"
	"testing"

	"cutwater/messages"
	"cutwater/state"
)

// deltas: a delta builds on the last confirmed checkpoint, whatever was aborted,
// saved or lost meanwhile, and a long or heavy chain ends in a new base.
func deltas(t *testing.T, open Open) {
	b := open(t, everything())
	defer closeAll(t, b)
	c := table(t, b, counts)
	touch := func(i int) {
		h, k := intKey(i)
		v, _ := c.Update(h, k, 0)
		v[0]++
	}
	for i := range 1000 {
		touch(i)
	}
	incremental := state.SealOptions{Incremental: true}
	expect := func(id uint64, o state.SealOptions, before ...uint64) *messages.Segment {
		t.Helper()
		s := seal(t, b, id, o)
		var got []uint64
		for _, m := range s.Before {
			got = append(got, m.Created)
		}
		if s.Base != (len(before) == 0) || !slices.Equal(got, before) {
			t.Fatalf("checkpoint %d: base %v after %v, want after %v", id, s.Base, got, before)
		}
		return write(t, s)
	}
	if m := expect(1, incremental); m.Entries != 1000 {
		t.Errorf("the first base has %d entries", m.Entries)
	}
	touch(1)
	expect(2, incremental) // 1 is not confirmed yet
	b.Confirm(1)
	b.Abort(2)
	touch(2)
	if m := expect(3, incremental, 1); m.Entries != 2 {
		t.Errorf("checkpoint 3 has %d entries, want what changed since 1", m.Entries)
	}
	touch(3)
	expect(4, state.SealOptions{Incremental: true, Savepoint: true}, 1)
	b.Confirm(4)
	if m := expect(5, state.SealOptions{Savepoint: true}); m.Entries != 1000 {
		t.Errorf("a full savepoint has %d entries", m.Entries)
	}
	b.Confirm(5)
	h, k := intKey(4)
	c.Delete(h, k, 0)
	if m := expect(6, incremental, 1); m.Entries != 4 {
		t.Errorf("checkpoint 6 has %d entries, want 3 puts and a delete", m.Entries)
	}
	b.Confirm(6) // 3 was not heard of again
	b.Confirm(3) // too late
	s := seal(t, b, 7, incremental)
	if !s.Empty || s.Base {
		t.Errorf("nothing changed, but checkpoint 7 is empty %v, base %v", s.Empty, s.Base)
	}
	s.Release()
	b.Confirm(7)
	chain := []uint64{1, 6}
	for id := uint64(8); len(chain) < 9; id++ {
		touch(int(id))
		expect(id, incremental, chain...)
		b.Confirm(id)
		chain = append(chain, id)
	}
	touch(100)
	expect(20, incremental) // nine deltas would be too many
	b.Confirm(20)
	for i := range 900 {
		touch(i)
	}
	expect(21, incremental, 20)
	b.Confirm(21)
	for i := range 900 {
		touch(i)
	}
	expect(22, incremental, 20, 21)
	b.Confirm(22)
	touch(1)
	expect(23, incremental) // the deltas outweigh the base
}
