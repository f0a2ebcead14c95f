package subtask

import (
	"fmt"

	"cutwater/messages"
	"cutwater/protocol/barrier"
)

// Config describes the task to its machine.
type Config struct {
	Fence *messages.Fence
	Task  *messages.TaskId
	// Restored is the checkpoint that the task starts from, or 0. It counts as
	// told to be complete.
	Restored uint64
	// Source: a savepoint that stops the job stops this task's source first.
	Source bool
	// DeployedFinished: the task had finished before the restored checkpoint and
	// has no operators.
	DeployedFinished bool
	// FinalCheckpoint: checkpoints are on and go on after tasks finish, so that
	// the task waits for one after its end of data.
	FinalCheckpoint bool
	// MaxAborted bounds the memory of aborted checkpoints; it should be at least
	// the number of concurrent checkpoints. 0 means DefaultMaxAborted.
	MaxAborted int
}

// DefaultMaxAborted is Flink's bound of the memory of aborted checkpoints.
const DefaultMaxAborted = 10

// Phase is where the task is in its life.
type Phase uint8

const (
	// Initializing: state is being restored; checkpoints are declined.
	Initializing Phase = iota
	// Running: checkpoints are taken.
	Running
	// Ended: the end of data was reached; checkpoints are taken until the task
	// may finish.
	Ended
	// Finishing: asynchronous parts are awaited; no checkpoint starts.
	Finishing
	// Finished: Finish was ordered.
	Finished
	// Closed: nothing happens any more.
	Closed
)

// String is the phase's name.
func (p Phase) String() string {
	names := [...]string{"Initializing", "Running", "Ended", "Finishing", "Finished", "Closed"}
	if int(p) < len(names) {
		return names[p]
	}
	return fmt.Sprintf("Phase(%d)", uint8(p))
}

// Subtask is a task's checkpoint machine. The task calls it, one call at a time.
// Whether a message of the coordinator is of this attempt is the caller's to
// check.
type Subtask struct {
	Config
	phase Phase
	// last is the newest checkpoint that was taken or given up, or the restored one.
	last uint64
	// aborted remembers aborts that came before their barrier.
	aborted abortMemory
	// snapshots are the checkpoints whose asynchronous part has not ended, oldest
	// first.
	snapshots []snapshot
	// completed is the newest checkpoint that was told to be complete.
	completed uint64
	// taken are the later ones that were acknowledged, in that order.
	taken   []uint64
	ending  ending
	actions *Actions
}

// New returns the machine of a task that initialises.
func New(c Config) *Subtask {
	if c.MaxAborted <= 0 {
		c.MaxAborted = DefaultMaxAborted
	}
	return &Subtask{Config: c, last: c.Restored, completed: c.Restored, aborted: abortMemory{bound: c.MaxAborted}}
}

// Running says that the task has restored its state and runs.
func (s *Subtask) Running() *Actions {
	s.begin()
	if s.phase == Initializing {
		s.phase = Running
	}
	return s.actions
}

// Close says that the task ends, well or not: asynchronous parts are cancelled,
// what they wrote is discarded, and nothing is sent. What was acknowledged stays.
func (s *Subtask) Close() *Actions {
	s.begin()
	for _, snap := range s.snapshots {
		s.actions.add(CancelAsync{snap.checkpoint()})
	}
	s.snapshots = nil
	s.phase = Closed
	return s.actions
}

// AbortOnBarrier handles a checkpoint that the gate gave up: the coordinator and
// the consumers are told.
func (s *Subtask) AbortOnBarrier(a barrier.Abort) *Actions {
	s.begin()
	s.see(a.Checkpoint)
	s.decline(a.Checkpoint, a.Reason, "")
	if s.operatorsRun() {
		s.actions.add(AbortOperators{a.Checkpoint})
	}
	if s.phase != Closed {
		s.actions.add(BroadcastCancel{a.Checkpoint})
	}
	if a.Checkpoint == s.ending.savepoint && a.Checkpoint != 0 {
		s.fail(&StopError{a.Checkpoint, "it was aborted by a barrier"})
	}
	return s.actions
}

// Phase is where the task is in its life.
func (s *Subtask) Phase() Phase { return s.phase }

// LatestCheckpoint is the newest checkpoint that the task took, gave up or was
// restored from, or 0.
func (s *Subtask) LatestCheckpoint() uint64 { return s.last }

// LatestCompleted is the newest checkpoint that the task knows to be complete:
// the restored one, or a later one.
func (s *Subtask) LatestCompleted() uint64 { return s.completed }

// InProgress lists the checkpoints whose asynchronous part is under way, oldest
// first. It allocates.
func (s *Subtask) InProgress() []uint64 {
	var ids []uint64
	for i := range s.snapshots {
		ids = append(ids, s.snapshots[i].checkpoint())
	}
	return ids
}

// String describes the machine in one line.
func (s *Subtask) String() string {
	return fmt.Sprintf("%v last=%d completed=%d running=%v aborted=%v%s",
		s.phase, s.last, s.completed, s.InProgress(), s.aborted.ids, s.ending.String())
}

func (s *Subtask) begin() { s.actions = &Actions{} }

// takesCheckpoints reports whether a checkpoint may start.
func (s *Subtask) takesCheckpoints() bool { return s.phase == Running || s.phase == Ended }

// operatorsRun reports whether there are operators to tell things to.
func (s *Subtask) operatorsRun() bool {
	return !s.DeployedFinished && (s.takesCheckpoints() || s.phase == Finishing)
}

// see moves last up and reports whether the checkpoint was aborted before.
func (s *Subtask) see(checkpoint uint64) (aborted bool) {
	aborted = s.aborted.has(checkpoint)
	s.last = max(s.last, checkpoint)
	s.aborted.forgetUpTo(checkpoint)
	return aborted
}

func (s *Subtask) decline(checkpoint uint64, reason messages.FailureReason, cause string) {
	s.actions.add(Send{&messages.DeclineCheckpoint{
		Fence: s.Fence, Task: s.Task, Checkpoint: checkpoint, Reason: reason, Cause: cause,
	}})
}

func (s *Subtask) fail(err error) { s.actions.add(Fail{err}) }
