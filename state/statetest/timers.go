package statetest

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"cutwater/protocol/keygroup"
	"cutwater/state"
)

// timers: each fires once, in one order, whether it was set before a snapshot or
// after, and firing goes on where it was interrupted.
func timers(t *testing.T, open Open) {
	b := open(t, everything())
	scope := state.Scope{Backend: b, KeyWidth: 8, KeySchema: "int64"}
	tm := must(state.NewTimers(scope, "timers"))
	set := func(tm *state.Timers, key int, namespace, timeMs int64) {
		h, k := intKey(key)
		tm.Register(h, k, namespace, timeMs)
	}
	for i := range 300 {
		set(tm, i%30, int64(i%3), int64(1000-i))
		set(tm, i%30, int64(i%3), int64(1000-i)) // again
	}
	h, k := intKey(0)
	tm.Delete(h, k, 0, 1000)
	tm.Delete(h, k, 0, 1000) // and again
	if at, ok := tm.Next(); !ok || at != 701 || tm.Len() != 299 {
		t.Fatalf("next is %d %v of %d", at, ok, tm.Len())
	}
	r := restored(t, open, everything(), write(t, seal(t, b, 1, state.SealOptions{})))
	scope.Backend = r
	again := must(state.NewTimers(scope, "timers"))
	fired := func(tm *state.Timers) (all []string) {
		n := 0
		for upTo := int64(700); upTo <= 1000; upTo += 100 {
			for done := false; !done; {
				done = tm.Fire(upTo, func() bool { n++; return n%10 == 0 }, func(_ uint64, key []byte, namespace, timeMs int64) {
					if timeMs > upTo {
						t.Fatalf("a timer of %d fired at %d", timeMs, upTo)
					}
					id := int(binary.LittleEndian.Uint64(key))
					all = append(all, fmt.Sprint(timeMs, " ", id, " ", namespace))
					if timeMs == 900 {
						set(tm, id, namespace, 900) // due at once, but after those before it
						if len(all) > 400 {
							tm.Delete(keygroup.Hash(key), key, namespace, 900)
						}
						set(tm, 99, 7, 950)
					}
				})
			}
		}
		return all
	}
	first, second := fired(tm), fired(again)
	if !slices.Equal(first, second) {
		t.Errorf("restored timers fired otherwise: %d and %d", len(first), len(second))
	}
	if !slices.Contains(first, "950 99 7") || slices.Contains(first, "1000 0 0") || tm.Len() != 0 {
		t.Errorf("%d timers fired, %d are left", len(first), tm.Len())
	}
	closeAll(t, b, r)
}

// timer is a timer of the model.
type timer struct {
	key               int
	namespace, timeMs int64
}

// inOrder is the order in which timers of the model fire.
func inOrder(a, b timer) int {
	ah, ak := intKey(a.key)
	bh, bk := intKey(b.key)
	return cmp.Or(cmp.Compare(a.timeMs, b.timeMs), cmp.Compare(ah, bh), bytes.Compare(ak, bk), cmp.Compare(a.namespace, b.namespace))
}

