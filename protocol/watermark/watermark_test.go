package watermark_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"cutwater/internal/script"
	"cutwater/protocol/watermark"
)

// The stories of testdata. Events: 0@50 is watermark 50 on channel 0, 0-idle,
// 0-active and 0-end are its state. Each prints the merged watermark if it moved,
// and the output's state if it changed, in the order in which a task sends them.
func TestScripts(t *testing.T) {
	script.RunDir(t, "testdata", func(t *testing.T) script.Handler {
		var v *watermark.Valve
		wasIdle := false
		return func(d *script.Directive) (string, error) {
			switch d.Verb {
			case "valve":
				v, wasIdle = watermark.New(int(d.Int("channels", 1))), false
				return v.String(), nil
			case "play":
				var out strings.Builder
				for _, event := range strings.Fields(d.Body) {
					at, advanced := play(t, v, event)
					line := ""
					if wasIdle && !v.OutputIdle() {
						line += " active"
					}
					if advanced {
						line += fmt.Sprintf(" watermark %d", at)
					}
					if !wasIdle && v.OutputIdle() {
						line += " idle"
					}
					wasIdle = v.OutputIdle()
					if line != "" {
						fmt.Fprintf(&out, "%s:%s\n", event, line)
					}
				}
				out.WriteString(v.String())
				return out.String(), nil
			}
			return "", fmt.Errorf("unknown directive %q", d.Verb)
		}
	})
}

func play(t *testing.T, v *watermark.Valve, event string) (int64, bool) {
	channel, state, ok := strings.Cut(event, "-")
	number, err := strconv.ParseInt(strings.Split(channel, "@")[0], 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	ch := uint32(number)
	if at := strings.Index(event, "@"); at >= 0 {
		if event[at+1:] == "max" {
			return v.Update(ch, watermark.End)
		}
		timestampMs, err := strconv.ParseInt(event[at+1:], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return v.Update(ch, timestampMs)
	}
	if !ok {
		t.Fatalf("unknown event %q", event)
	}
	switch state {
	case "idle", "active":
		return v.Idle(ch, state == "idle")
	case "end":
		return v.End(ch)
	}
	t.Fatalf("unknown event %q", event)
	return 0, false
}

// model is the valve written plainly: every channel's watermark and state, and the
// merged watermark from scratch.
type model struct {
	at          []int64
	some        []bool
	idle, ended []bool
	out         int64
	has         bool
}

// to is the minimum over the active channels; the highest of the idle ones if none
// is active; End if all have ended.
func (m *model) to() (int64, bool) {
	var low, high int64
	active, allHave, someHigh, allEnded := 0, true, false, len(m.at) > 0
	for c := range m.at {
		switch {
		case m.ended[c]:
			continue
		case m.idle[c]:
			if m.some[c] && (!someHigh || m.at[c] > high) {
				high, someHigh = m.at[c], true
			}
		default:
			if active == 0 || m.at[c] < low {
				low = m.at[c]
			}
			active++
			allHave = allHave && m.some[c]
		}
		allEnded = false
	}
	switch {
	case allEnded:
		return watermark.End, true
	case active > 0:
		return low, allHave
	}
	return high, someHigh
}

func (m *model) outputIdle() bool {
	working, all := 0, 0
	for c := range m.at {
		if !m.ended[c] {
			all++
			if !m.idle[c] {
				working++
			}
		}
	}
	return all > 0 && working == 0
}

// Any order of watermarks, idleness and ends (bug classes F01, F02): the merged
// watermark is the minimum over the active channels, never goes back, moves as soon
// as it can, and reaches End exactly when all channels have ended.
func TestValveIsTheMinimum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		channels := rapid.IntRange(1, 4).Draw(t, "channels")
		v := watermark.New(channels)
		m := &model{
			at: make([]int64, channels), some: make([]bool, channels),
			idle: make([]bool, channels), ended: make([]bool, channels),
		}
		for range rapid.IntRange(0, 60).Draw(t, "events") {
			c := rapid.IntRange(0, channels-1).Draw(t, "channel")
			var out int64
			var advanced bool
			switch event := rapid.SampledFrom([]string{"watermark", "watermark", "watermark", "idle", "active", "end"}).Draw(t, "event"); event {
			case "watermark":
				at := rapid.OneOf(rapid.Int64Range(-5, 5), rapid.SampledFrom([]int64{-1 << 63, watermark.End - 1})).Draw(t, "at")
				out, advanced = v.Update(uint32(c), at)
				if !m.ended[c] && (!m.some[c] || at > m.at[c]) {
					m.at[c], m.some[c] = at, true
				}
			case "idle", "active":
				out, advanced = v.Idle(uint32(c), event == "idle")
				m.idle[c] = event == "idle"
			case "end":
				out, advanced = v.End(uint32(c))
				m.ended[c] = true
			}
			to, ok := m.to()
			moves := ok && (!m.has || to > m.out)
			if moves {
				m.out, m.has = to, true
			}
			if advanced != moves || m.has && out != m.out {
				t.Fatalf("the valve says %d, %v; it should be %d, %v: %v", out, advanced, m.out, moves, v)
			}
			if at, has := v.Current(); has != m.has || has && at != m.out {
				t.Fatalf("Current is %d, %v", at, has)
			}
			if v.OutputIdle() != m.outputIdle() {
				t.Fatalf("OutputIdle is %v: %v", v.OutputIdle(), v)
			}
		}
	})
}

// No channel, no watermark: in particular not the end of event time (F02).
func TestNoChannels(t *testing.T) {
	v := watermark.New(0)
	if _, ok := v.Current(); ok || v.OutputIdle() {
		t.Errorf("a valve without channels says %v", v)
	}
}

// A watermark costs no allocation.
func TestNoAllocation(t *testing.T) {
	v := watermark.New(100)
	at := int64(0)
	n := testing.AllocsPerRun(100, func() {
		at++
		for c := range uint32(100) {
			v.Update(c, at)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}
