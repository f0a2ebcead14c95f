package task

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"cutwater/messages"
	"cutwater/protocol"
	"cutwater/protocol/barrier"
	"cutwater/protocol/subtask"
)

// recordBatch takes a batch in hand.
func (t *Task) recordBatch(b *messages.RecordBatch) error {
	if !t.in.accept(b) {
		return nil
	}
	if t.chain == nil {
		return fmt.Errorf("channel %d brought records to a task that had finished before the restored checkpoint", b.Channel)
	}
	return t.begin(step{kind: stepBatch, batch: b, input: t.in.channels[b.Channel].input})
}

// inBand handles every other message of a channel.
func (t *Task) inBand(m inBand) error {
	if end, ok := m.(*messages.EndOfPartition); ok && t.in.repeated(end) {
		t.in.end(end.Channel)
		return nil
	}
	if !t.in.accept(m) {
		return nil
	}
	switch m := m.(type) {
	case *messages.Barrier:
		m.AgeMs += t.monotonicMs() // it was lowered by the time of its arrival: see Spawn
		return t.act(t.gate.Barrier(t.monotonicMs(), m.Channel, m))
	case *messages.CancelBarrier:
		return t.act(t.gate.Cancel(t.monotonicMs(), m.Channel, m.Checkpoint))
	case *messages.Watermark:
		return t.eventTime(t.valve.Update(m.Channel, m.TimestampMs))
	case *messages.WatermarkIdle:
		return t.eventTime(t.valve.Idle(m.Channel, m.Idle))
	case *messages.EndOfData:
		return t.endOfChannelData(m)
	case *messages.EndOfPartition:
		t.in.end(m.Channel)
		if err := t.act(t.gate.EndOfPartition(t.monotonicMs(), m.Channel)); err != nil || t.closed {
			return err
		}
		if t.partition++; t.partition == len(t.in.channels) {
			return t.run(t.sub.EndOfInput())
		}
	}
	return nil
}

// act carries out what the gate says, in its order.
func (t *Task) act(a *barrier.Actions) error {
	for _, abort := range a.Aborts {
		if err := t.run(t.sub.AbortOnBarrier(abort)); err != nil || t.closed {
			return err
		}
	}
	if a.Trigger != nil {
		if err := t.run(t.sub.CheckpointState(t.monotonicMs(), a.Trigger)); err != nil || t.closed {
			return err
		}
	}
	for _, c := range a.Block {
		t.mailbox.Block(c)
	}
	for _, c := range a.Unblock {
		t.mailbox.Unblock(c)
	}
	return nil
}

// advanceWatermark begins to fire what is due.
func (t *Task) advanceWatermark(ms int64) error {
	if t.watermark.some && ms <= t.watermark.ms {
		return nil
	}
	return t.begin(step{kind: stepWatermark, timestampMs: ms})
}

// eventTime passes on what the valve says: first that a channel is active again,
// then how far event time is, last that all channels are idle.
func (t *Task) eventTime(ms int64, advanced bool) error {
	idle := t.valve.OutputIdle()
	if !idle {
		t.tellIdle(false)
	}
	if advanced {
		if err := t.advanceWatermark(ms); err != nil || t.step.kind != stepNone {
			return err // the end of the step tells the rest
		}
	}
	t.tellIdle(idle)
	return nil
}

// tellIdle tells the outputs, if they do not know it yet.
func (t *Task) tellIdle(idle bool) {
	if idle != t.watermark.idle {
		t.watermark.idle = idle
		t.out.broadcast(func() proto.Message { return &messages.WatermarkIdle{Idle: idle} })
	}
}

// endOfChannelData counts the ends; after the last one the operators finish. The
// credit of a channel is settled, since no batch will follow to settle it.
func (t *Task) endOfChannelData(m *messages.EndOfData) error {
	t.in.giveBack(&t.in.channels[m.Channel])
	t.endings++
	if t.endings < len(t.in.channels) {
		return nil
	}
	return t.begin(step{kind: stepFinish, drain: m.Drain})
}

// endOfData tells the checkpoint machine that no record follows.
func (t *Task) endOfData(drain bool) error {
	t.ended, t.drained = drain, drain
	if drain {
		t.armRepeat()
	}
	return t.run(t.sub.EndOfData(t.monotonicMs(), drain))
}

