package task

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"google.golang.org/protobuf/proto"

	"cutwater/messages"
	"cutwater/messages/describe"
	"cutwater/protocol/subtask"
	"cutwater/state"
	"cutwater/storage"
	"cutwater/stream/operator"
)

// snapshot is one checkpoint of this task between its synchronous part and the
// end of its asynchronous part.
type snapshot struct {
	checkpoint uint64
	options    *messages.CheckpointOptions
	parts      []part
	cancelled  bool
	result     *messages.TaskSnapshot // written by the Executor
	sizes      subtask.Sizes
}

// part is one operator's share.
type part struct {
	uid       string
	snapshot  operator.Snapshot
	sealed    *state.Sealed
	keyGroups *messages.KeyGroupRange
	watermark eventTime
	// Written by the Executor:
	workErr error
	segment *messages.Segment
}

func (s *snapshot) release() {
	for i := range s.parts {
		if s.parts[i].sealed != nil {
			s.parts[i].sealed.Release()
		}
	}
}

// prepareBarrier lets the operators emit a last time.
func (t *Task) prepareBarrier(checkpoint uint64) error {
	for _, op := range t.chain.Operators {
		if err := op.PrepareBarrier(checkpoint); err != nil {
			return t.run(t.sub.SyncFailed(checkpoint, err))
		}
	}
	return nil
}

// syncSnapshot captures the state of every operator, head first: list state by
// the operators themselves, keyed state by a seal.
func (t *Task) syncSnapshot(s subtask.SyncSnapshot) error {
	snap := &snapshot{checkpoint: s.Checkpoint, options: s.Options}
	t.snapshots[s.Checkpoint] = snap
	for i, op := range t.chain.Operators {
		p := part{uid: op.Uid(), watermark: t.watermark}
		var err error
		p.snapshot, err = op.Snapshot(operator.SnapshotRequest{Checkpoint: s.Checkpoint, Options: s.Options})
		if err == nil && t.keyed[i] != nil {
			p.keyGroups = t.keyGroups()
			p.sealed, err = t.keyed[i].Seal(s.Checkpoint, t.sealOptions(s.Options))
		}
		snap.parts = append(snap.parts, p)
		if err != nil {
			return t.run(t.sub.SyncFailed(s.Checkpoint, err))
		}
	}
	return t.run(t.sub.SyncDone(t.monotonicMs(), s.Checkpoint))
}

func (t *Task) sealOptions(o *messages.CheckpointOptions) state.SealOptions {
	savepoint := isSavepoint(o)
	return state.SealOptions{
		Incremental: t.deploy.Settings.GetCheckpointing().GetIncremental() && !savepoint && o.GetType() != messages.CheckpointType_FULL_CHECKPOINT,
		Savepoint:   savepoint,
	}
}

func isSavepoint(o *messages.CheckpointOptions) bool {
	switch o.GetType() {
	case messages.CheckpointType_SAVEPOINT, messages.CheckpointType_SAVEPOINT_SUSPEND, messages.CheckpointType_SAVEPOINT_TERMINATE:
		return true
	}
	return false
}

// startAsync hands the asynchronous part to the Executor.
func (t *Task) startAsync(checkpoint uint64) {
	snap := t.snapshots[checkpoint]
	fence := t.fence
	t.calls.start(fmt.Sprintf("checkpoint %d", checkpoint),
		func(ctx context.Context) error { return t.upload(ctx, fence, snap) },
		func(err error) error { return t.uploaded(snap, err) })
}

// upload runs on the Executor: the operators' own work, then the state files. It
// touches the snapshot and nothing else of the task.
func (t *Task) upload(ctx context.Context, fence *messages.Fence, snap *snapshot) error {
	var first error
	note := func(p *part, err error) {
		if first == nil {
			first = fmt.Errorf("operator %q: %w", p.uid, err)
		}
	}
	t.copies.tidy()
	result := &messages.TaskSnapshot{}
	for i := range snap.parts {
		p := &snap.parts[i]
		lists := p.snapshot.Lists
		if p.snapshot.Work != nil {
			more, err := p.snapshot.Work(ctx)
			if p.workErr = err; err != nil {
				note(p, err)
			}
			lists = slices.Concat(lists, more)
		}
		if first != nil {
			if p.sealed != nil {
				p.sealed.Release()
			}
			continue
		}
		s, err := t.write(ctx, fence, snap, p, lists)
		if err != nil {
			note(p, err)
		} else if s != nil {
			result.Operators = append(result.Operators, s)
		}
	}
	snap.result = result
	return first
}

