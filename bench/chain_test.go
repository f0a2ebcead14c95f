package bench

import (
	"encoding/binary"
	"math"
	"testing"

	"cutwater/codec"
	"cutwater/codec/batch"
	"cutwater/connector/blackhole"
	"cutwater/messages"
	"cutwater/stream"
	"cutwater/stream/operator"
)

// BenchmarkChain is what a record costs a task between its input and its output:
// decode, map, filter, encode; and on a keyed edge the key and its hash as well.
func BenchmarkChain(b *testing.B) {
	for _, test := range []struct {
		name  string
		keyed bool
		most  float64
	}{{"forward", false, 6}, {"keyed", true, 9}} {
		b.Run(test.name, func(b *testing.B) {
			const records, batches = 1000, 1000
			in := &messages.RecordBatch{}
			var builder batch.Builder
			c := codec.Must(codec.Struct[event]())
			builder.Init(c.Width(), false)
			for i := range uint64(records) {
				fixed, text := builder.Next(int64(i), 0)
				builder.SetText(c.Encode(fixed, text, event{i + 1, i}))
			}
			builder.Cut(in)

			var ours, hand uint64
			chain, yield := mapAndFilter(b, test.keyed, &ours)
			buffer := make([]byte, 0, 32<<10+64)
			process := func() {
				ours = 0
				for range batches {
					yield.Budget = math.MaxInt
					if _, err := chain.Input.Process(0, in, 0); err != nil {
						b.Fatal(err)
					}
				}
			}
			byHand := func() {
				hand = 0
				for range batches {
					buffer = chainByHand(in, test.keyed, buffer, &hand)
				}
			}
			hold(b, "allocs/record", testing.AllocsPerRun(3, process)/(records*batches), 0.0001)
			beside(b, records*batches, process, byHand, test.most)
			if ours == 0 || hand == 0 {
				b.Fatal("nothing was cut")
			}
		})
	}
}

// mapAndFilter is a chain that sums the bytes it sends.
func mapAndFilter(b *testing.B, keyed bool, sent *uint64) (*operator.Chain, *operator.Yield) {
	t := stream.New("bench")
	in := stream.Filter(stream.From(t, "in", &numbers{}), "start", func(event) bool { return true })
	m := stream.Map(in, "map", func(v event) event { v.Value++; return v }, stream.NeverChain())
	f := stream.Filter(m, "filter", func(v event) bool { return v.Key != 0 })
	edge := &messages.PlanEdge{FromUid: "filter", ToUid: "out", Partitioning: messages.Partitioning_FORWARD}
	if keyed {
		stream.Reduce(stream.KeyBy(f, func(v event) uint64 { return v.Key }), "out", func(a, v event) event { return v })
		edge.Partitioning = messages.Partitioning_HASH
	} else {
		stream.To(f, "out", blackhole.New[event](nil), stream.NeverChain())
	}
	p, err := t.Build()
	if err != nil {
		b.Fatal(err)
	}
	out := &messages.RecordBatch{}
	var w *operator.EdgeWriter
	w = operator.NewEdgeWriter(edge, 1, 128, 32<<10, func(channel int) {
		w.Builders[channel].Cut(out)
		*sent += uint64(len(out.Data))
	})
	chain, err := p.NewChain([]string{"map", "filter"}, []*operator.EdgeWriter{w})
	if err != nil {
		b.Fatal(err)
	}
	y := &operator.Yield{}
	for _, o := range chain.Operators {
		if err := o.Open(&operator.Context{Yield: y}); err != nil {
			b.Fatal(err)
		}
	}
	return chain, y
}

// chainByHand is the same work in one loop.
func chainByHand(in *messages.RecordBatch, keyed bool, out []byte, sent *uint64) []byte {
	le := binary.LittleEndian
	for d := in.Data; len(d) > 0; d = d[24:] {
		ts, key, value := le.Uint64(d), le.Uint64(d[8:]), le.Uint64(d[16:])
		value++
		if key == 0 {
			continue
		}
		out = le.AppendUint64(out, ts)
		if keyed {
			out = le.AppendUint64(out, mix(key))
		}
		out = le.AppendUint64(le.AppendUint64(out, key), value)
		if len(out) >= 32<<10 {
			*sent += uint64(len(out))
			out = out[:0]
		}
	}
	return out
}
