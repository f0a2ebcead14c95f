package stream_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"cutwater/stream"
	"cutwater/stream/operator"
)

func sourceProgram(t testing.TB, src *listSource, sink *memorySink[ev], bad *memorySink[stream.MalformedRecord], opts ...stream.Option) *stream.Program {
	t.Helper()
	b := stream.New("sources")
	in := stream.From(b, "in", src, opts...)
	stream.To(in, "out", sink)
	if bad != nil {
		stream.To(stream.SideOf(in, stream.Malformed()), "bad", bad)
	}
	p, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Malformed records fail the task, are skipped and reported, or go to the side
// output; what follows them is read.
func TestSourceMalformedPolicies(t *testing.T) {
	src := func() *listSource {
		return &listSource{bad: 7, splits: [][]ev{{{"a", 1, 1}, {"b", 2, 7}, {"c", 3, 3}}}}
	}
	err := newDriver(t, sourceProgram(t, src(), newMemorySink[ev](), nil), nil).run()
	checkUserError(t, err, "in", "list at byte 1: a bad value", false)
	if !errors.Is(err, stream.ErrNoRestart) {
		t.Errorf("a restart would mend %v", err)
	}

	sink := newMemorySink[ev]()
	d := newDriver(t, sourceProgram(t, src(), sink, nil, stream.OnMalformed(stream.Skip)), nil)
	if err := d.run(); err != nil {
		t.Fatal(err)
	}
	if _, err := d.checkpoint(1, true); err != nil || len(sink.committed) != 2 {
		t.Errorf("skip: %v %v", sink.committed, err)
	}
	if want := []string{"malformed list at byte 1: a bad value"}; !slices.Equal(d.events, want) {
		t.Errorf("events %v", d.events)
	}

	bad := newMemorySink[stream.MalformedRecord]()
	d = newDriver(t, sourceProgram(t, src(), newMemorySink[ev](), bad, stream.OnMalformed(stream.SideOutput)), nil)
	if err := d.run(); err != nil {
		t.Fatal(err)
	}
	if _, err := d.checkpoint(1, true); err != nil || !slices.Equal(bad.committed, []string{"{list 1 0 a bad value b}"}) {
		t.Errorf("side: %v %v", bad.committed, err)
	}
}

// A split that cannot be opened fails the task with the reason.
func TestSourceOpenFailure(t *testing.T) {
	src := fiveRecords()
	src.openErr = errors.New("file flights.csv is missing")
	checkUserError(t, newDriver(t, sourceProgram(t, src, newMemorySink[ev](), nil), nil).run(), "in", "file flights.csv is missing", false)
}

// marks are the watermarks of a source after each turn of one record.
func marks(t *testing.T, src *listSource, outOfOrder time.Duration) []string {
	t.Helper()
	d := newDriver(t, sourceProgram(t, src, newMemorySink[ev](), nil, stream.EventTime(msOf, outOfOrder)), nil)
	d.budget = 1
	var seen []string
	last := ""
	for range 40 {
		d.settle()
		if _, err := d.turn(); err != nil {
			t.Fatal(err)
		}
		at, ok := d.byUid["in"].chain.Source.CurrentWatermark()
		now := "none"
		if ok {
			now = fmt.Sprint(at)
		}
		if at == math.MaxInt64 {
			now = "end"
		}
		if now != last {
			seen = append(seen, now)
			last = now
		}
	}
	return seen
}

// The watermark trails the largest timestamp, never goes back, and with several
// groups of splits waits until no other group can be assigned.
func TestSourceWatermarks(t *testing.T) {
	splits := [][]ev{{{"a", 10, 1}, {"a", 8, 2}, {"a", 20, 3}}, {{"b", 15, 4}, {"b", 30, 5}}}
	if got, want := marks(t, &listSource{splits: splits}, 0), []string{"none", "9", "19", "29", "end"}; !slices.Equal(got, want) {
		t.Errorf("one group: %v, want %v", got, want)
	}
	if got, want := marks(t, &listSource{splits: splits}, 5*time.Millisecond), []string{"none", "4", "14", "24", "end"}; !slices.Equal(got, want) {
		t.Errorf("bounded out-of-orderness: %v, want %v", got, want)
	}
	if got, want := marks(t, &listSource{splits: splits, groups: []string{"x", "y"}}, 0), []string{"none", "end"}; !slices.Equal(got, want) {
		t.Errorf("two groups: %v, want %v", got, want)
	}
	d := newDriver(t, sourceProgram(t, &listSource{splits: splits}, newMemorySink[ev](), nil), nil)
	if err := d.run(); err != nil {
		t.Fatal(err)
	}
	if at, ok := d.byUid["in"].chain.Source.CurrentWatermark(); !ok || at != math.MaxInt64 {
		t.Errorf("without event time the end is %d, %v", at, ok)
	}
}

// A restored source has its positions and its watermark's splits back: every
// record is read once, wherever it was stopped.
func TestSourceRestoresPositions(t *testing.T) {
	for stop := range 12 {
		sink := newMemorySink[ev]()
		src := &listSource{splits: [][]ev{{{"a", 10, 1}, {"a", 20, 2}}, {{"b", 30, 3}}, {}, {{"c", 40, 4}, {"c", 50, 5}}}}
		p := sourceProgram(t, src, sink, nil, stream.EventTime(msOf, 0))
		d := newDriver(t, p, nil)
		d.budget = 1
		for range stop {
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
		if err := d.run(); err != nil {
			t.Fatal(err)
		}
		if _, err := d.checkpoint(2, true); err != nil {
			t.Fatal(err)
		}
		if want := []string{"{a 10 1}", "{a 20 2}", "{b 30 3}", "{c 40 4}", "{c 50 5}"}; !slices.Equal(sink.committed, want) {
			t.Errorf("stopped after %d: %v", stop, sink.committed)
		}
		d.close()
		if src.opened != 0 {
			t.Errorf("stopped after %d: %d readers left open", stop, src.opened)
		}
	}
}

// Rate lets an equal share of the job's records pass and asks to be woken.
func TestSourceRate(t *testing.T) {
	src := &listSource{splits: [][]ev{make([]ev, 100)}}
	d := newDriver(t, sourceProgram(t, src, newMemorySink[ev](), nil, stream.Rate(20)), nil)
	reader := d.byUid["in"].chain.Source
	for now := int64(0); now <= 3000; now += 10 {
		if now == 1000 {
			d.setMs = -3_600_000 // makes no difference
		}
		if err := d.run(); err != nil {
			t.Fatal(err)
		}
		d.advance(10)
	}
	snapshot, err := d.byUid["in"].chain.Operators[0].Snapshot(operator.SnapshotRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if got := len(snapshot.Lists[0].Items); got != 1 {
		t.Fatalf("%d splits", got)
	}
	if status, err := reader.Poll(); err != nil || status != operator.SourceWaiting {
		t.Errorf("status %v, %v", status, err)
	}
	if got := d.read; got < 58 || got > 61 {
		t.Errorf("%d records in 3 s at 20 per second", got)
	}
}
