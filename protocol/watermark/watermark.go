// Package watermark merges the watermarks of a task's input channels into one.
//
// The merged watermark is the minimum over the active channels: those that are
// not idle and have not ended. It never goes back; a channel that returns from
// idleness with an older watermark holds it where it is until it has caught up.
// A channel that has not sent a watermark yet holds it too.
//
// When the last active channel turns idle, nothing is left that could hold event
// time, so the merged watermark goes to the largest that an idle channel has
// sent, as in Flink's StatusWatermarkValve; then the output is idle.
//
// A channel that ended holds nothing and promises nothing: event time ends, with
// [End], only once every channel has ended. [End] is a mark, and nothing is ever
// added to or subtracted from it.
package watermark

import (
	"fmt"
	"math"
)

// End is the timestamp, in ms, of the watermark that ends event time.
const End = math.MaxInt64

// Valve merges watermarks (Flink's StatusWatermarkValve). One task uses it, one
// call at a time. After each call the task compares OutputIdle with what it last
// told its outputs: a change to active is sent before the watermark, a change to
// idle after it.
type Valve struct {
	channels []channel
	// active is the number of channels that are neither idle nor ended, ended
	// the number that have ended.
	active, ended int
	// holders is the number of active channels at low, their minimum; channels
	// without a watermark are at the lowest there is.
	low     low
	holders int
	// out is the merged watermark, none before the first.
	out low
}

// low is a timestamp or, lower than all timestamps, none.
type low struct {
	timestampMs int64
	some        bool
}

func (l low) less(other low) bool {
	if l.some != other.some {
		return other.some
	}
	return l.some && l.timestampMs < other.timestampMs
}

type channel struct {
	at          low
	idle, ended bool
}

func (c *channel) active() bool { return !c.idle && !c.ended }

// New returns a valve for this many channels, all active and without a
// watermark. With none it never produces one.
func New(channels int) *Valve {
	v := &Valve{channels: make([]channel, channels), active: channels}
	v.findLow()
	return v
}

// Update takes a watermark of a channel and returns the merged watermark and
// whether it advanced. A watermark that is not above the channel's last one, or
// follows its end, changes nothing. That of an idle channel is kept until the
// channel is active again. A watermark of End ends the channel.
func (v *Valve) Update(ch uint32, timestampMs int64) (out int64, advanced bool) {
	c := &v.channels[ch]
	to := low{timestampMs, true}
	switch {
	case timestampMs == End:
		return v.End(ch)
	case c.ended || !c.at.less(to):
		return v.out.timestampMs, false
	}
	from := c.at
	c.at = to
	if c.active() {
		v.released(from)
	}
	return v.advance()
}

// Idle takes a channel out of the minimum, or back in. A channel that ended stays
// ended.
func (v *Valve) Idle(ch uint32, idle bool) (out int64, advanced bool) {
	c := &v.channels[ch]
	if c.ended || c.idle == idle {
		return v.out.timestampMs, false
	}
	c.idle = idle
	if idle {
		v.active--
		v.released(c.at)
	} else {
		v.active++
		v.findLow()
	}
	return v.advance()
}

// End says that no watermark follows on the channel. When all have ended, the
// merged watermark is End.
func (v *Valve) End(ch uint32) (out int64, advanced bool) {
	c := &v.channels[ch]
	if c.ended {
		return v.out.timestampMs, false
	}
	wasActive := c.active()
	c.ended = true
	v.ended++
	if wasActive {
		v.active--
		v.released(c.at)
	}
	return v.advance()
}

// Current returns the merged watermark and whether there is one yet.
func (v *Valve) Current() (timestampMs int64, ok bool) { return v.out.timestampMs, v.out.some }

// OutputIdle reports whether the output is idle: every channel is idle or ended,
// and not all have ended.
func (v *Valve) OutputIdle() bool { return v.active == 0 && v.ended < len(v.channels) }

// String describes the valve in one line.
func (v *Valve) String() string {
	s := "no watermark"
	switch {
	case v.out.some && v.out.timestampMs == End:
		s = "end of event time"
	case v.out.some:
		s = fmt.Sprintf("watermark %d", v.out.timestampMs)
	}
	if v.OutputIdle() {
		s += ", idle"
	}
	return fmt.Sprintf("%s (%d active, %d idle, %d ended)",
		s, v.active, len(v.channels)-v.active-v.ended, v.ended)
}

// released says that an active channel left this place in the minimum.
func (v *Valve) released(from low) {
	if from == v.low {
		v.holders--
	}
	if v.holders == 0 {
		v.findLow()
	}
}

// findLow computes the minimum over the active channels and who holds it.
func (v *Valve) findLow() {
	v.holders = 0
	for i := range v.channels {
		c := &v.channels[i]
		switch {
		case !c.active():
		case v.holders == 0 || c.at.less(v.low):
			v.low, v.holders = c.at, 1
		case c.at == v.low:
			v.holders++
		}
	}
}

// advance moves the merged watermark as far as the channels allow.
func (v *Valve) advance() (out int64, advanced bool) {
	to := v.low
	switch {
	case v.active > 0:
	case v.ended == len(v.channels):
		to = low{End, true}
	default:
		to = v.highestIdle()
	}
	if v.out.less(to) {
		v.out, advanced = to, true
	}
	return v.out.timestampMs, advanced
}

// highestIdle is the largest watermark that an idle channel has sent.
func (v *Valve) highestIdle() low {
	var high low
	for i := range v.channels {
		if c := &v.channels[i]; c.idle && !c.ended && high.less(c.at) {
			high = c.at
		}
	}
	return high
}
