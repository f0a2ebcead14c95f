package checkpoint

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"cutwater/messages"
)

func periodic() *request {
	return &request{kind: messages.CheckpointType_CHECKPOINT, periodic: true}
}

func savepoint(periodic, forced bool) *request {
	return &request{kind: messages.CheckpointType_SAVEPOINT, periodic: periodic, forced: forced}
}

// Scenarios 69, 70: at max-concurrent only a forced request starts.
func TestDeciderMaxConcurrent(t *testing.T) {
	for _, c := range []struct {
		name    string
		r       *request
		pending int
		starts  bool
	}{
		{"periodic at the limit", periodic(), 1, false},
		{"periodic below it", periodic(), 0, true},
		{"savepoint at the limit", savepoint(false, false), 1, false},
		{"savepoint below it", savepoint(false, false), 0, true},
		{"forced savepoint at the limit", savepoint(false, true), 1, true},
	} {
		d := decider{maxConcurrent: 1, maxQueued: 10}
		d.submit(c.r)
		chosen, _ := d.choose(0, load{pending: c.pending})
		if (chosen == c.r) != c.starts {
			t.Errorf("%s: starts %t, want %t", c.name, !c.starts, c.starts)
		}
		if len(d.queue) == 1 == c.starts {
			t.Errorf("%s: %d requests stay queued", c.name, len(d.queue))
		}
	}
}

// Scenario 71: deletions hold back even forced requests, above the limit only.
func TestDeciderCleaning(t *testing.T) {
	d := decider{maxConcurrent: 2, maxQueued: 10}
	d.submit(savepoint(false, true))
	if chosen, _ := d.choose(0, load{cleaning: 3}); chosen != nil {
		t.Error("a request started while 3 checkpoints were being deleted")
	}
	if chosen, _ := d.choose(0, load{triggering: true}); chosen != nil {
		t.Error("a request started while another was being triggered")
	}
	if chosen, _ := d.choose(0, load{cleaning: 2}); chosen == nil {
		t.Error("no request started while 2 checkpoints were being deleted")
	}
}

// Scenarios 72, 74, 75 and row 13: the order of the queue.
func TestDeciderOrder(t *testing.T) {
	want := []*request{
		savepoint(false, true), savepoint(true, true), savepoint(false, false), savepoint(true, false),
		{kind: messages.CheckpointType_CHECKPOINT, submittedMs: 1}, {kind: messages.CheckpointType_FULL_CHECKPOINT, submittedMs: 2},
		{kind: messages.CheckpointType_CHECKPOINT, periodic: true, submittedMs: 1},
		{kind: messages.CheckpointType_CHECKPOINT, periodic: true, submittedMs: 2},
		{kind: messages.CheckpointType_CHECKPOINT, periodic: true, submittedMs: 2},
	}
	for seed := range len(want) {
		d := decider{maxConcurrent: 1, maxQueued: 100}
		// The two last are equal but for the order of their submission.
		rest := want[:len(want)-1]
		for i := range rest {
			d.submit(rest[(i*3+seed)%len(rest)])
		}
		d.submit(want[len(want)-1])
		for i, w := range want {
			if got, _ := d.choose(0, load{}); got != w {
				t.Fatalf("seed %d: place %d is taken by %+v, want %+v", seed, i, got, w)
			}
		}
	}
}

// Scenarios 76, 77: the least important request leaves a full queue; a full
// queue of requests that are waited for takes no newcomer.
func TestDeciderFullQueue(t *testing.T) {
	d := decider{maxConcurrent: 1, maxQueued: 10}
	for i := range 10 {
		if r := d.submit(periodic()); r != nil {
			t.Fatalf("request %d found no room", i)
		}
	}
	last := periodic()
	if r := d.submit(last); r != last {
		t.Errorf("%+v was rejected, want the newest", r)
	}
	d = decider{maxConcurrent: 1, maxQueued: 1}
	first := periodic()
	d.submit(first)
	s := savepoint(false, true)
	if r := d.submit(s); r != first || d.queue[0] != s {
		t.Errorf("%+v was rejected and %+v queued, want the periodic one and the savepoint", r, d.queue[0])
	}
	newcomer := savepoint(false, true)
	newcomer.submittedMs = -1
	if r := d.submit(newcomer); r != newcomer || d.queue[0] != s {
		t.Errorf("%+v was rejected, want the newcomer although it is more important", r)
	}
}

// Row 17: the minimum pause holds for periodic requests that are not forced.
func TestDeciderMinPause(t *testing.T) {
	after := load{completed: true, lastCompletionMs: 100}
	for _, c := range []struct {
		name  string
		r     *request
		nowMs int64
		l     load
		pause int64
	}{
		{"too soon", periodic(), 140, after, 10},
		{"just in time", periodic(), 150, after, 0},
		{"later", periodic(), 1000, after, 0},
		{"first", periodic(), 0, load{}, 0},
		{"the clock was set back", periodic(), -3_600_000, after, 50},
		{"user's", &request{kind: messages.CheckpointType_CHECKPOINT}, 100, after, 0},
		{"forced", savepoint(true, true), 100, after, 0},
	} {
		d := decider{maxConcurrent: 1, minPauseMs: 50, maxQueued: 10}
		d.submit(c.r)
		if chosen, pause := d.choose(c.nowMs, c.l); chosen != c.r || pause != c.pause {
			t.Errorf("%s: chosen %v with pause %d, want a pause of %d", c.name, chosen, pause, c.pause)
		}
	}
}

// Property: no request is lost or doubled, the queue stays in order and within
// its bound, and at the limit nothing but forced requests starts.
func TestDeciderProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := decider{maxConcurrent: 2, minPauseMs: 5, maxQueued: 4}
		out := map[*request]int{}
		submitted := 0
		leave := func(r *request) {
			if out[r]++; out[r] > 1 {
				t.Fatalf("request %d left twice", r.number)
			}
		}
		for now := range int64(rapid.IntRange(1, 60).Draw(t, "steps")) {
			if rapid.Bool().Draw(t, "submit") {
				kind := rapid.SampledFrom([]messages.CheckpointType{1, 2, 3, 4}).Draw(t, "kind")
				r := &request{kind: kind, periodic: rapid.Bool().Draw(t, "periodic"), forced: rapid.Bool().Draw(t, "forced"), submittedMs: now / 3}
				submitted++
				if rejected := d.submit(r); rejected != nil {
					leave(rejected)
				}
			} else {
				l := load{pending: rapid.IntRange(0, 3).Draw(t, "pending"), completed: true, lastCompletionMs: now - rapid.Int64Range(0, 9).Draw(t, "ago")}
				r, pause := d.choose(now, l)
				if r != nil {
					leave(r)
					if l.pending >= 2 && !r.forced {
						t.Fatalf("request %d started at the limit", r.number)
					}
					if pause > 0 && (!r.periodic || r.forced) {
						t.Fatalf("request %d was held back by the pause", r.number)
					}
				}
			}
			if len(d.queue) > 4 || !slices.IsSortedFunc(d.queue, func(a, b *request) int {
				if a.before(b) {
					return -1
				}
				return 1
			}) {
				t.Fatalf("the queue is %s", fmt.Sprint(d.queue))
			}
		}
		if len(d.drain())+len(out) != submitted {
			t.Fatalf("%d of %d requests are accounted for", len(out), submitted)
		}
	})
}