// write stores one operator's state; nil means that it has none.
func (t *Task) write(ctx context.Context, fence *messages.Fence, snap *snapshot, p *part, lists []*messages.OperatorList) (*messages.OperatorSubtaskState, error) {
	s := &messages.OperatorSubtaskState{Uid: p.uid}
	file := storage.StateFile{Fence: fence, Task: t.deploy.Task, Checkpoint: snap.checkpoint, Uid: p.uid,
		Scope: messages.SegmentScope_EXCLUSIVE, Target: snap.options.GetTarget()}
	if p.sealed != nil {
		if err := t.writeKeyed(ctx, file, snap, p, s); err != nil {
			return nil, err
		}
	}
	lists = slices.DeleteFunc(slices.Clone(lists), func(l *messages.OperatorList) bool { return len(l.Items) == 0 })
	if len(lists) > 0 {
		content, err := proto.MarshalOptions{Deterministic: true}.Marshal(&messages.OperatorLists{Lists: lists})
		if err != nil {
			return nil, err
		}
		file.Kind = "lists"
		s.Lists, err = t.store.Write(ctx, file, func(w io.Writer) error {
			_, err := io.Copy(w, bytes.NewReader(content))
			return err
		})
		if err != nil {
			return nil, err
		}
		s.HasUnionList = slices.ContainsFunc(lists, func(l *messages.OperatorList) bool {
			return l.Mode == messages.RedistributionMode_UNION && !l.SettledAtEnd
		})
		snap.sizes.CheckpointBytes += uint64(len(content))
		snap.sizes.FullStateBytes += uint64(len(content))
	}
	if s.Keyed == nil && s.Lists == nil {
		return nil, nil
	}
	return s, nil
}

func (t *Task) writeKeyed(ctx context.Context, file storage.StateFile, snap *snapshot, p *part, s *messages.OperatorSubtaskState) error {
	file.Kind = "keyed"
	incremental := t.sealOptions(snap.options).Incremental
	if incremental {
		file.Scope = messages.SegmentScope_SHARED
	}
	s.Keyed = &messages.KeyedState{KeyGroups: p.keyGroups, Segments: slices.Clone(p.sealed.Before),
		WatermarkMs: p.watermark.ms, HasWatermark: p.watermark.some}
	snap.sizes.FullStateBytes += p.sealed.FullBytes
	if p.sealed.Empty {
		p.sealed.Release()
		return nil
	}
	segment := &messages.Segment{Base: p.sealed.Base, Scope: file.Scope, Created: snap.checkpoint}
	counted := &counter{}
	var err error
	segment.Handle, err = t.store.Write(ctx, file, func(w io.Writer) (err error) {
		counted.w = w
		segment.Entries, err = p.sealed.Write(ctx, counted)
		return err
	})
	if err != nil {
		return err
	}
	snap.sizes.CheckpointBytes += counted.n
	s.Keyed.Segments = append(s.Keyed.Segments, segment)
	p.segment = segment
	return nil
}

// counter counts what is written through it.
type counter struct {
	w io.Writer
	n uint64
}

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += uint64(n)
	return n, err
}

// uploaded ends the asynchronous part, back in the task.
func (t *Task) uploaded(snap *snapshot, err error) error {
	delete(t.snapshots, snap.checkpoint)
	snap.release() // what a failure or a panic has left: the tables would keep all that they replace for it
	if t.closed {
		return nil
	}
	for i := range snap.parts {
		p := &snap.parts[i]
		if p.segment != nil && err == nil && !snap.cancelled {
			p.sealed.Recorded(p.segment)
		}
		if p.snapshot.Done != nil {
			p.snapshot.Done(p.workErr)
		}
	}
	if err == nil && !snap.cancelled {
		t.copies.taken(snap)
	}
	switch {
	case errors.Is(err, operator.ErrTask):
		return err
	case err != nil:
		reason := messages.FailureReason_CHECKPOINT_ASYNC_EXCEPTION
		return t.run(t.sub.AsyncFailed(snap.checkpoint, reason, describe.Error(err)))
	}
	return t.run(t.sub.AsyncDone(t.monotonicMs(), snap.checkpoint, snap.result, snap.sizes))
}

// discard deletes the files of a snapshot that nobody acknowledged.
func (t *Task) discard(checkpoint uint64, s *messages.TaskSnapshot) {
	var handles []*messages.StateHandle
	for _, op := range s.Operators {
		for _, segment := range op.GetKeyed().GetSegments() {
			if segment.Created == checkpoint {
				handles = append(handles, segment.Handle)
			}
		}
		if op.Lists != nil {
			handles = append(handles, op.Lists)
		}
	}
	t.calls.start("discard", func(ctx context.Context) error {
		var all []error
		for _, h := range handles {
			all = append(all, t.store.Discard(ctx, h))
		}
		return errors.Join(all...)
	}, func(err error) error {
		if err != nil {
			t.event("", "files left behind", err.Error())
		}
		return nil // what could not be deleted is an orphan, swept later
	})
}
