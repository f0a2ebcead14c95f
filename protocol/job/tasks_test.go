package job

import (
	"errors"
	"fmt"
	"testing"

	"cutwater/messages"
)

// TestStack: the stack of a panic is found through whatever wraps the failure,
// and does not stand in its text.
func TestStack(t *testing.T) {
	failed := &TaskFailedError{Task: "a-1/0", Node: "n1", Failure: &messages.Failure{Message: "boom", Uid: "a", Stack: "at line 1"}}
	wrapped := fmt.Errorf("%w; it gave up", failed)
	if got := Stack(wrapped); got != "at line 1" {
		t.Errorf("stack %q", got)
	}
	if got, want := wrapped.Error(), `operator "a" failed in task a-1/0 on node n1: boom; it gave up`; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := Stack(errors.New("other")); got != "" {
		t.Errorf("stack %q of an error without one", got)
	}
}
