package stream

import (
	"context"
	"errors"
	"testing"
)

// After a panic nothing more runs: what comes next would build on work that was not
// done. The panic goes to whoever ran the work, be it its own or another's.
func TestWorkQueuePanic(t *testing.T) {
	for _, own := range []bool{true, false} {
		var q workQueue
		ranNext := false
		bad := q.add(func(context.Context) error { panic("no") })
		next := q.add(func(context.Context) error {
			ranNext = true
			return nil
		})
		first, second := bad, next
		if !own {
			first, second = next, bad
		}
		if r := runRecovered(t, first); r != "no" {
			t.Errorf("own %v: the panic was %v", own, r)
		}
		if err := second.run(t.Context()); !errors.Is(err, errPanicked) {
			t.Errorf("own %v: the other job ended with %v", own, err)
		}
		if ranNext || bad.succeeded() || next.succeeded() {
			t.Errorf("own %v: the job behind the panic ran: %v; succeeded: %v, %v", own, ranNext, bad.succeeded(), next.succeeded())
		}
	}
}

func runRecovered(t *testing.T, j *job) (panicked any) {
	t.Helper()
	defer func() { panicked = recover() }()
	err := j.run(t.Context())
	t.Errorf("it returned %v", err)
	return nil
}

// The writer is closed also if the work that ran meanwhile fails afterwards, as it does
// when its context ends with the task.
func TestWorkQueueEnd(t *testing.T) {
	var q workQueue
	started, cancelled := make(chan struct{}), make(chan struct{})
	failed := make(chan error, 1)
	flush := q.add(func(context.Context) error {
		close(started)
		<-cancelled
		return context.Canceled
	})
	dropped := q.add(func(context.Context) error {
		t.Error("what had not started ran")
		return nil
	})
	go func() { failed <- flush.run(t.Context()) }()
	<-started
	closed := false
	last := q.end(func(context.Context) error {
		closed = true
		return nil
	})
	close(cancelled)
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("the flush ended with %v", err)
	}
	if err := last.run(t.Context()); err != nil || !closed {
		t.Errorf("the writer was closed: %v, %v", closed, err)
	}
	if err := dropped.run(t.Context()); !errors.Is(err, errClosed) {
		t.Errorf("what was dropped ended with %v", err)
	}
}
