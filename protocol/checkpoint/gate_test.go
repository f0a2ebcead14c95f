package checkpoint

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"cutwater/messages"
)

// inbox is what the subtasks of a gate have received.
type inbox struct {
	gate *EventGate
	got  []string
}

func newInbox(subtasks int) *inbox {
	return &inbox{gate: NewEventGate(subtasks), got: make([]string, subtasks)}
}

func event(n int) proto.Message { return &messages.SplitAssignment{Number: uint64(n)} }

func (b *inbox) take(subtask int, events ...proto.Message) {
	for _, e := range events {
		b.got[subtask] += fmt.Sprint(e.(*messages.SplitAssignment).Number)
	}
}

func (b *inbox) offer(subtask, n int) {
	if b.gate.Offer(subtask, event(n)) {
		b.take(subtask, event(n))
	}
}

func (b *inbox) releaseAll(checkpoint uint64) {
	for _, h := range b.gate.ReleaseAll(checkpoint) {
		b.take(h.Subtask, h.Event)
	}
}

func (b *inbox) want(t *testing.T, want string) {
	t.Helper()
	if got := strings.Join(b.got, "|"); got != want {
		t.Errorf("received %q, want %q", got, want)
	}
}

// Scenarios 134-137, 145: events pass before the snapshot, are held after it,
// and the acknowledgement of a subtask releases its own only; the end of the
// checkpoint releases the rest.
func TestGateHoldsUntilAcknowledged(t *testing.T) {
	b := newInbox(2)
	b.offer(0, 1)
	b.gate.Hold(5)
	b.offer(0, 2)
	b.offer(1, 3)
	b.offer(1, 4)
	b.want(t, "1|")
	b.take(1, b.gate.Release(1, 5)...)
	b.want(t, "1|34")
	b.offer(1, 5)
	b.offer(0, 6)
	b.want(t, "1|345")
	b.releaseAll(5)
	b.want(t, "126|345")
	b.take(0, b.gate.Release(0, 5)...)
	b.releaseAll(5)
	b.want(t, "126|345")
}

// Scenarios 140, 141: with two checkpoints the order is kept, whichever is over
// first.
func TestGateTwoCheckpoints(t *testing.T) {
	for _, c := range []struct {
		name  string
		order []uint64
		after string
	}{
		{"the older first", []uint64{22, 23}, "01"},
		{"the newer first", []uint64{23, 22}, "0"},
	} {
		b := newInbox(1)
		b.offer(0, 0)
		b.gate.Hold(22)
		b.offer(0, 1)
		b.gate.Hold(23)
		b.offer(0, 2)
		b.take(0, b.gate.Release(0, c.order[0])...)
		b.want(t, c.after)
		b.offer(0, 3)
		b.releaseAll(c.order[1])
		b.releaseAll(c.order[0])
		if b.got[0] != "0123" {
			t.Errorf("%s: received %q, want 0123", c.name, b.got[0])
		}
	}
}

// Scenario 139: a snapshot that ends after its checkpoint holds nothing; a
// failover drops what is held.
func TestGateLateHoldAndReset(t *testing.T) {
	b := newInbox(1)
	b.releaseAll(7)
	b.gate.Hold(7)
	b.offer(0, 1)
	b.want(t, "1")
	b.gate.Hold(8)
	b.offer(0, 2)
	b.gate.Reset()
	b.releaseAll(8)
	b.offer(0, 3)
	b.want(t, "13")
	b.gate.Hold(9)
	defer func() {
		if recover() == nil {
			t.Error("holding for an older checkpoint passed")
		}
	}()
	b.gate.Hold(9)
}

// Scenario 146: whatever happens, each event arrives once, in order, and what a
// coordinator's snapshot of a checkpoint does not hold arrives behind the
// subtask's snapshot of it.
func TestGateProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := newInbox(1)
		var live []uint64
		sent := map[uint64]int{}
		next, checkpoint := 0, uint64(0)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 2).Draw(t, "what") {
			case 0:
				if next < 10 {
					b.offer(0, next)
					next++
				}
			case 1:
				checkpoint++
				b.gate.Hold(checkpoint)
				live = append(live, checkpoint)
				sent[checkpoint] = next
			default:
				if len(live) == 0 {
					continue
				}
				i := rapid.IntRange(0, len(live)-1).Draw(t, "which")
				if len(b.got[0]) > sent[live[i]] {
					t.Fatalf("event %d passed the snapshot of checkpoint %d", sent[live[i]], live[i])
				}
				b.take(0, b.gate.Release(0, live[i])...)
				live = append(live[:i:i], live[i+1:]...)
			}
		}
		for _, c := range live {
			b.releaseAll(c)
		}
		if b.got[0] != "0123456789"[:next] {
			t.Fatalf("received %q", b.got[0])
		}
	})
}
