package stream_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"cutwater/messages"
	"cutwater/stream"
	"cutwater/stream/operator"
)

func sinkProgram(t testing.TB, src *listSource, sink stream.Sink[ev]) *stream.Program {
	t.Helper()
	b := stream.New("sinks")
	stream.To(stream.From(b, "in", src), "out", sink)
	p, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func fiveRecords() *listSource {
	return &listSource{splits: [][]ev{{{"a", 1, 1}, {"b", 2, 2}, {"c", 3, 3}, {"d", 4, 4}, {"e", 5, 5}}}}
}

// records lets the source emit so many records.
func (d *driver) records(t *testing.T, n uint64) {
	t.Helper()
	d.budget = 1
	for until := d.read + n; d.read < until; {
		d.settle()
		if _, err := d.turn(); err != nil {
			t.Fatal(err)
		}
	}
	d.drain()
	d.settle()
}

// What an aborted checkpoint prepared is committed with the next one that
// completes, in the order of checkpoints, and not before.
func TestSinkCommitsInOrderAfterCompletion(t *testing.T) {
	sink := newMemorySink[ev]()
	d := newDriver(t, sinkProgram(t, fiveRecords(), sink), nil, []string{"in", "out"})
	d.records(t, 1)
	for id := uint64(1); id <= 3; id++ {
		if _, err := d.checkpoint(id, false); err != nil {
			t.Fatal(err)
		}
		d.settle()
		if len(sink.committed) != 0 {
			t.Fatalf("committed before completion: %v", sink.committed)
		}
		if d.quiescent() {
			t.Error("quiescent with committables outstanding")
		}
		if id == 1 {
			d.tasks[0].chain.Operators[1].Aborted(1)
		}
		d.records(t, 1)
	}
	sink.log = nil
	if err := d.complete(2); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(sink.log, ", "); got != "commit 1, commit 2" {
		t.Errorf("after completion of 2: %s", got)
	}
	if err := d.complete(2); err != nil || len(sink.log) != 2 {
		t.Errorf("a repeated notification: %v %v", sink.log, err)
	}
	if err := d.complete(3); err != nil || len(sink.committed) < 3 {
		t.Errorf("after completion of 3: %v, %v", sink.committed, err)
	}
}

// After a restore the committables of the checkpoint are committed, again if
// need be, before a record is taken; Start comes first and sees them all.
func TestSinkCommitsRestoredFirst(t *testing.T) {
	sink := newMemorySink[ev]()
	p := sinkProgram(t, fiveRecords(), sink)
	chain := []string{"in", "out"}
	d := newDriver(t, p, nil, chain)
	d.records(t, 2)
	s, err := d.checkpoint(1, false)
	if err != nil {
		t.Fatal(err)
	}
	d.close()
	sink.log = nil
	d = newDriver(t, p, s, chain)
	if busy, err := d.turn(); busy || err != nil {
		t.Errorf("a record before the restored commits: busy %v, %v", busy, err)
	}
	if err := d.run(); err != nil {
		t.Fatal(err)
	}
	if _, err := d.checkpoint(2, true); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(sink.log, ", "); got != "start 1, commit 1, prepare 2, commit 2" {
		t.Errorf("order: %s", got)
	}
	if len(sink.committed) != 5 || !d.quiescent() {
		t.Errorf("committed %v", sink.committed)
	}
}

// orderedSink notes the order in which the committables of each writer are committed.
type orderedSink struct {
	*memorySink[ev]
	of map[uint32][]uint64
}

func (s *orderedSink) Commit(_ context.Context, _ stream.SinkContext, c *messages.Committable) error {
	s.of[c.Subtask] = append(s.of[c.Subtask], c.Checkpoint)
	return nil
}

// What one writer prepared for several checkpoints is committed in their order after a
// restore too, whichever subtask is the faster one.
func TestSinkCommitsRestoredOfOneWriterInOrder(t *testing.T) {
	sink := &orderedSink{newMemorySink[ev](), map[uint32][]uint64{}}
	p := sinkProgram(t, fiveRecords(), sink)
	list := &messages.OperatorList{Name: "committables", Mode: messages.RedistributionMode_UNION}
	for writer := range uint32(3) {
		for checkpoint := uint64(5); checkpoint <= 7; checkpoint++ {
			item, err := proto.Marshal(&messages.Committable{Checkpoint: checkpoint, Uid: "out", Subtask: writer})
			if err != nil {
				t.Fatal(err)
			}
			list.Items = append(list.Items, item)
		}
	}
	const parallelism = 2
	for subtask := parallelism - 1; subtask >= 0; subtask-- {
		chain, err := p.NewChain([]string{"out"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		d := &driver{t: t}
		err = chain.Operators[0].Open(&operator.Context{
			Subtask: subtask, Parallelism: parallelism, Yield: &operator.Yield{},
			Restored: &messages.OperatorRestore{Uid: "out", Lists: []*messages.OperatorList{list}}, RestoredCheckpoint: 7,
			Async: func(work func(context.Context) error, done func(error)) {
				d.works = append(d.works, testWork{work, done})
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		d.settle()
	}
	for writer := range uint32(3) {
		if got := fmt.Sprint(sink.of[writer]); got != "[5 6 7]" {
			t.Errorf("of writer %d was committed: %s", writer, got)
		}
	}
}

// sweepingSink is a memorySink that leaves something behind.
type sweepingSink[T any] struct {
	*memorySink[T]
	err error
}

func (s *sweepingSink[T]) Sweep(_ context.Context, c stream.SinkContext, restored []*messages.Committable) error {
	s.log = append(s.log, fmt.Sprintf("sweep %d", len(restored)))
	return s.err
}

// What earlier attempts left is swept once, behind the first checkpoint of this one
// that completes: before that another attempt may need it. That it fails is an event.
func TestSinkSweepsBehindTheFirstCheckpoint(t *testing.T) {
	sink := &sweepingSink[ev]{newMemorySink[ev](), errors.New("no rights")}
	p := sinkProgram(t, fiveRecords(), sink)
	chain := []string{"in", "out"}
	d := newDriver(t, p, nil, chain)
	d.records(t, 2)
	s, err := d.checkpoint(1, false)
	if err != nil {
		t.Fatal(err)
	}
	d.close()
	sink.log = nil
	d = newDriver(t, p, s, chain)
	if err := d.run(); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(sink.log, ", "); strings.Contains(got, "sweep") {
		t.Errorf("before a checkpoint: %s", got)
	}
	for checkpoint := uint64(2); checkpoint <= 3; checkpoint++ {
		if _, err := d.checkpoint(checkpoint, true); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Join(sink.log, ", "); got != "start 1, commit 1, prepare 2, commit 2, sweep 1" {
		t.Errorf("order: %s", got)
	}
	if got := strings.Join(d.events, ", "); got != "sweep-failed no rights" || !d.quiescent() {
		t.Errorf("events %q", got)
	}
}

// sinkOf returns the operator of a sink.
func (d *driver) sinkOf(uid string) operator.Operator {
	for _, o := range d.byUid[uid].chain.Operators {
		if o.Uid() == uid {
			return o
		}
	}
	d.t.Fatalf("there is no operator %q", uid)
	return nil
}

// The asynchronous part of an aborted checkpoint may end after a newer one has
// completed. Its group is committed then: no other notification may come, and the
// task would wait for it for ever.
func TestSinkCommitsWhenPrepareEndsAfterCompletion(t *testing.T) {
	sink := newMemorySink[ev]()
	d := newDriver(t, sinkProgram(t, fiveRecords(), sink), nil)
	d.records(t, 2)
	if err := d.run(); err != nil {
		t.Fatal(err)
	}
	slow, err := d.sinkOf("out").Snapshot(operator.SnapshotRequest{Checkpoint: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := slow.Work(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := d.checkpoint(2, true); err != nil {
		t.Fatal(err)
	}
	if len(sink.committed) != 0 {
		t.Fatalf("committed %v while checkpoint 1 is in work", sink.committed)
	}
	slow.Done(nil)
	d.settle()
	if len(sink.committed) != 5 || !d.quiescent() {
		t.Errorf("committed %v, quiescent %v", sink.committed, d.quiescent())
	}
}

// A checkpoint that completes while Start runs does not let commits overtake it.
func TestSinkCommitsNothingBeforeStart(t *testing.T) {
	sink := newMemorySink[ev]()
	p := sinkProgram(t, fiveRecords(), sink)
	chain := []string{"in", "out"}
	d := newDriver(t, p, nil, chain)
	d.records(t, 2)
	s, err := d.checkpoint(1, false)
	if err != nil {
		t.Fatal(err)
	}
	d.close()
	sink.log = nil
	d = newDriver(t, p, s, chain)
	if err := d.sinkOf("out").Complete(2); err != nil {
		t.Fatal(err)
	}
	if d.tasks[0].yield.Held != 1 || len(d.works) != 1 {
		t.Errorf("before Start has ended: held %d, %d pieces of work", d.tasks[0].yield.Held, len(d.works))
	}
	d.settle()
	if got := strings.Join(sink.log, ", "); got != "start 1, commit 1" || d.tasks[0].yield.Held != 0 {
		t.Errorf("order: %s; held %d", got, d.tasks[0].yield.Held)
	}
}

// Committables of a checkpoint after the restored one are aborted.
func TestSinkAbortsLaterCommittables(t *testing.T) {
	sink := newMemorySink[ev]()
	p := sinkProgram(t, fiveRecords(), sink)
	d := newDriver(t, p, nil)
	d.records(t, 3)
	s, err := d.checkpoint(5, false)
	if err != nil {
		t.Fatal(err)
	}
	s.checkpoint = 4
	sink.log = nil
	d = newDriver(t, p, s)
	d.settle()
	if got := strings.Join(sink.log, ", "); got != "start 1, abort 5" {
		t.Errorf("got %s", got)
	}
}

// A commit that fails is tried again after growing delays; one that keeps
// failing fails the task.
func TestSinkRetriesCommits(t *testing.T) {
	sink := newMemorySink[ev]()
	d := newDriver(t, sinkProgram(t, fiveRecords(), sink), nil)
	d.records(t, 5)
	sink.failures = 2
	if _, err := d.checkpoint(1, true); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		ms   int64
		done bool
	}{{99, false}, {1, false}, {199, false}, {1, true}} {
		d.advance(step.ms)
		d.settle()
		if done := len(sink.committed) > 0; done != step.done {
			t.Errorf("at %d ms: committed %v", d.now, sink.committed)
		}
	}
	d = newDriver(t, sinkProgram(t, fiveRecords(), sink), nil)
	d.records(t, 5)
	sink.failures = 1000
	if _, err := d.checkpoint(1, true); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		d.advance(60_000)
		d.settle()
	}
	checkUserError(t, d.failed, "out", "committing checkpoint 1 failed 8 times, last: target is away", false)
}

// A sink whose flush is behind holds its chain; the flush and the prepare that
// follows it run in order wherever they are run.
func TestSinkHoldsWhileFlushIsBehind(t *testing.T) {
	sink := newMemorySink[ev]()
	sink.recordBytes = 64 << 10
	src := &listSource{splits: [][]ev{make([]ev, 20)}}
	d := newDriver(t, sinkProgram(t, src, sink), nil, []string{"in", "out"})
	for d.read == 0 {
		d.settle()
		if _, err := d.turn(); err != nil {
			t.Fatal(err)
		}
	}
	if d.tasks[0].yield.Held != 1 || d.read == 0 {
		t.Fatalf("held %d after %d records", d.tasks[0].yield.Held, d.read)
	}
	if busy, _ := d.turn(); busy {
		t.Error("a held chain took records")
	}
	sink.log = nil
	if _, err := d.checkpoint(1, false); err != nil { // its work runs before the flush was run
		t.Fatal(err)
	}
	if got := strings.Join(sink.log, ", "); got != "flush 1, prepare 1" {
		t.Errorf("order: %s", got)
	}
	if err := d.run(); err != nil {
		t.Fatal(err)
	}
	if _, err := d.checkpoint(2, true); err != nil || len(sink.committed) != 20 {
		t.Errorf("committed %d of 20, %v", len(sink.committed), err)
	}
}

type promptSink struct{ *memorySink[ev] }

type promptWriter struct{ memoryWriter[ev] }

func (w *promptWriter) FlushAfterMs() int64 { return 10 }

func (s promptSink) NewWriter(stream.SinkContext) (stream.SinkWriter[ev], error) {
	return &promptWriter{memoryWriter[ev]{sink: s.memorySink}}, nil
}

// A prompt writer does not keep a single record back until a checkpoint, and has
// one flush due however many records come.
func TestSinkFlushesPromptWriters(t *testing.T) {
	sink := promptSink{newMemorySink[ev]()}
	sink.recordBytes = 1
	b := stream.New("sinks")
	stream.To(stream.From(b, "in", fiveRecords()), "out", sink)
	p, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	d := newDriver(t, p, nil, []string{"in", "out"})
	d.records(t, 2)
	sink.log = nil
	d.advance(9)
	d.settle()
	if len(sink.log) != 0 {
		t.Errorf("flushed before it was due: %v", sink.log)
	}
	d.advance(1)
	d.settle()
	d.records(t, 1)
	d.advance(10)
	d.settle()
	if got := strings.Join(sink.log, ", "); got != "flush 2, flush 1" {
		t.Errorf("log: %s", got)
	}
}

type failingSink struct{ *memorySink[ev] }

type failingWriter struct{ memoryWriter[ev] }

func (w *failingWriter) Prepare(uint64) func(context.Context) ([]*messages.Committable, error) {
	return func(context.Context) ([]*messages.Committable, error) { return nil, errors.New("disk full") }
}

func (s failingSink) NewWriter(stream.SinkContext) (stream.SinkWriter[ev], error) {
	return &failingWriter{memoryWriter[ev]{sink: s.memorySink}}, nil
}

// A prepare that fails has lost records: the task must be restored, declining
// the checkpoint is not enough.
func TestSinkPrepareFailureFailsTheTask(t *testing.T) {
	b := stream.New("sinks")
	stream.To(stream.From(b, "in", fiveRecords()), "out", failingSink{newMemorySink[ev]()})
	p, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	d := newDriver(t, p, nil)
	if err := d.run(); err != nil {
		t.Fatal(err)
	}
	if _, err := d.checkpoint(1, true); !errors.Is(err, operator.ErrTask) {
		t.Errorf("got %v, want ErrTask", err)
	}
	if d.failed == nil {
		t.Error("the task was not failed")
	}
}
