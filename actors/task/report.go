package task

import "cutwater/messages"

// reportMs is how often a task tells what it has done and what it waits for.
const reportMs = 1000

// counts is what a task has taken in during this attempt. What went out is counted by
// its outputs.
type counts struct{ records, bytes uint64 }

// pressure is how long some output had no room. The time before the receivers were
// there is none of it.
type pressure struct {
	full    bool
	sinceMs int64 // monotonic; while full
	totalMs int64 // before that
}

// note takes in whether some output has no room; a clock is only read when that has
// changed.
func (p *pressure) note(full bool, nowMs func() int64) {
	switch {
	case full == p.full:
	case full:
		p.full, p.sinceMs = true, nowMs()
	default:
		p.full, p.totalMs = false, p.totalMs+nowMs()-p.sinceMs
	}
}

func (p *pressure) ms(nowMs int64) int64 {
	if p.full {
		return p.totalMs + nowMs - p.sinceMs
	}
	return p.totalMs
}

// armReport tells the coordinator, now and then, while the task lives.
func (t *Task) armReport() {
	t.timers.arm(reportTimer, reportMs, func() error {
		t.tellReport()
		t.armReport()
		return nil
	})
}

// tellReport is for people; one that is lost is not missed.
func (t *Task) tellReport() {
	if t.out == nil {
		return
	}
	cause, waiting := t.lookAtWaits()
	restored := t.copies.told
	t.toCoordinator(&messages.TaskReport{Fence: t.fence, Task: t.deploy.Task,
		RecordsIn: t.counts.records, BytesIn: t.counts.bytes, RecordsOut: t.out.sent.records, BytesOut: t.out.sent.bytes,
		BackPressuredMs: t.out.pressure.ms(t.monotonicMs()), Cause: cause, Waiting: waiting,
		RestoredLocalBytes: restored.local, RestoredRemoteBytes: restored.remote})
}
