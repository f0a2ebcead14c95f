package stream

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"cutwater/messages"
	"cutwater/stream/operator"
)

// committablesList is the name of the list state of a sink. It is a union list:
// every subtask sees all of them at restore and commits its share, and subtask
// 0 tells Sink.Start about all.
const committablesList = "committables"

const (
	// flushBytes is how much a writer gathers before it is flushed, and
	// holdBytes how much before the sink stops its chain.
	flushBytes = 64 << 10
	holdBytes  = 4 * flushBytes
	// commitTries and commitDelayMs bound how a failed commit is tried again:
	// after 100 ms, 200 ms and so on.
	commitTries   = 8
	commitDelayMs = 100
)

// sinkOperator is the two-phase commit of one subtask.
//
//  1. Between barriers records go to the writer, which is flushed on the
//     Executor, one flush at a time.
//  2. At a barrier the writer prepares: the asynchronous part of the snapshot
//     makes the data durable and yields committables, which join those that are
//     not committed yet in the operator's list state.
//  3. When the checkpoint is complete, all groups up to it are committed, oldest
//     first. A group whose checkpoint was aborted goes with the next one that
//     completes: its records are part of that checkpoint's past.
//  4. After a restore the committables of the restored checkpoint are committed
//     before a record is taken.
type sinkOperator[T any] struct {
	base
	sink    Sink[T]
	context SinkContext
	writer  SinkWriter[T]
	queue   workQueue
	// dirty: something was written that no Prepare has taken.
	dirty    bool
	flushing bool
	// promptMs is a PromptWriter's, prompted that a flush is due by it.
	promptMs int64
	prompted bool
	// held and starting are the reasons why the chain stands still.
	held, starting bool
	// started: Sink.Start has ended here, or is another subtask's. Nothing is
	// committed before.
	started bool

	// groups are not committed yet, oldest first; those up to committable may be.
	groups      []*commitGroup
	committable uint64
	// sweep is called at the first completion; nil: it was, or is another subtask's work.
	sweep      func(context.Context) error
	committing bool
	tries      int
	running    int // asynchronous work without an answer
	err        error
}

// commitGroup is what one checkpoint prepared.
type commitGroup struct {
	checkpoint uint64
	// committables is set by the work that prepares, under the queue's lock.
	committables []*messages.Committable
	prepared     bool
	// abort: it belongs to a checkpoint after the restored one.
	abort bool
}

func newSinkOperator[T any](b base, sink Sink[T]) *sinkOperator[T] {
	return &sinkOperator[T]{base: b, sink: sink}
}

// Open makes the writer and starts the commits of what was restored.
func (o *sinkOperator[T]) Open(ctx *operator.Context) (err error) {
	o.open(ctx)
	o.context = SinkContext{
		Job: ctx.Job, JobName: ctx.JobName, Incarnation: ctx.Incarnation, Fence: ctx.Fence,
		Uid: o.ID, Subtask: ctx.Subtask, Parallelism: ctx.Parallelism, Regional: ctx.Regional, FS: ctx.FS,
	}
	all, err := o.restored()
	if err != nil {
		return err
	}
	if o.writer, err = o.sink.NewWriter(o.context); err != nil {
		return &operator.UserError{Uid: o.ID, Cause: err}
	}
	if w, ok := o.writer.(PromptWriter); ok {
		o.promptMs = w.FlushAfterMs()
	}
	for _, c := range all {
		if int(c.Subtask)%max(ctx.Parallelism, 1) != ctx.Subtask {
			continue
		}
		o.groups = append(o.groups, &commitGroup{
			checkpoint: c.Checkpoint, committables: []*messages.Committable{c}, prepared: true,
			abort: c.Checkpoint > ctx.RestoredCheckpoint,
		})
	}
	o.committable = ctx.RestoredCheckpoint
	kept := all[:len(all):len(all)]
	if s, ok := o.sink.(Sweeper); ok && (ctx.Subtask == 0 || ctx.Regional) {
		o.sweep = func(c context.Context) error { return s.Sweep(c, o.context, kept) }
	}
	if ctx.Subtask == 0 {
		o.hold(&o.starting)
		start := o.queue.add(func(c context.Context) error { return o.sink.Start(c, o.context, kept) })
		o.async(start.run, func() {
			o.started = true
			o.commit()
		})
		return nil
	}
	o.started = true
	if len(o.groups) > 0 {
		o.hold(&o.starting)
		o.commit()
	}
	return nil
}

