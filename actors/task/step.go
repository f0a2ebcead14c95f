package task

import (
	"math"

	"google.golang.org/protobuf/proto"

	"cutwater/messages"
)

// step is the job in hand: what was begun and stops between two records when
// mail waits or an output has no room.
type step struct {
	kind  stepKind
	batch *messages.RecordBatch
	input int
	at    int // next record, or next operator
	// timestampMs is the watermark that is being fired.
	timestampMs int64
	// drain is what EndOfData will say.
	drain bool
}

// stepKind is the phase of a step.
type stepKind uint8

const (
	// stepNone: nothing is in hand; the channels are open.
	stepNone stepKind = iota
	// stepBatch: records of a batch are left.
	stepBatch
	// stepWatermark: operators are being told a watermark, head first.
	stepWatermark
	// stepFinish: operators are finishing, head first.
	stepFinish
)

// eventTime is what the task knows of event time.
type eventTime struct {
	// ms is the last watermark that all operators have fired.
	ms        int64
	some      bool
	idle      bool
	sentMs    int64 // clock at the last watermark of a source
	finishing bool  // the end of event time was begun
}

// timersPerTurn bounds how many timers fire in one turn.
const timersPerTurn = 1024

// begin takes a step in hand and goes as far as it can.
func (t *Task) begin(s step) error {
	t.step = s
	return t.proceed()
}

// proceed goes on with the step in hand. While it is not done, the mailbox holds
// the channels and calls turn.
func (t *Task) proceed() error {
	done, err := t.advance()
	switch {
	case err != nil:
		return err
	case !done:
		t.mailbox.Hold()
		t.mailbox.Wake()
		return nil
	}
	finished := t.step
	t.step = step{}
	if err := t.stepDone(finished); err != nil || t.closed || t.step.kind != stepNone {
		return err
	}
	if err := t.triggerWaiting(); err != nil || t.closed {
		return err
	}
	t.mailbox.Release()
	t.mailbox.Wake()
	return nil
}

// advance does one turn of the step in hand.
func (t *Task) advance() (done bool, err error) {
	switch s := &t.step; s.kind {
	case stepBatch:
		t.yield.Budget = math.MaxInt
		s.at, err = t.chain.Input.Process(s.input, s.batch, s.at)
		return s.at >= int(s.batch.Count), err
	case stepWatermark:
		t.yield.Budget = timersPerTurn
		for ; t.chain != nil && s.at < len(t.chain.Operators); s.at++ {
			if done, err = t.chain.Operators[s.at].Watermark(s.timestampMs); !done || err != nil {
				return false, err
			}
		}
	case stepFinish:
		t.yield.Budget = timersPerTurn
		for ; t.chain != nil && s.drain && s.at < len(t.chain.Operators); s.at++ {
			if done, err = t.chain.Operators[s.at].Finish(); !done || err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// stepDone is what follows a step; it may take the next one in hand.
func (t *Task) stepDone(s step) error {
	switch s.kind {
	case stepBatch:
		n := len(s.batch.Data)
		t.counts.records += uint64(s.batch.Count)
		t.counts.bytes += uint64(n)
		if t.gate.AlignmentStarted() {
			t.gate.BytesProcessed(n)
		}
		t.in.consumed(s.batch.Channel, n)
		t.env.Pool.Release(s.batch)
	case stepWatermark:
		t.watermark.ms, t.watermark.some = s.timestampMs, true
		t.out.broadcast(func() proto.Message { return &messages.Watermark{TimestampMs: s.timestampMs} })
		if len(t.in.channels) > 0 {
			t.tellIdle(t.valve.OutputIdle())
		}
		if t.watermark.finishing {
			return t.begin(step{kind: stepFinish, drain: true})
		}
	case stepFinish:
		t.out.broadcast(func() proto.Message { return &messages.EndOfData{Drain: s.drain} })
		return t.endOfData(s.drain)
	}
	return nil
}

// turn is the mailbox's default action: go on with the step in hand, or poll the
// source. It returns false when it cannot go on before a Wake.
func (t *Task) turn() (more bool) {
	defer t.recoverPanic()
	if t.closed {
		return false
	}
	var err error
	if t.step.kind != stepNone {
		if t.stuck() {
			return false
		}
		err = t.proceed()
		more = true
	} else {
		more, err = t.poll()
	}
	if err != nil {
		t.fail(err)
		return false
	}
	t.settle()
	return more && !t.closed
}

// stuck reports that only credit or an answer from the Executor lets records
// flow again.
func (t *Task) stuck() bool { return t.yield.Full || t.yield.Held > 0 }
