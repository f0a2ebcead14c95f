package taskmanager

import (
	"cutwater/messages"
	"cutwater/protocol"
)

// adopt lets the tasks of a job answer to another coordinator, and tells that one which
// there are; each gives its account itself. The tasks of an attempt that is not asked
// for are listed and left alone. A coordinator that is older than the one that has the
// tasks is not answered.
func (tm *TaskManager) adopt(m *messages.AdoptTasks) {
	answer := &messages.AdoptableTasks{Fence: m.Fence, Node: tm.self.System.Node()}
	var adopted []string
	for _, name := range tm.order {
		t := tm.running[name]
		switch {
		case t.fence.Job != m.Fence.GetJob():
			continue
		case t.fence.Epoch > m.Fence.GetEpoch():
			return
		case t.fence.Attempt == m.Fence.GetAttempt():
			adopted = append(adopted, name)
		}
		answer.Tasks = append(answer.Tasks, &messages.AdoptableTask{Task: t.deploy.Task, Attempt: t.fence.Attempt, Fingerprint: t.deploy.Fingerprint})
	}
	for _, name := range tm.endings {
		if e := tm.ended[name]; e.Fence.GetJob() == m.Fence.GetJob() && e.Fence.GetAttempt() == m.Fence.GetAttempt() {
			answer.Tasks = append(answer.Tasks, &messages.AdoptableTask{Task: e.Task, Attempt: e.Fence.Attempt, Ended: e.State})
		}
	}
	for _, name := range adopted {
		t := tm.running[name]
		t.fence, t.coordinator = m.Fence, m.Coordinator
		tm.self.Send(tm.self.System.Address(name), &messages.NewCoordinator{Fence: m.Fence, Coordinator: m.Coordinator, Completed: m.Completed, Last: m.Last})
	}
	if len(adopted) > 0 {
		tm.silent[m.Coordinator] = 0
	}
	tm.self.Send(protocol.Address(m.Coordinator), answer)
}
