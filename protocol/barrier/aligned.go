package barrier

import "cutwater/messages"

// aligned is the exactly-once mode: one checkpoint is aligned at a time, and
// what follows a barrier waits for the barriers of the other channels.
//
//	WaitingForFirstBarrier --barrier--> CollectingBarriers --last--> trigger, unblock
//	                                    CollectingBarriers --newer, cancel--> abort, unblock
type aligned struct {
	// seen is the newest checkpoint seen; settled is the newest one triggered or
	// given up. A checkpoint is pending while they differ.
	seen, settled uint64
	// current holds the barriers of the pending checkpoint.
	current collection
}

func (a *aligned) isPending() bool { return a.seen != a.settled }

// late reports that the checkpoint was triggered or given up, or that a newer one
// was seen.
func (a *aligned) late(checkpoint uint64) bool {
	return checkpoint <= a.settled || checkpoint < a.seen
}

func (a *aligned) barrier(g *Gate, channel uint32, b arrival, block bool) {
	if a.late(b.checkpoint) {
		return
	}
	if b.checkpoint > a.seen {
		a.subsume(g, b.checkpoint)
		a.seen = b.checkpoint
		a.current.begin(g, b)
	}
	a.current.noteAge(g, b)
	a.current.arrived.add(channel)
	if block {
		g.wanted.add(channel)
	}
	a.triggerIfFull(g)
}

func (a *aligned) cancel(g *Gate, channel uint32, checkpoint uint64) {
	a.abort(g, checkpoint, messages.FailureReason_CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER)
}

func (a *aligned) endOfPartition(g *Gate, channel uint32) {
	if !a.isPending() {
		return
	}
	if !g.afterTasksFinish {
		a.abort(g, a.seen, messages.FailureReason_CHECKPOINT_DECLINED_INPUT_END_OF_STREAM)
		return
	}
	a.current.arrived.add(channel)
	a.triggerIfFull(g)
}

func (a *aligned) abort(g *Gate, checkpoint uint64, reason messages.FailureReason) {
	if a.late(checkpoint) {
		return
	}
	a.subsume(g, checkpoint)
	a.seen = checkpoint
	a.settle(g)
	g.doAbort(checkpoint, reason)
}

func (a *aligned) triggerNow(g *Gate, b arrival) {
	if b.checkpoint <= a.seen {
		return
	}
	a.seen = b.checkpoint
	a.current.begin(g, b)
	a.triggerIfFull(g)
}

func (a *aligned) triggerIfFull(g *Gate) {
	if a.current.full() {
		a.settle(g)
		g.doTrigger(&a.current)
	}
}

// subsume gives the pending checkpoint up for a newer one.
func (a *aligned) subsume(g *Gate, newer uint64) {
	if a.isPending() && a.seen < newer {
		g.doAbort(a.seen, messages.FailureReason_CHECKPOINT_DECLINED_SUBSUMED)
		a.settle(g)
	}
}

// settle ends the pending checkpoint: all channels go on.
func (a *aligned) settle(g *Gate) {
	a.settled = a.seen
	g.wanted.clear()
}

func (a *aligned) pending() []uint64 {
	if a.isPending() {
		return []uint64{a.seen}
	}
	return nil
}

func (a *aligned) latest() uint64 { return a.seen }

func (a *aligned) phase() Phase {
	if a.isPending() {
		return CollectingBarriers
	}
	return WaitingForFirstBarrier
}
