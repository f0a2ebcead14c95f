package stream

import (
	"fmt"
	"math"
	"time"
)

// Interval is a window: the half-open range [StartMs, EndMs) of event time, in
// Unix ms. It is zero for an aggregate that is not windowed.
type Interval struct{ StartMs, EndMs int64 }

// Windows assigns records to windows of event time: Tumbling or Sliding.
type Windows struct {
	sizeMs, slideMs, offsetMs int64
}

// Tumbling makes windows that follow each other without a gap, aligned to the
// Unix epoch in UTC.
func Tumbling(size time.Duration) Windows {
	return Windows{sizeMs: size.Milliseconds(), slideMs: size.Milliseconds()}
}

// Sliding makes a window of that size every slide, aligned to the Unix epoch in
// UTC. What windows have in common is aggregated once, in panes of the greatest
// common divisor of size and slide; so choose one that divides the other.
func Sliding(size, slide time.Duration) Windows {
	return Windows{sizeMs: size.Milliseconds(), slideMs: slide.Milliseconds()}
}

// Offset shifts the windows' alignment, for example to a time zone: days that
// begin at 05:00 UTC are Tumbling(24h).Offset(5h).
func (w Windows) Offset(d time.Duration) Windows {
	w.offsetMs = d.Milliseconds()
	return w
}

// AllowedLateness keeps each window for that long after the watermark has passed
// its end: a record that comes meanwhile makes the window fire again with its
// new result. Later ones go to the side output Late.
func AllowedLateness(d time.Duration) Option {
	return func(o *options) {
		o.latenessMs, o.special = d.Milliseconds(), append(o.special, "AllowedLateness")
	}
}

// maxPanes bounds how many panes a window may have.
const maxPanes = 1 << 16

// problem says what is wrong with the definition, or nothing.
func (w Windows) problem() string {
	switch {
	case w.sizeMs <= 0:
		return "a window needs a size of at least 1 ms"
	case w.slideMs <= 0:
		return "a sliding window needs a slide of at least 1 ms"
	case w.sizeMs/w.paneMs() > maxPanes:
		return fmt.Sprintf("a window would be put together of %d parts of %d ms, the common divisor of its size and slide, and at most %d are possible; choose a longer slide that divides the size",
			w.sizeMs/w.paneMs(), w.paneMs(), maxPanes)
	}
	return ""
}

// paneMs is the size of the parts that windows share.
func (w Windows) paneMs() int64 {
	a, b := w.sizeMs, w.slideMs
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// floor is the largest start of a step at or before ts.
func (w Windows) floor(ts, step int64) int64 {
	m := (ts - w.offsetMs) % step
	if m < 0 {
		m += step
	}
	return ts - m
}

// covers reports whether ts can be in windows at all: the arithmetic must not
// overflow, and NoTimestamp is no time.
func (w Windows) covers(ts int64) bool {
	margin := 2*w.sizeMs + 2*w.slideMs + abs(w.offsetMs)
	return ts > math.MinInt64+margin && ts < math.MaxInt64-margin
}

func abs(v int64) int64 {
	if v < 0 {
		return -v
	}
	return v
}

// firstEnd is the end of the first window that holds the pane, and lastEnd that
// of the last. They are in this order unless the pane lies in a gap between
// windows, where slide is larger than size.
func (w Windows) firstEnd(pane int64) int64 {
	last := w.lastEnd(pane)
	return last - (last-pane-1)/w.slideMs*w.slideMs
}

func (w Windows) lastEnd(pane int64) int64 { return w.floor(pane, w.slideMs) + w.sizeMs }
