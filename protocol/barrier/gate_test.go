package barrier_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"cutwater/internal/script"
	"cutwater/messages"
	"cutwater/protocol/barrier"
)

// The stories of testdata: what a gate does with barriers (B), cancels (C), ends
// of partitions (E), triggers of the coordinator (R), aborts from outside (X) and
// data (D), event by event.
func TestScripts(t *testing.T) {
	script.RunDir(t, "testdata", func(t *testing.T) script.Handler {
		return (&rig{t: t}).handle
	})
}

// rig plays the task around a gate. Events are written like this:
//
//	B5@0     the barrier of checkpoint 5 comes on channel 0
//	B5@0+20  the same, 20 ms old
//	C5@0     a cancel of checkpoint 5
//	E@0      the end of the partition
//	D@0      100 bytes of data
//	R5       the coordinator triggers checkpoint 5 directly
//	X5       the task learns that checkpoint 5 was aborted
//
// Each event with a consequence prints one line.
type rig struct {
	t       *testing.T
	gate    *barrier.Gate
	nowMs   int64
	blocked map[uint32]bool
}

func (r *rig) handle(d *script.Directive) (string, error) {
	switch d.Verb {
	case "aligned", "at-least-once":
		create := barrier.NewAligned
		if d.Verb == "at-least-once" {
			create = barrier.NewAtLeastOnce
		}
		r.gate = create(int(d.Int("channels", 1)), !d.Has("not-after-tasks-finish"))
		r.blocked = map[uint32]bool{}
		return r.gate.String(), nil
	case "play":
		var out strings.Builder
		for _, event := range strings.Fields(d.Body) {
			r.nowMs += d.Int("step", 0)
			if line := r.play(event); line != "" {
				fmt.Fprintf(&out, "%s: %s\n", event, line)
			}
		}
		out.WriteString(r.gate.String())
		return out.String(), nil
	}
	return "", fmt.Errorf("unknown directive %q", d.Verb)
}

func (r *rig) play(event string) string {
	left, right, _ := strings.Cut(event[1:], "@")
	right, age, _ := strings.Cut(right, "+")
	checkpoint, channel := uint64(number(r.t, left)), uint32(number(r.t, right))
	switch event[0] {
	case 'B':
		return r.log(r.gate.Barrier(r.nowMs, channel, &messages.Barrier{
			Checkpoint: checkpoint, TimestampMs: 1000 + int64(checkpoint), AgeMs: number(r.t, age),
		}))
	case 'C':
		return r.log(r.gate.Cancel(r.nowMs, channel, checkpoint))
	case 'E':
		delete(r.blocked, channel)
		return r.log(r.gate.EndOfPartition(r.nowMs, channel))
	case 'R':
		return r.log(r.gate.TriggerOnUnfinished(r.nowMs, &messages.TriggerCheckpoint{
			Checkpoint: checkpoint, TimestampMs: 1000 + int64(checkpoint),
		}))
	case 'X':
		return r.log(r.gate.Abort(r.nowMs, checkpoint, messages.FailureReason_CHECKPOINT_EXPIRED))
	case 'D':
		if r.blocked[channel] {
			return "waits"
		}
		if r.gate.AlignmentStarted() {
			r.gate.BytesProcessed(100)
		}
		return ""
	}
	r.t.Fatalf("unknown event %q", event)
	return ""
}

// log prints the actions and checks that they fit what the task was told before.
func (r *rig) log(a *barrier.Actions) string {
	var parts []string
	for _, abort := range a.Aborts {
		parts = append(parts, fmt.Sprintf("abort %d %v", abort.Checkpoint, abort.Reason))
	}
	if t := a.Trigger; t != nil {
		part := fmt.Sprintf("trigger %d timestamp=%d", t.Checkpoint, t.TimestampMs)
		for _, m := range []struct {
			name  string
			value int64
		}{
			{"age", t.AgeMs},
			{"alignment", t.Metrics.AlignmentMs},
			{"start-delay", t.Metrics.StartDelayMs},
			{"bytes", int64(t.Metrics.AlignmentBytes)},
		} {
			if m.value != 0 {
				part += fmt.Sprintf(" %s=%d", m.name, m.value)
			}
		}
		parts = append(parts, part)
	}
	if len(a.Block) > 0 {
		parts = append(parts, fmt.Sprintf("block %v", a.Block))
	}
	for _, c := range a.Block {
		if r.blocked[c] {
			r.t.Errorf("channel %d is blocked twice", c)
		}
		r.blocked[c] = true
	}
	if len(a.Unblock) > 0 {
		parts = append(parts, fmt.Sprintf("unblock %v", a.Unblock))
	}
	for _, c := range a.Unblock {
		if !r.blocked[c] {
			r.t.Errorf("channel %d is unblocked, and was not blocked", c)
		}
		delete(r.blocked, c)
	}
	return strings.Join(parts, ", ")
}

func number(t *testing.T, s string) int64 {
	if s == "" {
		return 0
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
