package stream

import (
	"errors"
	"fmt"
	"math"

	"cutwater/codec"
	"cutwater/state"
	"cutwater/stream/operator"
)

// Window aggregates each key's records by windows of event time. A window's
// result is emitted when the watermark reaches its last millisecond, which is
// the timestamp of the result.
func Window[K, T, A, R any, G Aggregator[K, T, A, R]](s KeyedStream[K, T], uid string, w Windows, newAggregator func() G, opts ...Option) Stream[R] {
	n := declareKeyed(s, "window", uid, opts)
	t := s.stream.t
	t.takes(n, "WithState", "AllowedLateness", "SkipFailed")
	if p := w.problem(); p != "" {
		t.failf(n, "%s", p)
	}
	if n.options.latenessMs < 0 {
		t.failf(n, "an allowed lateness of %d ms is negative", n.options.latenessMs)
	}
	acc := stateCodec[A](t, n)
	n.schema = stateSchema(s.key, acc)
	n.sides = append(n.sides, side{"late", s.stream.codec})
	result := output[R](t, n, nil)
	n.build = func(c *chain, n *node) (*instance, error) {
		out, err := emitter(c, n, "", result.codec)
		if err != nil {
			return nil, err
		}
		late, err := emitter(c, n, "late", s.stream.codec)
		if err != nil {
			return nil, err
		}
		o := &windowOperator[K, T, A, R]{
			keyedBase: newKeyedBase(c, n, s.key), windows: w, paneMs: w.paneMs(), latenessMs: n.options.latenessMs,
			codec: acc, out: out, late: late, f: newAggregator(), watermark: math.MinInt64,
		}
		return keyedInstance(o, s, &o.cursor, o.add), nil
	}
	return result
}

// windowOperator keeps one accumulator per key and pane. A window is the merge
// of its panes; a tumbling window is one pane.
//
// Timers say when to look at a key again. One at (window start, last ms of the
// window) fires the window; only the next window of a key has one, and firing
// registers the one after it if a pane is left for it. With allowed lateness,
// one at (pane, last ms of its last window + lateness) removes the pane;
// without, firing removes the panes that no later window needs.
type windowOperator[K, T, A, R any] struct {
	keyedBase[K]
	windows    Windows
	paneMs     int64
	latenessMs int64
	codec      codec.Codec[A]
	out        Emit[R]
	late       Emit[T]
	f          Aggregator[K, T, A, R]

	panes     *state.Value[A]
	timers    *state.Timers
	watermark int64
	merged    A

	record  T
	created bool
	err     error
	update  func(acc *A, existed bool)
	fired   func(hash uint64, key []byte, namespace, timestampMs int64)
	stop    func() bool
}

// Open declares the state; what was late before a restore is late after it.
func (o *windowOperator[K, T, A, R]) Open(ctx *operator.Context) (err error) {
	o.open(ctx)
	if ctx.HasRestoredWatermark {
		o.watermark = ctx.RestoredWatermarkMs
	}
	o.update = func(acc *A, existed bool) {
		if o.created = !existed; o.created {
			o.f.Init(acc)
		}
		o.err = o.f.Add(acc, o.record)
	}
	o.fired = func(hash uint64, key []byte, namespace, timestampMs int64) {
		ctx.Yield.Budget--
		o.cursor.Hash, o.cursor.Key = hash, append(o.cursor.Key[:0], key...)
		o.timer(namespace, timestampMs)
	}
	o.stop = func() bool { return o.chain.err != nil || ctx.Yield.Now() }
	if o.panes, err = state.NewValue(o.scope(true), "panes", o.codec); err != nil {
		return err
	}
	o.timers, err = state.NewTimers(o.scope(true), "timers")
	return err
}

