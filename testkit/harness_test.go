package testkit_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cutwater/state"
	"cutwater/stream"
	"cutwater/stream/row"
	"cutwater/testkit"
)

// click is the record of the tests.
type click struct {
	Who string
	N   int64
}

func who(c click) string { return c.Who }

var loud = stream.NewSide[string]("loud")

// idle sums per key, emits the sum when a key was idle for 100 ms of event time,
// and says when the clock has passed 1000. It forgets a key once both are done.
type idle struct {
	sum, until *state.Value[int64]
	loud       stream.Emit[string]
	log        *[]string
}

func (p *idle) Open(s *stream.States) {
	p.sum = stream.ValueState[int64](s, "sum")
	p.until = stream.ValueState[int64](s, "until")
	p.loud = stream.SideEmit(s, loud)
}

func (p *idle) Process(c *stream.Context[string, string], v click) error {
	if v.N < 0 {
		return fmt.Errorf("%s has %d clicks", v.Who, v.N)
	}
	if v.N == 13 {
		panic("thirteen")
	}
	sum, known := p.sum.Get()
	p.sum.Set(sum + v.N)
	if v.N > 100 {
		p.loud(c.Key(), c.TimestampMs())
	}
	if until, ok := p.until.Get(); ok {
		c.DeleteEventTimer(until)
	}
	p.until.Set(c.TimestampMs() + 100)
	c.SetEventTimer(c.TimestampMs() + 100)
	if !known {
		c.SetProcessingTimer(1000)
	}
	return nil
}

func (p *idle) OnTimer(c *stream.Context[string, string], t stream.Timer) error {
	if t.ProcessingTime {
		c.Emit(fmt.Sprintf("%s at the clock's %d", c.Key(), c.ProcessingTimeMs()))
		return nil
	}
	sum, _ := p.sum.Get()
	p.sum.Clear()
	p.until.Clear()
	c.DeleteProcessingTimer(1000)
	c.Emit(fmt.Sprintf("%s=%d", c.Key(), sum))
	return nil
}

func (p *idle) CheckpointComplete(id uint64) error {
	*p.log = append(*p.log, fmt.Sprint("complete ", id))
	return nil
}

func (p *idle) CheckpointAborted(id uint64) error {
	*p.log = append(*p.log, fmt.Sprint("aborted ", id))
	return nil
}

func declareIdle(log *[]string) func(stream.Stream[click]) stream.Stream[string] {
	return func(in stream.Stream[click]) stream.Stream[string] {
		return stream.Process(stream.KeyBy(in, who), "idle", func() *idle { return &idle{log: log} })
	}
}

// fails runs f with a TB that gathers the failure.
func fails(f func(testkit.TB)) (message string) {
	defer func() {
		if r := recover(); r != nil {
			message = fmt.Sprint(r)
		}
	}()
	f(testkit.Panics)
	return "no failure"
}

