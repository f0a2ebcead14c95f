package main

import (
	"errors"

	"cutwater/state"
	"cutwater/stream"
	"cutwater/stream/row"
)

// worstFlights is the operator worst-flight: for each origin and day, the flight
// with the largest delay. Aggregates know the largest delay, but not which flight
// had it.
var worstFlights = stream.RowProcess{Keyed: newWorst, Output: worstOutput}

// worstOutput declares what the operator emits.
func worstOutput(_, key *row.Schema) (*row.Schema, error) {
	if key == nil || len(key.Fields) != 1 || key.Fields[0].Kind != row.String {
		return nil, errors.New("it takes one field of text as the key, the airport")
	}
	return &row.Schema{Fields: []row.Field{
		key.Fields[0],
		{Name: "day", Kind: row.Timestamp},
		{Name: "departure", Kind: row.Timestamp},
		{Name: "destination", Kind: row.String},
		{Name: "delay", Kind: row.Int},
	}}, nil
}

// newWorst makes the operator of one subtask. It is also called when the topology
// is checked: its error is what lint reports.
func newWorst(in, _, out *row.Schema) (stream.Processor[row.Row, row.Row, row.Row], error) {
	delay, err := in.Field("delay", row.Int)
	if err != nil {
		return nil, err
	}
	destination, err := in.Field("destination", row.String)
	if err != nil {
		return nil, err
	}
	return &worst{delay: delay, destination: destination, row: row.NewBuilder(len(out.Fields))}, nil
}

// worst keeps the worst flight of each day that has not ended.
type worst struct {
	delay, destination int // fields of the input
	days               *state.Map[int64, flight]
	row                *row.Builder
}

// flight is what is kept; the codec of a struct is found by itself.
type flight struct {
	DepartureMs int64
	Delay       int64
	Destination string
}

const dayMs = 24 * 60 * 60 * 1000

// Open declares the state: per origin, a flight per day.
func (w *worst) Open(s *stream.States) {
	w.days = stream.MapState[int64, flight](s, "days")
}

// Process keeps the flight if it is worse, and asks to be called at the day's end.
func (w *worst) Process(c *stream.Context[row.Row, row.Row], r row.Row) error {
	day := c.TimestampMs() - c.TimestampMs()%dayMs
	end := day + dayMs - 1
	if end <= c.WatermarkMs() || r.IsNull(w.delay) {
		return nil // its day was emitted, or nobody knows
	}
	f := flight{c.TimestampMs(), r.Int(w.delay), r.String(w.destination)}
	if known, ok := w.days.Get(day); !ok || f.worse(&known) {
		w.days.Put(day, f)
	}
	c.SetEventTimer(end)
	return nil
}

// worse is an order without ties, so that the result does not depend on the order
// in which flights come.
func (f *flight) worse(than *flight) bool {
	switch {
	case f.Delay != than.Delay:
		return f.Delay > than.Delay
	case f.DepartureMs != than.DepartureMs:
		return f.DepartureMs < than.DepartureMs
	}
	return f.Destination < than.Destination
}

// OnTimer emits the day that has ended and forgets it.
func (w *worst) OnTimer(c *stream.Context[row.Row, row.Row], t stream.Timer) error {
	day := t.TimestampMs + 1 - dayMs
	f, ok := w.days.Get(day)
	if !ok {
		return nil
	}
	w.days.Remove(day)
	origin := c.Key()
	w.row.Reset()
	w.row.String(0, origin.String(0))
	w.row.Ms(1, day)
	w.row.Ms(2, f.DepartureMs)
	w.row.String(3, f.Destination)
	w.row.Int(4, f.Delay)
	c.Emit(w.row.Row())
	return nil
}
