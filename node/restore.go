package node

import (
	"context"

	"google.golang.org/protobuf/proto"

	"cutwater/messages"
	"cutwater/protocol/job"
	"cutwater/protocol/restore"
)

// CheckRestore tells whether the checkpoint or savepoint in a folder can be
// restored into a job with this graph and these settings, before the job is made a
// new incarnation of and its own checkpoints are left behind. It reads the
// metadata alone; the files of the state are verified when the job starts.
//
// Errors: those of storage.Store.LoadPath, such as storage.ErrMissing, and a
// *restore.RefusedError that names every operator whose state does not fit.
func (p *Process) CheckRestore(ctx context.Context, path string, graph *messages.JobGraph, settings *messages.JobSettings) error {
	store, err := openStorage(p.deps.FS, "", 0, settings)
	if err != nil {
		return err
	}
	metadata, err := store.LoadPath(ctx, path)
	if err != nil {
		return err
	}
	if graph, err = restore.Adopt(graph, metadata); err != nil {
		return err
	}
	plan, err := job.Plan(graph)
	if err != nil {
		return err
	}
	_, err = restore.Assign(restore.Input{Loaded: outline(metadata), Graph: graph, Plan: plan, Dropped: settings.DroppedState})
	return err
}

// outline is a loaded checkpoint without the contents of its lists and sources,
// which fit whatever they are.
func outline(metadata *messages.CheckpointMetadata) *messages.CheckpointLoaded {
	loaded := &messages.CheckpointLoaded{Metadata: proto.CloneOf(metadata)}
	for _, op := range loaded.Metadata.Operators {
		if op.HasCoordinator {
			loaded.Coordinators = append(loaded.Coordinators, &messages.LoadedCoordinator{Uid: op.Uid})
		}
		for _, sub := range op.Subtasks {
			if sub.State != nil {
				sub.State.Lists = nil
			}
		}
	}
	return loaded
}
