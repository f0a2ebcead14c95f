package checkpoint

import (
	"testing"

	"cutwater/messages"
)

// Scenarios 79-81: which sequences of outcomes fail the job.
func TestFailureManagerSequences(t *testing.T) {
	const (
		declined = messages.FailureReason_CHECKPOINT_DECLINED
		expired  = messages.FailureReason_CHECKPOINT_EXPIRED
		io       = messages.FailureReason_IO_EXCEPTION
		region   = messages.FailureReason_JOB_FAILOVER_REGION
		success  = messages.FailureReason_FAILURE_REASON_UNSPECIFIED
	)
	type outcome struct {
		id     uint64
		reason messages.FailureReason
	}
	for _, c := range []struct {
		name  string
		list  []outcome
		fails int
	}{
		{"79: a success of a higher id", []outcome{{1, expired}, {2, expired}, {2, success}, {1, expired}, {3, expired}, {4, expired}}, 0},
		{"80: three in a row, one not counted", []outcome{{1, declined}, {2, declined}, {3, region}, {4, declined}}, 1},
		{"81: a success in between", []outcome{{1, io}, {2, declined}, {3, region}, {4, success}, {5, expired}}, 0},
		{"without an id each counts", []outcome{{0, io}, {0, io}, {0, io}}, 1},
		{"the count starts anew after failing", []outcome{{1, io}, {2, io}, {3, io}, {4, io}, {5, io}, {6, io}}, 2},
		{"an older success changes nothing", []outcome{{5, success}, {6, io}, {7, io}, {4, success}, {8, io}}, 1},
		{"the same success again changes nothing", []outcome{{5, success}, {6, io}, {7, io}, {5, success}, {8, io}}, 1},
		{"the id of the last success does not count", []outcome{{5, success}, {6, io}, {7, io}, {5, io}}, 0},
	} {
		f := failureManager{tolerable: 2}
		fails := 0
		for _, o := range c.list {
			if o.reason == success {
				f.succeeded(o.id)
			} else if f.failed(o.id, o.reason) {
				fails++
			}
		}
		if fails != c.fails {
			t.Errorf("%s: the job failed %d times, want %d", c.name, fails, c.fails)
		}
	}
}

// Scenario 82: of all reasons five are counted; six are pre-flight.
func TestFailureReasons(t *testing.T) {
	f := failureManager{}
	fails, before := 0, 0
	for n := range messages.FailureReason_name {
		if f.failed(77, messages.FailureReason(n)) {
			fails++
		}
		if preFlight(messages.FailureReason(n)) {
			before++
		}
	}
	if fails != 5 || before != 6 {
		t.Errorf("%d reasons failed the job and %d are pre-flight, want 5 and 6", fails, before)
	}
}

// What came too late or too soon, or while tasks started or ended, is counted as aborted; of a
// task that closes only if not all had acknowledged. Everything else is a failure.
func TestHarmlessReasons(t *testing.T) {
	want := map[messages.FailureReason]bool{
		messages.FailureReason_PERIODIC_SCHEDULER_SHUTDOWN:             true,
		messages.FailureReason_MINIMUM_TIME_BETWEEN_CHECKPOINTS:        true,
		messages.FailureReason_NOT_ALL_REQUIRED_TASKS_RUNNING:          true,
		messages.FailureReason_CHECKPOINT_SUBSUMED:                     true,
		messages.FailureReason_CHECKPOINT_DECLINED_SUBSUMED:            true,
		messages.FailureReason_CHECKPOINT_DECLINED_TASK_NOT_READY:      true,
		messages.FailureReason_CHECKPOINT_DECLINED_INPUT_END_OF_STREAM: true,
		messages.FailureReason_CHECKPOINT_COORDINATOR_SHUTDOWN:         true,
		messages.FailureReason_CHECKPOINT_COORDINATOR_SUSPEND:          true,
		messages.FailureReason_CHECKPOINT_DECLINED_TASK_CLOSING:        false,
	}
	for n := range messages.FailureReason_name {
		r := messages.FailureReason(n)
		if got := harmless(r, true); got != want[r] {
			t.Errorf("%s, acknowledged: harmless %t", r, got)
		}
		if got := harmless(r, false); got != (want[r] || r == messages.FailureReason_CHECKPOINT_DECLINED_TASK_CLOSING) {
			t.Errorf("%s: harmless %t", r, got)
		}
	}
}
