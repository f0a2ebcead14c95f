package restore

import "cutwater/messages"

// progress is how far a vertex had come in the checkpoint.
type progress uint8

const (
	// allRunning: no subtask of any operator had finished.
	allRunning progress = iota
	// partlyFinished: some subtasks had.
	partlyFinished
	// fullyFinished: all subtasks of all operators had.
	fullyFinished
)

// finished returns the progress of each vertex by id and reports what could not
// have happened: data would flow into a task that had finished, or would be
// missing (Flink's VertexFinishedStateChecker).
func (a *assigner) finished(plan *messages.ExecutionPlan) map[string]progress {
	of := make(map[string]progress, len(plan.GetVertices()))
	for _, v := range plan.GetVertices() {
		of[v.Id] = a.progress(v.Operators[0])
		for _, uid := range v.Operators[1:] {
			p := a.progress(uid)
			if p == of[v.Id] {
				continue
			}
			if p == fullyFinished || of[v.Id] == fullyFinished {
				a.bad.report(uid, "it is chained to %q, but only one of the two had finished in the checkpoint; keep both as they were", v.Operators[0])
			}
			of[v.Id] = max(p, partlyFinished)
		}
	}
	for _, e := range plan.GetEdges() {
		from, to := of[e.From], of[e.To]
		pointwise := e.Partitioning == messages.Partitioning_FORWARD
		switch {
		case to == fullyFinished && from != fullyFinished:
			a.bad.report(e.ToUid, "it had finished in the checkpoint, but its input %q had not; remove the input, or give the operator a new uid", e.FromUid)
		case to == partlyFinished && !pointwise && from != fullyFinished:
			a.bad.report(e.ToUid, "some of its subtasks had finished in the checkpoint, but its input %q had not finished; remove the input, or give the operator a new uid", e.FromUid)
		case to == partlyFinished && pointwise && from == allRunning:
			a.bad.report(e.ToUid, "some of its subtasks had finished in the checkpoint, but no subtask of its input %q had; remove the input, or give the operator a new uid", e.FromUid)
		}
	}
	return of
}

func (a *assigner) progress(uid string) progress {
	s := a.states[uid]
	if s == nil {
		return allRunning
	}
	if s.FullyFinished {
		return fullyFinished
	}
	for _, e := range s.Subtasks {
		if e.Finished {
			return partlyFinished
		}
	}
	return allRunning
}
