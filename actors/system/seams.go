// Package system adapts protoactor-go: it is the only package that knows how
// actors are spawned, addressed and scheduled. What differs between production
// and simulation stands behind its seams, Clock, Executor and Dispatcher.
package system

import "context"

// Clock tells the time. Only the timer actor waits.
type Clock interface {
	// NowMs is Unix time in milliseconds.
	NowMs() int64
	// MonotonicMs never goes back; for durations.
	MonotonicMs() int64
	// AfterMs calls f once after the delay, on any goroutine; stop prevents it
	// if it has not started.
	AfterMs(delayMs int64, f func()) (stop func())
}

// Executor runs work that blocks. The same work may run on any goroutine; done
// runs after it, and is expected to post a message.
type Executor interface {
	// Run starts work and later calls done with its result. Work that panics
	// ends with an error. Name is for logs.
	Run(name string, work func(context.Context) error, done func(error))
}
