package topology

import (
	"encoding/csv"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"cutwater/stream"
	"cutwater/stream/catalog"
	"cutwater/stream/row"
	"cutwater/topology/aggregate"
)

func readCSV(t *testing.T, path string) [][]string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	records, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return records[1:]
}

// The keys, the aggregates, their state encoding and their output rows of the
// example give what another program computed from the same 20,000 flights.
func TestFlightsAggregates(t *testing.T) {
	const path = "../examples/flights/topology.yaml"
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	cat := &catalog.Catalog{
		Sources: []catalog.SourceSpec{{Name: "file", Options: []catalog.Option{{Name: "path", Kind: catalog.PathOption}, {Name: "format"}, {Name: "schema", Kind: catalog.SchemaOption}}}},
		Sinks:   []catalog.SinkSpec{{Name: "file", Options: []catalog.Option{{Name: "path", Kind: catalog.PathOption}, {Name: "format"}}}},
	}
	top, err := Load(path, src, cat, os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	source, daily := top.Operators[0], top.Operators[1]
	key := row.KeyAt(source.Output, daily.Keys)
	agg, codec := newAggregatorOf(daily, "test"), daily.Aggregates.Codec()
	const day = 24 * 60 * 60 * 1000
	state := map[string][]byte{} // key and window, as state would keep it
	layout := source.Output.Fields[0].Layout
	for _, record := range readCSV(t, "../examples/flights/flights.csv") {
		at, err := time.Parse(layout, record[0])
		if err != nil {
			t.Fatal(err)
		}
		r := row.Row{Cells: make([]uint64, 5), Text: record[3] + record[4]}
		r.Cells[0] = uint64(at.UnixMilli())
		for i := 1; i <= 2; i++ {
			n, err := strconv.ParseInt(record[i], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			r.Cells[i] = uint64(n)
		}
		r.Cells[3] = uint64(len(record[3]))
		r.Cells[4] = uint64(len(record[3]))<<32 | uint64(len(record[4]))

		start := at.UnixMilli() / day * day
		place := string(key.AppendFrom(nil, r)) + "@" + strconv.FormatInt(start, 10)
		var acc aggregate.Accumulator
		agg.Init(&acc)
		if fixed, ok := state[place]; ok {
			if err := codec.Decode(fixed, "", &acc); err != nil {
				t.Fatal(err)
			}
		} else {
			state[place] = make([]byte, codec.Width())
		}
		if err := agg.Add(&acc, r); err != nil {
			t.Fatal(err)
		}
		codec.Encode(state[place], nil, acc)
	}
	var got []string
	for _, place := range slices.Sorted(maps.Keys(state)) {
		bytes, window, _ := strings.Cut(place, "@")
		start, _ := strconv.ParseInt(window, 10, 64)
		var k row.Row
		var acc aggregate.Accumulator
		if err := key.DecodeKey([]byte(bytes), &k); err != nil {
			t.Fatal(err)
		}
		if err := codec.Decode(state[place], "", &acc); err != nil {
			t.Fatal(err)
		}
		out, err := agg.Result(k, stream.Interval{StartMs: start, EndMs: start + day}, &acc)
		if err != nil {
			t.Fatal(err)
		}
		if out.Nulls != 0 || out.Cells[2] != out.Cells[1]+day {
			t.Fatalf("a row of %v", out)
		}
		got = append(got, fmt.Sprintf("%s,%s,%d,%d,%d,%d", textOf(out, 0), time.UnixMilli(int64(out.Cells[1])).UTC().Format(time.RFC3339),
			int64(out.Cells[3]), int64(out.Cells[4]), int64(out.Cells[5]), int64(out.Cells[6])))
	}
	slices.Sort(got)
	var want []string
	for _, record := range readCSV(t, "../examples/flights/expected/daily.csv") {
		want = append(want, strings.Join(record, ","))
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%d rows, want %d; the first that differ: %v", len(got), len(want), firstDifference(got, want))
	}
}

func firstDifference(a, b []string) []string {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return []string{a[i], b[i]}
		}
	}
	return nil
}
