package stream_test

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"cutwater/state"
	"cutwater/stream"
	"cutwater/stream/operator"
)

var loud = stream.NewSide[string]("loud")

// watch emits a running sum, a line per timer, and loud values aside.
type watch struct {
	sum   *state.Value[int64]
	loud  stream.Emit[string]
	calls *[]string
}

func (w *watch) Open(s *stream.States) {
	w.sum = stream.ValueState[int64](s, "sum")
	w.loud = stream.SideEmit(s, loud)
}

func (w *watch) Process(c *stream.Context[string, string], v ev) error {
	if v.Value < 0 {
		return fmt.Errorf("negative value %d", v.Value)
	}
	sum, _ := w.sum.Get()
	sum += v.Value
	w.sum.Set(sum)
	if v.Value > 100 {
		w.loud(v.Key, c.TimestampMs())
	}
	c.SetEventTimer(v.Ms + 10)
	c.SetProcessingTimer(500)
	if v.Value == 7 {
		c.DeleteEventTimer(v.Ms + 10)
	}
	c.Emit(fmt.Sprintf("%s=%d", c.Key(), sum))
	return nil
}

func (w *watch) OnTimer(c *stream.Context[string, string], t stream.Timer) error {
	sum, _ := w.sum.Get()
	kind := "event"
	if t.ProcessingTime {
		kind = "clock"
	}
	c.Emit(fmt.Sprintf("%s %s@%d=%d", kind, c.Key(), t.TimestampMs, sum))
	return nil
}

func (w *watch) CheckpointComplete(id uint64) error {
	*w.calls = append(*w.calls, fmt.Sprint("complete ", id))
	return nil
}

func (w *watch) CheckpointAborted(id uint64) error {
	*w.calls = append(*w.calls, fmt.Sprint("aborted ", id))
	return nil
}

