package task

import (
	"context"
	"slices"

	"cutwater/messages"
	"cutwater/messages/describe"
)

// calls are what the task waits for: work on the Executor, whose end comes back
// as WorkDone, and functions to run at a time.
type calls struct {
	task *Task
	op   uint64
	open map[uint64]*call
	at   []timedCall // ordered by time
}

// call is one piece of work. Its error is written by the Executor before the
// WorkDone is sent, and read after it was received.
type call struct {
	name    string
	sinceMs int64 // monotonic
	told    bool  // that it takes long
	err     error
	done    func(error) error
}

// timedCall is due at a monotonic time, so that a wall clock that is set does not
// stretch the pause before a retry, or skip it.
type timedCall struct {
	monotonicMs int64
	f           func()
}

func (c *calls) init(t *Task) { c.task, c.open = t, map[uint64]*call{} }

// start runs work on the Executor and then done in the task. Work gets the
// task's context.
func (c *calls) start(name string, work func(context.Context) error, done func(error) error) {
	c.op++
	op, pending := c.op, &call{name: name, sinceMs: c.task.monotonicMs(), done: done}
	c.open[op] = pending
	t := c.task
	attempt := t.fence.Attempt
	t.self.System.Executor().Run(name, func(context.Context) error { return work(t.ctx) }, func(err error) {
		pending.err = err
		m := &messages.WorkDone{Op: op, Attempt: attempt}
		if err != nil {
			m.Failure = describe.Error(err)
		}
		t.self.System.Deliver(t.self.Address, m)
	})
}

// done finishes the call that the message names, and lets the step in hand go on
// in case it waited for it.
func (c *calls) done(m *messages.WorkDone) error {
	pending, ok := c.open[m.Op]
	if !ok {
		return nil
	}
	delete(c.open, m.Op)
	err := pending.done(pending.err)
	c.task.mailbox.Wake()
	return err
}

// oldest is the name of the work that has been under way the longest, or nothing.
func (c *calls) oldest() string {
	name, first := "", c.op+1
	for op, pending := range c.open { // the lowest is the same in any order
		if op < first {
			name, first = pending.name, op
		}
	}
	return name
}

// runAt calls f at the time or soon after. What counts is how far off the time is
// now.
func (c *calls) runAt(unixMs int64, f func()) {
	dueMs := c.task.monotonicMs() + max(unixMs-c.task.nowMs(), 0)
	i, _ := slices.BinarySearchFunc(c.at, dueMs, func(e timedCall, t int64) int {
		if e.monotonicMs <= t { // behind its equals: first come, first served
			return -1
		}
		return 1
	})
	c.at = slices.Insert(c.at, i, timedCall{dueMs, f})
	if i == 0 {
		c.arm()
	}
}

func (c *calls) arm() {
	if len(c.at) > 0 {
		c.task.timers.rearm(callTimer, c.at[0].monotonicMs-c.task.monotonicMs(), c.runDue)
	}
}

func (c *calls) runDue() error {
	now := c.task.monotonicMs()
	for len(c.at) > 0 && c.at[0].monotonicMs <= now && !c.task.closed {
		f := c.at[0].f
		c.at = c.at[1:]
		f()
	}
	if !c.task.closed {
		c.arm()
		c.task.mailbox.Wake()
	}
	return nil
}