// A processor's records, timers of both kinds, side outputs, notifications and
// forgetting are seen from outside, with timestamps.
func TestHarnessProcess(t *testing.T) {
	var log []string
	h := testkit.NewHarness(t, declareIdle(&log))
	side := testkit.SideOutput(h, loud)
	h.Record(click{"ann", 1}, 10)
	h.Record(click{"bob", 200}, 20)
	h.Record(click{"ann", 2}, 50)
	h.Watermark(119)
	if got := h.Output(); len(got) != 0 {
		t.Errorf("emitted too early: %v", got)
	}
	h.Watermark(120)
	if got, want := h.Output(), []testkit.Record[string]{{TimestampMs: 120, Value: "bob=200"}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got, want := side.Records(), []testkit.Record[string]{{TimestampMs: 20, Value: "bob"}}; !slices.Equal(got, want) {
		t.Errorf("side output %v, want %v", got, want)
	}
	h.Clock(5000)
	s := h.Snapshot()
	h.Complete(s)
	h.Abort(h.Snapshot())
	h.Watermark(1000)
	if got, want := h.Values(), []string{"ann at the clock's 1000", "ann=3"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if want := []string{"complete 1", "aborted 2"}; !slices.Equal(log, want) {
		t.Errorf("notifications %v, want %v", log, want)
	}
	h.NoState()
}

// A snapshot goes on in a new harness, several times and on either backend, with
// state, timers, event time and the clock.
func TestHarnessRestore(t *testing.T) {
	for _, from := range [][]testkit.HarnessOption{nil, {testkit.OnBolt()}} {
		for _, to := range [][]testkit.HarnessOption{nil, {testkit.OnBolt()}} {
			var log []string
			h := testkit.NewHarness(t, declareIdle(&log), from...)
			for i := range int64(300) {
				h.Record(click{fmt.Sprint("u", i), i + 14}, i)
			}
			h.Watermark(150)
			first := h.Values()
			h.Clock(900)
			s := h.Snapshot()
			h.Record(click{"after", 14}, 200) // belongs to no snapshot
			r := testkit.NewHarness(t, declareIdle(&log), append(slices.Clone(to), testkit.RestoredFrom(s))...)
			r.Clock(1000)
			r.Watermark(1000)
			second := r.Values()
			if len(first) != 51 || len(second) != 2*249 || second[0] != "u100 at the clock's 1000" && !slices.Contains(second, "u100 at the clock's 1000") {
				t.Errorf("%d and %d records, the first %q", len(first), len(second), second[:1])
			}
			r.NoState()
			if got := r.Snapshot().Checkpoint; got <= s.Checkpoint {
				t.Errorf("checkpoint %d follows %d", got, s.Checkpoint)
			}
		}
	}
}

// The clock begins where it is told, and what is due fires before a call returns.
func TestHarnessClock(t *testing.T) {
	var log []string
	h := testkit.NewHarness(t, declareIdle(&log), testkit.ClockAt(2000))
	h.Record(click{"ann", 1}, 1) // sets a timer for the clock's 1000
	if got, want := h.Values(), []string{"ann at the clock's 2000"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// counting keeps operator state.
type counting struct{ n byte }

func (c *counting) Process(ctx *stream.Context[stream.NoKey, string], v click) error {
	c.n++
	ctx.Emit(fmt.Sprint(v.Who, c.n))
	return nil
}

func (c *counting) SnapshotState(_ uint64, s *stream.OperatorState) error {
	s.Split("n", []byte{c.n})
	return nil
}

func (c *counting) RestoreState(s *stream.OperatorState) error {
	c.n = s.Items("n")[0][0]
	return nil
}

// Operator state and operators without keys work, too; a window emits at its end
// and at the end of the input, and its late records have an output.
func TestHarnessOtherOperators(t *testing.T) {
	count := func(in stream.Stream[click]) stream.Stream[string] {
		return stream.Transform(in, "count", func() *counting { return &counting{} })
	}
	h := testkit.NewHarness(t, count)
	h.Record(click{"a", 1}, 1)
	h.Record(click{"b", 1}, 1)
	r := testkit.NewHarness(t, count, testkit.RestoredFrom(h.Snapshot()))
	r.Record(click{"c", 1}, 1)
	r.NoState()
	if got := append(h.Values(), r.Values()...); !slices.Equal(got, []string{"a1", "b2", "c3"}) {
		t.Errorf("got %v", got)
	}

	w := testkit.NewHarness(t, func(in stream.Stream[click]) stream.Stream[int64] {
		return stream.Window(stream.KeyBy(in, who), "sum", stream.Tumbling(100*time.Millisecond), func() summing { return summing{} })
	})
	late := testkit.SideOutput(w, stream.Late[click]())
	w.Record(click{"a", 1}, 10)
	w.Record(click{"a", 2}, 99)
	w.Record(click{"a", 4}, 100)
	w.Watermark(99)
	w.Record(click{"a", 8}, 50)
	w.End()
	if got, want := w.Output(), []testkit.Record[int64]{{99, 3}, {199, 4}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := late.Values(); !slices.Equal(got, []click{{"a", 8}}) {
		t.Errorf("late: %v", got)
	}
	w.NoState()
}

type summing struct{}

func (summing) Init(acc *int64)                                               { *acc = 0 }
func (summing) Add(acc *int64, c click) error                                 { *acc += c.N; return nil }
func (summing) Merge(acc, other *int64) error                                 { *acc += *other; return nil }
func (summing) Result(_ string, _ stream.Interval, acc *int64) (int64, error) { return *acc, nil }

// Rows need their codec, and what comes out is not overwritten by later records.
func TestHarnessRows(t *testing.T) {
	schema := &row.Schema{Fields: []row.Field{{Name: "n", Kind: row.Int}, {Name: "s", Kind: row.String}}}
	h := testkit.NewHarness(t, func(in stream.Stream[row.Row]) stream.Stream[row.Row] {
		return stream.Map(in, "same", func(r row.Row) row.Row { return r }, stream.WithCodec(row.Codec(schema)))
	}, testkit.InputCodec(row.Codec(schema)))
	b := row.NewBuilder(2)
	for i := range int64(2) {
		b.Reset()
		b.Int(0, i)
		b.String(1, fmt.Sprint("text ", i))
		h.Record(b.Row(), i)
	}
	var got []string
	for _, r := range h.Values() {
		got = append(got, row.Describe(schema, &r))
	}
	if want := []string{`{n: 0, s: "text 0"}`, `{n: 1, s: "text 1"}`}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// What is done wrong, or fails, is said in one sentence.
func TestHarnessErrors(t *testing.T) {
	var log []string
	declare := declareIdle(&log)
	broken := func(f func(h *testkit.Harness[click, string])) string {
		return fails(func(tb testkit.TB) {
			h := testkit.NewHarness(tb, declare)
			f(h)
		})
	}
	other := testkit.NewHarness(t, func(in stream.Stream[click]) stream.Stream[string] {
		return stream.Process(stream.KeyBy(in, who), "other", func() *idle { return &idle{log: &log} })
	}).Snapshot()
	retyped := testkit.NewHarness(t, func(in stream.Stream[click]) stream.Stream[int64] {
		return stream.Aggregate(stream.KeyBy(in, func(c click) int64 { return c.N }), "idle", func() count { return count{} })
	})
	retyped.Record(click{"a", 1}, 1)
	byText := func(in stream.Stream[click]) stream.Stream[int64] {
		return stream.Aggregate(stream.KeyBy(in, who), "idle", func() countText { return countText{} })
	}
	for name, c := range map[string]struct{ got, want string }{
		"refused": {broken(func(h *testkit.Harness[click, string]) { h.Record(click{"a", -1}, 7) }),
			`testkit: the record {Who:a N:-1} at 7 ms: operator "idle": a has -1 clicks`},
		"panic": {broken(func(h *testkit.Harness[click, string]) { h.Record(click{"a", 13}, 7) }), "harness_test.go:"},
		"taken": {broken(func(h *testkit.Harness[click, string]) { _ = h.Try(click{"a", 1}, 7) }),
			`operator "idle" took the record {Who:a N:1} at 7 ms, and an error was wanted`},
		"dead": {broken(func(h *testkit.Harness[click, string]) {
			_ = h.Try(click{"a", -1}, 7)
			h.Watermark(8)
		}), "the watermark 8 ms: the operator has failed before; make a new harness"},
		"back": {broken(func(h *testkit.Harness[click, string]) {
			h.Watermark(8)
			h.Watermark(7)
		}), "the watermark 7 ms: it goes back from 8 ms"},
		"clock": {broken(func(h *testkit.Harness[click, string]) {
			h.Clock(8)
			h.Clock(7)
		}), "the clock at 7 ms: it goes back from 8 ms"},
		"ended": {broken(func(h *testkit.Harness[click, string]) {
			h.End()
			h.Record(click{"a", 1}, 1)
		}), "at 1 ms: the input has ended before"},
		"ended twice": {broken(func(h *testkit.Harness[click, string]) {
			h.End()
			h.End()
		}), "the end of the input: the input has ended before"},
		"closed": {broken(func(h *testkit.Harness[click, string]) {
			h.Close()
			h.End()
		}), "the harness is closed"},
		"side": {broken(func(h *testkit.Harness[click, string]) {
			h.Watermark(1)
			testkit.SideOutput(h, loud)
		}), "SideOutput comes too late"},
		"no side": {broken(func(h *testkit.Harness[click, string]) {
			testkit.SideOutput(h, stream.NewSide[string]("quiet"))
			h.Watermark(1)
		}), `operator "idle": it has no side output "quiet"`},
		"state": {broken(func(h *testkit.Harness[click, string]) {
			h.Record(click{"ann", 1}, 1)
			h.NoState()
		}), `NoState: operator "idle" keeps entries: sum: 1, such as that of key "ann"; timers/event: 1, such as that of key "ann" for 101 ms; timers/processing: 1,`},
		"uid": {fails(func(tb testkit.TB) {
			testkit.NewHarness(tb, declare, testkit.RestoredFrom(other)).Watermark(1)
		}), `the snapshot is of operator "other", and this one is "idle"`},
		"types": {fails(func(tb testkit.TB) {
			testkit.NewHarness(tb, byText, testkit.RestoredFrom(retyped.Snapshot())).Watermark(1)
		}), "state aggregate was written as"},
		"codec": {fails(func(tb testkit.TB) {
			testkit.NewHarness(tb, declare, testkit.InputCodec(row.Codec(&row.Schema{})))
		}), "and the operator reads testkit_test.click"},
		"no codec": {fails(func(tb testkit.TB) {
			testkit.NewHarness(tb, func(in stream.Stream[[]string]) stream.Stream[string] {
				return stream.Map(in, "first", func(v []string) string { return v[0] })
			})
		}), "testkit: the records that the operator reads have no codec: codec: []string is a []string; fixed encoding knows"},
		"none": {fails(func(tb testkit.TB) {
			testkit.NewHarness(tb, func(in stream.Stream[click]) stream.Stream[click] { return in }).Watermark(1)
		}), "declare adds no operator"},
		"two": {fails(func(tb testkit.TB) {
			testkit.NewHarness(tb, func(in stream.Stream[click]) stream.Stream[string] {
				return declare(stream.Filter(in, "some", func(click) bool { return true }))
			}).Watermark(1)
		}), "a harness runs one operator, and declare adds 2: some, idle"},
		"declaration": {fails(func(tb testkit.TB) {
			testkit.NewHarness(tb, func(in stream.Stream[click]) stream.Stream[[]string] {
				return stream.Map(in, "texts", func(click) []string { return nil })
			}).Watermark(1)
		}), `operator "texts": the records that it emits have no codec`},
	} {
		if !strings.Contains(c.got, c.want) {
			t.Errorf("%s: %s\nwant %s", name, c.got, c.want)
		}
	}
	h := testkit.NewHarness(t, declare)
	if err := h.Try(click{"a", -1}, 7); err == nil || errors.Unwrap(err) == nil {
		t.Errorf("Try returned %v", err)
	}
}

type count struct{ countText }

func (count) Result(_ int64, _ stream.Interval, acc *int64) (int64, error) { return *acc, nil }

type countText struct{ summing }
