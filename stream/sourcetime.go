package stream

import "math"

// allowed reports whether the rate lets one more record pass, and counts it; if
// not, it arranges to be woken. What was not used for a second is forfeited.
func (o *sourceOperator[T]) allowed() bool {
	now := o.ctx.MonotonicMs() // a wall clock that is set back would stop the source until it has caught up
	perMs := o.config.rate / float64(max(o.ctx.Parallelism, 1)) / 1000
	if behind := float64(now-o.rateFromMs)*perMs - o.rateCount; behind > 1000*perMs+1 {
		o.rateFromMs, o.rateCount = now-1000, 0
	}
	if o.rateCount+1 > float64(now-o.rateFromMs)*perMs {
		o.wakeAt(o.ctx.NowMs() + o.rateFromMs + int64(math.Ceil((o.rateCount+1)/perMs)) - now)
		return false
	}
	o.rateCount++
	return true
}

// nothing notes that a split was asked for a record and had none. Time in which
// nobody asks, because an output has no room, makes no split idle: what came
// meanwhile is read first.
func (o *sourceOperator[T]) nothing(s *openSplit[T]) {
	if o.config.idlenessMs == 0 {
		return
	}
	now := o.ctx.MonotonicMs()
	if !s.quiet {
		s.quiet, s.quietFromMs = true, now
	}
	if left := s.quietFromMs + o.config.idlenessMs - now; left > 0 {
		o.wakeAt(o.ctx.NowMs() + left)
	}
}

// advance moves the watermark: the lowest of the splits', and held where it is
// while a split has none yet, while there is no split, or while splits of other
// groups, which may hold earlier records, can still be assigned. Idle splits do not
// count; once all are idle, it is the highest of theirs, whichever became it last,
// as with the channels of a task (protocol/watermark).
func (o *sourceOperator[T]) advance() {
	known := len(o.splits) > 0 && o.config.eventTime != nil
	low, high, some := int64(math.MaxInt64), int64(math.MinInt64), false
	o.idle = o.config.idlenessMs > 0 && len(o.splits) > 0
	for _, s := range o.splits {
		known = known && (!s.split.Unordered || o.noMore)
		if s.quiet && o.ctx.MonotonicMs()-s.quietFromMs >= o.config.idlenessMs {
			if s.split.HasMaxTimestamp {
				high, some = max(high, s.split.MaxTimestampMs), true
			}
			continue
		}
		o.idle = false
		known = known && s.split.HasMaxTimestamp
		low = min(low, s.split.MaxTimestampMs)
	}
	if o.idle {
		low, known = high, known && some
	}
	if !known {
		return
	}
	margin := o.config.outOfOrderMs + 1
	if low < math.MinInt64+margin {
		return
	}
	if w := low - margin; !o.hasWatermark || w > o.watermark {
		o.watermark, o.hasWatermark = w, true
	}
}

// CurrentWatermark implements operator.Source.
func (o *sourceOperator[T]) CurrentWatermark() (timestampMs int64, ok bool) {
	return o.watermark, o.hasWatermark
}

// Idle implements operator.Source.
func (o *sourceOperator[T]) Idle() bool { return o.idle }
