package stream_test

import (
	"fmt"
	"slices"
	"sort"
	"testing"
	"time"

	"pgregory.net/rapid"

	"cutwater/stream"
)

func windowProgram(t testing.TB, src *listSource, sink *memorySink[total], late *memorySink[ev], w stream.Windows, outOfOrder time.Duration, opts ...stream.Option) *stream.Program {
	t.Helper()
	b := stream.New("windows")
	in := stream.From(b, "in", src, stream.EventTime(msOf, outOfOrder))
	sum := stream.Window(stream.KeyBy(in, keyOf), "sum", w, newSumming, opts...)
	stream.To(sum, "out", sink)
	stream.To(stream.SideOf(sum, stream.Late[ev]()), "late", late)
	p, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// naive computes what windows hold when every record is in time.
func naive(records []ev, size, slide int64) []string {
	all := map[total]*total{}
	for _, r := range records {
		for start := floor(r.Ms, slide); start > r.Ms-size; start -= slide {
			k := total{Key: r.Key, StartMs: start, EndMs: start + size}
			if all[k] == nil {
				c := k
				all[k] = &c
			}
			all[k].Count++
			all[k].Value += r.Value
		}
	}
	var out []string
	for _, v := range all {
		out = append(out, fmt.Sprint(*v))
	}
	sort.Strings(out)
	return out
}

func floor(v, step int64) int64 {
	m := v % step
	if m < 0 {
		m += step
	}
	return v - m
}

// A tumbling window counts each key's records once and fires in the order of
// time; the result carries the window.
func TestTumblingWindow(t *testing.T) {
	src := &listSource{splits: [][]ev{{{"a", 1, 1}, {"b", 5, 2}, {"a", 9, 3}, {"a", 10, 4}, {"b", 25, 5}}}}
	sink, late := newMemorySink[total](), newMemorySink[ev]()
	d := newDriver(t, windowProgram(t, src, sink, late, stream.Tumbling(10*time.Millisecond), 0), nil)
	if err := d.run(); err != nil {
		t.Fatal(err)
	}
	if _, err := d.checkpoint(1, true); err != nil {
		t.Fatal(err)
	}
	got := slices.Clone(sink.committed)
	sort.Strings(got)
	want := []string{"{a 0 10 2 4}", "{a 10 20 1 4}", "{b 0 10 1 2}", "{b 20 30 1 5}"}
	if !slices.Equal(got, want) || len(late.committed) > 0 {
		t.Fatalf("got %v late %v, want %v", got, late.committed, want)
	}
	if !d.quiescent() {
		t.Error("something is outstanding after the last checkpoint")
	}
	d.close()
	if src.opened != 0 {
		t.Errorf("%d readers left open", src.opened)
	}
}

// Windows over out-of-order input equal a naive model, tumbling and sliding,
// with and without gaps, cut by checkpoints and restores at random points, with
// any turn length.
func TestWindowsEqualModel(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		size := rapid.Int64Range(1, 40).Draw(r, "size")
		slide := rapid.Int64Range(1, 40).Draw(r, "slide")
		disorder := rapid.Int64Range(0, 30).Draw(r, "disorder")
		now := rapid.Int64Range(-100, 100).Draw(r, "start")
		var records []ev
		for i := range rapid.IntRange(0, 60).Draw(r, "records") {
			now += rapid.Int64Range(0, 20).Draw(r, "step")
			records = append(records, ev{rapid.SampledFrom([]string{"a", "b", "c"}).Draw(r, "key"), now - rapid.Int64Range(0, disorder).Draw(r, "back"), int64(i)})
		}
		cut := rapid.IntRange(0, len(records)).Draw(r, "cut")
		src := &listSource{splits: [][]ev{records[:cut], records[cut:]}}
		sink, late := newMemorySink[total](), newMemorySink[ev]()
		w := stream.Sliding(time.Duration(size)*time.Millisecond, time.Duration(slide)*time.Millisecond)
		p := windowProgram(t, src, sink, late, w, time.Duration(disorder)*time.Millisecond)
		d := newDriver(t, p, nil)
		d.budget = rapid.IntRange(1, 7).Draw(r, "budget")
		for id := range uint64(rapid.IntRange(0, 5).Draw(r, "checkpoints")) {
			for range rapid.IntRange(0, 6).Draw(r, "turns") {
				d.settle()
				if _, err := d.turn(); err != nil {
					t.Fatal(err)
				}
			}
			complete := rapid.Bool().Draw(r, "notified")
			s, err := d.checkpoint(id+1, complete)
			if err != nil {
				t.Fatal(err)
			}
			if rapid.Bool().Draw(r, "crash") {
				budget := d.budget
				d.settle()
				d.close()
				d = newDriver(t, p, s)
				d.budget = budget
			}
		}
		if err := d.run(); err != nil {
			t.Fatal(err)
		}
		if _, err := d.checkpoint(100, true); err != nil {
			t.Fatal(err)
		}
		got := slices.Clone(sink.committed)
		sort.Strings(got)
		if want := naive(records, size, slide); !slices.Equal(got, want) {
			r.Fatalf("got\n%v\nwant\n%v", got, want)
		}
		if len(late.committed) > 0 {
			r.Fatalf("late: %v", late.committed)
		}
		d.close()
	})
}

// A late record goes to the side output; within the allowed lateness it makes
// its window fire again; what was late before a restore is late after it.
func TestLateRecords(t *testing.T) {
	records := []ev{{"a", 1, 1}, {"a", 30, 2}, {"a", 2, 3}, {"a", 60, 4}, {"a", 3, 5}, {"a", 33, 6}}
	run := func(restoreAt int, opts ...stream.Option) (out, late []string) {
		sink, lateSink := newMemorySink[total](), newMemorySink[ev]()
		src := &listSource{splits: [][]ev{records}}
		p := windowProgram(t, src, sink, lateSink, stream.Tumbling(10*time.Millisecond), 0, opts...)
		d := newDriver(t, p, nil)
		d.budget = 1 // the watermark moves after every record
		for range restoreAt {
			d.settle()
			if _, err := d.turn(); err != nil {
				t.Fatal(err)
			}
		}
		s, err := d.checkpoint(1, false)
		if err != nil {
			t.Fatal(err)
		}
		d.close()
		d = newDriver(t, p, s)
		d.budget = 1
		if err := d.run(); err != nil {
			t.Fatal(err)
		}
		if _, err := d.checkpoint(2, true); err != nil {
			t.Fatal(err)
		}
		return sink.committed, lateSink.committed
	}
	for at := range 12 {
		out, late := run(at)
		if want := []string{"{a 0 10 1 1}", "{a 30 40 1 2}", "{a 60 70 1 4}"}; !slices.Equal(out, want) {
			t.Errorf("restored after turn %d: got %v, want %v", at, out, want)
		}
		if want := []string{"{a 2 3}", "{a 3 5}", "{a 33 6}"}; !slices.Equal(late, want) {
			t.Errorf("restored after turn %d: late %v, want %v", at, late, want)
		}
		out, late = run(at, stream.AllowedLateness(30*time.Millisecond))
		if want := []string{"{a 0 10 1 1}", "{a 0 10 2 4}", "{a 30 40 1 2}", "{a 30 40 2 8}", "{a 60 70 1 4}"}; !slices.Equal(out, want) {
			t.Errorf("with lateness, restored after turn %d: got %v, want %v", at, out, want)
		}
		if want := []string{"{a 3 5}"}; !slices.Equal(late, want) {
			t.Errorf("with lateness, restored after turn %d: late %v, want %v", at, late, want)
		}
	}
}
