package task

import (
	"cutwater/messages"
)

// newCoordinator lets the task answer to another coordinator, which has taken the job
// over, and gives it the task's account. From here on nothing that the one before says
// counts, so that the account stays true until the new one has spoken: in particular
// no split comes meanwhile. The task's work goes on. Repeated, only the account is
// given again.
func (t *Task) newCoordinator(m *messages.NewCoordinator) error {
	news := m.Fence.GetEpoch() > t.fence.Epoch
	if !t.follow(m) {
		return nil
	}
	if news {
		if err := t.run(t.sub.TakenOver(t.fence, m.Completed, m.Last)); err != nil || t.closed {
			return err
		}
		for _, id := range t.gate.Pending() { // the channels need not wait for barriers that may never come
			if id > m.Last {
				continue
			}
			if err := t.act(t.gate.Abort(t.monotonicMs(), id, messages.FailureReason_CHECKPOINT_COORDINATOR_SHUTDOWN)); err != nil || t.closed {
				return err
			}
		}
	}
	t.sendAccount()
	return nil
}

// follow turns to the coordinator that the message names, unless it is an older one,
// or of another attempt. What it has not heard is repeated to it.
func (t *Task) follow(m *messages.NewCoordinator) bool {
	if !t.ofNewest(m.Fence) {
		return false
	}
	t.fence, t.coordinator = m.Fence, m.Coordinator
	return true
}

// sendAccount tells the coordinator what the one before kept of this task in memory.
func (t *Task) sendAccount() {
	a := &messages.TaskAccount{Fence: t.fence, Task: t.deploy.Task, State: t.now, EndOfData: t.drained,
		DeployedFinished: t.deploy.Finished, Completed: t.sub.LatestCompleted(), WaitsForSplit: t.source.waiting}
	t.source.received.Report(a)
	t.toCoordinator(a)
}
