package testkit_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cutwater/stream"
	"cutwater/testkit"
)

// A probe shows what passes while the job runs: records, event time, checkpoints;
// and the job ends when its feed does.
func TestProbe(t *testing.T) {
	j := testkit.NewJob(t, "probe")
	feed := testkit.NewFeed[timed]()
	in := stream.From(j.Topology, "in", feed.Source(), stream.EventTime(timed.at, 0))
	probe, out := testkit.Tap(j, in, "probe")
	after, _ := testkit.Tap(j, stream.Process(stream.KeyBy(out, whose), "gaps", func() *gaps { return &gaps{} }), "after")
	j.Start()
	feed.Send(clicks(3)...)
	if got := probe.WaitRecords(3); len(got) != 3 || got[2].TimestampMs != 20 || got[2].Value.Who != "p2" {
		t.Errorf("got %v", got)
	}
	first := probe.WaitCheckpoint()
	if second := probe.WaitCheckpoint(); second <= first {
		t.Errorf("checkpoint %d after %d", second, first)
	}
	feed.Send(timed{"p9", 1, 1000})
	probe.WaitWatermark(999)
	if got := after.WaitRecords(3); got[0].Value != `p0, "0" until 200` {
		t.Errorf("got %v", got)
	}
	feed.End()
	j.Wait()
	if got := after.Values(); len(got) != 4 {
		t.Errorf("%d records at the end: %v", len(got), got)
	}
}

// failing passes records on and fails once, after a checkpoint of some of them.
type failing struct{ failed *atomic.Bool }

func (f *failing) Process(c *stream.Context[stream.NoKey, timed], v timed) error {
	if v.N == 350 && !f.failed.Swap(true) {
		return fmt.Errorf("the failure of the test")
	}
	c.Emit(v)
	return nil
}

// A keyed processor with timers, and the probes around it, are exact after a
// failure, at both parallelisms and on both backends.
func TestProcessGrid(t *testing.T) {
	for _, parallelism := range []int{1, 2} {
		for _, backend := range []string{"heap", "bolt"} {
			t.Run(fmt.Sprint(backend, " x", parallelism), func(t *testing.T) {
				var failed atomic.Bool
				j := testkit.NewJob(t, "grid")
				j.Topology.Parallelism(parallelism)
				feed := testkit.NewFeed[timed]()
				in := stream.From(j.Topology, "in", feed.Source(), stream.EventTime(timed.at, 0), stream.Parallelism(1))
				probe, out := testkit.Tap(j, in, "probe", stream.Parallelism(1))
				out = stream.Transform(out, "failing", func() *failing { return &failing{&failed} }, stream.Parallelism(1))
				after, _ := testkit.Tap(j, stream.Process(stream.KeyBy(out, whose), "gaps", func() *gaps { return &gaps{} }), "after")
				j.Start("checkpointing: {interval: 20ms}", "state: {backend: "+backend+"}")
				all := clicks(400)
				feed.Send(all[:300]...)
				feed.Send(timed{"early", 5, 3000}, timed{"early", 6, 3001})
				probe.WaitRecords(302)
				checkpoint := probe.WaitCheckpoint() // holds the timers of all
				feed.Send(all[301:]...)
				feed.End()
				j.Wait()
				if !failed.Load() || checkpoint == 0 {
					t.Error("nothing has failed")
				}
				if n := len(probe.Records()); n != 302+99 {
					t.Errorf("the probe has %d records", n)
				}
				sums, last := map[string]int64{}, map[string]int64{}
				for _, c := range append(slices.Clone(all[:300]), all[301:]...) {
					sums[c.Who], last[c.Who] = sums[c.Who]+c.N, c.Ms+200
				}
				want := []string{`early, "11" until 3201`}
				for who, sum := range sums {
					want = append(want, fmt.Sprintf("%s, \"%d\" until %d", who, sum, last[who]))
				}
				got := after.Values()
				slices.Sort(got)
				slices.Sort(want)
				if !slices.Equal(got, want) {
					t.Errorf("got  %v\nwant %v", got, want)
				}
			})
		}
	}
}

// A wait that cannot end says what was waited for, what has come and how the job
// is.
func TestProbeErrors(t *testing.T) {
	job := func(tb testkit.TB, n int64) (*testkit.Job, *testkit.Probe[timed], *testkit.Feed[timed]) {
		j := testkit.NewJob(tb, "errors")
		feed := testkit.NewFeed[timed]()
		in := stream.From(j.Topology, "in", feed.Source(), stream.EventTime(timed.at, 0))
		refusing := stream.TryMap(in, "refusing", func() func(timed) (timed, bool, error) {
			return func(v timed) (timed, bool, error) {
				if v.N == n {
					return v, true, fmt.Errorf("record %d is refused", n)
				}
				return v, true, nil
			}
		})
		probe, _ := testkit.Tap(j, refusing, "probe")
		feed.Send(clicks(3)...)
		return j, probe, feed
	}
	for name, c := range map[string]struct {
		run  func(tb testkit.TB)
		want string
	}{
		"not started": {func(tb testkit.TB) {
			_, probe, _ := job(tb, -1)
			probe.WaitRecords(1)
		}, `testkit: a wait for 1 records at "probe", and the job was not started`},
		"timeout": {func(tb testkit.TB) {
			j, probe, _ := job(tb, -1)
			j.Start()
			defer j.Close()
			probe.WaitRecords(3)
			probe.WaitWatermark(19)
			j.Timeout = time.Millisecond
			probe.WaitRecords(4)
		}, `testkit: waited 1ms for 4 records at "probe"; 3 records have arrived, the last is {Who:p2 N:2 Ms:20}, the watermark is 19 ms, `},
		"failed": {func(tb testkit.TB) {
			j, probe, _ := job(tb, 2)
			j.Start("restart: {strategy: none}")
			defer j.Close()
			probe.WaitRecords(3)
		}, `testkit: waited for 3 records at "probe"; `},
		"not failed": {func(tb testkit.TB) {
			j, _, feed := job(tb, -1)
			j.Start()
			defer j.Close()
			feed.End()
			_ = j.WaitFailed()
		}, "testkit: the job ended as FINISHED, and a failure was wanted"},
		"not finished": {func(tb testkit.TB) {
			j, _, _ := job(tb, 2)
			j.Start("restart: {strategy: none}")
			defer j.Close()
			j.Wait()
		}, "record 2 is refused"},
		"settings": {func(tb testkit.TB) {
			j, _, _ := job(tb, -1)
			j.Start("stat: {}")
		}, `the job does not start: settings:1:1: error CW002: there is no key "stat"`},
		"twice": {func(tb testkit.TB) {
			j, _, _ := job(tb, -1)
			j.Start()
			defer j.Close()
			j.Start()
		}, "the job runs already"},
	} {
		if got := fails(c.run); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s\nwant %s", name, got, c.want)
		}
	}
	j, _, _ := job(t, 2)
	j.Start("restart: {strategy: none}")
	if err := j.WaitFailed(); err == nil || !strings.Contains(err.Error(), `operator "refusing" failed in task in-b05c01b1/0 on node local: record 2 is refused`) {
		t.Errorf("WaitFailed returned %v", err)
	}
}
