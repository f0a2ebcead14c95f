package job

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"cutwater/messages"
)

// execution is the task of that name in the current attempt, or nil.
func (m *Master) execution(id *messages.TaskId) *execution {
	if i := m.indexOf(id); i >= 0 && i < len(m.tasks) {
		return m.tasks[i]
	}
	return nil
}

// indexOf is the place of a task in the order of the plan, or -1.
func (m *Master) indexOf(id *messages.TaskId) int {
	first := 0 // of the vertex
	for _, v := range m.plan.Vertices {
		if v.Id == id.GetVertex() && id.GetSubtask() < v.Parallelism {
			return first + int(id.GetSubtask())
		}
		first += int(v.Parallelism)
	}
	return -1
}

// taskStateChanged takes and acknowledges a report. States only go forward: a
// report that is behind the last one was overtaken or repeated.
func (m *Master) taskStateChanged(r *messages.TaskStateChanged) {
	ack := &messages.TaskStateAck{Fence: r.Fence, Task: r.Task, State: r.State}
	e := m.sender(r.Fence, r.Task)
	if e == nil {
		m.drop("report " + r.State.String() + " of " + taskName(r.Task))
		if m.past(r.Fence, r.Task) {
			// Whoever sends it stops only when it is acknowledged, and the node
			// that it ran on is not known any more.
			for _, n := range m.config.Nodes {
				m.send(TaskAddress(n.Name, r.Fence, r.Task), ack)
			}
		}
		return
	}
	m.send(e.address, ack)
	e.reported = true
	if e.terminal() || r.State <= e.state {
		return
	}
	m.taskIs(e, r.State, r.Failure)
}

// taskIs moves a task to a state and the job with it.
func (m *Master) taskIs(e *execution, state messages.TaskState, failure *messages.Failure) {
	e.state = state
	m.event(TaskChanged{Task: e.task, Attempt: e.attempt(), State: state, Failure: failure.GetMessage()})
	m.setExecution(e)
	switch {
	case m.stops(e):
	case state == messages.TaskState_TASK_FAILED:
		m.failTask(e, &TaskFailedError{Task: taskName(e.task), Node: e.node, Failure: failure})
	case state == messages.TaskState_TASK_CANCELED:
		m.failTask(e, &TaskFailedError{Task: taskName(e.task), Node: e.node,
			Failure: &messages.Failure{Message: "it was cancelled, but not by its coordinator"}})
	default:
		if err := m.torn(); err != nil {
			m.fail(err)
			return
		}
		m.take(m.coordinator.Poll(m.nowMs))
		m.progress()
	}
}

// all reports whether every task of the attempt, of which there is one at least,
// is so.
func (m *Master) all(is func(*execution) bool) bool {
	return len(m.tasks) > 0 && !slices.ContainsFunc(m.tasks, func(e *execution) bool { return !is(e) })
}

func finished(e *execution) bool { return e.state == messages.TaskState_TASK_FINISHED }

// progress looks whether all tasks run, have ended their data or have finished.
func (m *Master) progress() {
	if m.phase == deploying && m.all(func(e *execution) bool { return finished(e) || e.state == messages.TaskState_TASK_RUNNING }) {
		m.phase, m.sinceMs = running, m.elapsedMs
		m.setStatus(messages.JobStatus_RUNNING, "")
		m.proposeStatus(messages.JobStatus_RUNNING)
		m.take(m.coordinator.StartScheduler(m.nowMs, m.random))
	}
	if m.phase != running && m.phase != suspending {
		return
	}
	if m.all(finished) {
		m.stop(messages.JobStatus_FINISHED)
		return
	}
	if !m.endOfData && m.all(func(e *execution) bool { return finished(e) || e.ended || e.deploy.Finished }) {
		m.endOfData = true
		m.triggerFinal()
	}
}

// endOfDataReached takes and acknowledges the report that a task's input ended.
func (m *Master) endOfDataReached(r *messages.EndOfDataReached) {
	e := m.sender(r.Fence, r.Task)
	if e == nil {
		m.drop("end of data of " + taskName(r.Task))
		return
	}
	m.send(e.address, &messages.EndOfDataAck{Fence: r.Fence, Task: r.Task})
	if e.ended || e.terminal() {
		return
	}
	e.ended = true
	m.setExecution(e)
	m.progress()
}

