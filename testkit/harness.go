package testkit

import (
	"errors"
	"fmt"
	"math"
	"os"

	"cutwater/codec"
	"cutwater/codec/batch"
	"cutwater/messages"
	"cutwater/state"
	"cutwater/stream"
	"cutwater/stream/operator"
)

// Harness runs one operator under manual time, without a job, actors or files
// (after Flink's KeyedOneInputStreamOperatorTestHarness). Records, watermarks and
// the clock are pushed; what the operator emits is read. Every call runs to its
// end before it returns, so a test needs no waiting.
//
// Records travel through the codecs, the key's hash and the batches of a real
// job. A call that fails ends the test, see Try for failures that are wanted.
// A Harness is used by one goroutine.
type Harness[T, U any] struct {
	t       TB
	options harnessOptions
	// topology is a source that is never read, a filter that lets all pass and so
	// feeds the operator, the operator, and a capture for each of its outputs.
	topology *stream.Topology
	in       stream.Stream[T]
	out      stream.Stream[U]
	uid      string
	output   *Captured[U]
	captures []string
	opened   bool
	closed   bool
	failed   error
	ended    bool

	feed, chain *operator.Chain
	edges       []*operator.EdgeWriter
	yield       operator.Yield
	backend     state.Backend
	scratch     string // directory of the bolt backend
	nowMs       int64
	watermarkMs int64
	checkpoint  uint64
	alarms      []harnessAlarm
	works       []func() // asynchronous work that waits
}

type harnessAlarm struct {
	atMs int64
	f    func()
}

// TB is what the package needs of a *testing.T. Panics serves where there is none.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
	Cleanup(func())
}

// Panics is a TB for examples and programs: a failure panics, and what has to be
// closed must be closed by hand.
var Panics TB = panics{}

type panics struct{}

func (panics) Helper()                           {}
func (panics) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (panics) Cleanup(func())                    {}

// HarnessOption changes how a Harness is set up.
type HarnessOption func(*harnessOptions)

type harnessOptions struct {
	bolt    bool
	from    *HarnessSnapshot
	codec   any
	startMs int64
}

// OnBolt keeps the operator's keyed state in the bolt backend, in a scratch file;
// without it, it is in memory.
func OnBolt() HarnessOption { return func(o *harnessOptions) { o.bolt = true } }

// RestoredFrom starts with the state of a snapshot, which may come from the other
// backend; time goes on where it was taken.
func RestoredFrom(s *HarnessSnapshot) HarnessOption {
	return func(o *harnessOptions) { o.from = s }
}

// InputCodec is the codec of the records that are pushed, for types that codec.Of
// does not know, such as rows.
func InputCodec[T any](c codec.Codec[T]) HarnessOption {
	return func(o *harnessOptions) { o.codec = c }
}

// ClockAt is the clock's first time (Unix time in ms); without it, 0 or that of
// the restored snapshot.
func ClockAt(unixMs int64) HarnessOption { return func(o *harnessOptions) { o.startMs = unixMs } }

const (
	harnessInput  = "harness-input"
	harnessFeed   = "harness-feed"
	harnessOutput = "harness-output"
	// harnessGroups is the number of key groups unless the operator sets its own.
	harnessGroups = 128
)

