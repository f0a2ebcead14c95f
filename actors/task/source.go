package task

import (
	"math"

	"google.golang.org/protobuf/proto"

	"cutwater/messages"
	"cutwater/protocol/split"
	"cutwater/stream/operator"
)

const (
	// pollRecords is the default bound of one turn of a source.
	pollRecords = 1024
	// watermarkIntervalMs is how often a busy source sends its watermark.
	watermarkIntervalMs = 200
)

// sourceState is a source task's conversation with its enumerator.
type sourceState struct {
	request uint64 // number of the last split request
	waiting bool   // its answer has not come
	ended   bool   // it is not polled any more
	// received are the splits for the account of a coordinator that takes over.
	received split.Received
}

// poll gives the source one turn.
func (t *Task) poll() (more bool, err error) {
	if len(t.in.channels) > 0 || t.source.ended || !t.running() {
		return false, nil
	}
	if t.chain == nil { // finished before the restored checkpoint
		t.source.ended = true
		return true, t.endEventTime()
	}
	if t.stuck() {
		return false, nil
	}
	t.yield.Budget = t.env.PollRecords
	if t.yield.Budget <= 0 {
		t.yield.Budget = pollRecords
	}
	status, err := t.chain.Source.Poll()
	if err != nil {
		return false, err
	}
	if status == operator.SourceEnded {
		t.source.ended = true
		return true, t.endEventTime()
	}
	idle := t.chain.Source.Idle()
	if !idle {
		t.tellIdle(false)
	}
	now := t.monotonicMs()
	if ms, ok := t.chain.Source.CurrentWatermark(); ok && (status == operator.SourceWaiting || now-t.watermark.sentMs >= watermarkIntervalMs) {
		t.watermark.sentMs = now
		if err := t.advanceWatermark(ms); err != nil {
			return false, err
		}
	}
	if idle && t.step.kind == stepNone { // else at a later poll: the watermark goes first
		t.tellIdle(true)
	}
	return status == operator.SourceMore || t.step.kind != stepNone, nil
}

// endEventTime begins the good end of a source: all timers fire, the operators
// finish, and EndOfData follows.
func (t *Task) endEventTime() error {
	t.watermark.finishing = true
	return t.begin(step{kind: stepWatermark, timestampMs: math.MaxInt64})
}

// stopSource ends the source for a savepoint that stops the job.
func (t *Task) stopSource(drain bool) error {
	if t.source.ended {
		return nil
	}
	t.source.ended = true
	if drain {
		return t.endEventTime()
	}
	return t.begin(step{kind: stepFinish, drain: false})
}

// requestSplit asks the enumerator for work, again and again until it answers
// this request.
func (t *Task) requestSplit(uid string) {
	if t.source.waiting {
		return
	}
	t.source.request++
	t.source.waiting = true
	t.sendSplitRequest(uid)
}

func (t *Task) sendSplitRequest(uid string) {
	t.toCoordinator(&messages.SplitRequest{Fence: t.fence, Task: t.deploy.Task, Uid: uid, Number: t.source.request})
	number := t.source.request
	t.calls.runAt(t.nowMs()+repeatMs, func() {
		if t.source.waiting && t.source.request == number { // a newer one repeats itself
			t.sendSplitRequest(uid)
		}
	})
}

// splitAssigned hands the enumerator's answer to the source, once, and confirms
// it each time that it comes.
func (t *Task) splitAssigned(m *messages.SplitAssignment) error {
	if !t.current(m.Fence) || m.Number > t.source.request || t.chain == nil || t.chain.Source == nil {
		t.stale++
		return nil
	}
	var err error
	if m.Number == t.source.request && t.source.waiting {
		t.source.waiting = false
		if m.Split != nil {
			t.source.received.Add(m.Split.Id, t.sub.LatestCheckpoint())
		}
		err = t.chain.Source.AddSplit(proto.CloneOf(m))
		t.mailbox.Wake()
	}
	t.toCoordinator(&messages.SplitAck{Fence: t.fence, Task: t.deploy.Task, Uid: m.Uid, Number: m.Number})
	return err
}
