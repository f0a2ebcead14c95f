package checkpoint

import (
	"slices"

	"cutwater/messages"
)

// maxQueuedRequests is Flink's bound of the request queue.
const maxQueuedRequests = 1000

// request is one wish for a checkpoint: the timer's, a user's, or the job's own.
type request struct {
	kind     messages.CheckpointType
	periodic bool
	// forced requests ignore max-concurrent and min-pause: savepoints, unless
	// unaligned checkpoints are on, which must be alone.
	forced bool
	// target is the directory under which a savepoint is made.
	target string
	// submittedMs is when it came; number breaks ties.
	submittedMs int64
	number      uint64
	// answered is set if somebody waits for a CheckpointOutcome of this number.
	answered bool
	reply    uint64
}

// before orders the queue: savepoints, forced ones, those that somebody waits
// for, older ones.
func (r *request) before(o *request) bool {
	switch {
	case isSavepoint(r.kind) != isSavepoint(o.kind):
		return isSavepoint(r.kind)
	case r.forced != o.forced:
		return r.forced
	case r.periodic != o.periodic:
		return o.periodic
	case r.submittedMs != o.submittedMs:
		return r.submittedMs < o.submittedMs
	}
	return r.number < o.number
}

// load is what the coordinator is busy with.
type load struct {
	// triggering: a request was taken and its tasks have not been asked yet.
	triggering bool
	// pending counts unfinished checkpoints, cleaning those being deleted.
	pending, cleaning int
	// lastCompletionMs is when the newest completion was, if there was one.
	completed        bool
	lastCompletionMs int64
}

// decider says which request may start now (Flink: CheckpointRequestDecider).
//
// Periodic requests queue like the others, as in Flink: those that a slow
// checkpoint held up follow it one by one, without a gap, and a job whose
// checkpoints last longer than the interval takes one after another. Only a full
// queue drops them, before anything else. Who wants the gap sets the minimum pause:
// then all that are held up fail after the completion (Flink fails the first, and
// one more with each tick).
type decider struct {
	maxConcurrent int
	minPauseMs    int64
	maxQueued     int

	queue     []*request
	submitted uint64
}

// submit queues a request. It returns the request that found no room, if any:
// the newcomer while the whole queue is waited for, else the least important.
func (d *decider) submit(r *request) (rejected *request) {
	d.submitted++
	r.number = d.submitted
	n := len(d.queue)
	if n >= d.maxQueued && !d.queue[n-1].periodic {
		return r
	}
	at, _ := slices.BinarySearchFunc(d.queue, r, func(a, b *request) int {
		if a.before(b) {
			return -1
		}
		return 1
	})
	d.queue = slices.Insert(d.queue, at, r)
	if len(d.queue) <= d.maxQueued {
		return nil
	}
	rejected = d.queue[n]
	d.queue = d.queue[:n]
	return rejected
}

// choose takes the request that may start now. With a pause above 0 the request
// must not start: it comes that much too soon after the last completion.
func (d *decider) choose(nowMs int64, l load) (chosen *request, pauseMs int64) {
	if l.triggering || len(d.queue) == 0 || l.cleaning > d.maxConcurrent {
		return nil, 0
	}
	head := d.queue[0]
	if l.pending >= d.maxConcurrent && !head.forced {
		return nil, 0
	}
	d.queue = slices.Delete(d.queue, 0, 1)
	if head.periodic && !head.forced && l.completed {
		// Never more than the whole pause, also where the clock was set back.
		pauseMs = min(max(0, l.lastCompletionMs+d.minPauseMs-nowMs), d.minPauseMs)
	}
	return head, pauseMs
}

// drain empties the queue.
func (d *decider) drain() []*request {
	all := d.queue
	d.queue = nil
	return all
}