// NewHarness makes the harness of the one operator that declare adds to its
// input:
//
//	h := testkit.NewHarness(t, func(in stream.Stream[Click]) stream.Stream[Alert] {
//		return stream.Process(stream.KeyBy(in, Click.Who), "alerts", newAlerts)
//	})
//
// The operator is opened by the first call that needs it, so that SideOutput can
// be called before. When the test ends the harness is closed.
func NewHarness[T, U any](t TB, declare func(in stream.Stream[T]) stream.Stream[U], opts ...HarnessOption) *Harness[T, U] {
	t.Helper()
	h := &Harness[T, U]{t: t, topology: stream.New("harness"), watermarkMs: math.MinInt64}
	for _, o := range opts {
		o(&h.options)
	}
	var c codec.Codec[T]
	if h.options.codec != nil {
		var ok bool
		if c, ok = h.options.codec.(codec.Codec[T]); !ok {
			var zero T
			t.Fatalf("testkit: InputCodec has a %T, and the operator reads %T", h.options.codec, zero)
		}
	} else {
		var err error
		if c, err = codec.Of[T](); err != nil {
			t.Fatalf("testkit: the records that the operator reads have no codec: %v; give the harness one by InputCodec", err)
		}
	}
	source := stream.From(h.topology, harnessInput, neverRead[T]{c})
	h.in = stream.Filter(source, harnessFeed, func(T) bool { return true })
	h.out = declare(h.in)
	h.output = capture(h, h.out, harnessOutput)
	if s := h.options.from; s != nil {
		h.nowMs, h.watermarkMs, h.checkpoint = s.nowMs, s.watermarkMs, s.Checkpoint
	}
	h.nowMs = max(h.nowMs, h.options.startMs)
	t.Cleanup(h.Close)
	return h
}

// SideOutput captures a side output of the operator. Call it before the first
// record.
func SideOutput[S, T, U any](h *Harness[T, U], which stream.Side[S]) *Captured[S] {
	h.t.Helper()
	if h.opened {
		h.t.Fatalf("testkit: SideOutput comes too late, the operator is running; call it right after NewHarness")
	}
	return capture(h, stream.SideOf(h.out, which), fmt.Sprintf("harness-side-%d", len(h.captures)))
}

// Record pushes a record with its timestamp (Unix time in ms).
func (h *Harness[T, U]) Record(v T, timestampMs int64) {
	h.t.Helper()
	h.must(h.record(v, timestampMs), "the record %+v at %d ms", v, timestampMs)
}

// Watermark pushes a watermark: event-time timers and windows up to it fire.
func (h *Harness[T, U]) Watermark(timestampMs int64) {
	h.t.Helper()
	h.must(h.watermark(timestampMs), "the watermark %d ms", timestampMs)
}

// Clock moves the clock; processing-time timers up to then fire in their order,
// each at its own time.
func (h *Harness[T, U]) Clock(unixMs int64) {
	h.t.Helper()
	h.must(h.clock(unixMs), "the clock at %d ms", unixMs)
}

// End ends the input as a bounded job does: event time reaches its end, and the
// operator finishes.
func (h *Harness[T, U]) End() {
	h.t.Helper()
	h.must(h.end(), "the end of the input")
}

// Try pushes a record that the operator should refuse, and returns its error; the
// test fails if there is none. The operator is a failed task then: all that is
// left to do is Close.
func (h *Harness[T, U]) Try(v T, timestampMs int64) error {
	h.t.Helper()
	err := h.record(v, timestampMs)
	if err == nil {
		h.t.Fatalf("testkit: operator %q took the record %+v at %d ms, and an error was wanted", h.uid, v, timestampMs)
	}
	return err
}

// Output returns what the operator has emitted since the last call of Output or
// Values, in order.
func (h *Harness[T, U]) Output() []Record[U] { return h.output.Records() }

// Values is Output without timestamps.
func (h *Harness[T, U]) Values() []U { return h.output.Values() }

func (h *Harness[T, U]) must(err error, format string, args ...any) {
	if err == nil {
		return
	}
	h.t.Helper()
	what := fmt.Sprintf(format, args...)
	var user *operator.UserError
	if errors.As(err, &user) && user.Stack != "" {
		h.t.Fatalf("testkit: %s: %v\n%s", what, err, user.Stack)
	}
	h.t.Fatalf("testkit: %s: %v", what, err)
}

// do opens the operator if need be, runs f, and then all that is due.
func (h *Harness[T, U]) do(f func() error) error {
	switch {
	case h.closed:
		return errors.New("the harness is closed")
	case h.failed != nil:
		return fmt.Errorf("the operator has failed before; make a new harness, with RestoredFrom if it should go on: %w", h.failed)
	}
	err := h.open()
	if err == nil {
		err = f()
	}
	if err == nil {
		h.settle()
		err = h.failed
	}
	h.failed = err
	return err
}

