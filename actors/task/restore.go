package task

import (
	"context"
	"errors"
	"fmt"
	"path"
	"sync"

	"cutwater/messages"
	"cutwater/protocol/keygroup"
	"cutwater/protocol/subtask"
	"cutwater/state"
	"cutwater/state/bolt"
	"cutwater/state/heap"
	"cutwater/stream/operator"
)

// initialize makes the chain and restores its state on the Executor; opened
// follows in the task.
func (t *Task) initialize() error {
	if t.deploy.Finished {
		return t.opened(nil)
	}
	program, err := t.env.Programs(t.deploy.Program)
	if err != nil {
		return err
	}
	if t.store, err = t.env.Storage(t.fence, t.deploy.Settings); err != nil {
		return err
	}
	t.openCopies()
	if t.chain, err = program.NewChain(t.deploy.Vertex.Operators, t.out.edges); err != nil {
		return err
	}
	t.keyed = make([]state.Backend, len(t.chain.Operators))
	keyed := map[string]bool{}
	for _, spec := range program.Graph().Operators {
		keyed[spec.Uid] = spec.Keyed
	}
	t.calls.start("restore", func(ctx context.Context) error { return t.load(ctx, keyed) }, t.opened)
	return nil
}

// backends are made and filled on the Executor and belong to the task from then
// on, unless the task ends meanwhile: then whoever comes last closes them.
type backends struct {
	mu        sync.Mutex
	list      []state.Backend // by operator; nil unless it is keyed
	abandoned bool
}

// offer hands loaded backends to the task, or closes them if it has ended.
func (b *backends) offer(list []state.Backend) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.abandoned {
		return closeAll(list)
	}
	b.list = list
	return nil
}

// take returns what was offered, once.
func (b *backends) take() []state.Backend {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := b.list
	b.list = nil
	return list
}

// abandon closes what was offered and not taken, now or when it is offered.
func (b *backends) abandon() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.abandoned = true
	list := b.list
	b.list = nil
	return closeAll(list)
}

func closeAll(list []state.Backend) error {
	var all []error
	for _, b := range list {
		if b != nil {
			all = append(all, b.Close())
		}
	}
	return errors.Join(all...)
}

// newBackend makes the empty keyed state of an operator; it may block.
func (t *Task) newBackend(uid string) (state.Backend, error) {
	r := t.keyGroups()
	maxParallelism, first, last := int(t.deploy.Vertex.MaxParallelism), int(r.First), int(r.Last)
	switch t.deploy.Settings.GetBackend() {
	case "", "heap":
		return heap.New(heap.Options{MaxParallelism: maxParallelism, FirstGroup: first, LastGroup: last}), nil
	case "bolt":
		dir := path.Join(t.env.ScratchDir, fmt.Sprintf("%s-%d-%s-%d-%s", t.fence.Job, t.fence.Attempt, t.deploy.Task.Vertex, t.deploy.Task.Subtask, uid))
		return bolt.New(bolt.Options{MaxParallelism: maxParallelism, FirstGroup: first, LastGroup: last, FS: t.env.FS, Dir: dir})
	}
	return nil, fmt.Errorf("state backend %q of operator %q is not known; use heap or bolt", t.deploy.Settings.GetBackend(), uid)
}

func (t *Task) keyGroups() *messages.KeyGroupRange {
	first, last := keygroup.Range(int(t.deploy.Task.Subtask), int(t.deploy.Vertex.Parallelism), int(t.deploy.Vertex.MaxParallelism))
	return &messages.KeyGroupRange{First: uint32(first), Last: uint32(last)}
}

// load makes the backends and reads the restored segments, oldest first. It runs
// on the Executor.
func (t *Task) load(ctx context.Context, keyed map[string]bool) error {
	if err := t.checkFolder(ctx); err != nil {
		return err
	}
	list := make([]state.Backend, len(t.chain.Operators))
	for i, op := range t.chain.Operators {
		if !keyed[op.Uid()] {
			continue
		}
		var err error
		if list[i], err = t.loadOperator(ctx, op.Uid()); err != nil {
			return errors.Join(fmt.Errorf("operator %q: %w", op.Uid(), err), closeAll(list))
		}
	}
	return t.loading.offer(list)
}

// loadOperator makes and fills the keyed state of an operator. Where a copy on this node
// turns out to be damaged, it begins anew without that one.
func (t *Task) loadOperator(ctx context.Context, uid string) (state.Backend, error) {
	for {
		b, err := t.newBackend(uid)
		if err != nil {
			return nil, err
		}
		from := t.copies.restored
		if err = t.loadSegments(ctx, uid, b); err == nil {
			return b, nil
		}
		if err = errors.Join(err, b.Close()); !errors.Is(err, errCopy) || ctx.Err() != nil {
			return nil, err
		}
		t.copies.restored = from
	}
}

