package dispatch

import "cutwater/messages"

// freshMs is how old a reading may be to say that a job has ended: less than the silence
// behind which a task manager reports tasks, so that a job of which it runs tasks was on
// record by then.
const freshMs = 2000

// orphaned takes in which tasks run on a node whose coordinator has been silent for some
// seconds there. Whoever coordinates the job now, in a higher epoch, is told, and
// cancels what it did not take over. Tasks of a job that has ended are cancelled. All
// others are left alone: their coordinator may be heard again.
func (d *Dispatcher) orphaned(h *messages.Heartbeat) {
	f := h.GetFence()
	i, known := d.find(f.GetJob())
	switch {
	case known:
		if c := d.jobs[i].claim; c != nil && c.epoch > f.GetEpoch() {
			d.send(c.coordinator, h)
		}
	case d.read && d.elapsedMs-d.readMs < freshMs:
		for i, t := range h.Tasks {
			attempt := f.GetAttempt()
			if i < len(h.Attempts) {
				attempt = h.Attempts[i]
			}
			d.send(taskManagerAddress(h.Node), &messages.CancelTask{Task: t, Coordinator: string(d.self),
				Fence: &messages.Fence{Job: f.GetJob(), Epoch: f.GetEpoch(), Attempt: attempt}})
		}
	}
}
