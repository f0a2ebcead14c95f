package job

import (
	"fmt"
	"slices"

	"cutwater/messages"
	"cutwater/messages/describe"
)

// View is how the job stands, for people. It answers a JobQuery outside of a Step,
// since nothing follows from it. Nothing in the message is changed by later steps.
func (m *Master) View(nowMs int64, q *messages.JobQuery, h *History) *messages.JobView {
	stats := m.Stats()
	v := &messages.JobView{
		Query: q.GetId(), Job: m.config.Job, Name: m.config.Graph.GetName(), NowMs: nowMs, Node: m.config.Node,
		Epoch: m.epoch, Incarnation: m.incarnation, Attempt: m.attempt, Restarts: uint32(m.Restarts()),
		Status: m.status, Waiting: m.waiting(nowMs), Plan: m.plan, Checkpoints: stats.View(q.GetCheckpoint()), Stale: m.stale,
		ExceptionsTruncated: h.truncated,
	}
	if m.failure != nil {
		v.Failure = describe.Error(m.failure)
	}
	for s, at := range h.statusMs {
		if at != 0 {
			v.StatusTimes = append(v.StatusTimes, &messages.StatusTime{Status: messages.JobStatus(s), AtMs: at})
		}
	}
	for _, e := range m.tasks {
		past := h.task(e)
		v.Tasks = append(v.Tasks, &messages.TaskView{
			Task: e.task, Node: e.node, State: e.state, Attempt: e.attempt(), SinceMs: past.sinceMs, DeployedMs: past.deployedMs, EndOfData: e.ended,
			RecordsRead: past.records, BytesRead: past.bytes, RemainingBytes: past.remainingBytes,
		})
	}
	h.explain(m, v)
	for _, x := range slices.Backward(h.exceptions) {
		v.Exceptions = append(v.Exceptions, x)
	}
	return v
}

// waitsFor says what the job waits for before it goes on, in one sentence, or "".
func (m *Master) waitsFor(nowMs int64) string {
	if m.unavailableMs >= 0 {
		return fmt.Sprintf("the metadata store has not answered for %d ms", nowMs-m.unavailableMs)
	}
	if m.coordinator != nil {
		if since, why := m.coordinator.Unanswered(); why != "" {
			return fmt.Sprintf("the metadata store has not answered for %d ms: %s", nowMs-since, why)
		}
	}
	switch m.phase {
	case created, claiming:
		return "the metadata store gives the coordinator its epoch"
	case reading:
		return "the job's record is read"
	case loading:
		return "its checkpoints are read"
	case adopting:
		return "the tasks that run say whether they can be taken over"
	case hooking:
		return "the master hooks are brought to the start of the attempt"
	case discovering:
		return "the sources list their input"
	case acquiring:
		return m.Waiting()
	case deploying:
		return m.tasksThat("do not run yet", func(e *execution) bool { return e.state < messages.TaskState_TASK_RUNNING })
	case running:
		return m.lateCheckpoint(nowMs)
	case suspending:
		if why := m.lateCheckpoint(nowMs); why != "" {
			return why
		}
		return "the last checkpoint completes"
	case stopping:
		if m.coordinator.Finalizing() {
			return "the outcome of a checkpoint that all tasks have acknowledged"
		}
		return m.tasksThat("have not ended yet", func(e *execution) bool { return m.stops(e) && !e.terminal() })
	case waiting:
		return "the restart delay passes"
	case recording:
		return "the metadata store records the job's end"
	}
	return ""
}

// tasksThat counts the tasks of which that is so, and names the first.
func (m *Master) tasksThat(what string, is func(*execution) bool) string {
	count, first := 0, ""
	for _, e := range m.tasks {
		if is(e) {
			if count++; count == 1 {
				first = taskName(e.task) + " on node " + e.node
			}
		}
	}
	if count == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d tasks %s; the first is %s", count, len(m.tasks), what, first)
}
