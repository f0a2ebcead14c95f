package checkpoint

import (
	"slices"
	"strings"

	"cutwater/messages"
)

// completedCheckpoint is one entry of the store view.
type completedCheckpoint struct {
	record *messages.CompletedCheckpoint
	// synchronous: it is a stop-with-savepoint of this coordinator.
	synchronous bool
	// shared are the files that are the registry's: those that it shares with
	// others, or all of them if its directory is not the job's own, because a
	// user handed it over.
	shared []*messages.StateHandle
	// unread: its metadata could not be read, so it may share any file that an
	// older one wrote.
	unread bool
}

// discardable reports whether the job may delete it: savepoints and what was
// restored without being claimed belong to the user.
func (c *completedCheckpoint) discardable() bool {
	return !c.record.Savepoint && !c.record.Unclaimed
}

// ownDirectory reports whether it stands in the job's checkpoint directory.
func (c *completedCheckpoint) ownDirectory() bool {
	at := c.record.Location
	return !strings.HasPrefix(at, "/") && !strings.Contains(at, "://")
}

// completedStore is the view of the job's record in the metadata store: the
// completed checkpoints, ascending by id (Flink: CompletedCheckpointStore).
type completedStore struct {
	retain int
	list   []*completedCheckpoint
}

// latest returns the newest, or nil.
func (s *completedStore) latest() *completedCheckpoint {
	if len(s.list) == 0 {
		return nil
	}
	return s.list[len(s.list)-1]
}

// unread reports whether an entry's files are not known.
func (s *completedStore) unread() bool {
	return slices.ContainsFunc(s.list, func(c *completedCheckpoint) bool { return c.unread })
}

// find returns the entry of an id, or nil.
func (s *completedStore) find(id uint64) *completedCheckpoint {
	for _, c := range s.list {
		if c.record.Checkpoint == id {
			return c
		}
	}
	return nil
}

// add enters an entry.
func (s *completedStore) add(c *completedCheckpoint) {
	at, _ := slices.BinarySearchFunc(s.list, c.record.Checkpoint, func(e *completedCheckpoint, id uint64) int {
		if e.record.Checkpoint < id {
			return -1
		}
		return 1
	})
	s.list = slices.Insert(s.list, at, c)
}

// remove takes entries out.
func (s *completedStore) remove(ids []uint64) {
	s.list = slices.DeleteFunc(s.list, func(c *completedCheckpoint) bool {
		return slices.Contains(ids, c.record.Checkpoint)
	})
}

// subsumedBy returns the entries, oldest first, that leave when the entry is
// added (Flink: CheckpointSubsumeHelper). The newest stays, and the newest that
// is no savepoint, because increments lean on it, unless the job ends with the
// newest.
func (s *completedStore) subsumedBy(added *completedCheckpoint) []*completedCheckpoint {
	after := completedStore{retain: s.retain, list: slices.Clone(s.list)}
	after.add(added)
	newest := after.latest()
	var base *completedCheckpoint
	for _, c := range after.list {
		if !c.record.Savepoint {
			base = c
		}
	}
	var subsumed []*completedCheckpoint
	for _, c := range after.list {
		if len(after.list)-len(subsumed) <= s.retain {
			break
		}
		if c == newest || c == added || c == base && !newest.synchronous {
			continue
		}
		subsumed = append(subsumed, c)
	}
	return subsumed
}

// retainedAt reports whether the policy keeps checkpoints when the job ends in
// this status (Flink: CheckpointProperties). A suspended job will run again, so
// it keeps them under every policy.
func retainedAt(policy messages.Retention, status messages.JobStatus) bool {
	switch status {
	case messages.JobStatus_SUSPENDED:
		return true
	case messages.JobStatus_FAILED:
		return policy == messages.Retention_RETAIN_ON_FAILURE || policy == messages.Retention_RETAIN_ON_CANCELLATION
	case messages.JobStatus_CANCELED:
		return policy == messages.Retention_RETAIN_ON_CANCELLATION
	}
	return false
}
