package connectortest

import (
	"fmt"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"cutwater/messages"
	"cutwater/storage/vfs"
	"cutwater/stream"
)

// SinkHarness shows a sink to the suite.
type SinkHarness[T any] struct {
	// New returns a sink on the file system, as a restart does. A sink without
	// files must return sinks that share what is visible.
	New func(t *testing.T, fsys vfs.FS) stream.Sink[T]
	// Value is the i-th record.
	Value func(i int) T
	// Visible lists the numbers of the records that a reader of the target sees
	// now, in any order, as often as it sees each.
	Visible func(t *testing.T, fsys vfs.FS) []int
	// Volatile sinks keep their output nowhere: cases about crashes do not apply.
	Volatile bool
}

// SinkJob is the job of the suite.
const SinkJob = "0123456789abcdef0123456789abcdef"

// Sink is the conformance suite of stream.Sink: authors run it on theirs. It holds
// a sink to two-phase commit: nothing is visible before its commit, and however
// often a commit is repeated, cut or left unanswered, each record is visible once.
func Sink[T any](t *testing.T, h SinkHarness[T]) {
	cases := []struct {
		name    string
		durable bool
		run     func(t *testing.T, d *sinkDriver[T])
	}{
		{"rows are visible after their commit and not before", false, commitShows[T]},
		{"a commit that is repeated changes nothing", false, commitTwice[T]},
		{"many committables, committed late and in order", false, manyOutstanding[T]},
		{"a checkpoint without rows has nothing to commit, or commits nothing", false, emptyCheckpoint[T]},
		{"an aborted committable never shows", false, abortDrops[T]},
		{"a closed writer's rows never show", false, closeDrops[T]},
		{"subtasks do not meet", false, twoSubtasks[T]},
		{"committables survive being stored", false, storedCommittable[T]},
		{"a restart sweeps leftovers and spares what was restored", true, sweepSparesRestored[T]},
		{"a restart spares what its own writers have prepared", true, sweepSparesOwn[T]},
		{"a start takes nothing from another attempt", true, startTakesNothing[T]},
		{"prepared is durable: a crash takes nothing", true, preparedIsDurable[T]},
		{"a commit cut at any operation ends well when repeated", true, commitCutAnywhere[T]},
		{"a prepare that fails loses no row silently", true, prepareFails[T]},
		{"a commit of unknown outcome is repeated by the next incarnation", true, unknownOutcome[T]},
	}
	for _, c := range cases {
		if c.durable && h.Volatile {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			disk := vfs.Mem()
			d := &sinkDriver[T]{t: t, h: h, disk: disk, faulty: vfs.Faulty(disk, vfs.Plan{}), attempt: 1, incarnation: 1}
			d.restart()
			c.run(t, d)
		})
	}
}

// sinkDriver does what a task and its executor do with a sink.
type sinkDriver[T any] struct {
	t           *testing.T
	h           SinkHarness[T]
	disk        *vfs.MemFS
	faulty      *vfs.FaultyFS
	sink        stream.Sink[T]
	attempt     uint32
	incarnation uint64
}

func (d *sinkDriver[T]) context(subtask int) stream.SinkContext {
	return stream.SinkContext{
		Job: SinkJob, JobName: "suite", Incarnation: d.incarnation,
		Fence: &messages.Fence{Job: SinkJob, Epoch: 1, Attempt: d.attempt},
		Uid:   "out-put/1", Subtask: subtask, Parallelism: 2, FS: d.faulty,
	}
}

// restart begins an attempt that restored these committables.
func (d *sinkDriver[T]) restart(restored ...*messages.Committable) {
	d.t.Helper()
	d.attempt++
	d.sink = d.h.New(d.t, d.faulty)
	d.must(d.sink.Start(d.t.Context(), d.context(0), restored))
	d.sweep(restored...)
}

// sweep is what follows the first completion of an attempt.
func (d *sinkDriver[T]) sweep(restored ...*messages.Committable) {
	d.t.Helper()
	if s, ok := d.sink.(stream.Sweeper); ok {
		d.must(s.Sweep(d.t.Context(), d.context(0), restored))
	}
}

func (d *sinkDriver[T]) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

func (d *sinkDriver[T]) writer(subtask int) stream.SinkWriter[T] {
	d.t.Helper()
	w, err := d.sink.NewWriter(d.context(subtask))
	d.must(err)
	return w
}

// write takes the records from..to-1 and flushes in between, as a task does. A
// flush that fails is the writer's to remember.
func (d *sinkDriver[T]) write(w stream.SinkWriter[T], from, to int) {
	d.t.Helper()
	for i := from; i < to; i++ {
		d.must(w.Write(d.h.Value(i), int64(i)))
		if i%3 == 2 && w.Buffered() > 0 {
			_ = w.Flush()(d.t.Context())
		}
	}
}

