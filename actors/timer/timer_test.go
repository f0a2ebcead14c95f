package timer

import (
	"fmt"
	"strings"
	"testing"

	"cutwater/actors/system/systemtest"
	"cutwater/internal/leak"
	"cutwater/messages"
)

// Nothing that a test starts or opens outlives it.
func TestMain(m *testing.M) { leak.VerifyTestMain(m) }

const owner = "n2|task/x" // on another node, so that the test sees what is sent to it

func newTimer(t *testing.T) *systemtest.Rig {
	t.Helper()
	r := systemtest.New("n1")
	if err := Spawn(r.System); err != nil {
		t.Fatal(err)
	}
	r.Turns()
	return r
}

func set(r *systemtest.Rig, key string, generation uint64, delayMs int64) {
	r.Deliver("n1|timer", &messages.SetTimer{Owner: owner, Key: key, Generation: generation, DelayMs: delayMs})
}

// fired lists what fired since the last call, as key#generation.
func fired(r *systemtest.Rig) string {
	var all []string
	for _, m := range systemtest.Take[*messages.TimerFired](r) {
		all = append(all, fmt.Sprintf("%s#%d", m.Key, m.Generation))
	}
	return strings.Join(all, " ")
}

// A timer fires once, when it is due, with its key and generation.
func TestFiresOnce(t *testing.T) {
	r := newTimer(t)
	set(r, "a", 1, 10)
	set(r, "b", 1, 20)
	for _, step := range []struct {
		ms   int64
		want string
	}{{9, ""}, {1, "a#1"}, {10, "b#1"}, {100, ""}} {
		r.Advance(step.ms)
		if got := fired(r); got != step.want {
			t.Fatalf("after %d ms more %q fired, want %q", step.ms, got, step.want)
		}
	}
}

// Arming a key again replaces it; another owner's timer of the same key is not
// touched.
func TestReplaces(t *testing.T) {
	r := newTimer(t)
	r.Deliver("n1|timer", &messages.SetTimer{Owner: "n2|other", Key: "a", Generation: 7, DelayMs: 10})
	set(r, "a", 1, 10)
	set(r, "a", 2, 15)
	r.Advance(20)
	if got := fired(r); got != "a#7 a#2" {
		t.Fatalf("%q fired, want the other owner's and the second", got)
	}
}

// A cancelled timer does not fire, even if it was due and on its way already.
func TestCancel(t *testing.T) {
	r := newTimer(t)
	set(r, "a", 1, 10)
	r.Deliver("n1|timer", &messages.CancelTimer{Owner: owner, Key: "a"})
	r.Advance(20)
	if got := fired(r); got != "" {
		t.Fatalf("%q fired though it was cancelled", got)
	}
	set(r, "b", 1, 10)
	// Its own alarm reaches the actor behind the cancellation.
	r.System.Deliver("n1|timer", &messages.CancelTimer{Owner: owner, Key: "b"})
	r.System.Deliver("n1|timer", &messages.TimerFired{Owner: owner, Key: "b", Generation: 1})
	r.Turns()
	if got := fired(r); got != "" {
		t.Fatalf("%q fired though the cancellation came first", got)
	}
}

// An alarm of a generation that was replaced while it was on its way is dropped.
func TestStaleGeneration(t *testing.T) {
	r := newTimer(t)
	set(r, "a", 1, 10)
	set(r, "a", 2, 50)
	r.Deliver("n1|timer", &messages.TimerFired{Owner: owner, Key: "a", Generation: 1})
	if got := fired(r); got != "" {
		t.Fatalf("%q fired too early", got)
	}
	r.Advance(50)
	if got := fired(r); got != "a#2" {
		t.Fatalf("%q fired, want a#2", got)
	}
}

// A stopped timer actor fires nothing.
func TestStopDisarms(t *testing.T) {
	r := newTimer(t)
	set(r, "a", 1, 10)
	r.System.StopAll()
	r.Turns()
	r.Advance(20)
	if got := fired(r); got != "" || r.System.Undelivered() != 0 {
		t.Fatalf("%q fired, %d alarms found no actor", got, r.System.Undelivered())
	}
}
