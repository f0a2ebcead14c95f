package stream_test

import (
	"fmt"
	"time"

	"cutwater/state"
	"cutwater/stream"
)

// A topology: the sums per key and ten milliseconds of what is above zero.
func Example() {
	t := stream.New("sums")
	in := stream.From(t, "in", &listSource{}, stream.EventTime(msOf, 5*time.Millisecond))
	positive := stream.Filter(in, "positive", func(v ev) bool { return v.Value > 0 })
	sums := stream.Window(stream.KeyBy(positive, keyOf), "sums", stream.Tumbling(10*time.Millisecond), newSumming)
	stream.To(sums, "out", newMemorySink[total]())
	p, err := t.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, o := range p.Graph().Operators {
		fmt.Println(o.Kind, o.Uid)
	}
	// Output:
	// source in
	// filter positive
	// window sums
	// sink out
}

// spender warns once per key, when a total is passed.
type spender struct{ total *state.Value[int64] }

func (s *spender) Open(states *stream.States) { s.total = stream.ValueState[int64](states, "total") }

func (s *spender) Process(c *stream.Context[string, string], v ev) error {
	total, _ := s.total.Get()
	if s.total.Set(total + v.Value); total <= 100 && total+v.Value > 100 {
		c.Emit(c.Key() + " spends much")
	}
	return nil
}

// A processor with a value per key.
func ExampleProcess() {
	t := stream.New("spenders")
	in := stream.KeyBy(stream.From(t, "in", &listSource{}), keyOf)
	stream.To(stream.Process(in, "spender", func() *spender { return &spender{} }), "out", newMemorySink[string]())
	p, err := t.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p.Graph().Operators[1].StateSchema)
	// Output: total: string -> int64
}

// Mistakes are reported together, each with its operator and its place.
func ExampleTopology_Build() {
	t := stream.New("mistakes")
	in := stream.From(t, "in", &listSource{}, stream.DeclaredAt("example.yaml:3"))
	stream.Filter(in, "In", func(ev) bool { return true }, stream.DeclaredAt("example.yaml:7"))
	stream.To(in, "in", newMemorySink[ev](), stream.DeclaredAt("example.yaml:9"))
	_, err := t.Build()
	fmt.Println(err)
	// Output:
	// example.yaml:7: operator "In": a uid is lower-case letters, digits and hyphens and starts with a letter
	// example.yaml:9: operator "in": the uid is taken by the source declared at example.yaml:3
}
