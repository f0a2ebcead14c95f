package restore

import (
	"google.golang.org/protobuf/proto"

	"cutwater/messages"
	"cutwater/protocol/keygroup"
)

// Adopt returns a copy of the graph in which operators that do not fix their
// maximum parallelism take that of their state in the checkpoint: keys were
// divided by it. The error is a *RefusedError that names every operator whose
// state was written with another maximum parallelism than the one it now fixes,
// or with a smaller one than its parallelism.
func Adopt(graph *messages.JobGraph, metadata *messages.CheckpointMetadata) (*messages.JobGraph, error) {
	graph = proto.CloneOf(graph)
	var bad problems
	states := operatorStates(metadata)
	for _, op := range graph.GetOperators() {
		s := states[op.Uid]
		if s == nil {
			continue
		}
		keyed, was := hasKeyed(s), s.MaxParallelism
		parallelism := max(1, op.Parallelism)
		if op.Parallelism == 0 {
			parallelism = max(1, graph.Parallelism)
		}
		fixed := op.MaxParallelism
		if fixed == 0 {
			fixed = graph.MaxParallelism
		}
		switch {
		case was == 0 || was > keygroup.MaxParallelismLimit:
			if keyed {
				bad.report(op.Uid, "its state names the maximum parallelism %d: the checkpoint is damaged; restore another one", was)
			}
		case keyed && parallelism > was:
			bad.report(op.Uid, "its parallelism %d is above %d, the maximum parallelism that its state was written with; lower the parallelism", parallelism, was)
		case keyed && fixed != 0 && fixed != was:
			bad.report(op.Uid, "its maximum parallelism is %d, but its state was written with %d and cannot change; set it to %d", fixed, was, was)
		case fixed == 0 && parallelism <= was:
			op.MaxParallelism = was
		}
	}
	if err := bad.err(metadata.GetCheckpoint()); err != nil {
		return nil, err
	}
	return graph, nil
}

func operatorStates(metadata *messages.CheckpointMetadata) map[string]*messages.OperatorState {
	states := make(map[string]*messages.OperatorState, len(metadata.GetOperators()))
	for _, s := range metadata.GetOperators() {
		states[s.Uid] = s
	}
	return states
}

func hasKeyed(s *messages.OperatorState) bool {
	for _, e := range s.Subtasks {
		if e.GetState().GetKeyed() != nil {
			return true
		}
	}
	return false
}

// hasState reports whether anything would be lost without the operator.
func hasState(s *messages.OperatorState) bool {
	if s.HasCoordinator {
		return true
	}
	for _, e := range s.Subtasks {
		if e.GetState().GetKeyed() != nil || e.GetState().GetLists() != nil {
			return true
		}
	}
	return false
}
