package checkpoint

import (
	"errors"
	"fmt"

	"cutwater/messages"
	"cutwater/protocol"
)

// Config says which job a Coordinator serves and how.
type Config struct {
	// Job is the job's id, 32 lower-case hexadecimal digits.
	Job string
	// Epoch is the coordinator's; Incarnation the job's. Both are written into
	// every `_metadata`.
	Epoch       uint64
	Incarnation uint64
	// Binary names the version of the program in `_metadata`, for messages only.
	Binary string
	// Settings have passed Validate.
	Settings *messages.CheckpointConfig
	// Coordinators are the uids of the operators that have an operator
	// coordinator (a source's enumerator), sorted.
	Coordinators []string
	// Hooks are the names of the master hooks; they have passed ValidateHooks.
	Hooks []string
	// Ops numbers the work of the machine that this one is inside of.
	Ops *protocol.Ops
}

const (
	// minIntervalMs and minTimeoutMs are Flink's lower bounds.
	minIntervalMs = 10
	minTimeoutMs  = 10
	// maxMinPauseMs is 365 days.
	maxMinPauseMs = 365 * 24 * 60 * 60 * 1000
	// maxInlineBytes bounds what stands inside `_metadata` per state.
	maxInlineBytes = 1 << 20
)

// Validate reports every setting that is out of range, each with its key, its
// value and the range (Flink: CheckpointCoordinatorConfiguration).
func Validate(s *messages.CheckpointConfig) error {
	if s == nil {
		return errors.New("checkpointing: the settings are missing; fill in the defaults before the job starts")
	}
	var all []error
	check := func(ok bool, key string, value any, want string) {
		if !ok {
			all = append(all, fmt.Errorf("checkpointing.%s is %v: it must be %s", key, value, want))
		}
	}
	check(s.IntervalMs == 0 || s.IntervalMs >= minIntervalMs, "interval", ms(s.IntervalMs), "at least 10ms, or 0 for no periodic checkpoints")
	check(s.TimeoutMs >= minTimeoutMs, "timeout", ms(s.TimeoutMs), "at least 10ms")
	check(s.MinPauseMs >= 0 && s.MinPauseMs <= maxMinPauseMs, "min-pause", ms(s.MinPauseMs), "between 0 and 365 days")
	check(s.AlignedTimeoutMs >= 0, "aligned-timeout", ms(s.AlignedTimeoutMs), "0 or more")
	check(s.MaxConcurrent >= 1, "max-concurrent", s.MaxConcurrent, "at least 1")
	check(s.NumRetained >= 1, "num-retained", s.NumRetained, "at least 1")
	check(s.InlineThresholdBytes <= maxInlineBytes, "inline-threshold", s.InlineThresholdBytes, "at most 1 MiB")
	check(!s.Unaligned || !s.AtLeastOnce, "unaligned", s.Unaligned, "false while mode is at-least-once")
	check(!s.Unaligned || s.MaxConcurrent <= 1, "unaligned", s.Unaligned, "false while max-concurrent is above 1")
	return errors.Join(all...)
}

func ms(v int64) string { return fmt.Sprintf("%dms", v) }

// optionsFor returns what travels with the barriers of a checkpoint of this type
// (Flink: CheckpointOptions.forConfig).
func optionsFor(s *messages.CheckpointConfig, kind messages.CheckpointType, target string) *messages.CheckpointOptions {
	o := &messages.CheckpointOptions{Type: kind, Target: target, Alignment: messages.Alignment_ALIGNED}
	switch {
	case s.AtLeastOnce:
		o.Alignment = messages.Alignment_AT_LEAST_ONCE
	case isSavepoint(kind) || !s.Unaligned:
	case s.AlignedTimeoutMs == 0:
		o.Alignment = messages.Alignment_UNALIGNED
	default:
		o.AlignedTimeoutMs = s.AlignedTimeoutMs
	}
	return o
}

// isSavepoint reports whether the user owns the result.
func isSavepoint(kind messages.CheckpointType) bool {
	return kind == messages.CheckpointType_SAVEPOINT || isSynchronous(kind)
}

// isSynchronous reports whether the tasks stop behind the savepoint: its
// completion is committed by the sinks, so it is stored like a checkpoint.
func isSynchronous(kind messages.CheckpointType) bool {
	return kind == messages.CheckpointType_SAVEPOINT_SUSPEND || kind == messages.CheckpointType_SAVEPOINT_TERMINATE
}
