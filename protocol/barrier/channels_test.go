package barrier

import "testing"

// Adding what is in a set and removing what is not leaves its count as it is.
func TestChannelSetCounts(t *testing.T) {
	s := newChannelSet(70)
	s.add(3)
	s.add(69)
	s.add(69)
	s.remove(4)
	s.remove(64)
	if s.count != 2 || s.String() != "[3 69]" {
		t.Errorf("%s counts %d", &s, s.count)
	}
	s.remove(3)
	s.remove(3)
	if s.count != 1 || s.has(3) || !s.has(69) {
		t.Errorf("%s counts %d", &s, s.count)
	}
}

// Only a gate that awaits barriers counts bytes as processed during an alignment;
// each phase has its name.
func TestPhases(t *testing.T) {
	for phase, want := range map[Phase]string{
		WaitingForFirstBarrier: "WaitingForFirstBarrier", CollectingBarriers: "CollectingBarriers",
		TrackingBarriers: "TrackingBarriers", Phase(9): "Phase(9)",
	} {
		if phase.String() != want {
			t.Errorf("%s, want %s", phase, want)
		}
	}
	for _, g := range []*Gate{NewAligned(2, true), NewAtLeastOnce(2, true)} {
		if g.AlignmentStarted() {
			t.Errorf("an alignment runs before the first barrier: %s", g)
		}
	}
}
