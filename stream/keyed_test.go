package stream_test

import (
	"slices"
	"sort"
	"strings"
	"testing"

	"cutwater/codec"
	"cutwater/messages"
	"cutwater/state/heap"
	"cutwater/stream"
	"cutwater/stream/operator"
	"cutwater/stream/row"
)

// A running aggregate and a reduce emit after every record, over a union of two
// sources, and go on after a restore.
func TestAggregateReduceUnion(t *testing.T) {
	left := &listSource{splits: [][]ev{{{"a", 1, 1}, {"b", 2, 2}}}}
	right := &listSource{splits: [][]ev{{{"a", 3, 10}, {"b", 4, 20}}}}
	sums, greatest := newMemorySink[total](), newMemorySink[ev]()
	b := stream.New("keyed")
	both := stream.KeyBy(stream.Union(stream.From(b, "left", left), stream.From(b, "right", right)), keyOf)
	stream.To(stream.Aggregate(both, "sum", newSumming), "sums", sums)
	stream.To(stream.Reduce(both, "greatest", func(a, v ev) ev {
		if v.Value > a.Value {
			return v
		}
		return a
	}), "greatest-out", greatest)
	p, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	d := newDriver(t, p, nil)
	d.budget = 1
	for range 4 {
		d.settle()
		if _, err := d.turn(); err != nil {
			t.Fatal(err)
		}
	}
	s, err := d.checkpoint(1, true)
	if err != nil {
		t.Fatal(err)
	}
	d = newDriver(t, p, s)
	if err := d.run(); err != nil {
		t.Fatal(err)
	}
	if _, err := d.checkpoint(2, true); err != nil {
		t.Fatal(err)
	}
	last := map[string]string{}
	for _, line := range slices.Concat(sums.committed, greatest.committed) {
		kind := "sum"
		if len(strings.Fields(line)) == 3 {
			kind = "greatest"
		}
		last[kind+line[1:2]] = line
	}
	if len(sums.committed) != 4 || len(greatest.committed) != 4 || last["suma"] != "{a 0 0 2 11}" || last["sumb"] != "{b 0 0 2 22}" ||
		last["greatesta"] != "{a 3 10}" || last["greatestb"] != "{b 4 20}" {
		t.Errorf("sums %v greatest %v", sums.committed, greatest.committed)
	}
}

// Reducing rows, whose cells are reused, mixes up neither records nor keys.
func TestReduceRows(t *testing.T) {
	schema := &row.Schema{Fields: []row.Field{{Name: "key", Kind: row.String}, {Name: "n", Kind: row.Int}}}
	rows := row.Codec(schema)
	b := stream.New("rows")
	made := row.NewBuilder(2)
	in := stream.Map(stream.From(b, "in", &listSource{}), "row", func(v ev) row.Row { return made.Row() }, stream.WithCodec(rows))
	out := stream.Reduce(stream.KeyByFields(in, schema, "key"), "last", func(_, v row.Row) row.Row { return v })
	sink := newMemorySink[row.Row]()
	sink.text = func(r row.Row) string { return row.Describe(schema, &r) }
	stream.To(out, "out", sink)
	p, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	d := newDriver(t, p, nil)
	if err := d.run(); err != nil {
		t.Fatal(err)
	}
	task := d.byUid["last"]
	w := operator.NewEdgeWriter(&messages.PlanEdge{FromUid: "row", ToUid: "last", Partitioning: messages.Partitioning_HASH}, 1, maxParallelism, 1<<20, nil)
	chain, err := p.NewChain([]string{"row"}, []*operator.EdgeWriter{w})
	if err != nil {
		t.Fatal(err)
	}
	if err := chain.Operators[0].Open(&operator.Context{Yield: &operator.Yield{Budget: 100}}); err != nil {
		t.Fatal(err)
	}
	one := &messages.RecordBatch{}
	events := operator.NewEdgeWriter(&messages.PlanEdge{}, 1, maxParallelism, 1<<20, nil)
	c := codec.Must(codec.Of[ev]())
	events.Init(c.Width())
	fixed, text := events.Builders[0].Next(1, 0)
	events.Builders[0].SetText(c.Encode(fixed, text, ev{}))
	events.Builders[0].Cut(one)
	for i, key := range []string{"a", "b", "a", "c", "b", "a"} {
		made.Reset()
		made.String(0, key)
		made.Int(1, int64(i))
		if _, err := chain.Input.Process(0, one, 0); err != nil {
			t.Fatal(err)
		}
	}
	m := &messages.RecordBatch{}
	w.Builders[0].Cut(m)
	task.in = append(task.in, inMessage{batch: m})
	if _, err := d.checkpoint(1, true); err != nil {
		t.Fatal(err)
	}
	sort.Strings(sink.committed)
	if want := []string{`{key: "a", n: 0}`, `{key: "a", n: 2}`, `{key: "a", n: 5}`, `{key: "b", n: 1}`, `{key: "b", n: 4}`, `{key: "c", n: 3}`}; !slices.Equal(sink.committed, want) {
		t.Errorf("got %v", sink.committed)
	}
}

