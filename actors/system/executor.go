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
	wg     sync.WaitGroup
}

// NewPool makes a pool.
func NewPool(limit int) *Pool {
	ctx, cancel := context.WithCancel(context.Background())
	return &Pool{ctx: ctx, cancel: cancel, slots: make(chan struct{}, limit)}
}

// Run implements Executor. After Close the work is not run: done gets the
// context's error.
func (p *Pool) Run(name string, work func(context.Context) error, done func(error)) {
	p.wg.Add(1)
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
	p.wg.Wait()
}
