package checkpoint

import (
	"cutwater/messages"
	"cutwater/protocol"
)

// assemble makes the content of `_metadata` from what was acknowledged, in the
// order of the plan.
func (c *Coordinator) assemble(p *pendingCheckpoint) *messages.CheckpointMetadata {
	m := &messages.CheckpointMetadata{
		Job: c.config.Job, Epoch: c.config.Epoch, Incarnation: c.config.Incarnation, Binary: c.config.Binary,
		Checkpoint: p.id, TimestampMs: p.timestampMs, Savepoint: isSavepoint(p.kind),
	}
	first, states, coordinators := 0, 0, 0
	for _, v := range p.plan.graph.GetVertices() {
		parts := p.parts[first : first+int(v.Parallelism)]
		first += len(parts)
		for _, uid := range v.Operators {
			o := operatorState(v, uid, parts, p.coordinators[uid])
			m.Operators = append(m.Operators, o)
			states += countStates(o)
			if _, ok := p.coordinators[uid]; ok {
				coordinators++
			}
		}
	}
	protocol.Assert(states == len(p.states()) && coordinators == len(p.coordinators),
		"checkpoint %d has state of an operator that is not in the plan: %d of %d states and %d of %d coordinators found their place",
		p.id, states, len(p.states()), coordinators, len(p.coordinators))
	for _, hook := range c.config.Hooks {
		if s := p.hooks[hook]; s != nil {
			m.MasterStates = append(m.MasterStates, s)
		}
	}
	return m
}

// operatorState collects one operator's share. An operator without state has an
// entry too; one whose subtasks have all finished is marked and carries nothing.
func operatorState(v *messages.Vertex, uid string, parts []part, coordinator *messages.OperatorCoordinatorSnapshot) *messages.OperatorState {
	o := &messages.OperatorState{Uid: uid, Parallelism: v.Parallelism, MaxParallelism: v.MaxParallelism, FullyFinished: true}
	for i, part := range parts {
		if part.finished {
			o.Subtasks = append(o.Subtasks, &messages.SubtaskEntry{Subtask: uint32(i), Finished: true})
			continue
		}
		o.FullyFinished = false
		for _, s := range part.snapshot.GetOperators() {
			if s.Uid == uid {
				o.Subtasks = append(o.Subtasks, &messages.SubtaskEntry{Subtask: uint32(i), State: s})
			}
		}
	}
	switch {
	case o.FullyFinished:
		o.Subtasks = nil
	case coordinator.GetHasState():
		o.HasCoordinator = true
		o.Coordinator = &messages.StateHandle{Where: &messages.StateHandle_Inline{Inline: coordinator.State}}
	}
	return o
}

func countStates(o *messages.OperatorState) (n int) {
	for _, e := range o.Subtasks {
		if e.State != nil {
			n++
		}
	}
	return n
}
