package task

import (
	"cutwater/actors/system"
	"cutwater/messages"
	"cutwater/protocol"
)

// Keys of a task's timers: one armed timer per purpose.
const (
	flushTimer  = "flush"
	repeatTimer = "repeat"
	wakeTimer   = "wake"
	callTimer   = "call"
	askTimer    = "ask"

	progressTimer = "progress"
	reportTimer   = "report"
)

// timers are the task's timers at the timer actor of its node.
type timers struct {
	self       *system.Self
	actor      protocol.Address
	generation uint64
	armed      map[string]armedTimer
}

type armedTimer struct {
	generation uint64
	f          func() error
}

func (t *timers) init(self *system.Self) {
	t.self, t.actor, t.armed = self, self.System.Address("timer"), map[string]armedTimer{}
}

// arm calls f after the delay, unless the key is armed already.
func (t *timers) arm(key string, delayMs int64, f func() error) {
	if _, ok := t.armed[key]; ok {
		return
	}
	t.rearm(key, delayMs, f)
}

// rearm calls f after the delay instead of whatever the key was armed for.
func (t *timers) rearm(key string, delayMs int64, f func() error) {
	t.generation++
	t.armed[key] = armedTimer{t.generation, f}
	t.self.Send(t.actor, &messages.SetTimer{Owner: string(t.self.Address), Key: key, Generation: t.generation, DelayMs: max(delayMs, 0)})
}

// fired runs what was armed; a stale generation is ignored.
func (t *timers) fired(m *messages.TimerFired) error {
	a, ok := t.armed[m.Key]
	if !ok || a.generation != m.Generation {
		return nil
	}
	delete(t.armed, m.Key)
	return a.f()
}

// cancelAll disarms everything.
func (t *timers) cancelAll() {
	for _, key := range []string{flushTimer, repeatTimer, wakeTimer, callTimer, askTimer, progressTimer, reportTimer} {
		if _, ok := t.armed[key]; ok {
			delete(t.armed, key)
			t.self.Send(t.actor, &messages.CancelTimer{Owner: string(t.self.Address), Key: key})
		}
	}
}
