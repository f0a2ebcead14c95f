package testkit

import (
	"strings"
	"testing"

	"cutwater/messages"
	"cutwater/protocol/job"
)

// poison makes the coordinator panic after so many milliseconds: the fields of its
// message cannot be read.
func poison(w *World, afterMs int64) {
	w.After(afterMs, func() {
		n := w.Nodes()[0]
		if n.Alive() {
			w.Faults["coordinator panic"]++
			n.System().Deliver(job.CoordinatorAddress(n.Name, jobID), (*messages.TaskStateChanged)(nil))
		}
	})
}

// Coordinators that panic in the middle of anything, and faults besides, cost
// restarts and no row.
func TestExactlyOnceWhenCoordinatorsPanic(t *testing.T) {
	seeds := 24
	if testing.Short() {
		seeds = 8
	}
	all := scenarios()
	for i, name := range names(all) {
		s := all[name]
		s.Poisoned = true
		want, err := s.Run(0, Faults{}, nil)
		if err != nil {
			t.Fatal(name, err)
		}
		panics := 0
		for seed := uint64(1 + i*seeds); seed <= uint64((i+1)*seeds); seed++ {
			r, err := s.Run(seed, Faults{DropControl: 0.01, DuplicateControl: 0.02, DelayControl: 0.02, SlowWork: 0.02, SlowTask: 0.01, MetadataUnknown: 0.02}, func(w *World) {
				for range 1 + w.Random(3) {
					poison(w, int64(w.Random(200)))
				}
			})
			if err != nil || r.Status != messages.JobStatus_FINISHED {
				t.Fatalf("scenario %q, seed %d: %v, the job ended %v: %s", name, seed, err, r.Status, r.Failure)
			}
			if diff := Diff(r.Rows, want.Rows); diff != "" {
				t.Fatalf("scenario %q, seed %d: the committed rows differ:\n%s", name, seed, diff)
			}
			panics += r.Faults["coordinator panic"]
		}
		if panics < seeds/2 { // a short job may end before
			t.Errorf("scenario %q: only %d coordinators panicked in %d runs", name, panics, seeds)
		}
	}
}

// A coordinator that panics whenever it is replaced ends the job FAILED, and the
// failure is one sentence.
func TestCoordinatorThatAlwaysPanics(t *testing.T) {
	s := scenarios()["chain"]
	s.Poisoned = true
	r, err := s.Run(1, Faults{}, func(w *World) {
		for at := int64(1); at < 3000; at += 20 {
			poison(w, at)
		}
	})
	if err != nil || r.Status != messages.JobStatus_FAILED || strings.Contains(r.Failure, "\n") || !strings.Contains(r.Failure, "nil pointer") {
		t.Fatalf("%v, the job ended %v: %s", err, r.Status, r.Failure)
	}
}

// In a scenario that does not poison them, a coordinator that panics ends the run
// at once, and the error has the stack.
func TestPanicEndsTheRun(t *testing.T) {
	r, err := scenarios()["chain"].Run(1, Faults{}, func(w *World) { poison(w, 10) })
	if err == nil || !strings.Contains(err.Error(), "nil pointer") || !strings.Contains(err.Error(), "goroutine") || r.Steps > 20_000 {
		t.Fatalf("after %d steps: %v", r.Steps, err)
	}
}
