package job

import (
	"fmt"
	"slices"

	"cutwater/messages"
	"cutwater/messages/describe"
	"cutwater/protocol"
)

// fail ends the attempt because of err. Once the tasks have ended, the restart
// strategy says what comes next; where no restart can mend err, it is not asked and
// the job fails. While the job stops anyway it changes nothing.
func (m *Master) fail(err error) {
	switch m.phase {
	case stopping:
		if m.failed == nil {
			return
		}
	case recording, over:
		return
	case suspending:
		// The user wants it stopped: the newest checkpoint serves.
		m.stop(messages.JobStatus_SUSPENDED)
		return
	}
	m.failure = err
	m.setStatus(messages.JobStatus_FAILING, err.Error())
	if noRestart(err) {
		m.stop(messages.JobStatus_FAILED)
	} else {
		m.stop(messages.JobStatus_RESTARTING)
	}
}

// refuse ends a job that cannot start as it is, now or again. It keeps every checkpoint: they
// are not what is wrong.
func (m *Master) refuse(err error) {
	m.keep = true
	if m.failed != nil { // the others still run
		m.giveUp(err)
		return
	}
	m.finish(messages.JobStatus_FAILED, err)
}

// giveUp ends a job that has failed for good, while tasks still run.
func (m *Master) giveUp(err error) {
	m.failure = err
	m.setStatus(messages.JobStatus_FAILING, err.Error())
	m.stop(messages.JobStatus_FAILED)
}

// finish ends a job whose tasks have ended, if there were any.
func (m *Master) finish(status messages.JobStatus, err error) {
	m.failure = err
	if m.epoch == 0 {
		// It has no right to write: the record stays as it is.
		m.phase = over
		m.setStatus(status, err.Error())
		m.closeHooks()
		return
	}
	m.record(status)
}

// cancel ends the job at once.
func (m *Master) cancel() { m.endWith(messages.JobStatus_CANCELED) }

// suspend ends the job after one last checkpoint, or at once if not all tasks
// run: then the newest checkpoint serves.
func (m *Master) suspend() {
	if m.phase != running {
		m.endWith(messages.JobStatus_SUSPENDED)
		return
	}
	m.phase = suspending
	m.take(m.coordinator.Step(m.nowMs, &messages.RequestCheckpoint{
		Job:     m.config.Job,
		Request: suspendRequest,
		Type:    messages.CheckpointType_CHECKPOINT,
	}))
}

// endWith brings the job to an end that the user asked for, from any phase.
func (m *Master) endWith(status messages.JobStatus) {
	if m.failed != nil { // some tasks run, whatever becomes of the others
		m.cancelling(status)
		m.stop(status)
		return
	}
	switch m.phase {
	case recording, over:
		// It ends already.
	case suspending:
		if status == messages.JobStatus_CANCELED {
			m.cancelling(status)
			m.stop(status)
		}
	case stopping:
		// Of two ends the stronger one counts, and what has finished stays so.
		if m.target == messages.JobStatus_RESTARTING || m.target == messages.JobStatus_SUSPENDED {
			m.target = status
			m.cancelling(status)
		}
	case created, claiming:
		m.target = status // recorded once there is an epoch
	case loading, adopting, discovering:
		if m.takeover != nil {
			m.endTakeover(status)
			return
		}
		m.endBefore(status)
	case deploying, running:
		m.cancelling(status)
		m.stop(status)
	case waiting:
		m.disarm(restartTimer)
		m.record(status)
	default: // reading, hooking, acquiring
		m.endBefore(status)
	}
}

// endBefore ends a job of which nothing was deployed by this coordinator.
func (m *Master) endBefore(status messages.JobStatus) {
	m.keep = true
	m.record(status)
}

func (m *Master) cancelling(status messages.JobStatus) {
	if status == messages.JobStatus_CANCELED {
		m.setStatus(messages.JobStatus_CANCELLING, "")
	}
}

