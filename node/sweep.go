package node

import (
	"context"
	"errors"
	"fmt"
	"math"

	"cutwater/messages"
)

// SweepEnded deletes the checkpoints of a job that has finished, which nobody needs
// any more. Its coordinator does that itself; the files are still there if the node
// died, or the disk failed, between the recorded end and the deletion. A job that has
// not finished, checkpoints of earlier incarnations, savepoints, and what was restored
// without being claimed, are left alone.
//
// No coordinator of the job may run, which the lock on the data directory says of
// other processes. Errors: those of the metadata store and of storage.Store.Sweep;
// nothing but space depends on it.
func (p *Process) SweepEnded(ctx context.Context, r *messages.JobRecord) (*messages.CheckpointsSwept, error) {
	if r.GetStatus() != messages.JobStatus_FINISHED {
		return &messages.CheckpointsSwept{}, nil
	}
	var going, keep []uint64
	for _, c := range r.Completed {
		if c.Savepoint || c.Unclaimed {
			keep = append(keep, c.Checkpoint)
		} else {
			going = append(going, c.Checkpoint)
		}
	}
	if len(going) > 0 { // first off the record, then off the disk
		result, err := p.metadata.Propose(ctx, &messages.MetadataCommand{Command: &messages.MetadataCommand_ForgetCheckpoints{
			ForgetCheckpoints: &messages.ForgetCheckpoints{Job: r.Job, Epoch: r.Epoch, Checkpoints: going}}})
		if err == nil && result.Outcome != messages.MetadataOutcome_APPLIED {
			err = errors.New(result.Failure)
		}
		if err != nil {
			return nil, fmt.Errorf("the checkpoints of job %s stay on record: %w", r.Job, err)
		}
	}
	store, err := openStorage(p.deps.FS, r.Job, r.Epoch, r.Settings)
	if err != nil {
		return nil, err
	}
	return store.Sweep(ctx, &messages.SweepCheckpoints{
		Fence:       &messages.Fence{Job: r.Job, Epoch: r.Epoch, Attempt: math.MaxUint32},
		Incarnation: r.Incarnation, Newest: r.LastCheckpoint, Keep: keep, Ended: true,
	})
}
