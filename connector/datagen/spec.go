package datagen

import (
	"fmt"
	"time"

	"cutwater/stream"
	"cutwater/stream/catalog"
	"cutwater/stream/row"
)

const (
	defaultStart  = "2024-01-01T00:00:00Z"
	defaultStepMs = 1000
)

// Spec describes the source "datagen" of a topology.yaml.
func Spec() catalog.SourceSpec {
	return catalog.SourceSpec{
		Name: "datagen",
		Doc:  "Made-up rows, the same in every run.",
		Options: []catalog.Option{
			{Name: "schema", Kind: catalog.SchemaOption, Required: true, Doc: "The fields of the rows, with their types."},
			{Name: "fields", Kind: catalog.StringOption, Doc: "How values are made: \"user: choice(ann, ben); amount: uniform(1, 500)\"; generators are sequence(first), uniform(low, high) and choice(a, b, ...), a field without one is a sequence."},
			{Name: "rows", Kind: catalog.IntOption, Default: "0", Doc: "How many rows there are; 0 means that they never end. It is settled when the job starts empty."},
			{Name: "seed", Kind: catalog.IntOption, Default: "0", Doc: "Chooses the random values."},
			{Name: "start", Kind: catalog.StringOption, Default: defaultStart, Doc: "The timestamp of the first row, as RFC 3339."},
			{Name: "step", Kind: catalog.DurationOption, Default: "1s", Doc: "By how much each row's timestamp is later than the one before."},
		},
		New: func(v catalog.Values) (stream.Source[row.Row], error) {
			c, err := configOf(v)
			if err != nil {
				return nil, err
			}
			return New(c)
		},
	}
}

// configOf reads the options; missing ones have their defaults.
func configOf(v catalog.Values) (Config, error) {
	c := Config{
		Schema: v.Schema,
		Rows:   v.Ints["rows"],
		Seed:   uint64(v.Ints["seed"]),
		StepMs: defaultStepMs,
		Fields: v.Strings["fields"],
	}
	if step, ok := v.Ints["step"]; ok {
		c.StepMs = step
	}
	start := defaultStart
	if s, ok := v.Strings["start"]; ok {
		start = s
	}
	t, err := time.Parse(time.RFC3339, start)
	if err != nil {
		return c, fmt.Errorf("datagen source: start %q is not a time as %q", start, time.RFC3339)
	}
	c.StartMs = t.UnixMilli()
	return c, nil
}
