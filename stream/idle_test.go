package stream_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"cutwater/messages"
	"cutwater/storage/vfs"
	"cutwater/stream"
)

// growing is an unbounded source: its splits grow, and end when the test says so.
type growing struct {
	listSource
	ended []bool
}

func (g *growing) Bounded() bool { return false }

func (g *growing) Open(_ context.Context, _ vfs.FS, split *messages.Split) (stream.SplitReader[ev], error) {
	r := &growingReader{source: g, split: int(split.Payload[0])}
	if len(split.Position) > 0 {
		r.at = int(split.Position[0])<<8 | int(split.Position[1])
	}
	return r, nil
}

type growingReader struct {
	source    *growing
	split, at int
}

func (r *growingReader) Next(v *ev) (stream.ReadStatus, error) {
	if records := r.source.splits[r.split]; r.at < len(records) {
		*v = records[r.at]
		r.at++
		return stream.ReadRecord, nil
	}
	if r.source.ended[r.split] {
		return stream.ReadEnd, nil
	}
	return stream.ReadNothing, nil
}

func (r *growingReader) Position() []byte  { return []byte{byte(r.at >> 8), byte(r.at)} }
func (r *growingReader) BytesRead() uint64 { return uint64(r.at) }
func (r *growingReader) Close() error      { return nil }

func growingProgram(t testing.TB, g *growing, sink *memorySink[ev], opts ...stream.Option) *stream.Program {
	t.Helper()
	b := stream.New("idle")
	stream.To(stream.From[ev](b, "in", g, append(opts, stream.EventTime(msOf, 0))...), "out", sink)
	p, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// eventTime describes the source's watermark, after all work is done.
func (d *driver) eventTime() string {
	d.t.Helper()
	if err := d.run(); err != nil {
		d.t.Fatal(err)
	}
	s := "none"
	src := d.byUid["in"].chain.Source
	if ms, ok := src.CurrentWatermark(); ok {
		s = fmt.Sprint(ms)
	}
	if src.Idle() {
		s += " idle"
	}
	return s
}

// sees checks the watermark after so many ms.
func (d *driver) sees(afterMs int64, want string) {
	d.t.Helper()
	d.advance(afterMs)
	if got := d.eventTime(); got != want {
		d.t.Fatalf("at %d ms: event time %s, want %s", d.now, got, want)
	}
}

// A split that has brought nothing for as long as its idleness holds the others no
// more, and holds them again from its next record on; when all are idle so is the
// source, and its watermark is the highest of theirs.
func TestIdleness(t *testing.T) {
	g := &growing{listSource: listSource{splits: [][]ev{{{"a", 100, 1}}, {}}}, ended: make([]bool, 2)}
	d := newDriver(t, growingProgram(t, g, newMemorySink[ev](), stream.Idleness(50*time.Millisecond)), nil)
	d.sees(0, "none") // the second split may bring anything
	d.sees(49, "none")
	g.splits[0] = append(g.splits[0], ev{"a", 110, 1})
	d.sees(10, "109") // the second one is idle, the first one is not
	d.sees(49, "109")
	d.sees(1, "109 idle")
	g.splits[1] = append(g.splits[1], ev{"b", 90, 1})
	d.sees(10, "109") // the second one holds, but never goes back
	g.splits[1] = append(g.splits[1], ev{"b", 200, 1})
	d.sees(49, "199") // the first one is idle still
	g.splits[0] = append(g.splits[0], ev{"a", 150, 1})
	d.sees(10, "199") // and holds again
	d.sees(60, "199 idle")
	g.ended[0] = true
	d.sees(10, "199 idle")
	g.ended[1] = true
	d.sees(10, "9223372036854775807")
}

// Idle splits leave the highest watermark among them, whichever was idle first.
func TestIdleInAnyOrder(t *testing.T) {
	for first := range 2 {
		g := &growing{listSource: listSource{splits: [][]ev{{{"a", 100, 1}}, {{"b", 50, 1}}}}, ended: make([]bool, 2)}
		d := newDriver(t, growingProgram(t, g, newMemorySink[ev](), stream.Idleness(50*time.Millisecond)), nil)
		d.sees(0, "49")
		g.splits[1-first] = append(g.splits[1-first], ev{"c", 40, 1})
		d.sees(40, "49")
		d.sees(50, "99 idle")
	}
}

// A job that goes on from a checkpoint holds the watermark until a split has
// brought nothing for as long again.
func TestIdleRestored(t *testing.T) {
	g := &growing{listSource: listSource{splits: [][]ev{{{"a", 100, 1}}, {}}}, ended: make([]bool, 2)}
	p := growingProgram(t, g, newMemorySink[ev](), stream.Idleness(50*time.Millisecond))
	d := newDriver(t, p, nil)
	d.sees(0, "none")
	d.sees(60, "99 idle")
	s, err := d.checkpoint(1, false)
	if err != nil {
		t.Fatal(err)
	}
	d.close()
	g.splits[0] = append(g.splits[0], ev{"a", 120, 1})
	d = newDriver(t, p, s)
	d.now = 1000
	d.sees(0, "none")
	d.sees(49, "none")
	d.sees(1, "119 idle")
}

// A rate makes a split as quiet as one that has nothing.
func TestIdleByRate(t *testing.T) {
	src := &listSource{splits: [][]ev{{{"a", 10, 1}, {"a", 20, 1}, {"a", 30, 1}}}}
	d := newDriver(t, sourceProgram(t, src, newMemorySink[ev](), nil, stream.EventTime(msOf, 0), stream.Rate(1), stream.Idleness(300*time.Millisecond)), nil)
	d.sees(0, "none")
	d.sees(300, "none idle")
	d.sees(700, "9")
	d.sees(300, "9 idle")
	d.sees(700, "19")
}

// A quiet split does not slow the others down.
func TestQuietSplit(t *testing.T) {
	g := &growing{listSource: listSource{splits: [][]ev{{}, make([]ev, 1000)}}, ended: []bool{false, true}}
	d := newDriver(t, growingProgram(t, g, newMemorySink[ev]()), nil)
	d.sees(0, "none")
	if d.read != 1000 {
		t.Fatalf("%d records were read at once", d.read)
	}
}

// Build refuses what cannot work.
func TestIdlenessRefused(t *testing.T) {
	for want, opts := range map[string][]stream.Option{
		"Idleness without EventTime":    {stream.Idleness(time.Second)},
		"an idleness of 0 ms is less":   {stream.Idleness(0), stream.EventTime(msOf, 0)},
		"an idleness of -5 ms is less ": {stream.Idleness(-5 * time.Millisecond), stream.EventTime(msOf, 0)},
	} {
		b := stream.New("idle")
		stream.To(stream.From[ev](b, "in", fiveRecords(), opts...), "out", newMemorySink[ev]())
		if _, err := b.Build(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
