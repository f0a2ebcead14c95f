package checkpoint

import (
	"testing"

	"cutwater/messages"
	"cutwater/protocol"
)

// Invariant I2 and scenario 87: nothing but a failed finalization ends what is
// finalizing, except a subsumption of one whose metadata is not on its way; what
// is over cannot be aborted; a savepoint cannot be subsumed.
func TestAbortGuards(t *testing.T) {
	const (
		expired  = messages.FailureReason_CHECKPOINT_EXPIRED
		finalize = messages.FailureReason_FINALIZE_CHECKPOINT_FAILURE
		subsumed = messages.FailureReason_CHECKPOINT_SUBSUMED
	)
	for _, c := range []struct {
		phase     phase
		writing   bool
		reason    messages.FailureReason
		savepoint bool
		ok        bool
	}{
		{triggering, false, expired, false, true},
		{collecting, false, expired, false, true},
		{collecting, false, subsumed, false, true},
		{collecting, false, subsumed, true, false},
		{collecting, false, expired, true, true},
		{finalizing, true, finalize, false, true},
		{finalizing, false, expired, false, false},
		{finalizing, false, subsumed, false, true},
		{finalizing, true, subsumed, false, false},
		{completed, false, finalize, false, false},
		{completed, false, expired, false, false},
		{completed, false, subsumed, false, false},
		{aborted, false, expired, false, false},
	} {
		co := New(Config{Job: "j", Epoch: 1, Ops: &protocol.Ops{}, Settings: &messages.CheckpointConfig{MaxConcurrent: 1, NumRetained: 1}})
		r := &request{kind: messages.CheckpointType_CHECKPOINT}
		if c.savepoint {
			r.kind = messages.CheckpointType_SAVEPOINT
		}
		none := &plan{}
		p := newPending(1, 0, r, none)
		p.phase, p.writing, p.stats = c.phase, c.writing, co.stats.pending(1, r.kind, 0, none)
		co.pending = []*pendingCheckpoint{p}
		if ok := aborts(co, p, c.reason); ok != c.ok {
			t.Errorf("%s (writing %t, savepoint %t) aborted because of %s: %t, want %t", c.phase, c.writing, c.savepoint, c.reason, ok, c.ok)
		}
	}
}

func aborts(c *Coordinator, p *pendingCheckpoint, reason messages.FailureReason) (ok bool) {
	defer func() { ok = recover() == nil }()
	c.abort(p, reason, "", false)
	return
}