// add takes one record.
func (o *windowOperator[K, T, A, R]) add(v T, ts int64) {
	o.chain.at = o.node
	if !o.windows.covers(ts) {
		o.chain.fail(o.node, noTime(ts))
		return
	}
	pane := o.windows.floor(ts, o.paneMs)
	first, last := o.windows.firstEnd(pane), o.windows.lastEnd(pane)
	switch {
	case last <= pane:
		return // in a gap between windows
	case o.gone(last):
		o.ctx.Event("late", "")
		o.late(v, ts)
		return
	}
	o.record, o.cursor.Namespace = v, pane
	o.panes.Modify(o.update)
	if o.err != nil {
		if o.created {
			o.panes.Clear()
		}
		o.failed(o.err)
		return
	}
	// Windows that have fired and are still kept fire again; the first that has
	// not is due in the future.
	end := first
	for ; end <= last && end-1 <= o.watermark; end += o.windows.slideMs {
		if !o.gone(end) {
			o.fire(end - o.windows.sizeMs)
		}
	}
	if !o.created {
		return
	}
	if end <= last {
		o.timers.Register(o.cursor.Hash, o.cursor.Key, end-o.windows.sizeMs, end-1)
	}
	if o.latenessMs > 0 {
		o.timers.Register(o.cursor.Hash, o.cursor.Key, pane, o.goneAt(last))
	}
}

// goneAt is the watermark at which a window that ends at end is forgotten.
func (o *windowOperator[K, T, A, R]) goneAt(end int64) int64 {
	if at := end - 1 + o.latenessMs; at >= end-1 {
		return at
	}
	return math.MaxInt64
}

func (o *windowOperator[K, T, A, R]) gone(end int64) bool { return o.goneAt(end) <= o.watermark }

func noTime(ts int64) error {
	if ts == NoTimestamp {
		return NoRestart(errors.New("a record without a timestamp reached an event-time window; give the source an event time"))
	}
	return NoRestart(fmt.Errorf("the timestamp %d ms is out of the range of windows", ts))
}

// timer is called for each due timer, with the cursor at its key.
func (o *windowOperator[K, T, A, R]) timer(namespace, at int64) {
	w := o.windows
	if at == namespace+w.sizeMs-1 && w.floor(namespace, w.slideMs) == namespace {
		o.fire(namespace)
		o.next(namespace)
	}
	if o.latenessMs > 0 && at == o.goneAt(w.lastEnd(namespace)) {
		o.cursor.Namespace = namespace
		o.panes.Clear()
	}
}

// fire emits a window's result, if any of its panes is there.
func (o *windowOperator[K, T, A, R]) fire(start int64) {
	o.chain.at = o.node
	found := false
	for pane := start; pane < start+o.windows.sizeMs; pane += o.paneMs {
		o.cursor.Namespace = pane
		acc, ok := o.panes.Get()
		if !ok {
			continue
		}
		if o.paneMs == o.windows.sizeMs {
			o.emit(start, &acc)
			return
		}
		if !found {
			o.f.Init(&o.merged)
			found = true
		}
		if err := o.f.Merge(&o.merged, &acc); err != nil {
			o.failed(err) // the window has no result
			return
		}
	}
	if found {
		o.emit(start, &o.merged)
	}
}

func (o *windowOperator[K, T, A, R]) emit(start int64, acc *A) {
	end := start + o.windows.sizeMs
	key, err := o.currentKey()
	if err != nil {
		o.chain.fail(o.node, err)
		return
	}
	r, err := o.f.Result(*key, Interval{start, end}, acc)
	if err != nil {
		o.chain.fail(o.node, err)
		return
	}
	o.out(r, end-1)
	o.chain.at = o.node
}

// next removes the panes that only the fired window and earlier ones needed, and
// registers the window after it if a pane is left.
func (o *windowOperator[K, T, A, R]) next(start int64) {
	w := o.windows
	following, left := start+w.slideMs, false
	for pane := start; pane < start+w.sizeMs; pane += o.paneMs {
		o.cursor.Namespace = pane
		if pane < following {
			if o.latenessMs == 0 {
				o.panes.Clear()
			}
			continue
		}
		if _, ok := o.panes.Get(); ok {
			left = true
			break
		}
	}
	if left {
		o.timers.Register(o.cursor.Hash, o.cursor.Key, following, following+w.sizeMs-1)
	}
}

// Watermark fires the windows that end at or before it.
func (o *windowOperator[K, T, A, R]) Watermark(timestampMs int64) (done bool, err error) {
	defer o.chain.caught(&err)
	o.watermark = max(o.watermark, timestampMs)
	return o.timers.Fire(o.watermark, o.stop, o.fired), o.chain.err
}
