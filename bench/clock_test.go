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

// beside runs ours and a hand-written loop of the same work in turns, n records
// each time, and reports the medians of their processor time per record and of
// the ratio. Turns let both meet the same neighbours on a shared machine.
func beside(b *testing.B, n int, ours, byHand func()) (ratio float64) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const turns = 21
	var a, h, r [turns]float64
	ours()
	byHand()
	for i := range turns {
		start := threadTime()
		ours()
		middle := threadTime()
		byHand()
		end := threadTime()
		a[i], h[i] = float64(middle-start)/float64(n), float64(end-middle)/float64(n)
		r[i] = a[i] / h[i]
	}
	slices.Sort(a[:])
	slices.Sort(h[:])
	slices.Sort(r[:])
	b.ReportMetric(0, "ns/op") // of no meaning here
	b.ReportMetric(a[turns/2], "cpu-ns/record")
	b.ReportMetric(h[turns/2], "hand-ns/record")
	b.ReportMetric(r[turns/2], "x-hand")
	return r[turns/2]
}
