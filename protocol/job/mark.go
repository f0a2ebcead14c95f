package job

import (
	"slices"

	"cutwater/messages"
)

// In a cluster the checkpoint folder is marked as soon as an epoch is taken, and every
// task that is deployed in the epoch looks for the mark: see Store.Mark in package
// storage. Tasks that are taken over have seen the mark of the coordinator that deployed
// them, so it is the new one that looks for that.

// mark is the epoch whose mark the tasks can look for, or 0.
func (m *Master) mark() uint64 {
	if slices.Contains(m.marks, m.epoch) {
		return m.epoch
	}
	return 0
}

// elsewhere reports whether the tasks of a deployment write to another folder than this
// coordinator sees. What is not marked says nothing.
func (m *Master) elsewhere(d *messages.Deployment) bool {
	return m.mark() != 0 && d.Mark != 0 && !slices.Contains(m.marks, d.Mark)
}
