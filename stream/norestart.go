package stream

import "cutwater/stream/operator"

// ErrNoRestart is what errors.Is finds in an error that NoRestart has marked.
var ErrNoRestart = operator.ErrNoRestart

// NoRestart marks err as one that no restart can mend: data that will be as wrong
// the next time, a target that belongs to somebody else. It ends the job as FAILED
// at once, whatever its restart strategy; the job keeps its checkpoints as after any
// failure, and goes on from the newest when the cause is mended and it is started
// again. The text of err stays as it is, so it should say what to mend; nil stays nil.
//
// Sources, sinks, user functions and master hooks may return such an error wherever
// they return one, wrapped or not. Leave unmarked what may pass by itself, such as
// errors of input and output: those restart the job. So does a panic, unless what it
// panics with is marked.
//
// Flink: SuppressRestartsException, or an exception class that is annotated with
// ThrowableType.NonRecoverableError.
func NoRestart(err error) error { return operator.NoRestart(err) }
