package coordinator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"

	"google.golang.org/protobuf/proto"

	"cutwater/cluster/metadata"
	"cutwater/messages"
	"cutwater/storage"
	"cutwater/storage/failpoint"
	"cutwater/storage/vfs"
	"cutwater/stream/operator"
)

// worker carries out the work that a Master asks for. Its methods block and run
// on the Executor.
type worker struct {
	store    storage.Store
	metadata metadata.Store
	program  operator.Program
	fs       vfs.FS
	hooks    *hooks
	// shared: tasks run on other nodes, too.
	shared bool
}

// run does one piece of work and fills done with its result.
func (w *worker) run(ctx context.Context, task proto.Message, done *messages.WorkDone) error {
	switch t := task.(type) {
	case *messages.Propose:
		r, err := w.metadata.Propose(ctx, t.Command)
		if err != nil {
			return err
		}
		if t.Command.GetRecordCompletion() != nil {
			failpoint.Hit(failpoint.CompletionRecorded)
		}
		if t.Command.GetStartEpoch() != nil && r.GetOutcome() == messages.MetadataOutcome_APPLIED {
			done.Marks = w.mark(ctx, r.Epoch)
		}
		done.Result = &messages.WorkDone_Metadata{Metadata: r}
	case *messages.ReadJob:
		r, err := w.metadata.Job(ctx, t.Job)
		if err != nil {
			return err
		}
		done.Result = &messages.WorkDone_JobRecord{JobRecord: r}
	case *messages.PrepareLocation:
		return w.store.Prepare(ctx, t.Checkpoint, t.Target)
	case *messages.WriteMetadata:
		r, err := w.store.Publish(ctx, t.Metadata, t.Target)
		if err != nil {
			return err
		}
		done.Result = &messages.WorkDone_MetadataWritten{MetadataWritten: r}
	case *messages.LoadCheckpoint:
		r, err := w.load(ctx, t)
		if err != nil {
			return err
		}
		done.Result = &messages.WorkDone_CheckpointLoaded{CheckpointLoaded: r}
	case *messages.DiscardState:
		return w.discard(ctx, t)
	case *messages.SweepCheckpoints:
		r, err := w.sweep(ctx, t)
		if err != nil {
			return err
		}
		done.Result = &messages.WorkDone_CheckpointsSwept{CheckpointsSwept: r}
	case *messages.DiscoverSplits:
		r, err := w.program.Discover(ctx, t.Uid, w.fs, int(t.Parallelism))
		if err != nil {
			return err
		}
		done.Result = &messages.WorkDone_SplitsDiscovered{SplitsDiscovered: r}
	case *messages.RunMasterHook:
		r, err := w.hooks.trigger(ctx, t)
		if err != nil {
			return err
		}
		done.Result = &messages.WorkDone_HookSnapshot{HookSnapshot: r}
	case *messages.RestoreMasterHook:
		return w.hooks.restore(ctx, t)
	case *messages.ResetMasterHook:
		return w.hooks.reset(ctx, t)
	case *messages.CloseMasterHook:
		return w.hooks.close(ctx, t)
	default:
		return fmt.Errorf("coordinator: no work of kind %T is known", task)
	}
	return nil
}

// mark marks the checkpoint folder for the epoch and returns the epochs whose marks are
// there, so that tasks can find out whether they see the same folder. It hinders nobody:
// where it fails nobody looks, and the checkpoints tell what is wrong with the folder.
func (w *worker) mark(ctx context.Context, epoch uint64) []uint64 {
	if !w.shared {
		return nil
	}
	marks, err := w.store.Mark(ctx, epoch)
	if err != nil {
		return nil
	}
	return marks
}