// A batch that was written by another program is refused with a reason.
func TestForeignBatchIsRefused(t *testing.T) {
	b := stream.New("foreign")
	stream.Reduce(stream.KeyBy(stream.From(b, "in", &listSource{}), keyOf), "last", func(_, v ev) ev { return v })
	p, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	chain, err := p.NewChain([]string{"last"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &operator.Context{Yield: &operator.Yield{Budget: 1}, Keyed: heap.New(heap.Options{MaxParallelism: 128, LastGroup: 127})}
	if err := chain.Operators[0].Open(c); err != nil {
		t.Fatal(err)
	}
	if _, err := chain.Input.Process(0, &messages.RecordBatch{Count: 1, FixedWidth: 3, Data: []byte{1, 2, 3}}, 0); err == nil || !strings.Contains(err.Error(), "different programs") {
		t.Errorf("got %v", err)
	}
	if _, err := p.NewChain([]string{"in", "last"}, nil); err == nil || !strings.Contains(err.Error(), "cannot be chained") {
		t.Errorf("a keyed operator was chained: %v", err)
	}
	if _, err := p.NewChain([]string{"gone"}, nil); err == nil || !strings.Contains(err.Error(), `no operator "gone"`) {
		t.Errorf("got %v", err)
	}
}

// The registry finds topologies by name and reports unknown and doubled names.
func TestRegistry(t *testing.T) {
	declare := func(b *stream.Topology) { stream.From(b, "in", &listSource{}) }
	stream.Register("registered", declare)
	stream.Register("doubled", declare)
	stream.Register("doubled", declare)
	if p, err := stream.Lookup("registered"); err != nil || p.Graph().Name != "registered" || !slices.Equal(p.Sources(), []string{"in"}) {
		t.Errorf("got %v, %v", p, err)
	}
	if _, err := stream.Lookup("doubled"); err == nil || !strings.Contains(err.Error(), "registered twice") {
		t.Errorf("got %v", err)
	}
	if _, err := stream.Lookup("unknown"); err == nil || !strings.Contains(err.Error(), "[doubled registered]") {
		t.Errorf("got %v", err)
	}
	each := func(_, _ *row.Schema) (stream.Processor[stream.NoKey, row.Row, row.Row], error) { return nil, nil }
	stream.RegisterProcess("each", stream.RowProcess{Each: each})
	stream.RegisterProcess("neither", stream.RowProcess{})
	if p, err := stream.LookupProcess("each"); err != nil || p.Each == nil {
		t.Errorf("got %v, %v", p, err)
	}
	if _, err := stream.LookupProcess("neither"); err == nil || !strings.Contains(err.Error(), "exactly one") {
		t.Errorf("got %v", err)
	}
	if _, err := stream.LookupProcess("unknown"); err == nil || !strings.Contains(err.Error(), "[each neither]") {
		t.Errorf("got %v", err)
	}
}
