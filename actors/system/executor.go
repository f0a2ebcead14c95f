package system

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
)

// Pool is the executor of a real process: a goroutine per piece of work, at most
// limit at once.
type Pool struct {
	ctx    context.Context
	cancel context.CancelFunc
	slots  chan struct{}

	mu     sync.Mutex
	closed bool
	wg     sync.WaitGroup // grows under mu and before closed only
}

// NewPool makes a pool.
func NewPool(limit int) *Pool {
	ctx, cancel := context.WithCancel(context.Background())
	return &Pool{ctx: ctx, cancel: cancel, slots: make(chan struct{}, limit)}
}

// Run implements Executor. After Close the work is not run: done gets the
// context's error, at once.
//
// Actors may still ask for work while Close waits, so the counter must not grow
// from zero then:
//
//  1. the last work ends, the counter is 0
//  2. Close is about to return from Wait
//  3. an actor calls Run, the counter is 1, its work outlives Close
//
// (TestPoolRunDuringClose)
func (p *Pool) Run(name string, work func(context.Context) error, done func(error)) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		done(p.ctx.Err())
		return
	}
	p.wg.Add(1)
	p.mu.Unlock()
	go func() {
		defer p.wg.Done()
		select {
		case p.slots <- struct{}{}:
		case <-p.ctx.Done():
			done(p.ctx.Err())
			return
		}
		err := Guarded(p.ctx, name, work)
		<-p.slots
		done(err)
	}()
}

// Guarded runs work and turns a panic into an error.
func Guarded(ctx context.Context, name string, work func(context.Context) error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%s panicked: %v\n%s", name, r, debug.Stack())
		}
	}()
	return work(ctx)
}

// Close cancels the work that runs and waits for it to end.
func (p *Pool) Close() {
	p.cancel()
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.wg.Wait()
}
