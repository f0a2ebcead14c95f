package metadata

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"cutwater/messages"
)

// allocate takes the next checkpoint id: max(last + 1, at_least). An answer that
// got lost costs an id, never a repetition.
func (m *Machine) allocate(c *messages.AllocateCheckpointId) *messages.MetadataResult {
	r, no := m.current(c.Job, c.Epoch)
	if no != nil {
		return no
	}
	r.LastCheckpoint = max(r.LastCheckpoint+1, c.AtLeast)
	result := applied(r)
	result.Checkpoint = r.LastCheckpoint
	return result
}

// recordCompletion makes a checkpoint complete and takes those that it subsumes
// off the list, in one step. Repeating it is success.
func (m *Machine) recordCompletion(c *messages.RecordCompletion) *messages.MetadataResult {
	r, no := m.current(c.Job, c.Epoch)
	if no != nil {
		return no
	}
	id := c.GetCheckpoint().GetCheckpoint()
	switch {
	case id == 0:
		return refused("the completion of a checkpoint of job %s carries no checkpoint id", c.Job)
	case id > r.LastCheckpoint:
		return refused("checkpoint %d of job %s was never allocated: the last id is %d", id, c.Job, r.LastCheckpoint)
	case c.Checkpoint.Epoch != c.Epoch:
		return refused("checkpoint %d of job %s was taken in epoch %d, but epoch %d reports it", id, c.Job, c.Checkpoint.Epoch, c.Epoch)
	case slices.Contains(c.Subsumed, id):
		return refused("checkpoint %d of job %s cannot subsume itself", id, c.Job)
	}
	i, found := slices.BinarySearchFunc(r.Completed, id, compareCheckpoint)
	if found {
		if r.Completed[i].MetadataHash != c.Checkpoint.MetadataHash {
			return refused("checkpoint %d of job %s is recorded with hash %016x and cannot be recorded again with hash %016x",
				id, c.Job, r.Completed[i].MetadataHash, c.Checkpoint.MetadataHash)
		}
		result := applied(r)
		result.Outcome, result.Checkpoint = messages.MetadataOutcome_ALREADY_RECORDED, id
		return result
	}
	r.Completed = slices.Insert(r.Completed, i, proto.CloneOf(c.Checkpoint))
	r.LastCompleted = max(r.LastCompleted, id)
	remove(r, c.Subsumed)
	result := applied(r)
	result.Checkpoint = id
	return result
}

// forget takes checkpoints off the list, before their files are deleted. Ids
// that are not on it are forgotten already.
func (m *Machine) forget(c *messages.ForgetCheckpoints) *messages.MetadataResult {
	r, no := m.current(c.Job, c.Epoch)
	if no != nil {
		return no
	}
	remove(r, c.Checkpoints)
	return applied(r)
}

func remove(r *messages.JobRecord, ids []uint64) {
	r.Completed = slices.DeleteFunc(r.Completed, func(c *messages.CompletedCheckpoint) bool {
		return slices.Contains(ids, c.Checkpoint)
	})
}

func compareCheckpoint(c *messages.CompletedCheckpoint, id uint64) int {
	switch {
	case c.Checkpoint < id:
		return -1
	case c.Checkpoint > id:
		return 1
	}
	return 0
}