// checkEnd tells the checkpoint machine what a task that has ended waits for.
func (t *Task) checkEnd() error {
	if !t.consumed && t.out.consumed() {
		t.consumed = true
		if err := t.run(t.sub.OutputsConsumed()); err != nil || t.closed {
			return err
		}
	}
	if t.sub.Phase() != subtask.Ended {
		return nil
	}
	// What is still queued must leave before the task does.
	return t.run(t.sub.OperatorsQuiescent(t.quiescent() && t.out.drained()))
}

func (t *Task) quiescent() bool {
	if t.chain != nil {
		for _, op := range t.chain.Operators {
			if !op.Quiescent() {
				return false
			}
		}
	}
	return true
}

// triggerCheckpoint handles the coordinator's trigger. At a source it is the
// barrier; elsewhere it stands in for the barriers of inputs that have ended.
func (t *Task) triggerCheckpoint(m *messages.TriggerCheckpoint) error {
	if !t.current(m.Fence) {
		return nil
	}
	if len(t.in.channels) > 0 {
		return t.act(t.gate.TriggerOnUnfinished(t.monotonicMs(), m))
	}
	t.waiting = append(t.waiting, &barrier.Trigger{Checkpoint: m.Checkpoint, TimestampMs: m.TimestampMs, Options: m.Options})
	if t.step.kind != stepNone {
		return nil // a snapshot never falls into the middle of a step
	}
	return t.triggerWaiting()
}

func (t *Task) triggerWaiting() error {
	for len(t.waiting) > 0 && t.step.kind == stepNone {
		next := t.waiting[0]
		t.waiting = t.waiting[1:]
		if err := t.run(t.sub.CheckpointState(t.monotonicMs(), next)); err != nil || t.closed {
			return err
		}
	}
	return nil
}

// run carries out the checkpoint machine's steps in their order.
func (t *Task) run(a *subtask.Actions) error {
	for _, s := range a.Steps {
		if err := t.do(s); err != nil || t.closed {
			return err
		}
	}
	return nil
}

func (t *Task) do(s subtask.Step) error {
	switch s := s.(type) {
	case subtask.StopSource:
		return t.stopSource(s.Drain)
	case subtask.PrepareBarrier:
		return t.prepareBarrier(s.Checkpoint)
	case subtask.BroadcastBarrier:
		t.out.broadcast(func() proto.Message {
			return &messages.Barrier{Checkpoint: s.Checkpoint, TimestampMs: s.TimestampMs, AgeMs: s.AgeMs, Options: s.Options}
		})
	case subtask.SyncSnapshot:
		return t.syncSnapshot(s)
	case subtask.StartAsync:
		t.startAsync(s.Checkpoint)
	case subtask.CancelAsync:
		if snap := t.snapshots[s.Checkpoint]; snap != nil {
			snap.cancelled = true
		}
	case subtask.DiscardSnapshot:
		t.discard(s.Checkpoint, s.Snapshot)
	case subtask.BroadcastCancel:
		t.out.broadcast(func() proto.Message { return &messages.CancelBarrier{Checkpoint: s.Checkpoint} })
	case subtask.CompleteOperators:
		for _, op := range t.chain.Operators {
			if err := op.Complete(s.Checkpoint); err != nil {
				return err
			}
		}
	case subtask.CompleteState:
		t.source.received.Completed(s.Checkpoint)
		for _, b := range t.keyed {
			if b != nil {
				b.Confirm(s.Checkpoint)
			}
		}
		t.copies.completed(s.Checkpoint)
	case subtask.AbortOperators:
		for _, op := range t.chain.Operators {
			if err := op.Aborted(s.Checkpoint); err != nil {
				return err
			}
		}
	case subtask.AbortState:
		for _, b := range t.keyed {
			if b != nil {
				b.Abort(s.Checkpoint)
			}
		}
		t.copies.aborted(s.Checkpoint)
	case subtask.Send:
		t.toCoordinator(s.Message)
	case subtask.Finish:
		return t.finish()
	case subtask.Fail:
		return s.Err
	default:
		panic(protocol.Assertion(fmt.Sprintf("assertion failed: unknown step %T", s)))
	}
	return nil
}
