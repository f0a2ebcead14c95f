package testkit

import (
	"context"

	"cutwater/actors/system"
)

// dispatcher gives every turn of every mailbox to the world.
type dispatcher struct{ node *Node }

// Throughput of one: after each message the world chooses anew.
func (d dispatcher) Throughput() int { return 1 }

// Schedule makes a mailbox runnable.
func (d dispatcher) Schedule(f func()) {
	w, life := d.node.world, d.node.life
	run := func() {
		if d.node.lives(life) {
			f()
		}
	}
	if w.inject(SlowTask, w.faults.SlowTask) {
		w.at(w.nowUs+int64(w.rng.IntN(20_000)), func() { w.ready = append(w.ready, run) })
		return
	}
	w.ready = append(w.ready, run)
}

// clock is a node's virtual clock.
type clock struct{ node *Node }

func (c clock) NowMs() int64       { return c.node.world.NowMs() + c.node.skewMs }
func (c clock) MonotonicMs() int64 { return c.node.world.ElapsedMs() }
func (c clock) AfterMs(delayMs int64, f func()) (stop func()) {
	w, life, stopped := c.node.world, c.node.life, false
	w.at(w.nowUs+max(delayMs, 0)*1000, func() {
		if !stopped && c.node.lives(life) {
			f()
		}
	})
	return func() { stopped = true }
}

// executor runs work as an event: begun at once or later, done later still. A
// crash in between loses it.
type executor struct{ node *Node }

func (e executor) Run(name string, work func(context.Context) error, done func(error)) {
	w, life := e.node.world, e.node.life
	if w.planted.hang != nil && w.planted.hang(e.node, name) {
		w.planted.hung = append(w.planted.hung, func() { e.Run(name, work, done) })
		return
	}
	begin := w.nowUs + int64(w.rng.IntN(300))
	takes := int64(w.rng.IntN(2_000))
	if w.inject(SlowWork, w.faults.SlowWork) {
		takes += int64(w.rng.IntN(500_000))
	}
	w.at(begin, func() {
		if !e.node.lives(life) {
			return
		}
		err := system.Guarded(context.Background(), name, work)
		w.at(begin+takes+w.takeSlow(), func() {
			if e.node.lives(life) {
				done(err)
			}
		})
	})
}
