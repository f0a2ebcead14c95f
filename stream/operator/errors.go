package operator

import (
	"errors"
	"fmt"
)

// ErrTask marks a failure of asynchronous work that loses data: the task must
// fail and be restored, declining the checkpoint is not enough.
var ErrTask = errors.New("operator: task must be restored")

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
