package task

import "cutwater/messages"

// progressMs is how often a source tells the coordinator what it has read.
const progressMs = 100

// progress is what a source has read. It is for people: once in progressMs is
// enough, save that the last figures are told before the task ends.
type progress struct {
	uid                       string
	records, bytes, remaining uint64

	changed bool // since it was told
	told    bool
	toldMs  int64
}

// read takes the figures in; they are told now, or soon.
func (t *Task) read(uid string, records, bytes, remaining uint64) {
	p := &t.progress
	t.counts = counts{records, bytes}
	if p.told && records == p.records && bytes == p.bytes && remaining == p.remaining {
		return
	}
	p.uid, p.records, p.bytes, p.remaining, p.changed = uid, records, bytes, remaining, true
	if left := p.toldMs + progressMs - t.monotonicMs(); p.told && left > 0 {
		t.timers.arm(progressTimer, left, func() error {
			t.tellProgress()
			return nil
		})
		return
	}
	t.tellProgress()
}

// tellProgress tells what was not told.
func (t *Task) tellProgress() {
	p := &t.progress
	if !p.changed {
		return
	}
	p.changed, p.told, p.toldMs = false, true, t.monotonicMs()
	t.toCoordinator(&messages.SourceProgress{Fence: t.fence, Task: t.deploy.Task, Uid: p.uid,
		Records: p.records, Bytes: p.bytes, RemainingBytes: p.remaining})
}
