package checkpoint

import (
	"fmt"
	"testing"

	"cutwater/messages"
)

func entry(id uint64, name string) *completedCheckpoint {
	return &completedCheckpoint{
		record:      &messages.CompletedCheckpoint{Checkpoint: id, Savepoint: name != "cp"},
		synchronous: name == "stop",
	}
}

// Scenarios 294-296, 299-302: what the newest leaves in the store.
func TestSubsume(t *testing.T) {
	for _, c := range []struct {
		retain   int
		list     []string
		subsumed []uint64
	}{
		{4, []string{"cp", "cp", "cp", "cp"}, nil},
		{1, []string{"cp", "cp"}, []uint64{1}},
		{2, []string{"cp", "cp", "cp"}, []uint64{1}},
		{1, []string{"cp", "cp", "sp", "sp", "sp"}, []uint64{1, 3, 4}},
		{1, []string{"cp", "sp", "cp"}, []uint64{1, 2}},
		{1, []string{"cp", "sp", "stop"}, []uint64{1, 2}},
		{3, []string{"cp", "cp", "cp"}, nil},
		{1, []string{"cp"}, nil},
	} {
		s := completedStore{retain: c.retain}
		last := len(c.list) - 1
		for i, name := range c.list[:last] {
			s.add(entry(uint64(i+1), name))
		}
		if got := ids(s.subsumedBy(entry(uint64(last+1), c.list[last]))); fmt.Sprint(got) != fmt.Sprint(c.subsumed) {
			t.Errorf("retain %d of %v: subsumed %v, want %v", c.retain, c.list, got, c.subsumed)
		}
		if len(s.list) != last {
			t.Errorf("retain %d of %v: asking changed the store", c.retain, c.list)
		}
	}
}

// A savepoint that completes behind a newer checkpoint is not its own victim.
func TestSubsumeAddedOutOfOrder(t *testing.T) {
	s := completedStore{retain: 1}
	s.add(entry(6, "cp"))
	if got := s.subsumedBy(entry(5, "stop")); got != nil {
		t.Errorf("subsumed %v, want nothing", ids(got))
	}
	// Nor does one that completes late push out the newest, which is a savepoint.
	newest := completedStore{retain: 1}
	newest.add(entry(6, "sp"))
	if got := newest.subsumedBy(entry(5, "cp")); got != nil {
		t.Errorf("subsumed %v, want nothing", ids(got))
	}
	s.add(entry(5, "stop"))
	if s.latest().record.Checkpoint != 6 || s.find(5) == nil || s.find(4) != nil {
		t.Errorf("the store is %v, want 5 and 6", ids(s.list))
	}
}

// Scenario 312: a file goes when nobody uses it and no pending checkpoint can
// name it; a file that comes back into use stays.
func TestRegistry(t *testing.T) {
	file := func(path string) []*messages.StateHandle {
		return []*messages.StateHandle{{Where: &messages.StateHandle_File{File: &messages.StateFile{Path: path}}}}
	}
	var r registry
	r.register(file("b"))
	r.register(file("a"))
	r.register(file("a"))
	r.unregister(file("a"), 9)
	if got := r.collect(nonePending, nil); got != nil {
		t.Errorf("collected %v, but both are in use", got)
	}
	r.unregister(file("a"), 9)
	r.unregister(file("b"), 9)
	if got := r.collect(9, nil); got != nil {
		t.Errorf("collected %v, but checkpoint 9 may name them", got)
	}
	if got := r.collect(10, map[string]bool{"a": true, "b": true}); got != nil {
		t.Errorf("collected %v, but a pending checkpoint has acknowledged them", got)
	}
	r.register(file("b"))
	if got := r.collect(10, nil); len(got) != 1 || got[0].GetFile().Path != "a" || r.has("a") || !r.has("b") {
		t.Errorf("collected %v, want a", got)
	}
	r.unregister(file("b"), 9)
	r.register(file("a"))
	r.unregister(file("a"), 9)
	if got := r.collect(nonePending, nil); len(got) != 2 || got[0].GetFile().Path != "a" {
		t.Errorf("collected %v, want a and b in this order", got)
	}
}
