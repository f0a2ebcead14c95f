package state

import (
	"slices"
	"testing"

	"cutwater/protocol/keygroup"
)

// With far more timers than memory has room for, they fire in the same order,
// and memory holds no more than its share.
func TestTimersBeyondMemory(t *testing.T) {
	const limit, n = 16, 2000
	run := func(limit int) (fired []int64) {
		b := NewTables(allGroups(), nil, 0)
		tm, err := newTimers(Scope{Backend: b, KeyWidth: 8, KeySchema: "int64"}, "timers", limit)
		if err != nil {
			t.Fatal(err)
		}
		set := func(i int64) {
			key := keygroup.AppendInt(nil, i%50)
			tm.Register(keygroup.Hash(key), key, i%2, i*7919%5000)
			if len(tm.near) > tm.bound() {
				t.Fatalf("%d timers in memory, the bound is %d", len(tm.near), tm.bound())
			}
		}
		for i := range int64(n) {
			set(i)
		}
		for i := range int64(n / 3) { // deleted before they are due
			key := keygroup.AppendInt(nil, i%50)
			tm.Delete(keygroup.Hash(key), key, i%2, i*7919%5000)
		}
		done := tm.Fire(5000, func() bool { return false }, func(hash uint64, _ []byte, namespace, timeMs int64) {
			fired = append(fired, timeMs, int64(hash), namespace)
			if len(fired) < 3*n {
				set(timeMs + 1)
			}
		})
		if _, ok := tm.Next(); !done || ok || tm.Len() != 0 {
			t.Fatalf("%d timers are left", tm.Len())
		}
		return fired
	}
	few, all := run(limit), run(1<<20)
	if !slices.Equal(few, all) {
		t.Errorf("%d fired with little memory, %d with much, or in another order", len(few)/3, len(all)/3)
	}
}
