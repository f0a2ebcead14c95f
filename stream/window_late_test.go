package stream_test

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"testing"
	"time"

	"pgregory.net/rapid"

	"cutwater/stream"
)

// lateModel says what a window operator of one key emits when the watermark is
// one below the largest timestamp after every record.
func lateModel(records []ev, size, slide, lateness int64) (out, late []string) {
	var accepted []ev
	mark := int64(math.MinInt64)
	gone := func(end int64) bool { return end-1+lateness <= mark }
	fire := func(start int64) {
		sum := total{Key: "a", StartMs: start, EndMs: start + size}
		for _, r := range accepted {
			if r.Ms >= start && r.Ms < start+size {
				sum.Count++
				sum.Value += r.Value
			}
		}
		if sum.Count > 0 {
			out = append(out, fmt.Sprint(sum))
		}
	}
	for _, r := range records {
		var starts []int64 // of the record's windows, latest first
		for s := floor(r.Ms, slide); s > r.Ms-size; s -= slide {
			starts = append(starts, s)
		}
		switch {
		case len(starts) == 0:
		case gone(starts[0] + size):
			late = append(late, fmt.Sprint(r))
		default:
			accepted = append(accepted, r)
			for _, s := range starts {
				if s+size-1 <= mark && !gone(s+size) {
					fire(s)
				}
			}
		}
		if next := r.Ms - 1; next > mark {
			for s := floor(-100, slide); s+size-1 <= next; s += slide {
				if s+size-1 > mark {
					fire(s)
				}
			}
			mark = next
		}
	}
	for s := floor(-100, slide); s <= 1000; s += slide {
		if s+size-1 > mark {
			fire(s)
		}
	}
	sort.Strings(out)
	sort.Strings(late)
	return out, late
}

// Late records and repeated firings equal a model, for windows with and without
// overlap and any allowed lateness.
func TestLateRecordsEqualModel(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		size, slide := rapid.Int64Range(1, 12).Draw(r, "size"), rapid.Int64Range(1, 12).Draw(r, "slide")
		lateness := rapid.Int64Range(0, 12).Draw(r, "lateness")
		var records []ev
		for i := range rapid.IntRange(1, 15).Draw(r, "records") {
			records = append(records, ev{"a", rapid.Int64Range(0, 40).Draw(r, "ms"), int64(i)})
		}
		sink, late := newMemorySink[total](), newMemorySink[ev]()
		w := stream.Sliding(time.Duration(size)*time.Millisecond, time.Duration(slide)*time.Millisecond)
		p := windowProgram(t, &listSource{splits: [][]ev{records}}, sink, late, w, 0, stream.AllowedLateness(time.Duration(lateness)*time.Millisecond))
		d := newDriver(t, p, nil)
		for range 2*len(records) + 10 {
			d.budget = 1
			d.settle()
			if _, err := d.turn(); err != nil {
				r.Fatal(err)
			}
			d.drain()
		}
		s, err := d.checkpoint(1, true)
		if err != nil {
			r.Fatal(err)
		}
		if s.entries != 0 {
			r.Fatalf("%d panes and timers are left after the end of event time", s.entries)
		}
		out, lates := slices.Clone(sink.committed), slices.Clone(late.committed)
		sort.Strings(out)
		sort.Strings(lates)
		wantOut, wantLate := lateModel(records, size, slide, lateness)
		if !slices.Equal(out, wantOut) || !slices.Equal(lates, wantLate) {
			r.Fatalf("got  %v late %v\nwant %v late %v", out, lates, wantOut, wantLate)
		}
	})
}
