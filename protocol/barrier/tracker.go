package barrier

import "cutwater/messages"

// MaxTracked is how many checkpoints the at-least-once gate follows at a time;
// the oldest is dropped for one more. The coordinator's limit of concurrent
// checkpoints is far below it.
const MaxTracked = 50

// tracker is the at-least-once mode: it counts barriers and blocks nothing.
type tracker struct {
	channels int
	seen     uint64
	// tracked is in ascending order of checkpoint. Aborted ones stay until all
	// their barriers came or a newer checkpoint completes.
	tracked []*collection
	// free keeps the memory of collections that ended.
	free []*collection
}

func (t *tracker) barrier(g *Gate, channel uint32, b arrival, _ bool) {
	i := t.find(b.checkpoint)
	if i < 0 {
		if b.checkpoint <= t.seen {
			return // late: it completed, or a newer one did
		}
		i = t.track(g, b)
	}
	c := t.tracked[i]
	c.noteAge(g, b)
	c.arrived.add(channel)
	t.completeIfFull(g, i)
}

func (t *tracker) cancel(g *Gate, channel uint32, checkpoint uint64) {
	const reason = messages.FailureReason_CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER
	// Older checkpoints can no longer complete before this one.
	for len(t.tracked) > 0 && t.tracked[0].barrier.checkpoint < checkpoint {
		t.abortTracked(g, t.tracked[0], reason)
		t.drop(1)
	}
	t.abort(g, checkpoint, reason)
	if i := t.find(checkpoint); i >= 0 {
		t.tracked[i].arrived.add(channel)
		t.completeIfFull(g, i)
	}
}

func (t *tracker) endOfPartition(g *Gate, channel uint32) {
	if !g.afterTasksFinish {
		for _, c := range t.tracked {
			t.abortTracked(g, c, messages.FailureReason_CHECKPOINT_DECLINED_INPUT_END_OF_STREAM)
		}
		t.drop(len(t.tracked))
		return
	}
	for i := len(t.tracked) - 1; i >= 0; i-- {
		t.tracked[i].arrived.add(channel)
		if t.completeIfFull(g, i) {
			return // the older ones were dropped with it
		}
	}
}

func (t *tracker) abort(g *Gate, checkpoint uint64, reason messages.FailureReason) {
	if i := t.find(checkpoint); i >= 0 {
		t.abortTracked(g, t.tracked[i], reason)
		return
	}
	if checkpoint > t.seen {
		i := t.track(g, arrival{checkpoint: checkpoint})
		t.abortTracked(g, t.tracked[i], reason)
	}
}

func (t *tracker) triggerNow(g *Gate, b arrival) {
	if b.checkpoint > t.seen {
		t.completeIfFull(g, t.track(g, b))
	}
}

// find returns the index of the checkpoint in tracked, or -1.
func (t *tracker) find(checkpoint uint64) int {
	for i, c := range t.tracked {
		if c.barrier.checkpoint == checkpoint {
			return i
		}
	}
	return -1
}

// track follows a checkpoint newer than all others and returns its index.
func (t *tracker) track(g *Gate, b arrival) int {
	t.seen = b.checkpoint
	if len(t.tracked) == MaxTracked {
		t.drop(1)
	}
	var c *collection
	if n := len(t.free); n > 0 {
		c, t.free = t.free[n-1], t.free[:n-1]
	} else {
		c = &collection{arrived: newChannelSet(t.channels)}
	}
	c.begin(g, b)
	t.tracked = append(t.tracked, c)
	return len(t.tracked) - 1
}

// completeIfFull ends the checkpoint at index i if all its barriers came: it and
// the older ones, which it subsumes, are dropped.
func (t *tracker) completeIfFull(g *Gate, i int) bool {
	c := t.tracked[i]
	if !c.full() {
		return false
	}
	if !c.aborted {
		g.doTrigger(c)
	}
	t.drop(i + 1)
	return true
}

// abortTracked reports the abort of a checkpoint once.
func (t *tracker) abortTracked(g *Gate, c *collection, reason messages.FailureReason) {
	if !c.aborted {
		c.aborted = true
		g.doAbort(c.barrier.checkpoint, reason)
	}
}

// drop forgets the n oldest checkpoints and keeps their memory.
func (t *tracker) drop(n int) {
	for _, c := range t.tracked[:n] {
		c.barrier.options = nil
		t.free = append(t.free, c)
	}
	t.tracked = append(t.tracked[:0], t.tracked[n:]...)
}

func (t *tracker) pending() []uint64 {
	var ids []uint64
	for _, c := range t.tracked {
		if !c.aborted {
			ids = append(ids, c.barrier.checkpoint)
		}
	}
	return ids
}

func (t *tracker) latest() uint64 { return t.seen }

func (t *tracker) phase() Phase {
	for _, c := range t.tracked {
		if !c.aborted {
			return TrackingBarriers
		}
	}
	return WaitingForFirstBarrier
}
