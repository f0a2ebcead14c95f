package checkpoint

import (
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"cutwater/messages"
)

// Rows 1, 20, 25 of the reference: each setting at and beyond its limits; the
// error names the key and all errors come at once.
func TestValidate(t *testing.T) {
	good := &messages.CheckpointConfig{IntervalMs: 10, TimeoutMs: 10, MaxConcurrent: 1, NumRetained: 1, InlineThresholdBytes: 1 << 20, MinPauseMs: maxMinPauseMs, Unaligned: true}
	if err := Validate(good); err != nil {
		t.Fatalf("at the limits: %v", err)
	}
	if err := Validate(nil); err == nil {
		t.Error("missing settings passed")
	}
	for key, change := range map[string]func(*messages.CheckpointConfig){
		"":                 func(s *messages.CheckpointConfig) { s.IntervalMs = 0 },
		"interval":         func(s *messages.CheckpointConfig) { s.IntervalMs = 9 },
		"timeout":          func(s *messages.CheckpointConfig) { s.TimeoutMs = 9 },
		"min-pause":        func(s *messages.CheckpointConfig) { s.MinPauseMs++ },
		"min-pause is -1":  func(s *messages.CheckpointConfig) { s.MinPauseMs = -1 },
		"aligned-timeout":  func(s *messages.CheckpointConfig) { s.AlignedTimeoutMs = -1 },
		"max-concurrent":   func(s *messages.CheckpointConfig) { s.MaxConcurrent = 0 },
		"num-retained":     func(s *messages.CheckpointConfig) { s.NumRetained = 0 },
		"inline-threshold": func(s *messages.CheckpointConfig) { s.InlineThresholdBytes++ },
		"unaligned is true: it must be false while mode":           func(s *messages.CheckpointConfig) { s.AtLeastOnce = true },
		"unaligned is true: it must be false while max-concurrent": func(s *messages.CheckpointConfig) { s.MaxConcurrent = 2 },
	} {
		s := proto.CloneOf(good)
		change(s)
		err := Validate(s)
		if (err == nil) != (key == "") || err != nil && !strings.Contains(err.Error(), "checkpointing."+key) {
			t.Errorf("%q: %v", key, err)
		}
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: more than one error: %v", key, err)
		}
	}
	aligned := &messages.CheckpointConfig{TimeoutMs: 10, MaxConcurrent: 2, NumRetained: 1, AtLeastOnce: true}
	if err := Validate(aligned); err != nil {
		t.Errorf("at-least-once with two concurrent checkpoints: %v", err)
	}
}

// Scenarios 125, 126: names of hooks are unique and not blank.
func TestValidateHooks(t *testing.T) {
	for _, c := range []struct {
		names []string
		want  string
	}{
		{[]string{"a", "b"}, ""}, {[]string{"a", "a"}, `named "a"`}, {[]string{"a", " "}, "hook 2"}, {[]string{""}, "hook 1"},
	} {
		err := ValidateHooks(c.names)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.names, err, c.want)
		}
	}
}

// Scenarios 129, 130: each hook gets its state or nil; a state without a hook is
// an error unless it may be dropped.
func TestMatchHooks(t *testing.T) {
	states := []*messages.MasterState{{Hook: "b"}}
	got, err := MatchHooks([]string{"a", "b"}, states, nil)
	if err != nil || len(got) != 2 || got[0].Hook != "a" || got[0].State != nil || got[1].State != states[0] {
		t.Errorf("matched %v, %v", got, err)
	}
	if _, err := MatchHooks([]string{"a"}, states, nil); err == nil || !strings.Contains(err.Error(), `"b"`) {
		t.Errorf("state of a hook that is gone: %v", err)
	}
	if got, err := MatchHooks([]string{"a"}, states, []string{"b"}); err != nil || len(got) != 1 || got[0].State != nil {
		t.Errorf("dropped: %v, %v", got, err)
	}
}

// Row 166: minimum, maximum, average, and percentiles over the newest values.
func TestSeries(t *testing.T) {
	var s Series
	if s.Avg() != 0 || !math.IsNaN(s.Percentile(50)) {
		t.Errorf("of nothing: average %d, median %v", s.Avg(), s.Percentile(50))
	}
	s = NewSeries(4, 1, 3, 2)
	if s.Min != 1 || s.Max != 4 || s.Sum != 10 || s.Avg() != 2 || s.Count != 4 {
		t.Errorf("%+v", s)
	}
	for p, want := range map[float64]float64{0: 1, 10: 1, 20: 1, 25: 1.25, 50: 2.5, 75: 3.75, 80: 4, 99: 4, 100: 4} {
		if got := s.Percentile(p); got != want {
			t.Errorf("percentile %v is %v, want %v", p, got, want)
		}
	}
	for range seriesWindow {
		s.add(-7)
	}
	if s.Max != 4 || s.Min != -7 || s.Percentile(100) != -7 || len(s.window) != seriesWindow {
		t.Errorf("after %d more: %d..%d, percentile 100 %v of %d", seriesWindow, s.Min, s.Max, s.Percentile(100), len(s.window))
	}
	c := s.clone()
	c.add(5)
	if s.Percentile(100) != -7 {
		t.Error("a copy shares its values")
	}
}
