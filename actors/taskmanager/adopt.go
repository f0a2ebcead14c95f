package taskmanager

import (
	"slices"

	"cutwater/messages"
	"cutwater/protocol"
)

// adopt lets the tasks of a job answer to another coordinator, and tells that one which
// there are; each gives its account itself. Those of another attempt than it asks for
// are to be cancelled, and it is the one that can. A coordinator that is older than the
// one that has the tasks is not answered.
func (tm *TaskManager) adopt(m *messages.AdoptTasks) {
	answer := &messages.AdoptableTasks{Fence: m.Fence, Node: tm.self.System.Node()}
	var names []string
	for _, name := range tm.order {
		t := tm.running[name]
		if t.fence.Job != m.Fence.GetJob() {
			continue
		}
		if t.fence.Epoch > m.Fence.GetEpoch() {
			return
		}
		names = append(names, name)
		answer.Tasks = append(answer.Tasks, &messages.AdoptableTask{Task: t.deploy.Task, Attempt: t.fence.Attempt, Fingerprint: t.deploy.Fingerprint})
	}
	for _, name := range tm.endings {
		e := tm.ended[name]
		asked := e.Fence.GetAttempt() == m.Fence.GetAttempt() || slices.Contains(m.Attempts, e.Fence.GetAttempt())
		if e.Fence.GetJob() == m.Fence.GetJob() && asked {
			answer.Tasks = append(answer.Tasks, &messages.AdoptableTask{Task: e.Task, Attempt: e.Fence.Attempt, Ended: e.State})
		}
	}
	for _, name := range names {
		t := tm.running[name]
		t.fence = &messages.Fence{Job: t.fence.Job, Epoch: m.Fence.Epoch, Attempt: t.fence.Attempt}
		t.coordinator = m.Coordinator
		tm.silent[m.Coordinator] = 0
		tm.self.Send(tm.self.System.Address(name), &messages.NewCoordinator{Fence: t.fence, Coordinator: m.Coordinator, Completed: m.Completed, Last: m.Last})
	}
	tm.self.Send(protocol.Address(m.Coordinator), answer)
}
