package checkpoint

import (
	"testing"

	"cutwater/messages"
	"cutwater/protocol"
)

func segment(path string, scope messages.SegmentScope, created uint64) *messages.Segment {
	return &messages.Segment{
		Handle: &messages.StateHandle{Where: &messages.StateHandle_File{File: &messages.StateFile{Path: path}}},
		Scope:  scope, Created: created,
	}
}

func keyed(segments ...*messages.Segment) *messages.OperatorSubtaskState {
	return &messages.OperatorSubtaskState{Keyed: &messages.KeyedState{Segments: segments}}
}

func paths(files []*messages.StateHandle) (text string) {
	for _, f := range files {
		text += f.GetFile().Path + " "
	}
	return text
}

// A checkpoint shares the files that are meant for others and those that it took over
// from an earlier one, whatever they were meant for; its own are those that it wrote.
// A file that several tasks name counts once.
func TestFilesOfACheckpoint(t *testing.T) {
	const shared, exclusive = messages.SegmentScope_SHARED, messages.SegmentScope_EXCLUSIVE
	a := keyed(segment("new", shared, 7), segment("mine", exclusive, 7), segment("old", shared, 6), segment("taken", exclusive, 5))
	b := keyed(segment("old", shared, 6), segment("new", shared, 7))
	if got := paths(sharedFiles(7, a, b)); got != "new old taken " {
		t.Errorf("shared: %s", got)
	}
	if got := paths(ownFiles(7, a, b)); got != "new mine " {
		t.Errorf("own: %s", got)
	}
}

// A snapshot may build on the files of retained checkpoints, on its own, and on what
// stands inside the message; any other file is gone.
func TestGoneFile(t *testing.T) {
	const shared = messages.SegmentScope_SHARED
	c := New(Config{Job: "j", Epoch: 1, Ops: &protocol.Ops{}, Settings: &messages.CheckpointConfig{MaxConcurrent: 1, NumRetained: 1}})
	c.registry.register(sharedFiles(6, keyed(segment("kept", shared, 6))))
	p := newPending(7, 0, &request{kind: messages.CheckpointType_CHECKPOINT}, &plan{})
	inline := &messages.Segment{Handle: &messages.StateHandle{Where: &messages.StateHandle_Inline{Inline: []byte("x")}}, Scope: shared, Created: 5}
	kept, written, lost := segment("kept", shared, 6), segment("new", shared, 7), segment("lost", shared, 6)
	for _, tc := range []struct {
		segments []*messages.Segment
		gone     string
	}{
		{[]*messages.Segment{kept, written, inline}, ""},
		{[]*messages.Segment{lost}, "lost"},
		{[]*messages.Segment{kept, written, inline, lost}, "lost"},
	} {
		if got := c.goneFile(p, &messages.TaskSnapshot{Operators: []*messages.OperatorSubtaskState{keyed(tc.segments...)}}); got != tc.gone {
			t.Errorf("%v: gone is %q, want %q", tc.segments, got, tc.gone)
		}
	}
}

// Without a task there is nothing to plan a checkpoint for.
func TestPlanWithoutTasks(t *testing.T) {
	for _, e := range []*Executions{nil, {Plan: &messages.ExecutionPlan{}}} {
		if _, err := calculatePlan(e, true); err == nil || err.Error() != "no task is deployed" {
			t.Errorf("the error is %v", err)
		}
	}
}