// timersModel: whatever is set, deleted, fired, saved and restored in whatever
// order, with deltas or without, the timers are those of a sorted list.
func timersModel(t *testing.T, open Open) {
	rapid.Check(t, func(r *rapid.T) {
		b := open(r, everything())
		defer func() { closeAll(r, b) }()
		tm := newTimers(b)
		var model []timer
		var checkpoint uint64
		nowMs := int64(0)
		draw := func(r *rapid.T) timer {
			return timer{rapid.IntRange(0, 20).Draw(r, "key"), int64(rapid.IntRange(0, 1).Draw(r, "namespace")), nowMs + int64(rapid.IntRange(-2, 50).Draw(r, "in"))}
		}
		set := func(x timer) {
			h, k := intKey(x.key)
			tm.Register(h, k, x.namespace, x.timeMs)
			if !slices.Contains(model, x) {
				model = append(model, x)
				slices.SortFunc(model, inOrder)
			}
		}
		r.Repeat(map[string]func(*rapid.T){
			"set": func(r *rapid.T) {
				for range rapid.IntRange(1, 30).Draw(r, "n") {
					set(draw(r))
				}
			},
			"delete": func(r *rapid.T) {
				x := draw(r)
				if len(model) > 0 && rapid.Bool().Draw(r, "one that is set") {
					x = model[rapid.IntRange(0, len(model)-1).Draw(r, "which")]
				}
				h, k := intKey(x.key)
				tm.Delete(h, k, x.namespace, x.timeMs)
				model = slices.DeleteFunc(model, func(y timer) bool { return x == y })
			},
			"fire": func(r *rapid.T) {
				nowMs += int64(rapid.IntRange(0, 20).Draw(r, "on"))
				again := rapid.IntRange(0, 3).Draw(r, "set again")
				stop := rapid.IntRange(1, 5).Draw(r, "stop after")
				n := 0
				for done := false; !done; n++ {
					left := stop
					done = tm.Fire(nowMs, func() bool { left--; return left < 0 }, func(hash uint64, key []byte, namespace, timeMs int64) {
						x := timer{int(int64(binary.LittleEndian.Uint64(key))), namespace, timeMs}
						if len(model) == 0 || model[0] != x || hash != keygroup.Hash(key) {
							r.Fatalf("%+v fired, the timers are %+v", x, model)
						}
						model = model[1:]
						if again > 0 {
							again--
							set(timer{x.key, namespace, timeMs + int64(again*15)})
						}
					})
				}
				if len(model) > 0 && model[0].timeMs <= nowMs {
					r.Fatalf("%+v did not fire until %d", model[0], nowMs)
				}
			},
			"restore": func(r *rapid.T) {
				checkpoint++
				s := seal(r, b, checkpoint, state.SealOptions{Incremental: rapid.Bool().Draw(r, "incremental")})
				segments := slices.Clone(s.Before)
				if s.Empty {
					s.Release()
				} else {
					segments = append(segments, write(r, s))
				}
				b.Confirm(checkpoint)
				if rapid.Bool().Draw(r, "go on with it") {
					closeAll(r, b)
					b = restored(r, open, everything(), segments...)
					tm = newTimers(b)
				}
			},
			"": func(r *rapid.T) {
				at, ok := tm.Next()
				if tm.Len() != len(model) || ok != (len(model) > 0) || ok && at != model[0].timeMs {
					r.Fatalf("next is %d %v of %d, the timers are %+v", at, ok, tm.Len(), model)
				}
			},
		})
	})
}

func newTimers(b state.Backend) *state.Timers {
	return must(state.NewTimers(state.Scope{Backend: b, KeyWidth: 8, KeySchema: "int64"}, "timers"))
}

// timersRescale: after a restore with another parallelism each timer is in the one
// subtask that has its key.
func timersRescale(t *testing.T, open Open) {
	b := open(t, everything())
	defer closeAll(t, b)
	tm := newTimers(b)
	const n = 500
	for i := range n {
		h, k := intKey(i)
		tm.Register(h, k, 0, int64(i))
	}
	m := write(t, seal(t, b, 1, state.SealOptions{}))
	seen := map[int]int{}
	for subtask := range 3 {
		first, last := keygroup.Range(subtask, 3, maxParallelism)
		part := restored(t, open, state.Groups{MaxParallelism: maxParallelism, First: first, Last: last}, m)
		newTimers(part).Fire(n, func() bool { return false }, func(hash uint64, key []byte, _, _ int64) {
			if of := keygroup.Of(hash, maxParallelism); of < first || of > last {
				t.Errorf("subtask %d fired a timer of key group %d", subtask, of)
			}
			seen[int(binary.LittleEndian.Uint64(key))]++
		})
		closeAll(t, part)
	}
	for i := range n {
		if seen[i] != 1 {
			t.Fatalf("the timer of key %d fired %d times", i, seen[i])
		}
	}
}
