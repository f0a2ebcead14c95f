package state_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"cutwater/state"
)

// Each error of the package names the state, what is wrong, and what to do; the
// cause can be found behind it.
func TestErrorsSayWhatToDo(t *testing.T) {
	cause := errors.New("the cause")
	for _, c := range []struct {
		err  error
		want []string
	}{
		{&state.SchemaError{State: "counts", Restored: "value[int64]", Declared: "list[int64]"}, []string{"value[int64]", "list[int64]", "keep the old type", "another name"}},
		{&state.DecodeError{State: "counts", Err: cause}, []string{"the cause", "give it a new schema"}},
		{&state.LimitError{State: "counts", Bytes: 5 << 30}, []string{"5368709120 bytes", "use a map state"}},
		{&state.ScratchError{State: "counts", Err: cause}, []string{"the cause", "free or replace the disk"}},
	} {
		text := fmt.Sprintf("task failed: %v", c.err)
		for _, want := range append(c.want, "state counts") {
			if !strings.Contains(text, want) {
				t.Errorf("%T does not say %q: %s", c.err, want, text)
			}
		}
		if inner := errors.Unwrap(c.err); inner != nil && !errors.Is(c.err, cause) {
			t.Errorf("%T hides its cause", c.err)
		}
	}
}