// stop lets the attempt end: no more checkpoints, every task is cancelled. What
// comes next is decided by settle.
func (m *Master) stop(target messages.JobStatus) {
	if m.phase == waiting {
		m.disarm(restartTimer)
	}
	m.phase, m.sinceMs, m.target = stopping, m.elapsedMs, target
	m.stopAsked, m.failed, m.reads = false, nil, nil
	switch target {
	case messages.JobStatus_RESTARTING, messages.JobStatus_FAILED:
		m.take(m.coordinator.Failover(m.nowMs))
	default:
		m.take(m.coordinator.StopScheduler(m.nowMs))
	}
	for _, e := range m.tasks {
		if !e.terminal() {
			m.cancelTask(e)
		}
	}
}

// settle goes on after a stop, once the tasks that stop have ended and no completion is
// outstanding: before that it is not known which checkpoint is the newest.
func (m *Master) settle() {
	if m.phase != stopping || m.coordinator.Finalizing() ||
		slices.ContainsFunc(m.tasks, func(e *execution) bool { return m.stops(e) && !e.terminal() }) {
		return
	}
	if m.failed == nil {
		m.disarm(tickTimer)
	}
	if m.target == messages.JobStatus_SUSPENDED && m.all(finished) {
		m.target = messages.JobStatus_FINISHED // there is nothing left to resume
	}
	if m.target == messages.JobStatus_FAILED && noRestart(m.failure) {
		m.failure = fmt.Errorf("%w; no restart was tried, because none can mend this", m.failure)
	}
	if m.target != messages.JobStatus_RESTARTING {
		m.record(m.target)
		return
	}
	delayMs, giveUp := m.restarts.Failed(m.nowMs, m.random)
	if giveUp != "" {
		m.failure = fmt.Errorf("%w; %s", m.failure, giveUp)
		m.keep = !m.started // as with every end of a job that could not start
		if m.failed != nil {
			m.giveUp(m.failure)
			m.settle()
			return
		}
		m.record(messages.JobStatus_FAILED)
		return
	}
	m.phase, m.target = waiting, messages.JobStatus_JOB_STATUS_UNSPECIFIED
	m.setStatus(messages.JobStatus_RESTARTING, "")
	m.proposeStatus(messages.JobStatus_RESTARTING)
	m.event(RestartDelayed{DelayMs: delayMs})
	m.arm(restartTimer, delayMs)
}

// record makes the job's end durable.
func (m *Master) record(status messages.JobStatus) {
	protocol.Assert(status != messages.JobStatus_RESTARTING, "a restart would be recorded as the end of the job")
	m.phase, m.target = recording, status
	m.proposeStatus(status)
}

func (m *Master) proposeStatus(status messages.JobStatus) {
	c := &messages.SetJobStatus{Job: m.config.Job, Epoch: m.epoch, Status: status, AtMs: m.nowMs}
	if status == messages.JobStatus_RUNNING {
		c.Deployment = m.deployment()
		c.Deployment.Mark = m.mark()
	}
	if m.failure != nil && (status == messages.JobStatus_FAILED || status == messages.JobStatus_RESTARTING) {
		c.Failure = describe.Error(m.failure)
	}
	m.propose(&messages.MetadataCommand{Command: &messages.MetadataCommand_SetJobStatus{SetJobStatus: c}})
}

// recorded: the job has ended for good. Only now may checkpoints go.
func (m *Master) recorded(r *messages.MetadataResult) {
	m.phase = over
	status := m.target
	if r.Outcome != messages.MetadataOutcome_APPLIED {
		status = messages.JobStatus_FAILED
		m.keep = true
		m.failure = fmt.Errorf("the end of job %s as %s could not be recorded: %s", m.config.Job, m.target, r.Failure)
	}
	cause := ""
	if status == messages.JobStatus_FAILED {
		cause = m.failure.Error()
	}
	m.setStatus(status, cause)
	m.closeHooks()
	if m.coordinator == nil {
		return
	}
	if m.keep {
		status = messages.JobStatus_SUSPENDED // under which every checkpoint is kept
	}
	m.take(m.coordinator.Shutdown(m.nowMs, status))
}

// fenced ends the Master without a word to the tasks: they belong to whoever took
// over.
func (m *Master) fenced() {
	if m.phase == over {
		m.sweptLast = true // the directory is the other coordinator's
		return
	}
	m.phase = over
	m.left = true
	m.failure = ErrFenced
	m.closeHooks()
	m.eff.Fail = ErrFenced
}