func (h *Harness[T, U]) record(v T, timestampMs int64) error {
	return h.do(func() error {
		if h.ended {
			return errInputEnded
		}
		var b batch.Builder
		c := h.in.Codec()
		b.Init(c.Width(), false)
		fixed, text := b.Next(timestampMs, 0)
		b.SetText(c.Encode(fixed, text, v))
		h.yield.Budget = math.MaxInt
		if err := process(h.feed, 0, &b); err != nil {
			return err
		}
		for _, w := range h.edges {
			if w.Builders[0].Len() == 0 {
				continue
			}
			if err := process(h.chain, int(w.Edge.ToInput), &w.Builders[0]); err != nil {
				return err
			}
		}
		return nil
	})
}

var errInputEnded = errors.New("the input has ended before")

// process gives a batch to a chain.
func process(c *operator.Chain, input int, b *batch.Builder) error {
	m := &messages.RecordBatch{}
	b.Cut(m)
	_, err := c.Input.Process(input, m, 0)
	return err
}

func (h *Harness[T, U]) watermark(timestampMs int64) error {
	return h.do(func() error {
		if h.ended {
			return errInputEnded
		}
		if timestampMs < h.watermarkMs {
			return fmt.Errorf("it goes back from %d ms, and watermarks only advance", h.watermarkMs)
		}
		h.watermarkMs = timestampMs
		return h.untilDone(func(o operator.Operator) (bool, error) { return o.Watermark(timestampMs) })
	})
}

func (h *Harness[T, U]) clock(unixMs int64) error {
	return h.do(func() error {
		if unixMs < h.nowMs {
			return fmt.Errorf("it goes back from %d ms", h.nowMs)
		}
		for h.failed == nil {
			next := h.nextAlarm()
			if next < 0 || h.alarms[next].atMs > unixMs {
				break
			}
			h.nowMs = max(h.nowMs, h.alarms[next].atMs)
			h.settle()
		}
		h.nowMs = unixMs
		return h.failed
	})
}

func (h *Harness[T, U]) end() error {
	if err := h.watermark(math.MaxInt64); err != nil {
		return err
	}
	h.ended = true
	return h.do(func() error { return h.untilDone(operator.Operator.Finish) })
}

// untilDone calls every operator, head first, until it is done.
func (h *Harness[T, U]) untilDone(call func(operator.Operator) (bool, error)) error {
	for _, o := range h.chain.Operators {
		for done := false; !done; {
			h.yield.Budget = math.MaxInt
			var err error
			if done, err = call(o); err != nil {
				return err
			}
		}
	}
	return nil
}

// settle runs asynchronous work and what the clock has reached.
func (h *Harness[T, U]) settle() {
	for h.failed == nil {
		h.yield.Budget = math.MaxInt
		if len(h.works) > 0 {
			work := h.works[0]
			h.works = h.works[1:]
			work()
			continue
		}
		next := h.nextAlarm()
		if next < 0 || h.alarms[next].atMs > h.nowMs {
			return
		}
		f := h.alarms[next].f
		h.alarms = append(h.alarms[:next], h.alarms[next+1:]...)
		f()
	}
}

// nextAlarm is the index of the earliest alarm, the first that was set of several,
// or -1.
func (h *Harness[T, U]) nextAlarm() int {
	next := -1
	for i, a := range h.alarms {
		if next < 0 || a.atMs < h.alarms[next].atMs {
			next = i
		}
	}
	return next
}

// Close closes the operator and its state; the test's end does it, too.
func (h *Harness[T, U]) Close() {
	h.t.Helper()
	if h.closed {
		return
	}
	h.closed = true
	var errs []error
	for _, c := range []*operator.Chain{h.chain, h.feed} {
		if c == nil {
			continue
		}
		for _, o := range c.Operators {
			errs = append(errs, o.Close())
		}
	}
	if h.backend != nil {
		errs = append(errs, h.backend.Close())
	}
	if h.scratch != "" {
		errs = append(errs, os.RemoveAll(h.scratch))
	}
	if err := errors.Join(errs...); err != nil {
		h.t.Fatalf("testkit: operator %q does not close: %v", h.uid, err)
	}
}
