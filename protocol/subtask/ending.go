package subtask

import (
	"fmt"

	"cutwater/messages"
	"cutwater/protocol/barrier"
)

// ending is what decides when a task may finish.
type ending struct {
	// drained: the end of data was reached and nothing is left to read; not so
	// when a savepoint suspends the job.
	drained bool
	// inputEnded: every input channel has ended; a source's has at its end of
	// data.
	inputEnded bool
	// consumed: the consumers have processed everything.
	consumed bool
	// quiescent: the operators have nothing outstanding.
	quiescent bool
	// finalMin is the first checkpoint taken after the end of data, or 0.
	finalMin uint64
	// savepoint is the savepoint that stops the job, or 0.
	savepoint uint64
	// deferred are triggers that wait for the source's end of data: a savepoint
	// that stops the job, and what came after it.
	deferred []deferred
}

// deferred is a trigger that waits since sinceMs.
type deferred struct {
	trigger barrier.Trigger
	sinceMs int64
}

// StopError: the savepoint that was to stop the job failed. The task has ended
// its input for it and cannot go on, so it fails and the job restarts.
type StopError struct {
	Savepoint uint64
	Problem   string
}

// Error says which savepoint and why.
func (e *StopError) Error() string {
	return fmt.Sprintf("stop-with-savepoint failed: savepoint %d did not complete: %s; "+
		"the job restarts from its last checkpoint, stop it again", e.Savepoint, e.Problem)
}

// EndOfData says that the task has processed its last record. With drain the
// operators have finished; without, a savepoint suspends the job. The coordinator
// is told of a drained end with EndOfDataReached; the shell resends that message
// until it is acknowledged. Checkpoints that waited for the end are taken now.
func (s *Subtask) EndOfData(nowMs int64, drain bool) *Actions {
	s.begin()
	if s.phase != Running {
		return s.actions
	}
	s.phase = Ended
	s.ending.drained = drain
	s.ending.inputEnded = s.ending.inputEnded || s.Source
	if drain {
		s.actions.add(Send{&messages.EndOfDataReached{Fence: s.Fence, Task: s.Task}})
	}
	for _, d := range s.ending.deferred {
		d.trigger.AgeMs += nowMs - d.sinceMs
		s.take(nowMs, &d.trigger)
	}
	s.ending.deferred = nil
	s.finishIfDone()
	return s.actions
}

// EndOfInput says that every input channel has ended. Barriers come between the
// end of data and this; a task that finished earlier would miss them.
func (s *Subtask) EndOfInput() *Actions {
	s.begin()
	s.ending.inputEnded = true
	s.finishIfDone()
	return s.actions
}

// OutputsConsumed says that the consumers have processed everything that the task
// sent, up to its EndOfData.
func (s *Subtask) OutputsConsumed() *Actions {
	s.begin()
	s.ending.consumed = true
	s.finishIfDone()
	return s.actions
}

// OperatorsQuiescent says whether all operators are quiescent. The task says so
// after its end of data, whenever it may have changed.
func (s *Subtask) OperatorsQuiescent(quiescent bool) *Actions {
	s.begin()
	s.ending.quiescent = quiescent
	s.finishIfDone()
	return s.actions
}

// finishIfDone moves the task on when nothing keeps it.
func (s *Subtask) finishIfDone() {
	if s.phase == Ended && s.mayFinish() {
		s.phase = Finishing
	}
	if s.phase == Finishing && len(s.snapshots) == 0 {
		s.phase = Finished
		s.actions.add(Finish{})
	}
}

func (s *Subtask) mayFinish() bool {
	e := &s.ending
	switch {
	case !e.inputEnded, !e.quiescent && !s.DeployedFinished:
		return false
	case e.savepoint != 0:
		return s.completed >= e.savepoint
	case !s.FinalCheckpoint:
		return true
	}
	return e.consumed && e.finalMin != 0 && s.completed >= e.finalMin
}

// mustStopFirst reports that the trigger has to wait for the source's end of data.
func (e *ending) mustStopFirst(s *Subtask, t *barrier.Trigger) bool {
	return s.Source && s.phase == Running && (len(e.deferred) > 0 || stops(t.Options))
}

// meet takes notice of a savepoint that stops the job; there is one at a time.
func (e *ending) meet(t *barrier.Trigger) error {
	if !stops(t.Options) {
		return nil
	}
	if e.savepoint != 0 {
		return &StopError{t.Checkpoint, fmt.Sprintf("savepoint %d is stopping the job already", e.savepoint)}
	}
	e.savepoint = t.Checkpoint
	return nil
}

// taken takes notice of a checkpoint that starts.
func (e *ending) taken(s *Subtask, checkpoint uint64) {
	if s.phase == Ended && e.finalMin == 0 {
		e.finalMin = checkpoint
	}
}

// stoppedBy reports that the checkpoint is the savepoint for which the task ends
// its input.
func (e *ending) stoppedBy(checkpoint uint64) bool {
	for _, d := range e.deferred {
		if d.trigger.Checkpoint == checkpoint && stops(d.trigger.Options) {
			return true
		}
	}
	return checkpoint != 0 && checkpoint == e.savepoint
}

// String adds what is set to the machine's line.
func (e *ending) String() string {
	text := ""
	if e.finalMin != 0 {
		text += fmt.Sprintf(" finalMin=%d", e.finalMin)
	}
	if e.savepoint != 0 {
		text += fmt.Sprintf(" savepoint=%d", e.savepoint)
	}
	if len(e.deferred) > 0 {
		text += fmt.Sprintf(" deferred=%d", len(e.deferred))
	}
	return text
}

// stops reports that the savepoint stops the job.
func stops(o *messages.CheckpointOptions) bool {
	return o.GetType() == messages.CheckpointType_SAVEPOINT_SUSPEND || drains(o)
}

// drains reports that the savepoint ends the job for good.
func drains(o *messages.CheckpointOptions) bool {
	return o.GetType() == messages.CheckpointType_SAVEPOINT_TERMINATE
}
