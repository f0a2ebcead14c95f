package stream

import (
	"fmt"
	"math"

	"cutwater/messages"
	"cutwater/state"
	"cutwater/stream/operator"
)

// processOperator runs a Processor.
type processOperator[K, T, U any] struct {
	keyedBase[K]
	f          Processor[K, T, U]
	context    Context[K, U]
	timer      TimerProcessor[K, U]
	watermarks WatermarkProcessor[K, U]
	listener   CheckpointListener
	function   CheckpointedFunction

	event, processing *state.Timers
	// armedMs is when the task will wake the operator next, or the maximum.
	armedMs int64
}

// Open declares state and restores operator state.
func (o *processOperator[K, T, U]) Open(ctx *operator.Context) (err error) {
	defer o.chain.caught(&err)
	o.open(ctx)
	o.armedMs = math.MaxInt64
	if ctx.HasRestoredWatermark {
		o.context.watermark = ctx.RestoredWatermarkMs
	}
	s := &States{node: o.node, chain: o.chain}
	if o.keys != nil {
		s.scope = o.scope(false)
	}
	if opener, ok := o.f.(Opener); ok {
		opener.Open(s)
		if len(s.errs) > 0 {
			return &operator.UserError{Uid: o.ID, Cause: s.errs[0]}
		}
	}
	if o.timer != nil && o.keys != nil {
		if o.event, err = state.NewTimers(o.scope(false), "timers/event"); err != nil {
			return err
		}
		if o.processing, err = state.NewTimers(o.scope(false), "timers/processing"); err != nil {
			return err
		}
		o.arm()
	}
	if o.function != nil && ctx.Restored != nil {
		if err := o.function.RestoreState(&OperatorState{lists: ctx.Restored.Lists}); err != nil {
			return &operator.UserError{Uid: o.ID, Cause: err}
		}
	}
	return nil
}

// timers are those of the operator; it panics if nothing would take them.
func (o *processOperator[K, T, U]) timers() (event, processing *state.Timers) {
	if o.event == nil {
		panic(fmt.Errorf("%T sets a timer; that needs a keyed stream and a method OnTimer", o.f))
	}
	return o.event, o.processing
}

func (o *processOperator[K, T, U]) process(v T, ts int64) {
	o.chain.at, o.context.now = o.node, ts
	if err := o.f.Process(&o.context, v); err != nil {
		o.chain.fail(o.node, err)
	}
}

// Watermark fires the event-time timers up to it.
func (o *processOperator[K, T, U]) Watermark(timestampMs int64) (done bool, err error) {
	defer o.chain.caught(&err)
	o.context.watermark = max(o.context.watermark, timestampMs)
	if !o.fire(o.event, timestampMs, false) {
		return false, o.chain.err
	}
	if o.watermarks != nil {
		o.chain.at, o.context.now = o.node, timestampMs
		if err := o.watermarks.OnWatermark(&o.context, timestampMs); err != nil {
			o.chain.fail(o.node, err)
		}
	}
	return true, o.chain.err
}

// fire fires timers and reports whether all that are due were.
func (o *processOperator[K, T, U]) fire(t *state.Timers, upToMs int64, processingTime bool) bool {
	if t == nil {
		return true
	}
	stop := func() bool { return o.chain.err != nil || o.ctx.Yield.Now() }
	return t.Fire(upToMs, stop, func(hash uint64, key []byte, _, timestampMs int64) {
		o.ctx.Yield.Budget--
		o.cursor.Hash, o.cursor.Key = hash, append(o.cursor.Key[:0], key...)
		o.chain.at, o.context.now = o.node, timestampMs
		if err := o.timer.OnTimer(&o.context, Timer{timestampMs, processingTime}); err != nil {
			o.chain.fail(o.node, err)
		}
	})
}

// arm asks to be woken at the earliest processing-time timer.
func (o *processOperator[K, T, U]) arm() {
	if at, ok := o.processing.Next(); ok && at < o.armedMs {
		o.armedMs = at
		o.ctx.At(at, o.wake)
	}
}

// wake fires the processing-time timers that are due.
func (o *processOperator[K, T, U]) wake() {
	err := o.fireProcessing()
	if err != nil {
		o.ctx.Fail(err)
	}
}

func (o *processOperator[K, T, U]) fireProcessing() (err error) {
	defer o.chain.caught(&err)
	o.armedMs = math.MaxInt64
	now := o.ctx.NowMs()
	if !o.fire(o.processing, now, true) && o.chain.err == nil {
		o.armedMs = now
		o.ctx.At(now+1, o.wake)
		return nil
	}
	o.arm()
	return o.chain.err
}

// Snapshot asks the function for its operator state.
func (o *processOperator[K, T, U]) Snapshot(r operator.SnapshotRequest) (s operator.Snapshot, err error) {
	defer o.chain.caught(&err)
	if o.function == nil {
		return s, nil
	}
	o.chain.at = o.node
	var fresh OperatorState
	if err := o.function.SnapshotState(r.Checkpoint, &fresh); err != nil {
		return s, &operator.UserError{Uid: o.ID, Cause: err}
	}
	s.Lists = fresh.lists
	return s, nil
}

// Complete passes the notification on.
func (o *processOperator[K, T, U]) Complete(checkpoint uint64) (err error) {
	return o.notify(checkpoint, CheckpointListener.CheckpointComplete)
}

// Aborted passes the notification on.
func (o *processOperator[K, T, U]) Aborted(checkpoint uint64) (err error) {
	return o.notify(checkpoint, CheckpointListener.CheckpointAborted)
}

func (o *processOperator[K, T, U]) notify(checkpoint uint64, what func(CheckpointListener, uint64) error) (err error) {
	defer o.chain.caught(&err)
	if o.listener == nil {
		return nil
	}
	o.chain.at = o.node
	if err := what(o.listener, checkpoint); err != nil {
		return &operator.UserError{Uid: o.ID, Cause: err}
	}
	return nil
}

// OperatorState is the operator state of one subtask, as named lists of items.
type OperatorState struct{ lists []*messages.OperatorList }

// Split stores items that are dealt out to the subtasks when the job is
// restored with another parallelism.
func (s *OperatorState) Split(name string, items ...[]byte) {
	s.add(name, messages.RedistributionMode_SPLIT, items)
}

// Union stores items all of which every subtask gets at restore.
func (s *OperatorState) Union(name string, items ...[]byte) {
	s.add(name, messages.RedistributionMode_UNION, items)
}

// Broadcast stores items that are the same in all subtasks.
func (s *OperatorState) Broadcast(name string, items ...[]byte) {
	s.add(name, messages.RedistributionMode_BROADCAST, items)
}

func (s *OperatorState) add(name string, mode messages.RedistributionMode, items [][]byte) {
	s.lists = append(s.lists, &messages.OperatorList{Name: name, Mode: mode, Items: items})
}

// Items are the restored items of that name.
func (s *OperatorState) Items(name string) [][]byte {
	var items [][]byte
	for _, l := range s.lists {
		if l.Name == name {
			items = append(items, l.Items...)
		}
	}
	return items
}
