package job

import (
	"fmt"
	"math"

	"cutwater/messages"
)

// Restarts is a job's restart strategy with its memory of past failures. The
// strategies are Flink's:
//
//   - NO_RESTART: the first failure ends the job.
//   - FIXED_DELAY: attempts restarts, each after delay.
//   - FAILURE_RATE: restarts after delay, until more than max_failures failures
//     fall into one interval.
//   - EXPONENTIAL_DELAY: the first restart at once, then after initial_backoff,
//     growing by backoff_multiplier up to max_backoff, each with jitter; a job
//     that ran for reset_after without a failure starts over. Unlimited, unless
//     attempts is set.
type Restarts struct {
	config   *messages.RestartConfig
	failures uint32  // counted by FIXED_DELAY, EXPONENTIAL_DELAY
	recent   []int64 // times of the last max_failures + 1 failures, FAILURE_RATE
	backoff  float64 // next delay in ms, EXPONENTIAL_DELAY; 0 is at once
	ready    int64   // when the last restart was due, in ms
}

// DefaultRestart is used by a job that configures nothing.
func DefaultRestart() *messages.RestartConfig {
	return &messages.RestartConfig{
		Kind:              messages.RestartKind_EXPONENTIAL_DELAY,
		InitialBackoffMs:  50,
		MaxBackoffMs:      60_000,
		BackoffMultiplier: 1.5,
		Jitter:            0.1,
		ResetAfterMs:      3_600_000,
	}
}

// ValidateRestart reports what is wrong with a configuration; nil is valid and
// means DefaultRestart.
func ValidateRestart(c *messages.RestartConfig) error {
	switch c.GetKind() {
	case messages.RestartKind_RESTART_KIND_UNSPECIFIED, messages.RestartKind_NO_RESTART:
	case messages.RestartKind_FIXED_DELAY:
		switch {
		case c.Attempts == 0:
			return fmt.Errorf("restart strategy fixed-delay: attempts must be at least 1; to never restart use the strategy none")
		case c.DelayMs < 0:
			return fmt.Errorf("restart strategy fixed-delay: delay %d ms is negative", c.DelayMs)
		}
	case messages.RestartKind_FAILURE_RATE:
		switch {
		case c.MaxFailures == 0:
			return fmt.Errorf("restart strategy failure-rate: max-failures must be at least 1; to never restart use the strategy none")
		case c.IntervalMs <= 0:
			return fmt.Errorf("restart strategy failure-rate: interval %d ms must be above 0", c.IntervalMs)
		case c.DelayMs < 0:
			return fmt.Errorf("restart strategy failure-rate: delay %d ms is negative", c.DelayMs)
		}
	case messages.RestartKind_EXPONENTIAL_DELAY:
		switch {
		case c.InitialBackoffMs <= 0:
			return fmt.Errorf("restart strategy exponential-delay: initial-backoff %d ms must be above 0", c.InitialBackoffMs)
		case c.MaxBackoffMs < c.InitialBackoffMs:
			return fmt.Errorf("restart strategy exponential-delay: max-backoff %d ms is below initial-backoff %d ms", c.MaxBackoffMs, c.InitialBackoffMs)
		case !(c.BackoffMultiplier >= 1) || math.IsInf(c.BackoffMultiplier, 0):
			return fmt.Errorf("restart strategy exponential-delay: backoff-multiplier %v must be at least 1", c.BackoffMultiplier)
		case !(c.Jitter >= 0 && c.Jitter < 1):
			return fmt.Errorf("restart strategy exponential-delay: jitter %v must be at least 0 and below 1", c.Jitter)
		case c.ResetAfterMs < 0:
			return fmt.Errorf("restart strategy exponential-delay: reset-after %d ms is negative", c.ResetAfterMs)
		}
	default:
		return fmt.Errorf("restart strategy %d is unknown to this version of the program", c.Kind)
	}
	return nil
}

// NewRestarts returns the strategy of a validated configuration.
func NewRestarts(c *messages.RestartConfig) *Restarts {
	if c.GetKind() == messages.RestartKind_RESTART_KIND_UNSPECIFIED {
		c = DefaultRestart()
	}
	return &Restarts{config: c}
}

// Failed tells the strategy that the job failed at nowMs and asks what to do:
// restart after delayMs, or give up for the reason. Random is 64 fresh random
// bits, for jitter.
func (r *Restarts) Failed(nowMs int64, random uint64) (delayMs int64, giveUp string) {
	c := r.config
	switch c.Kind {
	case messages.RestartKind_FIXED_DELAY:
		r.failures++
		if r.failures > c.Attempts {
			return 0, fmt.Sprintf("the restart strategy fixed-delay gave up: its attempts (%d) are used up", c.Attempts)
		}
		return c.DelayMs, ""
	case messages.RestartKind_FAILURE_RATE:
		r.recent = append(r.recent, nowMs)
		if len(r.recent) > int(c.MaxFailures)+1 {
			r.recent = append(r.recent[:0], r.recent[1:]...)
		}
		if len(r.recent) > int(c.MaxFailures) && nowMs-r.recent[0] < c.IntervalMs {
			return 0, fmt.Sprintf("the restart strategy failure-rate gave up: %d failures within %d ms", len(r.recent), c.IntervalMs)
		}
		return c.DelayMs, ""
	case messages.RestartKind_EXPONENTIAL_DELAY:
		return r.exponential(nowMs, random)
	}
	return 0, "the restart strategy is none"
}

func (r *Restarts) exponential(nowMs int64, random uint64) (delayMs int64, giveUp string) {
	c := r.config
	if r.failures > 0 && c.ResetAfterMs > 0 && nowMs-r.ready >= c.ResetAfterMs {
		r.failures, r.backoff = 0, 0
	}
	r.failures++
	if c.Attempts > 0 && r.failures > c.Attempts {
		return 0, fmt.Sprintf("the restart strategy exponential-delay gave up: its attempts (%d) are used up", c.Attempts)
	}
	delay := r.backoff
	if delay == 0 {
		r.backoff = float64(c.InitialBackoffMs)
	} else {
		r.backoff = min(delay*c.BackoffMultiplier, float64(c.MaxBackoffMs))
	}
	// The top 53 bits make a fraction in [0, 1); the jitter goes both ways.
	fraction := float64(random>>11) / (1 << 53)
	delayMs = int64(delay + delay*c.Jitter*(2*fraction-1))
	r.ready = nowMs + delayMs
	return delayMs, ""
}
