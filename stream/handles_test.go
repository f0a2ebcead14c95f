package stream_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"cutwater/codec"
	"cutwater/messages"
	"cutwater/state"
	"cutwater/stream"
	"cutwater/stream/operator"
)

// meanOf is an accumulator.
type meanOf struct{ Sum, Count int64 }

var mean = state.Aggregate[int64, meanOf, float64]{
	Add:    func(m *meanOf, v int64) { m.Sum, m.Count = m.Sum+v, m.Count+1 },
	Result: func(m *meanOf) float64 { return float64(m.Sum) / float64(m.Count) },
}

// keeping has a state of each kind and emits what they hold after each record.
type keeping struct {
	last     *state.Value[int64]
	all      *state.List[int64]
	perTime  *state.Map[int64, string]
	greatest *state.Reducing[int64]
	mean     *state.Aggregating[int64, meanOf, float64]
}

func (k *keeping) Open(s *stream.States) {
	k.last = stream.ValueState[int64](s, "last")
	k.all = stream.ListState[int64](s, "all")
	k.perTime = stream.MapState[int64, string](s, "per time")
	k.greatest = stream.ReducingState(s, "greatest", func(a, b int64) int64 { return max(a, b) })
	k.mean = stream.AggregatingState(s, "mean", mean)
}

func (k *keeping) Process(c *stream.Context[string, string], v ev) error {
	k.last.Set(v.Value)
	k.all.Add(v.Value)
	k.perTime.Put(v.Ms, fmt.Sprint(v.Value))
	k.greatest.Add(v.Value)
	k.mean.Add(v.Value)
	last, _ := k.last.Get()
	greatest, _ := k.greatest.Get()
	average, _ := k.mean.Get()
	at, _ := k.perTime.Get(v.Ms)
	c.Emit(fmt.Sprintf("%s last=%d all=%v times=%d now=%s greatest=%d mean=%v", c.Key(), last, k.all.Get(), k.perTime.Len(), at, greatest, average))
	return nil
}

// A processor may keep state of each kind under one key, and all of it survives a
// restore; the graph says what it keeps, with the kind of each.
func TestStateOfEachKind(t *testing.T) {
	sink := newMemorySink[string]()
	b := stream.New("keeping")
	in := stream.From(b, "in", &listSource{splits: [][]ev{{{"a", 1, 5}, {"b", 1, 1}, {"a", 2, 9}, {"a", 2, 1}}}})
	stream.To(stream.Process(stream.KeyBy(in, keyOf), "keep", func() *keeping { return &keeping{} }), "out", sink)
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
	if len(sink.committed) != 3 {
		t.Fatalf("%d records before the checkpoint, want 3, so that the restore matters", len(sink.committed))
	}
	d = newDriver(t, p, s)
	if err := d.run(); err != nil {
		t.Fatal(err)
	}
	if _, err := d.checkpoint(2, true); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"a last=5 all=[5] times=1 now=5 greatest=5 mean=5",
		"b last=1 all=[1] times=1 now=1 greatest=1 mean=1",
		"a last=9 all=[5 9] times=2 now=9 greatest=9 mean=7",
		"a last=1 all=[5 9 1] times=2 now=1 greatest=9 mean=5",
	}
	if !slices.Equal(sink.committed, want) {
		t.Errorf("got\n%s", strings.Join(sink.committed, "\n"))
	}
	schema := p.Graph().Operators[1].StateSchema
	for _, name := range []string{"last: ", "all: ", "per time: ", "greatest: ", "mean: "} {
		if !strings.Contains(schema, name) {
			t.Errorf("the schema has no %q: %s", name, schema)
		}
	}
}

// A state that cannot be kept is a mistake that Build reports, with its name.
func TestStateMistakes(t *testing.T) {
	type unkept struct{ F map[string]int }
	for name, declare := range map[string]func(s *stream.States){
		`"values": codec: `:          func(s *stream.States) { stream.ValueState[unkept](s, "values") },
		`"map": codec: `:             func(s *stream.States) { stream.MapState[unkept, int64](s, "map") },
		`"reducing": codec: `:        func(s *stream.States) { stream.ReducingState(s, "reducing", func(a, _ unkept) unkept { return a }) },
		`"twice": the name is taken`: func(s *stream.States) { stream.ListState[int64](s, "twice"); stream.ValueState[int64](s, "twice") },
	} {
		b := stream.New("mistakes")
		stream.Process(stream.KeyBy(stream.From(b, "in", &listSource{}), keyOf), "p", func() *declaring { return &declaring{declare} })
		if _, err := b.Build(); err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), `"p"`) {
			t.Errorf("want an error about state %s, got %v", name, err)
		}
	}
}

type declaring struct{ open func(*stream.States) }

func (d *declaring) Open(s *stream.States)                           { d.open(s) }
func (*declaring) Process(*stream.Context[string, string], ev) error { return nil }