func (d *sinkDriver[T]) prepare(w stream.SinkWriter[T], checkpoint uint64) []*messages.Committable {
	d.t.Helper()
	committables, err := w.Prepare(checkpoint)(d.t.Context())
	d.must(err)
	for _, c := range committables {
		if c.Job != SinkJob || c.Incarnation != d.incarnation || c.Checkpoint != checkpoint || c.Uid != "out-put/1" {
			d.t.Errorf("the key of the committable is %s, %d, %d, %q", c.Job, c.Incarnation, c.Checkpoint, c.Uid)
		}
	}
	return committables
}

func (d *sinkDriver[T]) commit(committables ...*messages.Committable) {
	d.t.Helper()
	for _, c := range committables {
		d.must(d.sink.Commit(d.t.Context(), d.context(0), c))
	}
}

// want checks that exactly the records 0..n-1 are visible, each once.
func (d *sinkDriver[T]) want(n int, when string) {
	d.t.Helper()
	got := slices.Sorted(slices.Values(d.h.Visible(d.t, d.disk)))
	want := make([]int, n)
	for i := range want {
		want[i] = i
	}
	if !slices.Equal(got, want) {
		d.t.Fatalf("%s: visible are the records %v, want 0 to %d", when, got, n-1)
	}
}

func commitShows[T any](t *testing.T, d *sinkDriver[T]) {
	w := d.writer(0)
	d.write(w, 0, 10)
	d.want(0, "after writing")
	c := d.prepare(w, 1)
	d.want(0, "after prepare")
	d.commit(c...)
	d.want(10, "after commit")
}

func commitTwice[T any](t *testing.T, d *sinkDriver[T]) {
	w := d.writer(0)
	d.write(w, 0, 10)
	c := d.prepare(w, 1)
	d.commit(c...)
	d.commit(c...)
	d.want(10, "after two commits")
	d.write(w, 10, 20)
	d.commit(d.prepare(w, 2)...)
	d.commit(c...)
	d.want(20, "after a late third one")
}

func manyOutstanding[T any](t *testing.T, d *sinkDriver[T]) {
	w := d.writer(0)
	var all []*messages.Committable
	for checkpoint := range 5 {
		d.write(w, checkpoint*7, checkpoint*7+7)
		all = append(all, d.prepare(w, uint64(checkpoint+1))...)
	}
	d.want(0, "before any commit")
	d.commit(all[0])
	d.commit(all...)
	d.want(35, "after all commits")
}

func emptyCheckpoint[T any](t *testing.T, d *sinkDriver[T]) {
	w := d.writer(0)
	for checkpoint := range uint64(10) {
		d.commit(d.prepare(w, checkpoint+1)...)
	}
	d.want(0, "after ten empty checkpoints")
	d.write(w, 0, 3)
	d.commit(d.prepare(w, 11)...)
	d.want(3, "after a full one")
}

func abortDrops[T any](t *testing.T, d *sinkDriver[T]) {
	w := d.writer(0)
	d.write(w, 100, 110)
	for _, c := range d.prepare(w, 1) {
		d.must(d.sink.Abort(t.Context(), d.context(0), c))
		d.must(d.sink.Abort(t.Context(), d.context(0), c))
	}
	d.write(w, 0, 5)
	d.commit(d.prepare(w, 2)...)
	d.want(5, "after the next commit")
}

func closeDrops[T any](t *testing.T, d *sinkDriver[T]) {
	w := d.writer(0)
	d.write(w, 0, 5)
	c := d.prepare(w, 1)
	d.write(w, 100, 110)
	d.must(w.Close())
	d.commit(c...)
	d.want(5, "after close")
}

func twoSubtasks[T any](t *testing.T, d *sinkDriver[T]) {
	a, b := d.writer(0), d.writer(1)
	d.write(a, 0, 5)
	d.write(b, 5, 10)
	ca, cb := d.prepare(a, 1), d.prepare(b, 1)
	d.commit(cb...)
	d.commit(ca...)
	d.want(10, "after both commits")
}

func storedCommittable[T any](t *testing.T, d *sinkDriver[T]) {
	w := d.writer(0)
	d.write(w, 0, 5)
	var restored []*messages.Committable
	for _, c := range d.prepare(w, 1) {
		b, err := proto.Marshal(c)
		d.must(err)
		again := &messages.Committable{}
		d.must(proto.Unmarshal(b, again))
		restored = append(restored, again)
	}
	d.restart(restored...)
	d.commit(restored...)
	d.want(5, "after the restart")
}

