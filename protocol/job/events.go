package job

import (
	"fmt"

	"cutwater/messages"
)

// StatusChanged: the job stands otherwise than before.
type StatusChanged struct {
	From, To messages.JobStatus
	// Cause is the failure behind it, or empty.
	Cause string
}

// String is the event as one line.
func (e StatusChanged) String() string {
	if e.Cause == "" {
		return fmt.Sprintf("job %s -> %s", e.From, e.To)
	}
	return fmt.Sprintf("job %s -> %s: %s", e.From, e.To, e.Cause)
}

// TaskChanged: a task of the current attempt reported a state.
type TaskChanged struct {
	Task    *messages.TaskId
	Attempt uint32
	State   messages.TaskState
	Failure string
}

// String is the event as one line.
func (e TaskChanged) String() string {
	s := fmt.Sprintf("task %s attempt %d %s", taskName(e.Task), e.Attempt, e.State)
	if e.Failure != "" {
		s += ": " + e.Failure
	}
	return s
}

// Restoring: the next attempt starts from this checkpoint.
type Restoring struct {
	Checkpoint uint64
	// Dropped are the uids whose state is given up on purpose.
	Dropped []string
	// Holds are the uids that the checkpoint knows, in its order.
	Holds []string
	// Tasks of Of restart, while Going run; 0 if all restart.
	Tasks, Of, Going int
}

// String is the event as one line.
func (e Restoring) String() string {
	s := fmt.Sprintf("restoring checkpoint %d", e.Checkpoint)
	if e.Tasks > 0 {
		s += fmt.Sprintf(" in %d of %d tasks", e.Tasks, e.Of)
	}
	if len(e.Dropped) > 0 {
		s += fmt.Sprintf(", dropping the state of %v", e.Dropped)
	}
	return s
}

// StartingEmpty: there is no checkpoint to restore.
type StartingEmpty struct {
	// Tasks of Of restart, while Going run; 0 if all restart.
	Tasks, Of, Going int
}

// String is the event as one line.
func (e StartingEmpty) String() string {
	if e.Tasks > 0 {
		return fmt.Sprintf("starting %d of %d tasks empty", e.Tasks, e.Of)
	}
	return "starting empty"
}

// RegionFailed: a task has failed, and its region restarts, while the other tasks go on.
type RegionFailed struct {
	// Tasks of Of restart, those of regions that failed before included.
	Tasks, Of int
	Cause     string
}

// String is the event as one line.
func (e RegionFailed) String() string {
	return fmt.Sprintf("%d of %d tasks restart, the others go on: %s", e.Tasks, e.Of, e.Cause)
}

// Adopted: the tasks that an earlier coordinator left running are this one's now.
type Adopted struct {
	Attempt uint32
	// Checkpoint is the newest that completed, 0 if none has.
	Checkpoint uint64
	Tasks      int
}

// String is the event as one line.
func (e Adopted) String() string {
	s := fmt.Sprintf("took over the %d tasks of attempt %d", e.Tasks, e.Attempt)
	if e.Checkpoint == 0 {
		return s + "; no checkpoint has completed yet"
	}
	return fmt.Sprintf("%s; checkpoint %d is the newest that completed", s, e.Checkpoint)
}

// NotAdopted: the tasks that an earlier coordinator left running, or what is left of
// them, are cancelled, and an attempt is started.
type NotAdopted struct {
	Attempt uint32
	Why     string
}

// String is the event as one line.
func (e NotAdopted) String() string {
	return fmt.Sprintf("the tasks of attempt %d are not taken over: %s", e.Attempt, e.Why)
}

// Unreadable: an older checkpoint could not be read. The job does not need it,
// and leaves its files alone.
type Unreadable struct {
	Checkpoint uint64
	Failure    string
}

// String is the event as one line.
func (e Unreadable) String() string {
	return fmt.Sprintf("checkpoint %d is unreadable: %s", e.Checkpoint, e.Failure)
}

// RestartDelayed: the next attempt starts after this time.
type RestartDelayed struct{ DelayMs int64 }

// String is the event as one line.
func (e RestartDelayed) String() string { return fmt.Sprintf("restart in %d ms", e.DelayMs) }

// NodeLost: a node's task manager has been silent for too long, or the node is known
// to be gone.
type NodeLost struct{ Node string }

// String is the event as one line.
func (e NodeLost) String() string { return "node " + e.Node + " is lost" }

// WaitingForSlots: the attempt is not deployed, because slots are missing.
type WaitingForSlots struct{ Why string }

// String is the event as one line.
func (e WaitingForSlots) String() string { return "waiting for slots: " + e.Why }

// CheckpointLate: a checkpoint is under way for longer than it should. Said once of
// each, and again when what it waits for turns out to be something else.
type CheckpointLate struct{ Why string }

// String is the event as one line.
func (e CheckpointLate) String() string { return "late: " + e.Why }

// Stale: a message was dropped because it belongs to another life of the job,
// or because what it answers is over.
type Stale struct{ What string }

// String is the event as one line.
func (e Stale) String() string { return "stale " + e.What }

// HookFailed: a master hook could not be closed. The job has ended all the same.
type HookFailed struct{ Hook, Failure string }

// String is the event as one line.
func (e HookFailed) String() string {
	return fmt.Sprintf("the master hook %s was not closed: %s", e.Hook, e.Failure)
}

// Swept: what ended attempts left in the job's checkpoint directory is deleted.
type Swept struct {
	Files, Bytes uint64
	// Last: the job has ended, and nothing of it is of use any more. An earlier sweep
	// may be answered after the last one.
	Last bool
}

// String is the event as one line.
func (e Swept) String() string {
	return fmt.Sprintf("swept %d files of ended attempts, %d bytes", e.Files, e.Bytes)
}

// SweepFailed: some of it may still be there. The next attempt tries again, if there is
// one.
type SweepFailed struct{ Failure string }

// String is the event as one line.
func (e SweepFailed) String() string {
	return "files of ended attempts are left: " + e.Failure
}

// StoreUnavailable: the metadata store did not answer a command; it is asked
// again.
type StoreUnavailable struct{ What, Failure string }

// String is the event as one line.
func (e StoreUnavailable) String() string {
	return fmt.Sprintf("the metadata store did not answer %s: %s", e.What, e.Failure)
}

func taskName(t *messages.TaskId) string {
	return fmt.Sprintf("%s/%d", t.GetVertex(), t.GetSubtask())
}
