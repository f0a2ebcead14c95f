package subtask

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"cutwater/messages"
	"cutwater/messages/describe"
)

// Actions is what the task does next: the steps in their order, inside the mail
// that it is handling. If one fails, the task reports it as the step says and
// leaves the rest. Each call has actions of its own, so that the task may report
// the end of one step before it goes on to the next.
type Actions struct{ Steps []Step }

// Step is one thing for the task to do; its String is one line.
type Step interface {
	fmt.Stringer
	step()
}

type (
	// StopSource ends a source because a savepoint stops the job: poll no more;
	// with Drain, end event time and finish the operators. Then send EndOfData to
	// the outputs and call Subtask.EndOfData, in the same mail or later.
	StopSource struct{ Drain bool }

	// PrepareBarrier lets the operators emit a last time before the barrier, head
	// first. An error goes to Subtask.SyncFailed.
	PrepareBarrier struct{ Checkpoint uint64 }

	// BroadcastBarrier sends the barrier to every output.
	BroadcastBarrier struct {
		Checkpoint  uint64
		TimestampMs int64
		// AgeMs is the checkpoint's age now; the output adds the time that the
		// barrier waits in its queue.
		AgeMs   int64
		Options *messages.CheckpointOptions
	}

	// SyncSnapshot takes the synchronous part of every operator's snapshot, head
	// first. Its end is Subtask.SyncDone or Subtask.SyncFailed.
	SyncSnapshot struct {
		Checkpoint uint64
		Options    *messages.CheckpointOptions
	}

	// StartAsync hands what SyncSnapshot left to do to the Executor. Its end is
	// Subtask.AsyncDone or Subtask.AsyncFailed.
	StartAsync struct{ Checkpoint uint64 }

	// CancelAsync cancels what is left of the checkpoint's snapshot and discards
	// what it wrote.
	CancelAsync struct{ Checkpoint uint64 }

	// DiscardSnapshot deletes the files of a snapshot that nobody will
	// acknowledge. Segments shared with other checkpoints stay.
	DiscardSnapshot struct {
		Checkpoint uint64
		Snapshot   *messages.TaskSnapshot
	}

	// BroadcastCancel sends a CancelBarrier to every output: the barrier of the
	// checkpoint will not come.
	BroadcastCancel struct{ Checkpoint uint64 }

	// CompleteOperators tells the operators that the checkpoint completed. An
	// error fails the task.
	CompleteOperators struct{ Checkpoint uint64 }

	// CompleteState tells the state backends, which may build increments on the
	// checkpoint. Subsumed is the newest checkpoint that it replaces, or 0.
	CompleteState struct{ Checkpoint, Subsumed uint64 }

	// AbortOperators tells the operators that the checkpoint will not complete.
	// An error fails the task.
	AbortOperators struct{ Checkpoint uint64 }

	// AbortState tells the state backends.
	AbortState struct{ Checkpoint uint64 }

	// Send delivers a message to the job's coordinator.
	Send struct{ Message proto.Message }

	// Finish: the task closes its operators and outputs, calls Subtask.Close, and
	// reports FINISHED.
	Finish struct{}

	// Fail ends the task with this error. It is the last step.
	Fail struct{ Err error }
)

func (StopSource) step()        {}
func (PrepareBarrier) step()    {}
func (BroadcastBarrier) step()  {}
func (SyncSnapshot) step()      {}
func (StartAsync) step()        {}
func (CancelAsync) step()       {}
func (DiscardSnapshot) step()   {}
func (BroadcastCancel) step()   {}
func (CompleteOperators) step() {}
func (CompleteState) step()     {}
func (AbortOperators) step()    {}
func (AbortState) step()        {}
func (Send) step()              {}
func (Finish) step()            {}
func (Fail) step()              {}

// String describes the step in one line.
func (s StopSource) String() string { return fmt.Sprintf("stop source drain=%v", s.Drain) }

// String describes the step in one line.
func (s PrepareBarrier) String() string { return fmt.Sprintf("prepare barrier %d", s.Checkpoint) }

// String describes the step in one line.
func (s BroadcastBarrier) String() string {
	return fmt.Sprintf("broadcast barrier %d timestamp=%d age=%d %s",
		s.Checkpoint, s.TimestampMs, s.AgeMs, describe.Text(s.Options))
}

// String describes the step in one line.
func (s SyncSnapshot) String() string { return fmt.Sprintf("sync snapshot %d", s.Checkpoint) }

// String describes the step in one line.
func (s StartAsync) String() string { return fmt.Sprintf("start async %d", s.Checkpoint) }

// String describes the step in one line.
func (s CancelAsync) String() string { return fmt.Sprintf("cancel async %d", s.Checkpoint) }

// String describes the step in one line.
func (s DiscardSnapshot) String() string { return fmt.Sprintf("discard snapshot %d", s.Checkpoint) }

// String describes the step in one line.
func (s BroadcastCancel) String() string { return fmt.Sprintf("broadcast cancel %d", s.Checkpoint) }

// String describes the step in one line.
func (s CompleteOperators) String() string { return fmt.Sprintf("complete operators %d", s.Checkpoint) }

// String describes the step in one line.
func (s CompleteState) String() string {
	return fmt.Sprintf("complete state %d subsumed=%d", s.Checkpoint, s.Subsumed)
}

// String describes the step in one line.
func (s AbortOperators) String() string { return fmt.Sprintf("abort operators %d", s.Checkpoint) }

// String describes the step in one line.
func (s AbortState) String() string { return fmt.Sprintf("abort state %d", s.Checkpoint) }

// String describes the step in one line.
func (s Send) String() string { return "send " + describe.Text(s.Message) }

// String describes the step in one line.
func (Finish) String() string { return "finish" }

// String describes the step in one line.
func (s Fail) String() string { return "fail: " + s.Err.Error() }

func (a *Actions) add(steps ...Step) { a.Steps = append(a.Steps, steps...) }
