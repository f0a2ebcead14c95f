package node

import (
	"context"
	"errors"
	"slices"
	"time"

	"cutwater/cluster/metadata"
	"cutwater/messages"
	"cutwater/protocol/job"
	machine "cutwater/protocol/metadata"
)

// SweepCopies deletes the copies of state files that no task here needs any more: those
// of jobs that have ended or are not known, and of jobs that run on other nodes alone. It
// is for the start of a node and for now and then; where nothing is kept it costs a look
// into an empty folder. Errors are those of the metadata store, which leave all as it is,
// and of the disk.
func (r *Runtime) SweepCopies(ctx context.Context) error {
	if r.copies == nil {
		return nil
	}
	var unknown error
	err := r.copies.Sweep(func(id string) bool {
		record, err := r.deps.Metadata.Job(ctx, id)
		if err != nil {
			unknown = err
			return true
		}
		return needsCopies(record, r.deps.System.Node())
	})
	if err == nil {
		err = unknown
	}
	return err
}

// sweepEvery is how often a node sweeps its copies.
const sweepEvery = 10 * time.Second

// sweepCopies sweeps the node's copies as long as the session lives. Where it cannot, the
// copies take space and do no other harm.
func (s *session) sweepCopies() {
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	failing := false
	for {
		err := s.runtime.SweepCopies(s.ctx)
		if err != nil && s.ctx.Err() == nil && !failing && !errors.Is(err, metadata.ErrUnavailable) {
			s.member.options.Log.Warn("copies of state that are not needed any more stay in the data folder", "error", err)
		}
		failing = err != nil
		select {
		case <-s.ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// needsCopies reports whether a node on which no task of the job runs may get some.
func needsCopies(r *messages.JobRecord, node string) bool {
	if r.GetJob() == "" || machine.Ended(r.GetStatus()) || !r.GetSettings().GetLocalRecovery() {
		return false
	}
	return r.GetDeployment() == nil || slices.ContainsFunc(r.Deployment.Slots, func(s *messages.NodeSlots) bool { return job.SameNode(s.Node, node) })
}