// restored returns every committable of the restored checkpoint, in the order of
// checkpoints. Those of one writer, whose order is kept, go to one subtask: of two
// subtasks one might commit the later part first, and a target that remembers how far a
// writer has come would take the earlier one for a repetition
// (TestSinkCommitsRestoredOfOneWriterInOrder).
func (o *sinkOperator[T]) restored() ([]*messages.Committable, error) {
	var all []*messages.Committable
	for _, l := range o.ctx.Restored.GetLists() {
		if l.Name != committablesList {
			continue
		}
		for _, item := range l.Items {
			c := &messages.Committable{}
			if err := proto.Unmarshal(item, c); err != nil {
				return nil, NoRestart(fmt.Errorf("stream: the checkpoint holds a committable of sink %q that cannot be read: %w", o.ID, err))
			}
			all = append(all, c)
		}
	}
	slices.SortStableFunc(all, func(a, b *messages.Committable) int { return cmp.Compare(a.Checkpoint, b.Checkpoint) })
	return all, nil
}

// hold stops the chain for one reason, release lets it go on.
func (o *sinkOperator[T]) hold(reason *bool) {
	if !*reason {
		*reason = true
		o.ctx.Yield.Held++
	}
}

func (o *sinkOperator[T]) release(reason *bool) {
	if *reason {
		*reason = false
		o.ctx.Yield.Held--
	}
}

// async runs work on the Executor; a failure of it fails the task.
func (o *sinkOperator[T]) async(work func(context.Context) error, done func()) {
	o.running++
	o.ctx.Async(work, func(err error) {
		o.running--
		if err != nil {
			o.broken(err)
			return
		}
		done()
	})
}

func (o *sinkOperator[T]) broken(err error) {
	if o.err == nil {
		o.err = &operator.UserError{Uid: o.ID, Cause: err}
		o.ctx.Fail(o.err)
	}
}

// write takes one record.
func (o *sinkOperator[T]) write(v T, ts int64) {
	o.chain.at, o.dirty = o.node, true
	if err := o.writer.Write(v, ts); err != nil {
		o.chain.fail(o.node, err)
		return
	}
	if n := o.writer.Buffered(); n >= flushBytes {
		o.flush()
		if n >= holdBytes && o.flushing {
			o.hold(&o.held)
		}
	} else if o.promptMs > 0 && n > 0 && !o.prompted {
		o.prompted = true
		o.ctx.At(o.ctx.NowMs()+o.promptMs, func() {
			o.prompted = false
			if o.writer.Buffered() > 0 {
				o.flush()
			}
		})
	}
}

// flush starts a flush unless one is running.
func (o *sinkOperator[T]) flush() {
	if o.flushing || o.err != nil {
		return
	}
	o.flushing = true
	job := o.queue.add(o.writer.Flush())
	o.async(job.run, func() {
		o.flushing = false
		o.release(&o.held)
		if n := o.writer.Buffered(); n >= flushBytes || n > 0 && o.promptMs > 0 {
			o.flush()
		}
	})
}

// Snapshot prepares what was written since the last barrier.
func (o *sinkOperator[T]) Snapshot(r operator.SnapshotRequest) (s operator.Snapshot, err error) {
	defer o.chain.caught(&err)
	o.chain.at = o.node
	if o.err != nil {
		return s, o.err
	}
	group := &commitGroup{checkpoint: r.Checkpoint}
	prepare := o.writer.Prepare(r.Checkpoint)
	o.dirty = false
	job := o.queue.add(func(ctx context.Context) error {
		made, err := prepare(ctx)
		for i, c := range made {
			c.Job, c.Incarnation, c.Checkpoint = o.context.Job, o.context.Incarnation, r.Checkpoint
			c.Uid, c.Subtask, c.Ordinal = o.ID, uint32(o.context.Subtask), uint32(i)
		}
		group.committables = made
		return err
	})
	o.groups = append(o.groups, group)
	outstanding := append([]*commitGroup(nil), o.groups...)
	s.Work = func(ctx context.Context) ([]*messages.OperatorList, error) {
		if err := job.run(ctx); err != nil {
			return nil, fmt.Errorf("%w: sink %q could not prepare checkpoint %d: %w", operator.ErrTask, o.ID, r.Checkpoint, err)
		}
		return o.list(outstanding)
	}
	o.running++
	s.Done = func(err error) {
		o.running--
		if job.succeeded() {
			group.prepared = true
			o.commit() // a newer checkpoint may have completed before this work ended
		} else if err != nil {
			o.broken(err)
		}
	}
	return s, nil
}

