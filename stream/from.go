package stream

import (
	"fmt"
	"time"

	"cutwater/codec"
	"cutwater/messages"
)

// MalformedPolicy says what happens to a record that a source could not read.
type MalformedPolicy uint8

const (
	// Fail fails the task with the record's position: the default.
	Fail MalformedPolicy = iota
	// Skip leaves the record out; it is counted and reported as an event.
	Skip
	// SideOutput sends a MalformedRecord to the side output Malformed.
	SideOutput
)

// EventTime makes f the event time of the source's records, in Unix ms, and
// turns watermarks on: they trail the largest timestamp of each split by
// maxOutOfOrderness. Without it records have NoTimestamp, and event-time windows
// cannot be used. A record for which f returns NoTimestamp is malformed.
func EventTime[T any](f func(v T) int64, maxOutOfOrderness time.Duration) Option {
	return func(o *options) {
		o.eventTime, o.outOfOrderMs = f, maxOutOfOrderness.Milliseconds()
		o.special = append(o.special, "EventTime")
	}
}

// Idleness lets other inputs go on when a split has brought no record for d (at
// least 1 ms): its watermark does not hold them until its next record, which may be
// late then (Flink's WatermarkStrategy.withIdleness). It goes with EventTime.
// Without it a split that brings nothing holds event time for ever.
func Idleness(d time.Duration) Option {
	return func(o *options) { o.idlenessMs, o.special = d.Milliseconds(), append(o.special, "Idleness") }
}

// Rate limits the source to so many records per second for the whole job; each
// subtask has an equal share, also one that has no split to read.
func Rate(recordsPerSecond float64) Option {
	return func(o *options) { o.rate, o.special = recordsPerSecond, append(o.special, "Rate") }
}

// OnMalformed sets what happens to records that the source cannot read.
func OnMalformed(p MalformedPolicy) Option {
	return func(o *options) { o.malformed, o.special = p, append(o.special, "OnMalformed") }
}

// From reads a source. Its options are EventTime, Idleness, Rate and OnMalformed
// beside those that every operator has.
func From[T any](t *Topology, uid string, src Source[T], opts ...Option) Stream[T] {
	n := t.declare("source", uid, opts)
	t.takes(n, "EventTime", "Idleness", "Rate", "OnMalformed")
	n.source, n.bounded = src, src.Bounded()
	c := sourceConfig[T]{source: src, outOfOrderMs: n.options.outOfOrderMs, idlenessMs: n.options.idlenessMs, rate: n.options.rate,
		malformed: n.options.malformed}
	if n.options.eventTime != nil {
		f, ok := n.options.eventTime.(func(T) int64)
		if !ok {
			var zero T
			t.failf(n, "EventTime takes a %T, but the source reads %T", n.options.eventTime, zero)
		}
		c.eventTime = f
	}
	if n.options.rate < 0 {
		t.failf(n, "a rate of %v records per second is negative", n.options.rate)
	}
	if n.options.outOfOrderMs < 0 {
		t.failf(n, "a maximum out-of-orderness of %d ms is negative", n.options.outOfOrderMs)
	}
	if contains(n.options.special, "Idleness") {
		switch {
		case n.options.idlenessMs < 1:
			t.failf(n, "an idleness of %d ms is less than 1 ms", n.options.idlenessMs)
		case n.options.eventTime == nil:
			t.failf(n, "Idleness without EventTime changes nothing; there is no watermark that it could let go on")
		}
	}
	malformed := codec.Must(codec.Struct[MalformedRecord]())
	if n.options.malformed == SideOutput {
		n.sides = append(n.sides, side{"malformed", malformed})
	}
	result := output(t, n, src.Codec())
	n.build = func(c1 *chain, n *node) (*instance, error) {
		out, err := emitter(c1, n, "", result.codec)
		if err != nil {
			return nil, err
		}
		bad, err := emitter(c1, n, "malformed", malformed)
		if err != nil {
			return nil, err
		}
		s := newSourceOperator(newBase(c1, n), c, out, bad)
		return &instance{operator: s, source: s}, nil
	}
	return result
}

// record turns an error into what the side output carries.
func (e *MalformedError) record() MalformedRecord {
	return MalformedRecord{Where: e.Where, Offset: e.Offset, Line: e.Line, Problem: e.Problem, Raw: e.Raw}
}

// markGroups notes in each split whether its source has splits of other groups.
func markGroups(d *messages.SplitsDiscovered, uid string) error {
	seen := make(map[string]bool, len(d.Splits))
	several := false
	for _, s := range d.Splits {
		if s.Id == "" || seen[s.Id] {
			return fmt.Errorf("stream: source %q lists the split id %q twice or without a name; ids must be unique", uid, s.Id)
		}
		seen[s.Id] = true
		several = several || s.Group != d.Splits[0].Group
	}
	for _, s := range d.Splits {
		s.Unordered = several
	}
	return nil
}