func (t *Task) loadSegments(ctx context.Context, uid string, b state.Backend) error {
	for _, keyed := range t.restored(uid).GetKeyed() {
		for _, segment := range keyed.Segments {
			if err := t.loadSegment(ctx, b, segment); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *Task) loadSegment(ctx context.Context, b state.Backend, segment *messages.Segment) error {
	r, err := t.store.Open(ctx, segment.Handle)
	if err != nil {
		return err
	}
	return t.copies.loaded(ctx, segment.Handle, r, errors.Join(b.Load(ctx, r), r.Close()))
}

func (t *Task) restored(uid string) *messages.OperatorRestore {
	for _, r := range t.deploy.GetRestore().GetOperators() {
		if r.Uid == uid {
			return r
		}
	}
	return nil
}

// opened opens the operators, tail first, and lets records in.
func (t *Task) opened(err error) error {
	if err != nil || t.closed {
		return err
	}
	if t.chain != nil {
		t.keyed = t.loading.take()
		t.tellRestored()
		t.contexts = make([]*operator.Context, len(t.chain.Operators))
		for i := len(t.chain.Operators) - 1; i >= 0; i-- {
			op := t.chain.Operators[i]
			t.contexts[i] = t.context(i, op)
			if err := op.Open(t.contexts[i]); err != nil {
				return fmt.Errorf("opening operator %q: %w", op.Uid(), err)
			}
			if t.closed {
				return nil
			}
		}
	}
	if err := t.run(t.sub.Running()); err != nil || t.closed {
		return err
	}
	t.state(messages.TaskState_TASK_RUNNING, nil)
	if ms, ok := t.restoredWatermark(); ok {
		// Timers that were due and had not all fired at the snapshot fire now.
		return t.advanceWatermark(ms)
	}
	t.mailbox.Release()
	t.mailbox.Wake()
	return nil
}

func (t *Task) running() bool { return t.sub.Phase() == subtask.Running }

// restoredWatermark is the watermark of the chain's keyed state, if it has one.
func (t *Task) restoredWatermark() (ms int64, ok bool) {
	for i := range t.contexts {
		if c := t.contexts[i]; c.HasRestoredWatermark && (!ok || c.RestoredWatermarkMs < ms) {
			ms, ok = c.RestoredWatermarkMs, true
		}
	}
	return ms, ok
}

// context is what an operator may use.
func (t *Task) context(i int, op operator.Operator) *operator.Context {
	uid := op.Uid()
	c := &operator.Context{
		Job:                t.fence.Job,
		JobName:            t.deploy.Program,
		Incarnation:        t.deploy.Incarnation,
		Fence:              t.fence,
		Vertex:             t.deploy.Vertex.Id,
		Subtask:            int(t.deploy.Task.Subtask),
		Parallelism:        int(t.deploy.Vertex.Parallelism),
		MaxParallelism:     int(t.deploy.Vertex.MaxParallelism),
		RestoredCheckpoint: t.deploy.GetRestore().GetCheckpoint(),
		Regional:           t.deploy.Regional,
		Keyed:              t.keyed[i],
		FS:                 t.env.FS,
		Yield:              &t.yield,
		NowMs:              t.nowMs,
		MonotonicMs:        t.monotonicMs,
		Random:             t.env.Random,
		Async: func(work func(context.Context) error, done func(error)) {
			t.calls.start(uid, work, func(err error) error {
				done(err)
				return nil
			})
		},
		At:           t.calls.runAt,
		Fail:         t.fail,
		WakeAt:       func(unixMs int64) { t.wakeAt(unixMs) },
		RequestSplit: func() { t.requestSplit(uid) },
		Progress:     func(records, bytes, remaining uint64) { t.read(uid, records, bytes, remaining) },
		Event:        func(kind, detail string) { t.event(uid, kind, detail) },
	}
	if t.deploy.Restore != nil {
		if c.Restored = t.restored(uid); c.Restored == nil {
			c.Restored = &messages.OperatorRestore{Uid: uid}
		}
	}
	for _, k := range c.Restored.GetKeyed() {
		if k.HasWatermark && (!c.HasRestoredWatermark || k.WatermarkMs < c.RestoredWatermarkMs) {
			c.RestoredWatermarkMs, c.HasRestoredWatermark = k.WatermarkMs, true
		}
	}
	return c
}

func (t *Task) wakeAt(unixMs int64) {
	t.timers.rearm(wakeTimer, unixMs-t.nowMs(), func() error {
		t.mailbox.Wake()
		return nil
	})
}

func (t *Task) event(uid, kind, detail string) {
	if t.env.Event != nil {
		t.env.Event(Event{Fence: t.fence, Task: t.deploy.Task, Uid: uid, Kind: kind, Detail: detail})
	}
}

func (t *Task) nowMs() int64 { return t.self.System.Clock().NowMs() }

func (t *Task) monotonicMs() int64 { return t.self.System.Clock().MonotonicMs() }
