package checkpoint

import (
	"fmt"

	"cutwater/messages"
	"cutwater/protocol"
)

// Keys of the coordinator's timers; all start with "checkpoint/".
const (
	tickKey     = "checkpoint/periodic"
	allocateKey = "checkpoint/allocate"
	retryKey    = "checkpoint/retry"
)

func timeoutKey(id uint64) string { return fmt.Sprintf("checkpoint/timeout/%d", id) }

// timer is what an armed timer is for.
type timer struct {
	generation uint64
	pending    *pendingCheckpoint
}

// scheduler is the periodic trigger: a timer that is armed anew at each tick, so
// that the ticks do not drift.
type scheduler struct {
	running bool
	// nextMs is when the armed tick is due.
	nextMs int64
}

// after returns when the tick after the one that fired is due: whole intervals
// from it, so that lateness does not add up, and less than two intervals from now.
// Ticks that were missed while the machine slept, or because its clock was set
// forward, are left out; a clock that was set back does not stop the checkpoints
// until it has caught up.
func (s *scheduler) after(nowMs, intervalMs int64) int64 {
	return nowMs + intervalMs - (nowMs-s.nextMs)%intervalMs
}

// intervalMs is the time between two ticks: never under the minimum pause.
func (c *Coordinator) intervalMs() int64 {
	return max(c.settings.IntervalMs, c.settings.MinPauseMs)
}

// StartScheduler starts the periodic checkpoints, if the job has any: all its
// tasks run. The random number picks the first delay, between the minimum pause
// and the interval, so that jobs which start together do not tick together.
func (c *Coordinator) StartScheduler(nowMs int64, random uint64) *protocol.Effects {
	c.begin(nowMs)
	if c.scheduler.running {
		c.stop(messages.FailureReason_CHECKPOINT_COORDINATOR_SUSPEND)
	}
	if c.settings.IntervalMs > 0 && c.life == serving {
		c.scheduler.running = true
		span := uint64(c.intervalMs()-c.settings.MinPauseMs) + 1
		c.armTick(nowMs + c.settings.MinPauseMs + int64(random%span))
	}
	return c.end()
}

// armTick sets the next tick.
func (c *Coordinator) armTick(atMs int64) {
	c.scheduler.nextMs = atMs
	c.arm(tickKey, nil, max(0, atMs-c.nowMs))
}

// stopTimer stops the ticks.
func (c *Coordinator) stopTimer() {
	if c.scheduler.running {
		c.scheduler.running = false
		c.cancelTimer(tickKey)
	}
}

// timerFired acts on a timer, unless it is not the one that is armed.
func (c *Coordinator) timerFired(m *messages.TimerFired) {
	t, armed := c.timers[m.Key]
	if !armed || t.generation != m.Generation {
		c.emit(Dropped{"timer " + m.Key, "it was set anew or cancelled"})
		return
	}
	delete(c.timers, m.Key)
	switch {
	case m.Key == tickKey:
		c.armTick(c.scheduler.after(c.nowMs, c.intervalMs()))
		c.submit(&request{kind: messages.CheckpointType_CHECKPOINT, periodic: true})
	case m.Key == allocateKey:
		c.allocate()
	case m.Key == retryKey && t.pending != nil:
		c.proposeCompletion(t.pending)
	case m.Key == retryKey:
		c.forget()
	default:
		c.abort(t.pending, messages.FailureReason_CHECKPOINT_EXPIRED,
			fmt.Sprintf("%d of %d tasks have not acknowledged after %d ms", t.pending.missing, len(t.pending.plan.await), c.settings.TimeoutMs), false)
	}
}

func (c *Coordinator) arm(key string, p *pendingCheckpoint, delayMs int64) {
	c.generation++
	c.timers[key] = timer{generation: c.generation, pending: p}
	c.fx.Timers = append(c.fx.Timers, protocol.Timer{Key: key, Generation: c.generation, DelayMs: delayMs})
}

func (c *Coordinator) cancelTimer(key string) {
	if t, armed := c.timers[key]; armed {
		delete(c.timers, key)
		c.fx.Timers = append(c.fx.Timers, protocol.Timer{Key: key, Generation: t.generation, Cancel: true})
	}
}
