package restore

import (
	"slices"

	"cutwater/messages"
	"cutwater/protocol/keygroup"
)

// Input is what Assign works on. Nothing in it is changed, and parts of Loaded
// stay in the result.
type Input struct {
	// Loaded is the verified checkpoint with the contents of its handles.
	Loaded *messages.CheckpointLoaded
	// Graph and Plan are what is to run; Plan was made of Graph.
	Graph *messages.JobGraph
	Plan  *messages.ExecutionPlan
	// Dropped names the uids whose state is given up on purpose.
	Dropped []string
}

// Assignment is the state of every task.
type Assignment struct {
	// Vertices are in the order of the plan.
	Vertices []VertexAssignment
	// Coordinators are the states of operator coordinators, in the order of the
	// graph; operators without one are not listed.
	Coordinators []*messages.LoadedCoordinator
	// Dropped names the uids whose state was really given up.
	Dropped []string
}

// VertexAssignment is the state of a vertex's tasks.
type VertexAssignment struct {
	// Tasks holds each subtask's share, never nil.
	Tasks []*messages.TaskRestore
	// Finished: all operators of the vertex had finished; its tasks are deployed
	// only to pass on barriers and the end.
	Finished bool
}

// Assign distributes the checkpoint's state over the tasks of the plan. The
// error is a *RefusedError with everything that does not fit.
func Assign(in Input) (*Assignment, error) {
	metadata := in.Loaded.GetMetadata()
	a := &assigner{
		checkpoint: metadata.GetCheckpoint(),
		states:     operatorStates(metadata),
		specs:      make(map[string]*messages.OperatorSpec, len(in.Graph.GetOperators())),
		lists:      make(map[subtaskOf]*messages.OperatorLists, len(in.Loaded.GetLists())),
	}
	for _, op := range in.Graph.GetOperators() {
		a.specs[op.Uid] = op
	}
	for _, l := range in.Loaded.GetLists() {
		a.lists[subtaskOf{l.Uid, l.Subtask}] = l.Lists
	}
	out := &Assignment{}
	a.unmapped(metadata, in.Dropped, out)
	finished := a.finished(in.Plan)
	for _, v := range in.Plan.GetVertices() {
		out.Vertices = append(out.Vertices, VertexAssignment{
			Tasks:    a.vertex(v),
			Finished: finished[v.Id] == fullyFinished,
		})
	}
	a.coordinators(in, out)
	if err := a.bad.err(a.checkpoint); err != nil {
		return nil, err
	}
	return out, nil
}

type subtaskOf struct {
	uid     string
	subtask uint32
}

type assigner struct {
	checkpoint uint64
	states     map[string]*messages.OperatorState
	specs      map[string]*messages.OperatorSpec
	lists      map[subtaskOf]*messages.OperatorLists
	bad        problems
}

// unmapped finds state whose operator is gone. State that holds nothing may go
// without a word; other state only by name.
func (a *assigner) unmapped(metadata *messages.CheckpointMetadata, dropped []string, out *Assignment) {
	for _, s := range metadata.GetOperators() {
		switch {
		case a.specs[s.Uid] != nil || !hasState(s):
		case slices.Contains(dropped, s.Uid):
			out.Dropped = append(out.Dropped, s.Uid)
		default:
			a.bad.report(s.Uid, "the checkpoint holds its state, but the topology has no such operator; give the operator its old uid back, or give the state up by name (--drop-state %s)", s.Uid)
		}
	}
}

// vertex returns the share of every subtask of v.
func (a *assigner) vertex(v *messages.Vertex) []*messages.TaskRestore {
	tasks := make([]*messages.TaskRestore, v.Parallelism)
	for i := range tasks {
		tasks[i] = &messages.TaskRestore{Checkpoint: a.checkpoint}
	}
	for _, uid := range v.Operators {
		s := a.states[uid]
		if s == nil || !a.sound(s) {
			continue
		}
		lists := a.redistribute(s, int(v.Parallelism))
		for i, task := range tasks {
			r := &messages.OperatorRestore{Uid: uid, Keyed: keyedShare(s, i, v), Lists: lists[i]}
			if len(r.Keyed) > 0 || len(r.Lists) > 0 {
				task.Operators = append(task.Operators, r)
			}
		}
	}
	return tasks
}