// load reads a checkpoint and verifies every file that it names before anything
// is deployed.
func (w *worker) load(ctx context.Context, t *messages.LoadCheckpoint) (*messages.CheckpointLoaded, error) {
	loaded := &messages.CheckpointLoaded{Record: t.Record}
	err := again(func() (err error) {
		if t.Path != "" {
			loaded.Metadata, err = w.store.LoadPath(ctx, t.Path)
		} else {
			loaded.Metadata, err = w.store.Load(ctx, t.Record)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, op := range loaded.Metadata.Operators {
		if op.HasCoordinator {
			content, err := w.read(ctx, op.Coordinator)
			if err != nil {
				return nil, fmt.Errorf("operator %q: %w", op.Uid, err)
			}
			loaded.Coordinators = append(loaded.Coordinators, &messages.LoadedCoordinator{Uid: op.Uid, State: content})
		}
		for _, sub := range op.Subtasks {
			lists, err := w.verify(ctx, sub.State)
			if err != nil {
				return nil, fmt.Errorf("operator %q, subtask %d: %w", op.Uid, sub.Subtask, err)
			}
			if lists != nil {
				loaded.Lists = append(loaded.Lists, &messages.LoadedLists{Uid: op.Uid, Subtask: sub.Subtask, Lists: lists})
			}
		}
	}
	return loaded, nil
}

// verify checks the files of one subtask's state and returns its lists, if any.
func (w *worker) verify(ctx context.Context, s *messages.OperatorSubtaskState) (*messages.OperatorLists, error) {
	for _, segment := range s.GetKeyed().GetSegments() {
		if err := again(func() error { return w.store.Verify(ctx, segment.Handle) }); err != nil {
			return nil, err
		}
	}
	if s.GetLists() == nil {
		return nil, nil
	}
	content, err := w.read(ctx, s.Lists)
	if err != nil {
		return nil, err
	}
	lists := &messages.OperatorLists{}
	if err := proto.Unmarshal(content, lists); err != nil {
		return nil, fmt.Errorf("list state: %w: %w", storage.ErrCorrupt, err)
	}
	return lists, nil
}

func (w *worker) read(ctx context.Context, h *messages.StateHandle) (content []byte, err error) {
	err = again(func() error {
		r, err := w.store.Open(ctx, h)
		if err != nil {
			return err
		}
		content, err = io.ReadAll(r)
		return errors.Join(err, r.Close())
	})
	return content, err
}

// again repeats a reading that found damage: it may have happened on the way, and
// a job that starts is refused because of damage on the disk.
func again(read func() error) (err error) {
	const times = 5
	for range times {
		if err = read(); !errors.Is(err, storage.ErrCorrupt) {
			return err
		}
	}
	return err
}

func (w *worker) discard(ctx context.Context, t *messages.DiscardState) error {
	var all []error
	for _, h := range t.Handles {
		all = append(all, w.store.Discard(ctx, h))
	}
	if t.Checkpoint != 0 {
		all = append(all, w.store.DiscardCheckpoint(ctx, t.Checkpoint))
	}
	return errors.Join(all...)
}

// sweep reads what the checkpoints name before it deletes anything.
func (w *worker) sweep(ctx context.Context, t *messages.SweepCheckpoints) (r *messages.CheckpointsSwept, err error) {
	err = again(func() error {
		r, err = w.store.Sweep(ctx, t)
		return err
	})
	return r, err
}

// ioFailure reports whether a failure is the storage's, not the data's.
func ioFailure(err error) bool {
	var path *fs.PathError
	var errno syscall.Errno
	return errors.As(err, &path) || errors.As(err, &errno) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission)
}

// transient reports whether a later try can succeed without anybody's help. A file
// that is missing or forbidden is somebody's mistake.
func transient(err error) bool {
	return ioFailure(err) && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, storage.ErrMissing) && !errors.Is(err, fs.ErrPermission)
}

// noRestart reports whether no restart can mend a failure: the job's code says so, or
// what was stored is not what was written, which was read again and again.
func noRestart(err error) bool {
	return errors.Is(err, operator.ErrNoRestart) || errors.Is(err, storage.ErrCorrupt) || errors.Is(err, storage.ErrNewerFormat)
}
