package node

import (
	"cutwater/actors/coordinator"
	"cutwater/actors/task"
)

// Among the events that Deps.Event is told are those of package protocol/job and
// protocol/checkpoint, and these.
type (
	// TaskEvent is something that an operator reports about its records, such as
	// one that was malformed or late.
	TaskEvent = task.Event
	// CoordinatorFallen is a panic in a job's coordinator.
	CoordinatorFallen = coordinator.Fallen
)

// Kinds of TaskEvent.
const (
	// Malformed: a source could not read a record and left it out, or sent it to
	// its side output. The detail says where and why.
	Malformed = "malformed"
	// Late: a record came too late for its windows; it went to the side output, or
	// nowhere.
	Late = "late"
	// Failed: an expression or function failed for a record, which was left out. The
	// detail says where and why.
	Failed = "failed"
	// CommitRetry: a sink could not commit and tries again. The detail says why.
	CommitRetry = "commit-retry"
)
