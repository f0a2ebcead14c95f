package job

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"cutwater/messages"
)

// TestRestarts: when the job fails at these times, each strategy answers with
// these delays; -1 is giving up.
func TestRestarts(t *testing.T) {
	exponential := DefaultRestart()
	exponential.Jitter = 0
	exponential.MaxBackoffMs = 200
	exponential.ResetAfterMs = 1000
	limited := DefaultRestart()
	limited.Jitter = 0
	limited.Attempts = 2
	for _, test := range []struct {
		name   string
		config *messages.RestartConfig
		at     []int64
		want   []int64
	}{
		{"none", &messages.RestartConfig{Kind: messages.RestartKind_NO_RESTART}, []int64{0}, []int64{-1}},
		{"fixed-delay", &messages.RestartConfig{Kind: messages.RestartKind_FIXED_DELAY, Attempts: 2, DelayMs: 30},
			[]int64{0, 100, 200}, []int64{30, 30, -1}},
		{"failure-rate gives up at three within the interval",
			&messages.RestartConfig{Kind: messages.RestartKind_FAILURE_RATE, MaxFailures: 2, IntervalMs: 100, DelayMs: 5},
			[]int64{0, 50, 99}, []int64{5, 5, -1}},
		{"failure-rate forgets what is older",
			&messages.RestartConfig{Kind: messages.RestartKind_FAILURE_RATE, MaxFailures: 2, IntervalMs: 100, DelayMs: 5},
			[]int64{0, 50, 100, 149, 198}, []int64{5, 5, 5, -1, -1}},
		{"exponential-delay: at once, then growing up to the maximum, and over again after a quiet time",
			exponential, []int64{0, 10, 100, 300, 500, 2000, 2001}, []int64{0, 50, 75, 112, 168, 0, 50}},
		{"exponential-delay stays at the maximum", exponential, []int64{0, 1, 2, 3, 4, 5, 6}, []int64{0, 50, 75, 112, 168, 200, 200}},
		{"exponential-delay with attempts", limited, []int64{0, 1, 2}, []int64{0, 50, -1}},
		{"the default is exponential-delay", nil, []int64{0}, []int64{0}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := ValidateRestart(test.config); err != nil {
				t.Fatal(err)
			}
			r := NewRestarts(test.config)
			for i, at := range test.at {
				got, giveUp := r.Failed(at, 0)
				if giveUp != "" {
					got = -1
				}
				if got != test.want[i] {
					t.Fatalf("failure %d at %d: %d (%s), want %d", i+1, at, got, giveUp, test.want[i])
				}
			}
		})
	}
}

// TestJitter: the delay stays within the jitter, on both sides, for any random
// number.
func TestJitter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := DefaultRestart()
		c.Jitter = rapid.Float64Range(0, 0.99).Draw(t, "jitter")
		r := NewRestarts(c)
		base := 0.0
		for range rapid.IntRange(1, 30).Draw(t, "failures") {
			got, giveUp := r.Failed(0, rapid.Uint64().Draw(t, "random"))
			if giveUp != "" || float64(got) < base*(1-c.Jitter)-1 || float64(got) > base*(1+c.Jitter) {
				t.Fatalf("delay %d of base %v with jitter %v (%s)", got, base, c.Jitter, giveUp)
			}
			base = min(max(50, base*1.5), 60_000)
		}
	})
}

// TestValidateRestart: each setting that makes no sense is refused by its name.
func TestValidateRestart(t *testing.T) {
	for want, c := range map[string]*messages.RestartConfig{
		"attempts":                {Kind: messages.RestartKind_FIXED_DELAY},
		"fixed-delay: delay":      {Kind: messages.RestartKind_FIXED_DELAY, Attempts: 1, DelayMs: -1},
		"max-failures":            {Kind: messages.RestartKind_FAILURE_RATE, IntervalMs: 1},
		"interval":                {Kind: messages.RestartKind_FAILURE_RATE, MaxFailures: 1},
		"failure-rate: delay":     {Kind: messages.RestartKind_FAILURE_RATE, MaxFailures: 1, IntervalMs: 1, DelayMs: -1},
		"initial-backoff 0":       {Kind: messages.RestartKind_EXPONENTIAL_DELAY},
		"max-backoff":             {Kind: messages.RestartKind_EXPONENTIAL_DELAY, InitialBackoffMs: 2, MaxBackoffMs: 1},
		"backoff-multiplier":      {Kind: messages.RestartKind_EXPONENTIAL_DELAY, InitialBackoffMs: 1, MaxBackoffMs: 1, BackoffMultiplier: 0.5},
		"jitter":                  {Kind: messages.RestartKind_EXPONENTIAL_DELAY, InitialBackoffMs: 1, MaxBackoffMs: 1, BackoffMultiplier: 1, Jitter: 1},
		"reset-after":             {Kind: messages.RestartKind_EXPONENTIAL_DELAY, InitialBackoffMs: 1, MaxBackoffMs: 1, BackoffMultiplier: 1, ResetAfterMs: -1},
		"restart strategy 9 is u": {Kind: 9},
	} {
		if err := ValidateRestart(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