func sweepSparesRestored[T any](t *testing.T, d *sinkDriver[T]) {
	w := d.writer(1)
	d.write(w, 0, 5)
	restored := d.prepare(w, 1)
	d.write(w, 100, 110)
	lost := d.prepare(w, 2) // its checkpoint never completes
	d.write(w, 200, 204)    // and this part is never prepared
	d.disk.Crash(1)
	d.restart(restored...)
	d.commit(restored...)
	d.want(5, "after the restart")
	for _, c := range lost {
		if err := d.sink.Commit(t.Context(), d.context(0), c); err == nil {
			d.want(5, "after a commit of what was swept succeeded")
		}
	}
	w = d.writer(1)
	d.write(w, 5, 10)
	d.commit(d.prepare(w, 2)...)
	d.want(10, "after the same checkpoint again")
}

func sweepSparesOwn[T any](t *testing.T, d *sinkDriver[T]) {
	w := d.writer(1)
	d.write(w, 0, 5)
	c := d.prepare(w, 1)
	d.must(d.sink.Start(t.Context(), d.context(0), nil))
	d.sweep()
	d.commit(c...)
	d.want(5, "after a start that came late")
}

// startTakesNothing: an attempt that was deployed by a coordinator which had been
// replaced must not harm the one that goes on.
func startTakesNothing[T any](t *testing.T, d *sinkDriver[T]) {
	w := d.writer(1)
	d.write(w, 0, 5)
	c := d.prepare(w, 1)
	goesOn := d.attempt
	d.attempt++
	d.must(d.h.New(t, d.faulty).Start(t.Context(), d.context(0), nil))
	d.attempt = goesOn
	d.commit(c...)
	d.want(5, "after the start of an attempt that is not in charge")
}

func preparedIsDurable[T any](t *testing.T, d *sinkDriver[T]) {
	w := d.writer(0)
	n := 0
	for seed := range uint64(20) {
		d.write(w, n, n+5)
		n += 5
		c := d.prepare(w, seed+1)
		d.disk.Crash(seed)
		d.restart(c...)
		d.commit(c...)
		d.want(n, fmt.Sprintf("after crash %d", seed))
		w = d.writer(0)
	}
	d.disk.Crash(99)
	d.want(n, "after a crash that follows the last commit")
}

func commitCutAnywhere[T any](t *testing.T, d *sinkDriver[T]) {
	n := 0
	for operation := 1; ; operation++ {
		ended := false
		for seed := range uint64(10) {
			w := d.writer(0)
			d.write(w, n, n+5)
			checkpoint := uint64(operation)*1000 + seed
			c := d.prepare(w, checkpoint)
			d.faulty.SetFaults(vfs.Fault{Kind: vfs.Halt, Nth: operation})
			err := d.sink.Commit(t.Context(), d.context(0), c[0])
			ended = err == nil
			d.disk.Crash(seed)
			d.faulty.SetFaults()
			if ended {
				d.want(n+5, "after a commit that succeeded, and a crash")
			} else if got := len(d.h.Visible(t, d.disk)); got != n && got != n+5 {
				t.Fatalf("cut at operation %d, seed %d: %d records are visible, want %d or %d", operation, seed, got, n, n+5)
			}
			d.restart(c...)
			d.commit(c...)
			n += 5
			d.want(n, fmt.Sprintf("cut at operation %d, seed %d, repeated", operation, seed))
		}
		if ended {
			return
		}
	}
}

func prepareFails[T any](t *testing.T, d *sinkDriver[T]) {
	var committed []*messages.Committable
	n := 0
	for operation := 1; ; operation++ {
		w := d.writer(0)
		d.faulty.SetFaults(vfs.Fault{Kind: vfs.Fail, Nth: operation})
		before := d.faulty.Fired(vfs.Fail)
		d.write(w, n, n+5)
		c, err := w.Prepare(uint64(operation))(t.Context())
		fired := d.faulty.Fired(vfs.Fail) > before
		d.faulty.SetFaults()
		if err != nil {
			// The task is restored, and the rows come again.
			if _, err := w.Prepare(uint64(operation) + 1)(t.Context()); err == nil {
				t.Fatalf("operation %d failed, and the next prepare knows nothing of it", operation)
			}
			_ = w.Close()
			d.restart(committed...)
			continue
		}
		d.commit(c...)
		n += 5
		d.want(n, fmt.Sprintf("after operation %d", operation))
		if !fired {
			return
		}
	}
}

func unknownOutcome[T any](t *testing.T, d *sinkDriver[T]) {
	w := d.writer(0)
	d.write(w, 0, 5)
	c := d.prepare(w, 1)
	d.commit(c...) // the answer is lost with the process
	d.disk.Crash(3)
	d.incarnation++
	d.restart(c...)
	d.commit(c...)
	d.want(5, "after the next incarnation repeated the commit")
	w = d.writer(0)
	d.write(w, 5, 10)
	d.commit(d.prepare(w, 1)...)
	d.want(10, "after its own checkpoint of the same number")
}
