package job

import (
	"fmt"

	"cutwater/messages"
)

// workDone gives an answer to whoever asked.
func (m *Master) workDone(w *messages.WorkDone) {
	task, mine := m.asked[w.Op]
	if !mine {
		if m.coordinator == nil || !m.coordinator.Owns(w.Op) {
			m.drop(fmt.Sprintf("answer %d", w.Op))
			return
		}
		m.hookTriggered(w)
		m.toCoordinator(w)
		return
	}
	delete(m.asked, w.Op)
	switch t := task.(type) {
	case *messages.Propose:
		m.proposed(t.Command, w)
	case *messages.ReadJob:
		if w.Failure != "" {
			m.unavailable("reading the job", w.Failure)
			return
		}
		m.unavailableMs = -1
		m.recordRead(w.GetJobRecord())
	case *messages.LoadCheckpoint:
		m.checkpointLoaded(w)
	case *messages.RestoreMasterHook:
		m.hookAnswered(t.Hook, w)
	case *messages.ResetMasterHook:
		m.hookAnswered(t.Hook, w)
	case *messages.CloseMasterHook:
		if w.Failure != "" {
			m.event(HookFailed{Hook: t.Hook, Failure: w.Failure})
		}
	case *messages.SweepCheckpoints:
		m.sweepAnswered(t, w)
	case *messages.DiscoverSplits:
		m.splitsDiscovered(t.Uid, w)
	}
}

// proposed takes the metadata store's answer to one of the Master's commands.
func (m *Master) proposed(c *messages.MetadataCommand, w *messages.WorkDone) {
	result := w.GetMetadata()
	if result.GetOutcome() == messages.MetadataOutcome_STALE_EPOCH {
		m.fenced()
		return
	}
	failure := w.Failure
	switch result.GetOutcome() {
	case messages.MetadataOutcome_METADATA_OUTCOME_UNSPECIFIED, messages.MetadataOutcome_UNKNOWN:
		if failure == "" {
			failure = result.GetFailure()
		}
		if failure == "" {
			failure = "the outcome is unknown"
		}
	}
	if failure == "" {
		m.unavailableMs = -1
	}
	switch t := c.Command.(type) {
	case *messages.MetadataCommand_StartEpoch:
		if failure != "" {
			m.unavailable("StartEpoch", failure)
			return
		}
		m.marks = w.Marks
		m.epochStarted(result)
	case *messages.MetadataCommand_SetJobStatus:
		if m.phase != recording || t.SetJobStatus.Status != m.target {
			// That it restarts is for people; that it runs, and where, the next
			// coordinator must know. What is answered late may have been applied late.
			switch t.SetJobStatus.Status {
			case messages.JobStatus_RUNNING:
				m.unrecorded = m.unrecorded || failure != "" || t.SetJobStatus.GetDeployment().GetAttempt() != m.attempt
			case messages.JobStatus_RESTARTING:
				m.unrecorded = m.unrecorded || m.phase == running
			}
			return
		}
		if failure != "" {
			m.unavailable("SetJobStatus", failure)
			return
		}
		m.recorded(result)
	}
}

// retry asks again what the metadata store did not answer.
func (m *Master) retry() {
	switch m.phase {
	case claiming:
		m.claim()
	case reading:
		m.ask(&messages.ReadJob{Job: m.config.Job})
	case recording:
		m.proposeStatus(m.target)
	}
}

// timerFired ignores what is not the latest generation of its key.
func (m *Master) timerFired(t *messages.TimerFired) {
	generation, mine := m.timers[t.Key]
	switch {
	case !mine:
		m.toCoordinator(t)
	case generation != t.Generation:
		// It was on its way when the timer was armed again or cancelled.
	case t.Key == tickTimer:
		m.tick()
	case t.Key == slotsTimer:
		m.slotsTick()
	case t.Key == retryTimer:
		m.retry()
	case t.Key == adoptTimer:
		m.adoptTick()
	case t.Key == restartTimer && m.phase == waiting:
		m.again()
	}
}
