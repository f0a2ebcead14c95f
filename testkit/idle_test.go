package testkit_test

import (
	"testing"
	"time"

	"cutwater/stream"
	"cutwater/testkit"
)

// A source that brings nothing holds the windows behind a union, unless it may be
// idle; its next record counts again, in the time of its own.
func TestIdleSource(t *testing.T) {
	j := testkit.NewJob(t, "idle")
	busy, quiet := testkit.NewFeed[timed](), testkit.NewFeed[timed]()
	a := stream.From(j.Topology, "busy", busy.Source(), stream.EventTime(timed.at, 0))
	b := stream.From(j.Topology, "quiet", quiet.Source(), stream.EventTime(timed.at, 0), stream.Idleness(20*time.Millisecond))
	probe, _ := testkit.Tap(j, stream.Union(a, b), "probe")
	j.Start()
	busy.Send(timed{"p0", 1, 100})
	probe.WaitWatermark(99) // although the other one has never brought anything
	quiet.Send(timed{"p1", 1, 5000})
	probe.WaitRecords(2)
	busy.Send(timed{"p0", 2, 4000})
	probe.WaitWatermark(3999)
	busy.End()
	probe.WaitWatermark(4999) // that of the other one, idle or not
	quiet.End()
	if j.Wait(); len(probe.Values()) != 3 {
		t.Errorf("%d records", len(probe.Values()))
	}
}