// heartbeat takes a task manager's sign of life, and what it runs.
func (m *Master) heartbeat(h *messages.Heartbeat) {
	current := m.current(h.Fence)
	listed := make(map[*execution]bool, len(h.Tasks))
	for i, t := range h.Tasks {
		f := h.Fence
		if i < len(h.Attempts) {
			f = &messages.Fence{Job: f.GetJob(), Epoch: f.GetEpoch(), Attempt: h.Attempts[i]}
		}
		if e := m.sender(f, t); e != nil {
			listed[e], current = true, true
		} else if m.past(f, t) {
			// Its coordinator did not live to cancel it, or could not reach it.
			m.send(TaskManagerAddress(h.Node), &messages.CancelTask{Fence: f, Task: t, Coordinator: string(m.self)})
		}
	}
	if !current {
		m.drop("heartbeat of " + h.Node)
		return
	}
	m.silent[h.Node] = 0
	m.compareClocks(h)
	for _, e := range m.tasks {
		if e.node != h.Node || e.terminal() || !e.reported {
			continue
		}
		if listed[e] {
			e.missing = 0
			continue
		}
		// It may have ended with its report still on its way.
		if e.missing++; e.missing >= lostHeartbeats {
			m.taskIs(e, messages.TaskState_TASK_FAILED, &messages.Failure{Message: "its task manager does not run it any more"})
		}
	}
}

// tick repeats what may have been lost and looks at the deadlines.
func (m *Master) tick() {
	if !m.live() {
		return
	}
	m.arm(tickTimer, tickMs)
	var nodes, late []string
	for _, e := range m.tasks {
		if e.terminal() {
			continue
		}
		if !slices.Contains(nodes, e.node) {
			nodes = append(nodes, e.node)
		}
		switch {
		case m.stops(e) && m.elapsedMs-m.sinceMs >= m.config.CancelTimeoutMs:
			// Fencing keeps whatever it still does from having an effect.
			m.taskIs(e, messages.TaskState_TASK_FAILED, &messages.Failure{
				Message: fmt.Sprintf("it did not stop within %d ms and was given up", m.config.CancelTimeoutMs)})
		case m.stops(e):
			m.cancelTask(e)
		case !e.reported:
			m.send(TaskManagerAddress(e.node), e.deploy)
		}
		if e.state < messages.TaskState_TASK_RUNNING {
			late = append(late, taskName(e.task))
		}
	}
	for _, n := range nodes {
		m.send(TaskManagerAddress(n), &messages.Heartbeat{Node: m.config.Node, Fence: m.fence()})
	}
	m.repeatAssignments()
	if m.unrecorded && m.phase == running {
		m.unrecorded = false
		m.proposeStatus(messages.JobStatus_RUNNING)
	}
	if m.phase == deploying && m.elapsedMs-m.sinceMs >= m.config.DeployTimeoutMs {
		m.fail(fmt.Errorf("%s did not start within %d ms; look at the logs of their nodes", strings.Join(late, ", "), m.config.DeployTimeoutMs))
	}
	m.lostNodes(nodes)
	m.lookAtCheckpoints()
	if m.unanswered(); m.left {
		return
	}
	if m.endOfData && m.phase == running {
		m.finalTicks++
		if m.finalDue || m.finalTicks >= finalRepeatTicks {
			m.triggerFinal()
		}
	}
}

// lostNodes counts a tick of silence of each node that has tasks, and gives up
// the tasks of those that have been silent for too long.
func (m *Master) lostNodes(used []string) {
	for _, n := range used {
		if m.silent[n]++; int64(m.silent[n])*tickMs < m.config.HeartbeatTimeoutMs {
			continue
		}
		m.event(NodeLost{Node: n})
		m.failTasksOn(n, fmt.Sprintf("nothing was heard from its node for %d ms", m.config.HeartbeatTimeoutMs))
	}
}

func (m *Master) failTasksOn(node, why string) {
	for _, e := range m.tasks {
		if e.node == node && !e.terminal() {
			m.taskIs(e, messages.TaskState_TASK_FAILED, &messages.Failure{Message: why})
		}
	}
}

func (m *Master) cancelTask(e *execution) {
	m.send(TaskManagerAddress(e.node), &messages.CancelTask{Fence: e.deploy.Fence, Task: e.task, Coordinator: string(m.self)})
}

// TaskFailedError says which task failed an attempt.
type TaskFailedError struct {
	Task, Node string
	Failure    *messages.Failure
}

// Error says where and why, without the stack.
func (e *TaskFailedError) Error() string {
	message := e.Failure.GetMessage()
	if message == "" {
		message = "it gave no reason; look at the log of its node"
	}
	if uid := e.Failure.GetUid(); uid != "" {
		return fmt.Sprintf("operator %q failed in task %s on node %s: %s", uid, e.Task, e.Node, message)
	}
	return fmt.Sprintf("task %s on node %s failed: %s", e.Task, e.Node, message)
}

// Stack returns the stack of a panic in user code that is behind err, or "".
func Stack(err error) string {
	var e *TaskFailedError
	if errors.As(err, &e) {
		return e.Failure.GetStack()
	}
	return ""
}
