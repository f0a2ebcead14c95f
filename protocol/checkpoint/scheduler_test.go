package checkpoint

import "testing"

// The tick behind one that was due at 10_000 keeps its beat, and is near whatever
// the clock did meanwhile.
func TestNextTick(t *testing.T) {
	for _, c := range []struct {
		name       string
		nowMs      int64
		afterwards int64
	}{
		{"on time", 10_000, 11_000},
		{"late", 10_999, 11_000},
		{"late by an interval", 11_000, 12_000},
		{"the machine slept for an hour", 3_610_300, 3_611_000},
		{"early, because the clock is being slowed down", 9_999, 11_000},
		{"the clock was set back by an hour", -3_590_300, -3_589_000},
	} {
		s := scheduler{nextMs: 10_000}
		if got := s.after(c.nowMs, 1000); got != c.afterwards {
			t.Errorf("%s: at %d, want %d", c.name, got, c.afterwards)
		}
	}
}

// What is remembered of checkpoints that are over is bounded, and holds the
// newest.
func TestEndedRing(t *testing.T) {
	var ring endedRing
	for id := uint64(1); id <= 3*endedSize; id++ {
		ring.add(&pendingCheckpoint{id: id, phase: aborted})
	}
	if len(ring.list) != endedSize || ring.find(2*endedSize) != nil || ring.find(2*endedSize+1) == nil || ring.find(3*endedSize).phase != aborted {
		t.Errorf("remembered %v", ring.list)
	}
}
