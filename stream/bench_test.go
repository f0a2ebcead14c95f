package stream_test

import (
	"math"
	"testing"

	"cutwater/codec"
	"cutwater/codec/batch"
	"cutwater/messages"
	"cutwater/stream"
	"cutwater/stream/operator"
)

type click struct{ User, Value int64 }

// BenchmarkChain measures map, filter, key, encode and decode per record: what a
// record costs between two tasks, without them.
func BenchmarkChain(b *testing.B) {
	c := codec.Must(codec.Struct[click]())
	t := stream.New("bench")
	in := stream.Map(stream.From(t, "in", &listSource{}), "start", func(v ev) click { return click{} })
	m := stream.Map(in, "map", func(v click) click { v.Value++; return v }, stream.NeverChain())
	f := stream.Filter(m, "filter", func(v click) bool { return v.User >= 0 })
	stream.Reduce(stream.KeyBy(f, func(v click) int64 { return v.User }), "sum", func(a, v click) click { return v })
	p, err := t.Build()
	if err != nil {
		b.Fatal(err)
	}
	var w *operator.EdgeWriter
	out := &messages.RecordBatch{}
	var sum int64
	var v click
	w = operator.NewEdgeWriter(&messages.PlanEdge{FromUid: "filter", ToUid: "sum", Partitioning: messages.Partitioning_HASH}, 4, 128, 32<<10, func(channel int) {
		w.Builders[channel].Cut(out)
		view, _ := batch.Open(out, c.Width(), true)
		for i := range view.Len() {
			_, _, fixed := view.Record(i)
			if err := c.Decode(fixed, view.Text, &v); err != nil {
				b.Fatal(err)
			}
			sum += v.Value
		}
	})
	chain, err := p.NewChain([]string{"map", "filter"}, []*operator.EdgeWriter{w})
	if err != nil {
		b.Fatal(err)
	}
	y := &operator.Yield{Budget: math.MaxInt}
	for _, o := range chain.Operators {
		if err := o.Open(&operator.Context{Yield: y}); err != nil {
			b.Fatal(err)
		}
	}
	var builder batch.Builder
	builder.Init(c.Width(), false)
	const n = 1000
	for i := range int64(n) {
		fixed, text := builder.Next(i, 0)
		builder.SetText(c.Encode(fixed, text, click{i, 1}))
	}
	batchIn := &messages.RecordBatch{}
	builder.Cut(batchIn)
	for range 200 { // until the buffers have their size
		chain.Input.Process(0, batchIn, 0)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; i < b.N; i += n {
		y.Budget = math.MaxInt
		if _, err := chain.Input.Process(0, batchIn, 0); err != nil {
			b.Fatal(err)
		}
	}
	if sum == 0 {
		b.Fatal("nothing arrived")
	}
}
