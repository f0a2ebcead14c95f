package bench

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// threadTime is the processor time of the calling thread.
func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err)
	}
	return time.Duration(t.Nano())
}

// tries is how often a measurement that takes seconds is taken.
const tries = 5

// beside runs ours and a hand-written loop of the same work in turns, n records
// each time, and reports the medians of their processor time per record and of
// the ratio, which must not exceed most. Turns let both meet the same neighbours
// on a shared machine.
func beside(b *testing.B, n int, ours, byHand func(), most float64) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var a, h, r []float64
	ours()
	byHand()
	for range 21 {
		start := threadTime()
		ours()
		middle := threadTime()
		byHand()
		end := threadTime()
		a, h = append(a, float64(middle-start)/float64(n)), append(h, float64(end-middle)/float64(n))
		r = append(r, float64(middle-start)/float64(end-middle))
	}
	b.ReportMetric(0, "ns/op") // of no meaning here
	b.ReportMetric(median(a), "cpu-ns/record")
	b.ReportMetric(median(h), "hand-ns/record")
	hold(b, "x-hand", median(r), most)
}

// hold reports a figure and fails if it is above what it may be. Only ratios and
// counts are held: absolute times say more about the machine.
func hold(b *testing.B, unit string, got, most float64) {
	b.ReportMetric(got, unit)
	if got > most {
		b.Errorf("%.4g %s, at most %v is acceptable", got, unit, most)
	}
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}
