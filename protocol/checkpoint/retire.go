package checkpoint

import "cutwater/messages"

// retire deletes what the retention policy does not keep, once the job has
// ended and every outcome is known.
func (c *Coordinator) retire() {
	if c.life != ending || c.retired || len(c.finalizing) > 0 {
		return
	}
	c.retired = true
	c.forget()
}

// forget takes the checkpoints that go off the job's record, before anything of
// them is deleted: a crash in between leaves files, never a record without them.
func (c *Coordinator) forget() {
	var going []*completedCheckpoint
	for _, e := range c.store.list {
		if e.discardable() && !retainedAt(c.settings.Retention, c.endStatus) {
			going = append(going, e)
		}
	}
	if len(going) == 0 {
		return
	}
	c.ask(operation{kind: forgetCheckpoints, forget: going}, &messages.Propose{Command: &messages.MetadataCommand{
		Command: &messages.MetadataCommand_ForgetCheckpoints{ForgetCheckpoints: &messages.ForgetCheckpoints{
			Job: c.config.Job, Epoch: c.config.Epoch, Checkpoints: ids(going),
		}},
	}})
}

// forgotten deletes what the store has forgotten. Forgetting again is safe, so
// an unknown outcome is asked for until it is known, or for so long that the
// checkpoints stay: on the record and on the disk.
func (c *Coordinator) forgotten(going []*completedCheckpoint, m *messages.WorkDone) {
	ok, unknown, failure := applied(m)
	switch {
	case unknown && c.forgetting < maxForgets:
		c.forgetting++
		c.outcomeUnknown("forgetting checkpoints", failure)
		c.arm(retryKey, nil, retryMs)
		return
	case !ok:
		c.emit(ForgetFailed{failure})
		return
	}
	c.store.remove(ids(going))
	for _, e := range going {
		c.registry.unregister(e.shared, c.newest)
		c.deleteCompleted(e, "the job is "+c.endStatus.String())
	}
	c.collectShared()
}
