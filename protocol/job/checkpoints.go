package job

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"cutwater/messages"
	"cutwater/messages/describe"
	"cutwater/protocol"
	"cutwater/protocol/checkpoint"
)

// suspendRequest numbers the Master's own request for a last checkpoint; its
// outcome is for nobody else.
const suspendRequest = 1<<64 - 1

// toCoordinator hands a message to the checkpoint coordinator.
func (m *Master) toCoordinator(message proto.Message) {
	if m.coordinator == nil {
		m.drop(fmt.Sprintf("%s: the job has not started", message.ProtoReflect().Descriptor().Name()))
		return
	}
	m.take(m.coordinator.Step(m.nowMs, message))
}

// take adds the effects of the coordinator to the Master's own. What concerns the
// Master itself is handled on the spot: snapshots of enumerators are taken, gates
// are opened, and a failure fails the attempt.
func (m *Master) take(e *protocol.Effects) {
	var answers []*messages.WorkDone
	for _, w := range e.Work {
		switch t := w.Task.(type) {
		case *messages.SnapshotOperatorCoordinator:
			if !m.postpone(w.Op, t) {
				answers = append(answers, m.answerSnapshot(w.Op, t))
			}
			continue
		case *messages.WriteMetadata:
			m.stamp(t.Metadata)
		case *messages.RunMasterHook:
			m.triggered[w.Op] = t.Hook
		}
		m.eff.Work = append(m.eff.Work, w)
	}
	var outcomes []*messages.CheckpointOutcome
	for _, s := range e.Send {
		if o, ok := s.Message.(*messages.CheckpointOutcome); ok {
			outcomes = append(outcomes, o)
			if o.Request == suspendRequest {
				continue
			}
		}
		m.eff.Send = append(m.eff.Send, s)
	}
	m.eff.Timers = append(m.eff.Timers, e.Timers...)
	fail := e.Fail
	// The events are copied first: opening a gate may not touch the slice that the
	// coordinator reuses.
	first := len(m.eff.Events)
	m.eff.Events = append(m.eff.Events, e.Events...)
	for i := first; i < first+len(e.Events); i++ {
		m.checkpointEvent(m.eff.Events[i])
	}
	for _, o := range outcomes {
		m.outcome(o)
	}
	for _, a := range answers {
		m.take(m.coordinator.Step(m.nowMs, a))
	}
	switch {
	case errors.Is(fail, ErrFenced):
		m.fenced()
	case fail != nil:
		m.fail(fail)
	}
}

func (m *Master) answerSnapshot(op uint64, t *messages.SnapshotOperatorCoordinator) *messages.WorkDone {
	snapshot, err := m.snapshotSource(t)
	if err != nil {
		return &messages.WorkDone{Op: op, Failure: describe.Error(err)}
	}
	return &messages.WorkDone{Op: op, Result: &messages.WorkDone_CoordinatorSnapshot{CoordinatorSnapshot: snapshot}}
}

// stamp writes into the metadata what only the Master knows: the schema of each
// operator's state.
func (m *Master) stamp(metadata *messages.CheckpointMetadata) {
	specs := index(m.config.Graph)
	for _, s := range metadata.GetOperators() {
		s.StateSchema = specs[s.Uid].GetStateSchema()
	}
}

func (m *Master) checkpointEvent(e protocol.Event) {
	switch e := e.(type) {
	case checkpoint.Acknowledged:
		if e.Result == checkpoint.Success {
			m.acknowledged(e.Checkpoint, e.Task)
		}
	case checkpoint.Completed:
		m.concluded(e.Checkpoint)
		m.completed(e)
		m.sweepBehind(e)
	case checkpoint.Aborted:
		m.concluded(e.Checkpoint)
		m.finalDue = m.endOfData
	case checkpoint.RequestFailed:
		m.finalDue = m.endOfData
	}
}

// outcome takes the answer to a request that changes the job's life.
func (m *Master) outcome(o *messages.CheckpointOutcome) {
	failed := o.Reason != messages.FailureReason_FAILURE_REASON_UNSPECIFIED
	switch {
	case o.Request == suspendRequest && m.phase == suspending:
		// Without the last checkpoint the newest one before it serves.
		m.stop(messages.JobStatus_SUSPENDED)
	case m.stopAsked && o.Request == m.stopRequest && failed:
		m.stopAsked = false
		if m.phase == running {
			m.take(m.coordinator.StartScheduler(m.nowMs, m.random))
		}
	}
}

// requestCheckpoint passes a user's request on. A stop-with-savepoint stops the
// periodic checkpoints first; its failure starts them again.
func (m *Master) requestCheckpoint(r *messages.RequestCheckpoint) {
	if m.coordinator == nil {
		m.send(checkpoint.Requester, &messages.CheckpointOutcome{Job: r.Job, Request: r.Request,
			Reason: messages.FailureReason_NOT_ALL_REQUIRED_TASKS_RUNNING, Cause: "the job has not started"})
		return
	}
	stop := r.Type == messages.CheckpointType_SAVEPOINT_SUSPEND || r.Type == messages.CheckpointType_SAVEPOINT_TERMINATE
	if stop && m.phase == running {
		m.stopAsked, m.stopRequest = true, r.Request
		m.take(m.coordinator.StopScheduler(m.nowMs))
	}
	m.toCoordinator(r)
}

// setExecutions tells the coordinator how the tasks stand; Poll or the next step
// draws the conclusions.
func (m *Master) setExecutions() {
	m.executions = &checkpoint.Executions{Plan: m.plan, Tasks: make([]checkpoint.Execution, len(m.tasks))}
	for i, e := range m.tasks {
		e.index = i
		m.setExecution(e)
	}
}

// setExecution tells the coordinator how one task stands. The others are left alone:
// a thousand tasks that start would otherwise be told a thousand times.
func (m *Master) setExecution(e *execution) {
	m.executions.Tasks[e.index] = checkpoint.Execution{
		Task:             e.task,
		Attempt:          e.attempt(),
		Vertex:           e.vertex,
		State:            e.state,
		Address:          e.address,
		DeployedFinished: e.deploy.Finished,
		EndOfData:        e.ended,
	}
	m.coordinator.SetExecutions(m.executions)
}

// triggerFinal takes the checkpoint after which the tasks may finish.
func (m *Master) triggerFinal() {
	m.finalDue, m.finalTicks = false, 0
	m.take(m.coordinator.TriggerFinal(m.nowMs))
}
