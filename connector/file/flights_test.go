package file

import (
	"context"
	"encoding/csv"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cutwater/messages"
	"cutwater/storage/vfs"
	"cutwater/stream"
	"cutwater/stream/row"
)

const flightsPath = "../../examples/flights/flights.csv"

// flights is the schema of the example, in an order of its own.
var flights = &row.Schema{Fields: []row.Field{
	{Name: "origin", Kind: row.String},
	{Name: "date", Kind: row.Timestamp, Layout: "2006/01/02 15:04"},
	{Name: "delay", Kind: row.Int},
	{Name: "distance", Kind: row.Int},
	{Name: "destination", Kind: row.String},
}}

// flightDay is what the expected file says of one airport and day.
type flightDay struct{ flights, delayed, total, worst int64 }

// The 20,000 flights, read by parallel readers in splits of several sizes, add
// up to the example's expected result.
func TestFlights(t *testing.T) {
	want := expectedDays(t)
	for _, size := range []int64{1000, 64<<10 + 1, 0} {
		s := newSource(t, Config{Path: flightsPath, Schema: flights, SplitSizeBytes: size})
		splits := discover(t, s, vfs.OS())
		got := map[string]flightDay{}
		rows := 0
		var mu sync.Mutex
		var readers sync.WaitGroup
		for i := range 4 {
			readers.Go(func() {
				for n := i; n < len(splits); n += 4 {
					days, count, err := readDays(s, splits[n])
					mu.Lock()
					if err != nil {
						t.Error(err)
					}
					rows += count
					for k, d := range days {
						got[k] = merge(got[k], d)
					}
					mu.Unlock()
				}
			})
		}
		readers.Wait()
		if rows != 20000 {
			t.Errorf("split size %d: %d rows", size, rows)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(flightDay{})); diff != "" {
			t.Errorf("split size %d: %s", size, diff)
		}
	}
}

func merge(a, b flightDay) flightDay {
	if a.flights == 0 {
		return b
	}
	return flightDay{a.flights + b.flights, a.delayed + b.delayed, a.total + b.total, max(a.worst, b.worst)}
}

// readDays sums one split.
func readDays(s *Source, split *messages.Split) (map[string]flightDay, int, error) {
	r, err := s.Open(context.Background(), vfs.OS(), split)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = r.Close() }()
	days := map[string]flightDay{}
	rows := 0
	for {
		var v row.Row
		status, err := r.Next(&v)
		if err != nil || status == stream.ReadEnd {
			return days, rows, err
		}
		if status == stream.ReadNothing {
			continue
		}
		rows++
		at, n := v.Cells[0]>>32, v.Cells[0]&0xffffffff
		key := fmt.Sprintf("%s %d", v.Text[at:at+n], int64(v.Cells[1])/86400000)
		d := flightDay{flights: 1, total: int64(v.Cells[2]), worst: int64(v.Cells[2])}
		if d.total > 15 {
			d.delayed = 1
		}
		days[key] = merge(days[key], d)
	}
}

func expectedDays(t *testing.T) map[string]flightDay {
	t.Helper()
	content, err := os.ReadFile("../../examples/flights/expected/daily.csv")
	if err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(strings.NewReader(string(content))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	layout := newTimeLayout("")
	days := map[string]flightDay{}
	for _, l := range lines[1:] {
		ms, ok := layout.parse([]byte(l[1]))
		var n [4]int64
		for i := range n {
			v, isInt := parseInt([]byte(l[2+i]))
			n[i], ok = v, ok && isInt
		}
		if !ok {
			t.Fatalf("unexpected line %q", l)
		}
		days[fmt.Sprintf("%s %d", l[0], ms/86400000)] = flightDay{n[0], n[1], n[2], n[3]}
	}
	return days
}

// Reading a row of the example allocates nothing; the string that the rows of
// one buffer share is all.
func TestFlightsAllocations(t *testing.T) {
	content, err := os.ReadFile(flightsPath)
	if err != nil {
		t.Fatal(err)
	}
	fsys := memory(t, "f.csv", string(content))
	s := newSource(t, Config{Path: "f.csv", Schema: flights})
	splits := discover(t, s, fsys)
	perRun := testing.AllocsPerRun(3, func() { drain(t, s, fsys, splits) })
	if perRow := perRun / 20000; perRow > 0.01 {
		t.Errorf("%.0f allocations for 20000 rows", perRun)
	}
}

func drain(t testing.TB, s *Source, fsys vfs.FS, splits []*messages.Split) {
	for _, split := range splits {
		r, err := s.Open(context.Background(), fsys, split)
		if err != nil {
			t.Fatal(err)
		}
		var v row.Row
		for {
			status, err := r.Next(&v)
			if err != nil {
				t.Fatal(err)
			}
			if status == stream.ReadEnd {
				break
			}
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func BenchmarkFlights(b *testing.B) {
	content, err := os.ReadFile(flightsPath)
	if err != nil {
		b.Fatal(err)
	}
	lines := slices.Collect(strings.Lines(string(content)))
	jsonl := &strings.Builder{}
	for _, l := range lines[1:] {
		f := strings.Split(strings.TrimSpace(l), ",")
		fmt.Fprintf(jsonl, `{"date":%q,"delay":%s,"distance":%s,"origin":%q,"destination":%q}`+"\n", f[0], f[1], f[2], f[3], f[4])
	}
	for _, c := range []struct {
		format  Format
		content string
	}{{CSV, string(content)}, {JSONL, jsonl.String()}} {
		b.Run(string(c.format), func(b *testing.B) {
			fsys := memory(b, "f", c.content)
			s := newSource(b, Config{Path: "f", Format: c.format, Schema: flights})
			splits := discover(b, s, fsys)
			b.ReportAllocs()
			for b.Loop() {
				drain(b, s, fsys, splits)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/20000, "ns/row")
		})
	}
}
