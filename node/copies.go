package node

import (
	"context"
	"slices"

	"cutwater/messages"
	"cutwater/protocol/job"
	"cutwater/protocol/metadata"
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

// needsCopies reports whether a node on which no task of the job runs may get some.
func needsCopies(r *messages.JobRecord, node string) bool {
	if r.GetJob() == "" || metadata.Ended(r.GetStatus()) || !r.GetSettings().GetLocalRecovery() {
		return false
	}
	return r.GetDeployment() == nil || slices.ContainsFunc(r.Deployment.Slots, func(s *messages.NodeSlots) bool { return job.SameNode(s.Node, node) })
}
