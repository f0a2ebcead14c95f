package job

import (
	"cutwater/messages"
	"cutwater/protocol/checkpoint"
)

// The job's checkpoint directory is swept twice in the life of an attempt: when its
// first checkpoint has completed, and when the job has ended with it. What the tasks
// of earlier attempts left is of no use to anybody then: see
// [checkpoint.Coordinator.SweepBefore], and docs/design/015-sweep.md for why then.

// sweepBehind sweeps what earlier attempts left. A plain savepoint proves nothing:
// the metadata store was not asked. Nobody was before the first attempt of all.
func (m *Master) sweepBehind(c checkpoint.Completed) {
	if m.swept || m.phase == stopping || c.Type == messages.CheckpointType_SAVEPOINT || m.epoch == 1 && m.attempts == 1 {
		return
	}
	m.swept = true
	m.ask(m.coordinator.SweepBefore(m.oldest()))
}

// sweepLast sweeps what all attempts left, the last one too, once a job has ended for
// good and its checkpoints are let go. A job that may go on from where it stands does
// it then. One that deployed nothing may not know its checkpoints.
func (m *Master) sweepLast() {
	ended := m.phase == over && (m.status == messages.JobStatus_FINISHED || m.status == messages.JobStatus_CANCELED)
	if !ended || m.sweptLast || m.left || !m.started || !m.coordinator.Settled() {
		return
	}
	m.sweptLast = true
	last := m.coordinator.SweepBefore(m.attempt + 1)
	last.Ended = true
	m.ask(last)
}

// sweepAnswered: nothing depends on it but space. The next attempt sweeps again.
func (m *Master) sweepAnswered(t *messages.SweepCheckpoints, w *messages.WorkDone) {
	if s := w.GetCheckpointsSwept(); w.Failure == "" {
		m.event(Swept{Files: s.GetFiles(), Bytes: s.GetBytes(), Last: t.Ended})
		return
	}
	m.event(SweepFailed{w.Failure})
}
