package checkpoint

import (
	"maps"
	"math"
	"slices"

	"cutwater/messages"
)

// registry owns the shared files of the retained checkpoints (Flink:
// SharedStateRegistry). It is derived from their metadata and never stored. A
// file enters when a checkpoint that names it completes, not when it is
// acknowledged: a task builds only on checkpoints whose completion it was told,
// so a file of an aborted checkpoint can never be needed again.
type registry struct {
	files map[string]*sharedFile
}

// sharedFile is one file that several checkpoints may name.
type sharedFile struct {
	handle *messages.StateHandle
	// users counts the retained checkpoints that name it.
	users int
	// unusedSince is the newest checkpoint id when users fell to 0. Checkpoints
	// up to it may be pending with snapshots built on the file; a later one is
	// built on it only by a task that missed a completion.
	unusedSince uint64
}

// register adds a user to each file, which must be distinct.
func (r *registry) register(handles []*messages.StateHandle) {
	if r.files == nil {
		r.files = make(map[string]*sharedFile)
	}
	for _, h := range handles {
		path := h.GetFile().GetPath()
		if r.files[path] == nil {
			r.files[path] = &sharedFile{handle: h}
		}
		r.files[path].users++
	}
}

// unregister takes a user from each file.
func (r *registry) unregister(handles []*messages.StateHandle, newest uint64) {
	for _, h := range handles {
		f := r.files[h.GetFile().GetPath()]
		f.users--
		f.unusedSince = newest
	}
}

// has reports whether the file may still be named by a checkpoint.
func (r *registry) has(path string) bool { return r.files[path] != nil }

// collect removes and returns, ordered by path, the files that nobody uses, that
// no pending checkpoint has acknowledged, and that no checkpoint from
// oldestPending on can still name.
func (r *registry) collect(oldestPending uint64, acknowledged map[string]bool) []*messages.StateHandle {
	var unused []*messages.StateHandle
	for _, path := range slices.Sorted(maps.Keys(r.files)) {
		if f := r.files[path]; f.users == 0 && f.unusedSince < oldestPending && !acknowledged[path] {
			unused = append(unused, f.handle)
			delete(r.files, path)
		}
	}
	return unused
}

// nonePending is the oldest pending checkpoint while there is none.
const nonePending = math.MaxUint64

// sharedFiles returns the files that later checkpoints may name too, or that
// this one took over from earlier ones.
func sharedFiles(checkpoint uint64, states ...*messages.OperatorSubtaskState) []*messages.StateHandle {
	var shared []*messages.OperatorSubtaskState
	for _, s := range states {
		shared = append(shared, &messages.OperatorSubtaskState{Keyed: s.GetKeyed()})
	}
	return filesOf(shared, func(g *messages.Segment) bool {
		return g.Scope == messages.SegmentScope_SHARED || g.Created != checkpoint
	})
}

// ownFiles returns the files that this checkpoint wrote itself. Only those may
// be deleted with it.
func ownFiles(checkpoint uint64, states ...*messages.OperatorSubtaskState) []*messages.StateHandle {
	return filesOf(states, func(g *messages.Segment) bool { return g.Created == checkpoint })
}

func anySegment(*messages.Segment) bool { return true }

// filesOf returns the files of the segments that are wanted and of the lists,
// each once.
func filesOf(states []*messages.OperatorSubtaskState, wanted func(*messages.Segment) bool) []*messages.StateHandle {
	seen := make(map[string]bool)
	var files []*messages.StateHandle
	add := func(h *messages.StateHandle) {
		if path := h.GetFile().GetPath(); path != "" && !seen[path] {
			seen[path] = true
			files = append(files, h)
		}
	}
	for _, s := range states {
		for _, g := range s.GetKeyed().GetSegments() {
			if wanted(g) {
				add(g.GetHandle())
			}
		}
		add(s.GetLists())
	}
	return files
}

// statesOf returns the subtask states inside a checkpoint.
func statesOf(m *messages.CheckpointMetadata) []*messages.OperatorSubtaskState {
	var states []*messages.OperatorSubtaskState
	for _, o := range m.GetOperators() {
		for _, e := range o.Subtasks {
			states = append(states, e.State)
		}
	}
	return states
}
