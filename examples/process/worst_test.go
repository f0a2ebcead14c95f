package main

import (
	"slices"
	"testing"

	"cutwater/stream"
	"cutwater/stream/row"
	"cutwater/testkit"
)

var flights = &row.Schema{Fields: []row.Field{
	{Name: "origin", Kind: row.String}, {Name: "destination", Kind: row.String}, {Name: "delay", Kind: row.Int},
}}

// harness runs the operator alone.
func harness(t *testing.T, opts ...testkit.HarnessOption) *testkit.Harness[row.Row, row.Row] {
	key := &row.Schema{Fields: flights.Fields[:1]}
	out, err := worstFlights.Output(flights, key)
	if err != nil {
		t.Fatal(err)
	}
	newProcessor := func() stream.Processor[row.Row, row.Row, row.Row] {
		p, err := worstFlights.Keyed(flights, key, out)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	return testkit.NewHarness(t, func(in stream.Stream[row.Row]) stream.Stream[row.Row] {
		return stream.Process(stream.KeyByFields(in, flights, "origin"), "worst", newProcessor, stream.WithCodec(row.Codec(out)))
	}, append(opts, testkit.InputCodec(row.Codec(flights)))...)
}

func flightTo(origin, destination string, delay int64) row.Row {
	b := row.NewBuilder(3)
	b.String(0, origin)
	b.String(1, destination)
	b.Int(2, delay)
	return b.Row()
}

// destinations are where the worst flights went.
func destinations(rows []row.Row) (all []string) {
	for _, r := range rows {
		all = append(all, r.String(3))
	}
	return all
}

// A day's worst flight comes when the day is over, from one snapshot to the next
// and whatever the backend; then the day is forgotten.
func TestWorst(t *testing.T) {
	h := harness(t)
	h.Record(flightTo("DTW", "LAS", 5), 1000)
	h.Record(flightTo("DTW", "SFO", 50), 2000)
	h.Record(flightTo("HNL", "SEA", -3), 2000)
	h.Record(flightTo("DTW", "JFK", 70), dayMs) // the next day
	h.Watermark(dayMs - 2)
	if early := h.Values(); len(early) != 0 {
		t.Errorf("emitted before the day was over: %v", early)
	}
	h = harness(t, testkit.RestoredFrom(h.Snapshot()), testkit.OnBolt())
	h.Record(flightTo("DTW", "BOS", 50), 3000) // as late, but later
	h.Watermark(dayMs - 1)
	if got, want := destinations(h.Values()), []string{"SFO", "SEA"}; !sameSet(got, want) {
		t.Errorf("the first day: %v, want %v", got, want)
	}
	h.Record(flightTo("DTW", "BOS", 500), 4000) // too late: the day was emitted
	h.End()
	if got, want := destinations(h.Values()), []string{"JFK"}; !sameSet(got, want) {
		t.Errorf("the second day: %v, want %v", got, want)
	}
	h.NoState()
}

func sameSet(a, b []string) bool {
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}