// What an operator's options say stands in the graph; a stream and a keyed stream
// tell their codecs.
func TestOptionsInTheGraph(t *testing.T) {
	hook := &namedHook{}
	b := stream.New("options").Parallelism(2).MaxParallelism(64).MasterHook(hook)
	in := stream.From(b, "in", &listSource{})
	keyed := stream.KeyBy(in, keyOf)
	stream.Process(keyed, "p", func() *declaring { return &declaring{func(*stream.States) {}} },
		stream.Parallelism(3), stream.MaxParallelism(12), stream.NeverChain())
	p, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	g := p.Graph()
	source, process := g.Operators[0], g.Operators[1]
	if g.Parallelism != 2 || g.MaxParallelism != 64 || source.Parallelism != 0 || source.MaxParallelism != 0 || source.NeverChain {
		t.Errorf("the topology has %d of %d subtasks, and the source %v", g.Parallelism, g.MaxParallelism, source)
	}
	if process.Parallelism != 3 || process.MaxParallelism != 12 || !process.NeverChain {
		t.Errorf("the processor is %v", process)
	}
	if hooks := p.MasterHooks(); len(hooks) != 1 || hooks[0] != operator.MasterHook(hook) {
		t.Errorf("the hooks are %v", hooks)
	}
	if got := in.Codec().Schema(); got != codec.Must(codec.Struct[ev]()).Schema() {
		t.Errorf("the codec of the stream is %s", got)
	}
	if got := keyed.Keys().Schema(); got != "string" {
		t.Errorf("the codec of the keys is %s", got)
	}
	if keys := stream.KeyBy(in, func(ev) []string { return nil }).Keys(); keys != nil {
		t.Errorf("a slice has the key codec %s", keys.Schema())
	}
	for n, want := range map[int]string{1: "", 1 << 20: "maximum parallelism 1048576 is above"} {
		b := stream.New("limits")
		stream.From(b, "in", &listSource{}, stream.MaxParallelism(n))
		if _, err := b.Build(); want == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("maximum parallelism %d: %v", n, err)
		}
	}
}

type namedHook struct{ operator.MasterHook }

// clocked sets a timer of the clock and takes back the one before.
type clocked struct{ calls *[]string }

func (*clocked) Open(*stream.States) {}

func (*clocked) Process(c *stream.Context[string, string], v ev) error {
	c.DeleteProcessingTimer(c.ProcessingTimeMs() + v.Ms - 1)
	c.SetProcessingTimer(c.ProcessingTimeMs() + v.Ms)
	return nil
}

func (*clocked) OnTimer(c *stream.Context[string, string], timer stream.Timer) error {
	c.Emit(fmt.Sprintf("%s at %d in subtask %d", c.Key(), timer.TimestampMs, c.Subtask()))
	return nil
}

func (c *clocked) CheckpointComplete(id uint64) error {
	*c.calls = append(*c.calls, fmt.Sprint("complete ", id))
	return nil
}

func (c *clocked) CheckpointAborted(id uint64) error {
	*c.calls = append(*c.calls, fmt.Sprint("aborted ", id))
	if id == 9 {
		return fmt.Errorf("no")
	}
	return nil
}

// A timer of the clock that was taken back does not fire, one that was not does, at
// its time. A listener hears of aborted checkpoints, and its error is the user's.
func TestClockTimersAndAborts(t *testing.T) {
	var calls []string
	sink := newMemorySink[string]()
	b := stream.New("clocked")
	in := stream.From(b, "in", &listSource{splits: [][]ev{{{"a", 10, 0}, {"a", 11, 0}, {"b", 10, 0}}}})
	stream.To(stream.Process(stream.KeyBy(in, keyOf), "clocked", func() *clocked { return &clocked{&calls} }), "out", sink)
	p, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	d := newDriver(t, p, nil)
	d.now = 100
	if err := d.run(); err != nil {
		t.Fatal(err)
	}
	d.advance(10)
	d.advance(10)
	o := d.byUid["clocked"].chain.Operators[0]
	if err := o.Aborted(8); err != nil {
		t.Error(err)
	}
	if err := o.Aborted(9); err == nil || !strings.Contains(err.Error(), `"clocked"`) {
		t.Errorf("the error of the listener came as %v", err)
	}
	if err := d.run(); err != nil {
		t.Fatal(err)
	}
	if _, err := d.checkpoint(10, true); err != nil {
		t.Fatal(err)
	}
	if want := []string{"b at 110 in subtask 0", "a at 111 in subtask 0"}; !slices.Equal(sink.committed, want) {
		t.Errorf("timers: %v", sink.committed)
	}
	if want := []string{"aborted 8", "aborted 9", "complete 10"}; !slices.Equal(calls, want) {
		t.Errorf("calls: %v", calls)
	}
}

// listing stores operator state in each of the three ways.
type listing struct{}

func (listing) Open(*stream.States)                                     {}
func (listing) Process(*stream.Context[stream.NoKey, string], ev) error { return nil }
func (listing) RestoreState(*stream.OperatorState) error                { return nil }
func (listing) SnapshotState(_ uint64, s *stream.OperatorState) error {
	s.Split("dealt", []byte("1"), []byte("2"))
	s.Union("all", []byte("3"))
	s.Broadcast("same", []byte("4"))
	return nil
}

// Operator state is stored in the way that it was given, which decides who gets it
// at restore.
func TestOperatorStateModes(t *testing.T) {
	b := stream.New("listing")
	stream.Transform(stream.From(b, "in", &listSource{}), "lists", func() *listing { return &listing{} })
	p, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	s, err := newDriver(t, p, nil).checkpoint(1, true)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range s.lists["lists"] {
		got = append(got, fmt.Sprintf("%s %s %q", l.Name, l.Mode, l.Items))
	}
	want := []string{
		fmt.Sprintf("dealt %s %q", messages.RedistributionMode_SPLIT, []string{"1", "2"}),
		fmt.Sprintf("all %s %q", messages.RedistributionMode_UNION, []string{"3"}),
		fmt.Sprintf("same %s %q", messages.RedistributionMode_BROADCAST, []string{"4"}),
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
