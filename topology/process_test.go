package topology_test

import (
	"errors"
	"strings"
	"testing"

	"cutwater/stream"
	"cutwater/stream/row"
	"cutwater/topology"
)

type pass[K any] struct{}

func (pass[K]) Process(c *stream.Context[K, row.Row], v row.Row) error {
	c.Emit(v)
	return nil
}

// The processes of the tests and of the scripts in testdata.
func init() {
	passEach := func(_, _ *row.Schema) (stream.Processor[stream.NoKey, row.Row, row.Row], error) {
		return pass[stream.NoKey]{}, nil
	}
	stream.RegisterProcess("keyed", stream.RowProcess{
		Keyed: func(in, key, out *row.Schema) (stream.Processor[row.Row, row.Row, row.Row], error) {
			if _, err := in.Field("delay", row.Int); err != nil {
				return nil, err
			}
			if len(key.Fields) != 1 || key.Fields[0].Name != "origin" {
				return nil, errors.New("its key must be origin")
			}
			return pass[row.Row]{}, nil
		},
	})
	stream.RegisterProcess("each", stream.RowProcess{Each: passEach})
	stream.RegisterProcess("declares", stream.RowProcess{
		Each: passEach,
		Output: func(in, key *row.Schema) (*row.Schema, error) {
			if key != nil || in.Index("origin") < 0 {
				return nil, errors.New("it wants the field origin and no key")
			}
			return &row.Schema{Fields: []row.Field{{Name: "declared", Kind: row.Int}}}, nil
		},
	})
	stream.RegisterProcess("empty", stream.RowProcess{})
	stream.RegisterProcess("nothing", stream.RowProcess{
		Each: func(_, _ *row.Schema) (stream.Processor[stream.NoKey, row.Row, row.Row], error) { return nil, nil },
	})
	stream.RegisterProcess("blank", stream.RowProcess{
		Each:   passEach,
		Output: func(_, _ *row.Schema) (*row.Schema, error) { return nil, nil },
	})
}

// Go operators are found by name, keyed or not, and emit what the registration,
// the topology or the input says, in this order.
func TestBuildProcess(t *testing.T) {
	for _, c := range []struct{ operator, node, output string }{
		{"process: keyed, key-by: origin, schema: {n: int}", "process op at t.yaml:7 <hash- in", "n"},
		{"process: each", "transform op at t.yaml:7 <forward- in", "date"},
		{"process: declares", "transform op at t.yaml:7 <forward- in", "declared"},
	} {
		src := flightsPrefix + "  - {uid: op, input: in, " + c.operator + "}\n" + sinkSuffix
		top, err := topology.Load("t.yaml", []byte(src), buildable(), environment)
		if err != nil {
			t.Fatal(err)
		}
		program, _, err := topology.Build(top, buildable())
		if err != nil {
			t.Fatal(err)
		}
		if got := graph(program); !strings.Contains(got, c.node) {
			t.Errorf("%s: %s\nwant %s", c.operator, got, c.node)
		}
		if got := top.Operators[1].Output.Fields[0].Name; got != c.output {
			t.Errorf("%s emits the field %s, want %s", c.operator, got, c.output)
		}
	}
}