// sound checks what a wrong or foreign metadata file could break, and the schema.
func (a *assigner) sound(s *messages.OperatorState) bool {
	if spec := a.specs[s.Uid]; spec.GetStateSchema() != "" && s.StateSchema != "" && spec.StateSchema != s.StateSchema {
		a.bad.report(s.Uid, "it keeps %s in state now, but the checkpoint holds %s; change the types back, or give the operator a new uid and drop the old state (--drop-state %s)",
			spec.StateSchema, s.StateSchema, s.Uid)
		return false
	}
	if hasKeyed(s) && !a.specs[s.Uid].GetKeyed() {
		a.bad.report(s.Uid, "the checkpoint holds state per key, but the operator keeps none now; give it a new uid and drop the old state (--drop-state %s)", s.Uid)
		return false
	}
	seen := make(map[uint32]bool, len(s.Subtasks))
	for _, e := range s.Subtasks {
		r := e.GetState().GetKeyed().GetKeyGroups()
		broken := e.Subtask >= s.Parallelism || seen[e.Subtask] ||
			e.GetState().GetKeyed() != nil && (r == nil || r.First > r.Last || r.Last >= s.MaxParallelism)
		if broken {
			a.bad.report(s.Uid, "the entry of its subtask %d makes no sense (parallelism %d, maximum parallelism %d, key groups %d to %d): the checkpoint is damaged; restore another one",
				e.Subtask, s.Parallelism, s.MaxParallelism, r.GetFirst(), r.GetLast())
			return false
		}
		seen[e.Subtask] = true
	}
	return true
}

// keyedShare returns the handles whose key groups meet the subtask's, each with
// the key groups that are to be read from it.
func keyedShare(s *messages.OperatorState, subtask int, v *messages.Vertex) []*messages.KeyedState {
	lo, hi := keygroup.Range(subtask, int(v.Parallelism), int(v.MaxParallelism))
	var share []*messages.KeyedState
	for _, e := range s.Subtasks {
		k := e.GetState().GetKeyed()
		if k == nil {
			continue
		}
		first, last := max(uint32(lo), k.KeyGroups.First), min(uint32(hi), k.KeyGroups.Last)
		switch {
		case first > last:
		case first == k.KeyGroups.First && last == k.KeyGroups.Last:
			share = append(share, k)
		default:
			share = append(share, &messages.KeyedState{
				KeyGroups:    &messages.KeyGroupRange{First: first, Last: last},
				Segments:     k.Segments,
				WatermarkMs:  k.WatermarkMs,
				HasWatermark: k.HasWatermark,
			})
		}
	}
	return share
}

// coordinators hands on the states of operator coordinators.
func (a *assigner) coordinators(in Input, out *Assignment) {
	content := make(map[string]*messages.LoadedCoordinator, len(in.Loaded.GetCoordinators()))
	for _, c := range in.Loaded.GetCoordinators() {
		content[c.Uid] = c
	}
	for _, op := range in.Graph.GetOperators() {
		s := a.states[op.Uid]
		switch {
		case !s.GetHasCoordinator():
		case !op.Source:
			a.bad.report(op.Uid, "the checkpoint holds the progress of a source under this uid, but the operator is no source now; give it a new uid and the source its old one")
		case content[op.Uid] == nil:
			a.bad.report(op.Uid, "the progress of the source was not read with the checkpoint: the checkpoint is damaged; restore another one")
		default:
			out.Coordinators = append(out.Coordinators, content[op.Uid])
		}
	}
}
