package restore

import (
	"fmt"
	"strings"
)

// Problem is one reason why a checkpoint cannot be restored into a topology.
type Problem struct {
	// Uid is the operator concerned.
	Uid string
	// Text says what is wrong and what to do.
	Text string
}

// RefusedError is every reason why a checkpoint cannot be restored, in the order
// of the operators. Nothing was restored.
type RefusedError struct {
	Checkpoint uint64
	Problems   []Problem
}

// Error returns the problems, one a line.
func (e *RefusedError) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = fmt.Sprintf("checkpoint %d cannot be restored: operator %q: %s", e.Checkpoint, p.Uid, p.Text)
	}
	return strings.Join(lines, "\n")
}

// problems collects them.
type problems []Problem

func (p *problems) report(uid, format string, args ...any) {
	*p = append(*p, Problem{Uid: uid, Text: fmt.Sprintf(format, args...)})
}

func (p problems) err(checkpoint uint64) error {
	if len(p) == 0 {
		return nil
	}
	return &RefusedError{Checkpoint: checkpoint, Problems: p}
}
