package task

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"cutwater/messages"
	"cutwater/protocol"
)

const (
	// repeatMs is how often a report is repeated until it is acknowledged.
	repeatMs = 1000
	// maxRepeats is how often a closed task repeats its end. Whoever asks later is
	// answered by the task manager, which remembers it.
	maxRepeats = 300
	// maxEndRepeats is how often it repeats the end of its channels. A receiver that
	// is silent for longer has been given up with its node.
	maxEndRepeats = 15
)

// state reports a new state of the task to its coordinator, until acknowledged.
func (t *Task) state(s messages.TaskState, f *messages.Failure) {
	t.now = s
	t.report = &messages.TaskStateChanged{Fence: t.fence, Task: t.deploy.Task, State: s, Failure: f}
	t.sendReport()
}

func (t *Task) sendReport() {
	if t.report == nil {
		return
	}
	t.report.Fence = t.fence
	t.toCoordinator(proto.CloneOf(t.report))
	t.armRepeat()
}

func (t *Task) armRepeat() {
	t.timers.arm(repeatTimer, repeatMs, func() error {
		if t.closed {
			t.repeatEnd()
			return nil
		}
		t.sendReport()
		if t.finishing {
			t.out.repeatEnds()
			t.armRepeat()
		}
		if t.ended {
			t.toCoordinator(&messages.EndOfDataReached{Fence: t.fence, Task: t.deploy.Task})
			t.armRepeat()
		}
		return nil
	})
}

// repeatEnd tells the coordinator and the receivers again what they have not
// confirmed, a bounded number of times.
func (t *Task) repeatEnd() {
	t.repeats++
	t.sendReport()
	ends := t.out != nil && t.repeats <= maxEndRepeats && t.out.repeatEnds()
	if t.repeats > maxRepeats || t.report == nil && !ends {
		t.self.Stop()
		return
	}
	t.armRepeat()
}

// armAsk asks again for the Credit that the outputs wait for, while the task lives.
func (t *Task) armAsk() {
	t.timers.arm(askTimer, repeatMs, func() error {
		t.out.request()
		t.armAsk()
		return nil
	})
}

// acknowledged ends the repetition of a report.
func (t *Task) acknowledged(m *messages.TaskStateAck) {
	if t.report == nil || m.State != t.report.State {
		return
	}
	t.report = nil
	t.leave()
}

// leave stops a closed task that has nothing left to tell.
func (t *Task) leave() {
	if t.closed && t.report == nil && (t.out == nil || t.out.endsConfirmed()) {
		t.timers.cancelAll()
		t.self.Stop()
	}
}

// end closes the task and reports its last state. It may be called in the middle
// of anything, and again.
func (t *Task) end(s messages.TaskState, f *messages.Failure) {
	if t.closed {
		return
	}
	t.closed = true
	t.mailbox.Hold()
	t.tellProgress()
	t.tellReport()
	t.timers.cancelAll()
	t.cancel()
	if t.out != nil {
		t.out.repayAll()
	}
	if t.sub != nil {
		// What was in progress is told to nobody; files that nobody acknowledged
		// are orphans, swept when the job ends or the next attempt runs.
		t.sub.Close()
	}
	if err := t.close(); err != nil && f == nil && s == messages.TaskState_TASK_FINISHED {
		s, f = messages.TaskState_TASK_FAILED, failureOf(err, "")
	}
	t.state(s, f)
	t.self.System.Deliver(t.self.System.Address("taskmanager"), proto.CloneOf(t.report))
}

// close releases the operators, tail first, and the state. A panic in one of
// them must not keep the others open.
func (t *Task) close() (first error) {
	closing := func(what string, f func() error) {
		defer func() {
			if r := recover(); r != nil && first == nil {
				first = fmt.Errorf("closing %s: %v", what, r)
			}
		}()
		if err := f(); err != nil && first == nil {
			first = fmt.Errorf("closing %s: %w", what, err)
		}
	}
	if t.chain != nil {
		for i := len(t.chain.Operators) - 1; i >= 0; i-- {
			op := t.chain.Operators[i]
			closing(fmt.Sprintf("operator %q", op.Uid()), op.Close)
		}
	}
	for _, s := range t.snapshots {
		s.release()
	}
	t.copies.close()
	closing("keyed state", func() error { return errors.Join(closeAll(t.keyed), t.loading.abandon()) })
	return first
}

// finish is the good end: the last message of every output and, when all have arrived,
// FINISHED. Until then the task counts as running, because of a race:
//
//  1. the task sends EndOfPartition and reports FINISHED
//  2. one EndOfPartition is lost; the task would send it again
//  3. its node dies, which nobody minds: all its tasks have finished
//  4. the receiver waits for ever, and takes one last checkpoint after the other
//
// (testkit, TestExactlyOnceUnderFaults -seed 535)
func (t *Task) finish() error {
	t.out.broadcast(func() proto.Message { return &messages.EndOfPartition{} })
	protocol.Assert(t.out.drained(), "the task finishes with queued output")
	t.finishing = true
	t.finishArrived()
	if !t.closed {
		t.armRepeat()
	}
	return nil
}

// finishArrived ends a task that is finishing if all receivers have confirmed its last
// message.
func (t *Task) finishArrived() {
	if t.finishing && !t.closed && t.out.endsConfirmed() {
		t.end(messages.TaskState_TASK_FINISHED, nil)
	}
}
