package system

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// No more work runs at once than the limit allows, and all of it is done.
func TestPoolLimit(t *testing.T) {
	const limit, pieces = 3, 50
	p := NewPool(limit)
	defer p.Close()
	var running, most atomic.Int32
	var all sync.WaitGroup
	all.Add(pieces)
	for range pieces {
		p.Run("count", func(context.Context) error {
			n := running.Add(1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			running.Add(-1)
			return nil
		}, func(err error) {
			if err != nil {
				t.Error(err)
			}
			all.Done()
		})
	}
	all.Wait()
	if got := most.Load(); got < 1 || got > limit {
		t.Errorf("%d pieces of work ran at once, the limit is %d", got, limit)
	}
}

// Work that panics ends with an error that names it and has the stack; the pool
// goes on.
func TestPoolPanic(t *testing.T) {
	p := NewPool(1)
	defer p.Close()
	ended := make(chan error)
	p.Run("upload", func(context.Context) error { panic("boom") }, func(err error) { ended <- err })
	if err := <-ended; err == nil || !strings.HasPrefix(err.Error(), "upload panicked: boom\n") || !strings.Contains(err.Error(), "TestPoolPanic") {
		t.Errorf("ended with %v", err)
	}
	p.Run("next", func(context.Context) error { return nil }, func(err error) { ended <- err })
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Close ends what runs by its context, does not run what waits, and tells both.
func TestPoolClose(t *testing.T) {
	p := NewPool(1)
	began := make(chan struct{})
	ended := make(chan error, 2)
	p.Run("running", func(ctx context.Context) error {
		close(began)
		<-ctx.Done()
		return ctx.Err()
	}, func(err error) { ended <- err })
	<-began
	ran := false
	p.Run("waiting", func(ctx context.Context) error {
		ran = ctx.Err() == nil
		return ctx.Err()
	}, func(err error) { ended <- err })
	p.Close()
	for range 2 {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
	}
	if ran {
		t.Error("work ran after Close")
	}
}

// The wall clock's two times go on, and a timer that is stopped does not fire.
func TestWallClock(t *testing.T) {
	c := NewWallClock()
	now, mono := c.NowMs(), c.MonotonicMs()
	fired := make(chan struct{})
	stopped := c.AfterMs(60_000, func() { t.Error("it fired though it was stopped") })
	c.AfterMs(1, func() { close(fired) })
	<-fired
	stopped()
	if c.MonotonicMs() < mono+1 || now < 1_600_000_000_000 {
		t.Errorf("monotonic time went from %d to %d, wall time is %d", mono, c.MonotonicMs(), now)
	}
}

// Work that actors ask for while the pool closes is either waited for or not run;
// it is always answered.
func TestPoolRunDuringClose(t *testing.T) {
	for range 200 {
		p := NewPool(2)
		var closed, late atomic.Bool
		var asked, answered sync.WaitGroup
		for range 4 {
			asked.Add(1)
			answered.Add(10)
			go func() {
				defer asked.Done()
				for range 10 {
					p.Run("work", func(context.Context) error {
						late.Store(late.Load() || closed.Load())
						return nil
					}, func(error) { answered.Done() })
				}
			}()
		}
		p.Close()
		closed.Store(true)
		asked.Wait()
		answered.Wait()
		if late.Load() {
			t.Fatal("work ran after Close had returned")
		}
		p.Run("more", func(context.Context) error { panic("it ran") }, func(err error) {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("after Close: %v", err)
			}
		})
	}
}
