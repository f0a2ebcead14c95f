package main

import (
	"fmt"
	"slices"
	"testing"

	"cutwater/stream"
	"cutwater/stream/row"
	"cutwater/testkit"
)

// flights is what the operator reads here.
var flights = &row.Schema{Fields: []row.Field{
	{Name: "date", Kind: row.Timestamp}, {Name: "delay", Kind: row.Int},
	{Name: "origin", Kind: row.String}, {Name: "destination", Kind: row.String},
}}

func newFlight(dateMs, delay int64, origin, destination string) row.Row {
	b := row.NewBuilder(len(flights.Fields))
	b.Ms(0, dateMs)
	b.Int(1, delay)
	b.String(2, origin)
	b.String(3, destination)
	return b.Row()
}

// declare is the operator by the key origin, as topology.yaml declares it.
func declare(t *testing.T) func(stream.Stream[row.Row]) stream.Stream[row.Row] {
	key := &row.Schema{Fields: flights.Fields[2:3]}
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
	return func(in stream.Stream[row.Row]) stream.Stream[row.Row] {
		return stream.Process(stream.KeyByFields(in, flights, "origin"), "worst", newProcessor, stream.WithCodec(row.Codec(out)))
	}
}

func describe(r row.Row) string {
	return fmt.Sprintf("%s day %d to %s, %d minutes", r.String(0), r.Ms(1)/dayMs, r.String(3), r.Int(4))
}

// check compares what was emitted, in any order.
func check(t *testing.T, what string, rows []row.Row, want ...string) {
	t.Helper()
	var got []string
	for _, r := range rows {
		got = append(got, describe(r))
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// A day's worst flight comes when the day is over, across a snapshot and whatever
// the backend; then the day is forgotten.
func TestWorst(t *testing.T) {
	rows := testkit.InputCodec(row.Codec(flights))
	h := testkit.NewHarness(t, declare(t), rows)
	record := func(at, delay int64, origin, destination string) {
		h.Record(newFlight(at, delay, origin, destination), at)
	}
	record(1000, 5, "DTW", "LAS")
	record(2000, 50, "DTW", "SFO")
	record(2000, -3, "HNL", "SEA")
	record(dayMs, 70, "DTW", "JFK") // the next day
	h.Watermark(dayMs - 2)
	check(t, "before the day is over", h.Values())

	h = testkit.NewHarness(t, declare(t), rows, testkit.RestoredFrom(h.Snapshot()), testkit.OnBolt())
	record(3000, 50, "DTW", "BOS") // as late as another, but later
	h.Watermark(dayMs - 1)
	check(t, "the first day", h.Values(), "DTW day 0 to SFO, 50 minutes", "HNL day 0 to SEA, -3 minutes")
	record(4000, 500, "DTW", "BOS") // its day was emitted
	h.End()
	check(t, "the second day", h.Values(), "DTW day 1 to JFK, 70 minutes")
	h.NoState()
}

// Under crashes, lost messages and failing disks the operator commits what it
// commits without them.
func TestWorstExactlyOnce(t *testing.T) {
	var input []row.Row
	worst := map[[2]string]int64{} // by origin and day
	for i := range int64(400) {    // a flight every half hour
		delay, origin := i*7919%101, []string{"DTW", "HNL", "SFO"}[i%3]
		input = append(input, newFlight(i*dayMs/48, delay, origin, "LAS"))
		key := [2]string{origin, fmt.Sprint(i / 48)}
		worst[key] = max(worst[key], delay)
	}
	var want []string
	for key, delay := range worst {
		want = append(want, fmt.Sprintf("%s day %s to LAS, %d minutes", key[0], key[1], delay))
	}
	slices.Sort(want)
	committed := testkit.ExactlyOnce(t, func(b *stream.Topology) stream.Stream[row.Row] {
		in := stream.From(b, "flights", testkit.Records(input[:200], input[200:]), stream.WithCodec(row.Codec(flights)),
			stream.EventTime(func(r row.Row) int64 { return r.Ms(0) }, 0))
		return declare(t)(in)
	}, testkit.AsText(describe))
	if !slices.Equal(committed, want) {
		t.Errorf("%q, want %q", committed, want)
	}
}