// list is the list state that holds the groups' committables. It runs on the
// Executor.
func (o *sinkOperator[T]) list(groups []*commitGroup) ([]*messages.OperatorList, error) {
	o.queue.running.Lock()
	defer o.queue.running.Unlock()
	l := &messages.OperatorList{Name: committablesList, Mode: messages.RedistributionMode_UNION, SettledAtEnd: true}
	for _, g := range groups {
		for _, c := range g.committables {
			if g.abort {
				continue
			}
			item, err := proto.MarshalOptions{Deterministic: true}.Marshal(c)
			if err != nil {
				return nil, err
			}
			l.Items = append(l.Items, item)
		}
	}
	return []*messages.OperatorList{l}, nil
}

// Complete commits everything up to the checkpoint.
func (o *sinkOperator[T]) Complete(checkpoint uint64) error {
	o.committable = max(o.committable, checkpoint)
	o.commit()
	o.sweepOnce()
	return o.err
}

// sweepOnce removes what earlier attempts left: this one is in charge, since a
// checkpoint of it is on record.
func (o *sinkOperator[T]) sweepOnce() {
	if o.sweep == nil || !o.started {
		return
	}
	sweep := o.sweep
	o.sweep = nil
	o.running++
	o.ctx.Async(sweep, func(err error) {
		o.running--
		if err != nil {
			o.ctx.Event("sweep-failed", err.Error())
		}
	})
}

// commit starts the commit of the oldest group that may be committed, unless one
// is running. With nothing left to do, a starting sink takes records.
func (o *sinkOperator[T]) commit() {
	if o.committing || !o.started || o.err != nil {
		return
	}
	if len(o.groups) == 0 || !o.groups[0].prepared || o.groups[0].checkpoint > o.committable && !o.groups[0].abort {
		o.release(&o.starting)
		return
	}
	o.committing = true
	g := o.groups[0]
	o.running++
	o.ctx.Async(func(ctx context.Context) error {
		for _, c := range g.committables {
			do := o.sink.Commit
			if g.abort {
				do = o.sink.Abort
			}
			if err := do(ctx, o.context, c); err != nil {
				return err
			}
		}
		return nil
	}, func(err error) {
		o.running--
		o.committed(err)
	})
}

// committed takes a commit's answer: the next group, or another try. Commits are
// idempotent, so one whose outcome is unknown is simply tried again.
func (o *sinkOperator[T]) committed(err error) {
	if err == nil {
		o.groups, o.tries, o.committing = o.groups[1:], 0, false
		o.commit()
		return
	}
	if o.tries++; o.tries >= commitTries {
		o.broken(fmt.Errorf("committing checkpoint %d failed %d times, last: %w", o.groups[0].checkpoint, o.tries, err))
		return
	}
	o.ctx.Event("commit-retry", err.Error())
	o.ctx.At(o.ctx.NowMs()+commitDelayMs<<(o.tries-1), func() {
		o.committing = false
		o.commit()
	})
}

// Quiescent is true once everything written is committed.
func (o *sinkOperator[T]) Quiescent() bool {
	return !o.dirty && o.running == 0 && len(o.groups) == 0 && !o.starting
}

// Close drops what was not prepared, once the running work has ended.
func (o *sinkOperator[T]) Close() error {
	if o.writer == nil {
		return nil
	}
	job := o.queue.end(func(context.Context) error { return o.writer.Close() })
	o.ctx.Async(job.run, func(error) {})
	return nil
}
