package job

import (
	"errors"
	"fmt"

	"cutwater/messages"
)

// ErrStoreUnavailable ends a Master whose metadata store did not answer for too
// long. What it did not record, the next coordinator of the job does again.
var ErrStoreUnavailable = errors.New("the metadata store does not answer")

const (
	// patienceMs is how long the metadata store may leave a command without an
	// answer before the Master gives up.
	patienceMs = 60_000
	// endPatienceMs is the same for a job that is to end: somebody waits for it,
	// and the last checkpoint serves.
	endPatienceMs = 10_000
)

// unavailable asks the metadata store again after a while, or no more.
func (m *Master) unavailable(what, failure string) {
	if m.unavailableMs < 0 {
		m.unavailableMs = m.nowMs
	}
	m.event(StoreUnavailable{What: what, Failure: failure})
	if m.outOfPatience(m.nowMs - m.unavailableMs) {
		m.leave(what + ": " + failure)
		return
	}
	m.arm(retryTimer, retryMs)
}

// debt is that the metadata store owes the coordinator an outcome: since when by
// the clock, which tells one debt from another, and by elapsedMs.
type debt struct{ atMs, sinceMs int64 }

// unanswered gives up when a command of the checkpoint coordinator has had no
// answer for too long. It is called each tick.
func (m *Master) unanswered() {
	at, why := m.coordinator.Unanswered()
	if why == "" {
		return
	}
	if at != m.owed.atMs {
		m.owed = debt{at, m.elapsedMs - passed(at, m.nowMs)}
	}
	if m.outOfPatience(m.elapsedMs - m.owed.sinceMs) {
		m.leave(why)
	}
}

func (m *Master) outOfPatience(waitedMs int64) bool {
	limit := int64(patienceMs)
	if m.ending() {
		limit = endPatienceMs
	}
	return waitedMs >= limit
}

// ending reports whether the job is to stop, and not to start again.
func (m *Master) ending() bool {
	switch m.phase {
	case suspending, recording:
		return true
	case claiming:
		return m.target != messages.JobStatus_JOB_STATUS_UNSPECIFIED
	case stopping:
		return m.target != messages.JobStatus_RESTARTING
	}
	return false
}

// leave ends the Master without an end of the job on record, as a crash would:
// the tasks are cancelled, nothing is deleted, and a later coordinator goes on
// from the newest checkpoint that the store has recorded.
func (m *Master) leave(why string) {
	for _, e := range m.tasks {
		if !e.terminal() {
			m.cancelTask(e)
		}
	}
	m.phase, m.left = over, true
	m.failure = fmt.Errorf("%w; when it does, the job goes on from its last checkpoint: %s", ErrStoreUnavailable, why)
	m.setStatus(messages.JobStatus_FAILED, m.failure.Error())
	m.closeHooks()
	m.eff.Fail = m.failure
}
