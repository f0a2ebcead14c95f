package operator

import (
	"errors"
	"fmt"
)

// ErrTask marks a failure of asynchronous work that loses data: the task must
// fail and be restored, declining the checkpoint is not enough.
var ErrTask = errors.New("operator: task must be restored")

// ErrNoRestart is what errors.Is finds in an error that NoRestart has marked.
var ErrNoRestart = errors.New("operator: no restart can mend it")

// NoRestart marks err as one that no restart can mend: it ends the job as FAILED,
// whatever its restart strategy. The text of err stays as it is; nil stays nil.
// Flink: SuppressRestartsException, ThrowableType.NonRecoverableError.
func NoRestart(err error) error {
	if err == nil || errors.Is(err, ErrNoRestart) {
		return err
	}
	return noRestart{err}
}

type noRestart struct{ error }

// Unwrap returns what was marked.
func (e noRestart) Unwrap() error { return e.error }

// Is makes the mark known.
func (e noRestart) Is(target error) bool { return target == ErrNoRestart }

// UserError is a failure of user code, or a panic in it, with its operator.
type UserError struct {
	Uid   string
	Cause error
	// Stack is set for a panic.
	Stack string
}

// Error names the operator and the cause.
func (e *UserError) Error() string { return fmt.Sprintf("operator %q: %v", e.Uid, e.Cause) }

// Unwrap returns the cause.
func (e *UserError) Unwrap() error { return e.Cause }
