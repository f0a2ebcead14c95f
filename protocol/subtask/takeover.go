package subtask

import (
	"slices"

	"cutwater/messages"
)

// maxTaken bounds the memory of acknowledged checkpoints.
const maxTaken = 64

// TakenOver handles a new coordinator, whose fence the task's messages carry from now
// on. Completed is the newest completed checkpoint on record, last the highest id that
// was given out before the new coordinator. Nobody but the coordinator before could
// have completed the others up to it, and it cannot any more: they are aborted, also
// those that have not reached the task. The abort of the savepoint that stops the job
// fails the task, as in NotifyAborted. Repeated, nothing changes.
//
// The completion is told if the checkpoint is part of the task's past. Of an attempt
// that another one has replaced it may not be, and what that one had prepared for an
// aborted checkpoint must not be committed with it.
func (s *Subtask) TakenOver(f *messages.Fence, completed, last uint64) *Actions {
	s.begin()
	s.Fence = f
	if slices.Contains(s.taken, completed) {
		s.complete(completed, 0)
	}
	s.aborted.floor = max(s.aborted.floor, last)
	if id := s.ending.awaits(s.completed, last); id != 0 {
		s.fail(&StopError{id, "its coordinator is gone"})
		return s.actions
	}
	for len(s.snapshots) > 0 && s.snapshots[0].checkpoint() <= last {
		id := s.snapshots[0].checkpoint()
		s.remove(id)
		s.actions.add(CancelAsync{id})
		if s.operatorsRun() {
			s.actions.add(AbortOperators{id})
		}
		s.actions.add(AbortState{id})
	}
	s.finishIfDone()
	return s.actions
}

// remember keeps an acknowledged checkpoint until it, or a later one, is told to be
// complete.
func (s *Subtask) remember(checkpoint uint64) {
	if len(s.taken) == maxTaken {
		s.taken = slices.Delete(s.taken, 0, 1)
	}
	s.taken = append(s.taken, checkpoint)
}

// awaits returns the savepoint up to last that stops the job and has not completed, or 0.
func (e *ending) awaits(completed, last uint64) uint64 {
	for _, d := range e.deferred {
		if stops(d.trigger.Options) && d.trigger.Checkpoint <= last {
			return d.trigger.Checkpoint
		}
	}
	if e.savepoint > completed && e.savepoint <= last {
		return e.savepoint
	}
	return 0
}
