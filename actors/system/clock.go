package system

import "time"

// WallClock is the clock of a real process.
type WallClock struct{ start time.Time }

// NewWallClock makes one.
func NewWallClock() *WallClock { return &WallClock{start: time.Now()} }

// NowMs implements Clock.
func (c *WallClock) NowMs() int64 { return time.Now().UnixMilli() }

// MonotonicMs implements Clock.
func (c *WallClock) MonotonicMs() int64 { return time.Since(c.start).Milliseconds() }

// AfterMs implements Clock.
func (c *WallClock) AfterMs(delayMs int64, f func()) (stop func()) {
	t := time.AfterFunc(time.Duration(delayMs)*time.Millisecond, f)
	return func() { t.Stop() }
}
