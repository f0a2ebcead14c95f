package job

import (
	"fmt"

	"cutwater/messages"
	"cutwater/protocol/checkpoint"
)

// A checkpoint that takes longer than its interval is looked into: the tasks that it
// waits for are asked, each second, what they do. It is for people alone; what becomes
// of the checkpoint is decided by its timeout.

// maxQueries bounds the tasks that are asked in one second.
const maxQueries = 8

// late is what is known of the checkpoint that takes long.
type late struct {
	checkpoint uint64
	asked      int               // seconds in which tasks were asked
	doing      map[string]string // the answers, by task
	said       string            // what the last event said it waits for
	causes     map[string]messages.WaitCause
}

// lookAtCheckpoints asks the tasks that the oldest checkpoint waits for, if it is late,
// and tells of it.
func (m *Master) lookAtCheckpoints() {
	if m.phase != running && m.phase != suspending {
		return
	}
	l := m.coordinator.Late(m.nowMs)
	if l == nil {
		m.late = late{}
		return
	}
	if m.late.checkpoint != l.Checkpoint || m.late.doing == nil {
		m.late = late{checkpoint: l.Checkpoint, doing: make(map[string]string)}
	}
	if m.late.asked > 0 || len(l.Missing) == 0 {
		m.tellLate(l)
	}
	for i, t := range l.Missing {
		if i == maxQueries {
			break
		}
		m.send(t.Address, &messages.StandingQuery{Fence: m.fenceOf(t.Attempt), Task: t.Task, Checkpoint: l.Checkpoint})
	}
	m.late.asked++
}

// standing takes in what a task says it does.
func (m *Master) standing(s *messages.Standing) {
	if m.sender(s.Fence, s.Task) == nil || m.late.doing == nil || s.Checkpoint != m.late.checkpoint {
		m.drop("standing of " + taskName(s.Task))
		return
	}
	m.late.doing[taskName(s.Task)] = s.Doing
	m.late.cause(taskName(s.Task), s.Cause)
	if l := m.coordinator.Late(m.nowMs); l != nil && l.Checkpoint == s.Checkpoint {
		m.tellLate(l)
	}
}

// tellLate says what the checkpoint waits for, unless that was said.
func (m *Master) tellLate(l *checkpoint.Late) {
	if why := l.Why + m.firstMissing(l); why != m.late.said {
		m.late.said = why
		m.event(CheckpointLate{Why: l.String() + m.firstMissing(l)})
	}
}

// lateCheckpoint is what the oldest checkpoint waits for if it is late, in one
// sentence, or nothing.
func (m *Master) lateCheckpoint(nowMs int64) string {
	if l := m.coordinator.Late(nowMs); l != nil {
		return l.String() + m.firstMissing(l)
	}
	return ""
}

// firstMissing names the first task that has not acknowledged, and what it does.
func (m *Master) firstMissing(l *checkpoint.Late) string {
	if len(l.Missing) == 0 {
		return ""
	}
	first := l.Missing[0]
	e := m.execution(first.Task)
	if e == nil {
		return ""
	}
	text := fmt.Sprintf("; the first is %s on node %s (operators %v)", taskName(first.Task), e.node, m.plan.Vertices[first.Vertex].Operators)
	if l.Checkpoint != m.late.checkpoint || m.late.asked == 0 {
		return text
	}
	if doing := m.late.doing[taskName(first.Task)]; doing != "" {
		return text + ": " + doing
	}
	return text + ": it does not answer, so it is busy with a record or in a call of an operator, or its node does not reach this one"
}