// A keyed processor has state and timers of both kinds, side outputs and
// notifications; state and timers survive a restore.
func TestProcess(t *testing.T) {
	src := &listSource{splits: [][]ev{{{"a", 1, 1}, {"b", 2, 200}, {"a", 3, 7}, {"a", 40, 2}}}}
	sink, side := newMemorySink[string](), newMemorySink[string]()
	var calls []string
	b := stream.New("process")
	in := stream.From(b, "in", src, stream.EventTime(msOf, 0))
	out := stream.Process(stream.KeyBy(in, keyOf), "watch", func() *watch { return &watch{calls: &calls} })
	stream.To(out, "out", sink)
	stream.To(stream.SideOf(out, loud), "loud", side)
	p, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	d := newDriver(t, p, nil)
	d.budget = 3
	d.settle()
	for range 3 {
		if _, err := d.turn(); err != nil {
			t.Fatal(err)
		}
		d.settle()
	}
	s, err := d.checkpoint(1, true)
	if err != nil {
		t.Fatal(err)
	}
	d.close()
	d = newDriver(t, p, s)
	if err := d.run(); err != nil {
		t.Fatal(err)
	}
	d.advance(600)
	if err := d.run(); err != nil {
		t.Fatal(err)
	}
	if _, err := d.checkpoint(2, true); err != nil {
		t.Fatal(err)
	}
	got := slices.Clone(sink.committed)
	sort.Strings(got)
	want := []string{"a=1", "a=10", "a=8", "b=200", "clock a@500=10", "clock b@500=200",
		"event a@11=8", "event a@50=10", "event b@12=200"}
	// the timers at 11 and 12 fire behind the record at 40 of the same batch
	for i, g := range got {
		if g == "event a@11=10" {
			got[i] = "event a@11=8"
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if !slices.Equal(side.committed, []string{"b"}) {
		t.Errorf("side output: %v", side.committed)
	}
	if want := []string{"complete 1", "complete 2"}; !slices.Equal(calls, want) {
		t.Errorf("notifications: %v", calls)
	}
	if schema := p.Graph().Operators[1].StateSchema; schema != "sum: string -> int64" {
		t.Errorf("state schema %q", schema)
	}
}

// teller emits what it is told.
type teller struct{}

func (teller) Process(c *stream.Context[stream.NoKey, string], v ev) error {
	c.Emit(v.Key)
	return nil
}

func (teller) OnWatermark(c *stream.Context[stream.NoKey, string], ms int64) error {
	c.Emit(fmt.Sprint(ms, " ", c.TimestampMs() == ms, " ", c.WatermarkMs() == ms))
	return nil
}

// A processor without keys can be told watermarks, each behind the records before
// it.
func TestTransformSeesWatermarks(t *testing.T) {
	src := &listSource{splits: [][]ev{{{"a", 1, 1}, {"b", 20, 2}}}}
	sink := newMemorySink[string]()
	b := stream.New("marks")
	stream.To(stream.Transform(stream.From(b, "in", src, stream.EventTime(msOf, 0)), "marks", func() teller { return teller{} }), "out", sink)
	p, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	d := newDriver(t, p, nil, []string{"in", "marks", "out"})
	if err := d.run(); err != nil {
		t.Fatal(err)
	}
	if _, err := d.checkpoint(1, true); err != nil {
		t.Fatal(err)
	}
	if want := []string{"a", "b", "19 true true"}; !slices.Equal(sink.committed[:3], want) {
		t.Errorf("got %v, want %v", sink.committed, want)
	}
}

// counter keeps operator state.
type counter struct {
	n byte
}

func (c *counter) Process(ctx *stream.Context[stream.NoKey, string], v ev) error {
	c.n++
	ctx.Emit(fmt.Sprintf("%s%d", v.Key, c.n))
	return nil
}

func (c *counter) SnapshotState(_ uint64, s *stream.OperatorState) error {
	s.Split("count", []byte{c.n})
	return nil
}

func (c *counter) RestoreState(s *stream.OperatorState) error {
	for _, item := range s.Items("count") {
		c.n += item[0]
	}
	return nil
}

// Operator state of a processor without keys survives a restore.
func TestTransformRestoresOperatorState(t *testing.T) {
	src := &listSource{splits: [][]ev{{{"a", 1, 1}, {"b", 2, 2}}, {{"c", 3, 3}}}}
	sink := newMemorySink[string]()
	b := stream.New("transform")
	stream.To(stream.Transform(stream.From(b, "in", src), "count", func() *counter { return &counter{} }), "out", sink)
	p, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	chain := []string{"in", "count", "out"}
	d := newDriver(t, p, nil, chain)
	d.budget = 2
	for range 4 {
		d.settle()
		if _, err := d.turn(); err != nil {
			t.Fatal(err)
		}
	}
	s, err := d.checkpoint(1, false)
	if err != nil {
		t.Fatal(err)
	}
	d.close()
	d = newDriver(t, p, s, chain)
	if err := d.run(); err != nil {
		t.Fatal(err)
	}
	if _, err := d.checkpoint(2, true); err != nil {
		t.Fatal(err)
	}
	if want := []string{"a1", "b2", "c3"}; !slices.Equal(sink.committed, want) {
		t.Errorf("got %v, want %v", sink.committed, want)
	}
}

type wrongTimer struct{ watchless }

type watchless struct{}

func (watchless) Process(*stream.Context[string, string], ev) error { return nil }

func (wrongTimer) OnTimer(*stream.Context[string, string]) error { return nil }

func (wrongTimer) CheckpointComplete(uint64) error { return nil }

type keyedWatermark struct{ watchless }

func (keyedWatermark) OnWatermark(*stream.Context[string, string], int64) error { return nil }

type badState struct{ watchless }

func (badState) Open(s *stream.States) {
	stream.ValueState[map[string]int](s, "counts")
	stream.ValueState[int64](s, "n")
	stream.ListState[int64](s, "n")
}

// Build reports every mistake at once, each with the operator and the line of
// its declaration.
func TestBuildReportsEverything(t *testing.T) {
	b := stream.New("Bad Name").MaxParallelism(8)
	in := stream.From(b, "in", &listSource{}, stream.EventTime(func(string) int64 { return 0 }, 0), stream.Rate(-1))
	stream.Map(in, "in", func(v ev) ev { return v })
	stream.Map(in, "Upper", func(v ev) ev { return v }, stream.Rate(1))
	stream.Map(in, "no-codec", func(v ev) []string { return nil }, stream.Parallelism(9))
	keyed := stream.KeyBy(in, keyOf)
	stream.Window(keyed, "empty-window", stream.Tumbling(0), newSumming)
	stream.Window(keyed, "fine-window", stream.Sliding(24*time.Hour, time.Second), newSumming)
	stream.Process(keyed, "wrong-timer", func() wrongTimer { return wrongTimer{} })
	stream.Process(keyed, "watermark", func() keyedWatermark { return keyedWatermark{} })
	stream.Process(keyed, "bad-state", func() badState { return badState{} })
	stream.Process(keyed, "no-processor", func() stream.Processor[string, ev, string] { return nil })
	stream.Reduce(stream.KeyBy(in, func(v ev) []int { return nil }), "bad-key", func(a, _ ev) ev { return a })
	stream.To(stream.SideOf(in, loud), "", newMemorySink[string]())
	_, err := b.Build()
	if err == nil {
		t.Fatal("no error")
	}
	got := err.Error()
	for _, want := range []string{
		`topology name "Bad Name"`,
		`process_test.go:`,
		`operator "in": EventTime takes a func(string) int64, but the source reads stream_test.ev`,
		`operator "in": a rate of -1`,
		`operator "in": the uid is taken by the source declared at process_test.go:`,
		`operator "Upper": a uid is lower-case`,
		`operator "Upper": Rate is not an option of a map`,
		`operator "no-codec": the records that it emits have no codec`,
		`operator "no-codec": parallelism 9 is above the maximum parallelism 8`,
		`operator "empty-window": a window needs a size`,
		`operator "fine-window": a window would be put together of 86400 parts of 1000 ms`,
		`operator "wrong-timer": stream_test.wrongTimer has a method OnTimer, but not what TimerProcessor`,
		`has a method CheckpointComplete, but not what CheckpointListener asks for`,
		`operator "bad-state": its state "counts": codec:`,
		`operator "bad-state": its state "n": the name is taken`,
		`operator "watermark": stream_test.keyedWatermark has OnWatermark, which is for a Transform`,
		`operator "no-processor": its factory returns nil`,
		`operator "bad-key": its input cannot be keyed: codec:`,
		`operator "in": it has no side output "loud"`,
		`the sink has no uid`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("missing %q in\n%s", want, got)
		}
	}
	if n := strings.Count(got, "\n") + 1; n != 19 {
		t.Errorf("%d errors:\n%s", n, got)
	}
}

// A panic or an error in user code is a UserError with the operator that ran,
// wherever it stands in a chain, and with the stack of a panic.
func TestUserErrorsNameTheirOperator(t *testing.T) {
	for _, at := range []string{"first", "second", "third"} {
		src := &listSource{splits: [][]ev{{{"a", 1, 1}}}}
		b := stream.New("panics")
		s := stream.From(b, "in", src)
		for _, uid := range []string{"first", "second", "third"} {
			s = stream.FlatMap(s, uid, func(v ev, emit func(ev)) {
				emit(v)
				if uid == at {
					panic("no " + uid)
				}
			})
		}
		p, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		d := newDriver(t, p, nil, []string{"in", "first", "second", "third"})
		checkUserError(t, d.run(), at, "panic: no "+at, true)
	}
	src := &listSource{splits: [][]ev{{{"a", 1, -999}}}}
	b := stream.New("errors")
	stream.Window(stream.KeyBy(stream.From(b, "in", src, stream.EventTime(msOf, 0)), keyOf), "sum", stream.Tumbling(time.Second), newSumming)
	p, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	checkUserError(t, newDriver(t, p, nil).run(), "sum", "value -999 is not wanted", false)
}

func checkUserError(t *testing.T, err error, uid, cause string, panicked bool) {
	t.Helper()
	var user *operator.UserError
	if !errors.As(err, &user) || user.Uid != uid || !strings.Contains(user.Error(), cause) || (user.Stack != "") != panicked {
		t.Errorf("got %#v, want a UserError of %q with %q", err, uid, cause)
	}
}

type sideless struct{}

func (sideless) Open(s *stream.States)                                  { stream.SideEmit(s, tags) }
func (sideless) Process(*stream.Context[string, int64], []string) error { return nil }

var tags = stream.NewSide[[]string]("tags")

// A record without a codec is reported once, and not again by what reads the side
// outputs that carry it.
func TestSideWithoutCodec(t *testing.T) {
	top := stream.New("mistakes")
	in := stream.Map(stream.From(top, "in", &listSource{}), "words", func(ev) []string { return nil })
	by := stream.KeyBy(in, func(v []string) string { return v[0] })
	sums := stream.Window(by, "sums", stream.Tumbling(time.Second), func() countWords { return countWords{} })
	stream.To(stream.SideOf(sums, stream.Late[[]string]()), "late", newMemorySink[[]string]())
	marked := stream.Process(by, "sideless", func() sideless { return sideless{} })
	stream.To(stream.SideOf(marked, tags), "tags", newMemorySink[[]string]())
	_, err := top.Build()
	if err == nil || strings.Contains(err.Error(), "no side output") || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("got %v", err)
	}
}

type countWords struct{}

func (countWords) Init(*int64)                                                 {}
func (countWords) Add(n *int64, _ []string) error                              { *n++; return nil }
func (countWords) Merge(n, other *int64) error                                 { *n += *other; return nil }
func (countWords) Result(_ string, _ stream.Interval, n *int64) (int64, error) { return *n, nil }
