package subtask

import (
	"slices"

	"cutwater/messages"
)

// NotifyComplete handles the completion of a checkpoint. A completion that is not
// newer than the last one is ignored. The operators are told only while the task
// runs, the state backends always.
func (s *Subtask) NotifyComplete(n *messages.NotifyCheckpointComplete) *Actions {
	s.begin()
	s.complete(n.GetCheckpoint(), n.GetSubsumed())
	s.finishIfDone()
	return s.actions
}

// NotifyAborted handles the abort of a checkpoint: the latest completed one is
// told first; an asynchronous part is cancelled; a checkpoint that has not reached
// the task is remembered. The abort of the savepoint that stops the job fails the
// task, since it has ended its input for it.
func (s *Subtask) NotifyAborted(n *messages.NotifyCheckpointAborted) *Actions {
	s.begin()
	s.complete(n.GetLatestCompleted(), 0)
	id := n.GetCheckpoint()
	if s.ending.stoppedBy(id) {
		s.fail(&StopError{id, "it was aborted"})
		return s.actions
	}
	switch {
	case s.remove(id):
		s.actions.add(CancelAsync{id})
	case id > s.last:
		s.aborted.add(id)
	}
	if s.operatorsRun() {
		s.actions.add(AbortOperators{id})
	}
	s.actions.add(AbortState{id})
	s.finishIfDone()
	return s.actions
}

func (s *Subtask) complete(checkpoint, subsumed uint64) {
	if checkpoint <= s.completed {
		return
	}
	s.completed = checkpoint
	s.taken = slices.DeleteFunc(s.taken, func(id uint64) bool { return id <= checkpoint })
	if s.operatorsRun() {
		s.actions.add(CompleteOperators{checkpoint})
	}
	s.actions.add(CompleteState{checkpoint, subsumed})
}
