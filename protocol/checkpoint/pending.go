package checkpoint

import (
	"fmt"

	"cutwater/messages"
)

// phase is how far a checkpoint has come.
type phase uint8

const (
	// triggering: it has an id; its location, the operator coordinators and the
	// master hooks are being asked. Tasks may acknowledge already.
	triggering phase = iota
	// collecting: the tasks were asked; their acknowledgements are awaited.
	collecting
	// finalizing: all acknowledged. Only the storage and the metadata store
	// decide now: no timeout, decline, stop or failover can abort it.
	finalizing
	// completed: recorded (a plain savepoint: its metadata is durable).
	completed
	// aborted: it will never complete.
	aborted
)

// String returns the phase's name.
func (p phase) String() string {
	return [...]string{"triggering", "collecting", "finalizing", "completed", "aborted"}[p]
}

// pendingCheckpoint is a checkpoint that has an id and no outcome yet (Flink:
// PendingCheckpoint).
type pendingCheckpoint struct {
	id          uint64
	timestampMs int64
	request     *request
	// kind is the request's type, or full where the state before was unclaimed.
	kind messages.CheckpointType
	// target is a savepoint's own directory.
	target string
	phase  phase
	plan   *plan
	stats  *CheckpointStats

	// parts are the tasks' shares, in the plan's order; missing counts the
	// awaited tasks that have not acknowledged.
	parts   []part
	missing int
	// outstanding counts the answers that the current step of the trigger
	// waits for.
	outstanding  int
	coordinators map[string]*messages.OperatorCoordinatorSnapshot
	hooks        map[string]*messages.MasterState

	// writing: the metadata is on its way to the storage.
	writing bool
	// record is what is proposed once the metadata is durable; subsumed is what
	// leaves the store with it.
	record   *messages.CompletedCheckpoint
	subsumed []*completedCheckpoint
}

// part is one task's share of a checkpoint.
type part struct {
	awaited, acknowledged bool
	// finished: the task had finished before the checkpoint, or before the one
	// that it was restored from. ending: it acknowledged behind its end of data.
	finished, ending bool
	snapshot         *messages.TaskSnapshot
}

func newPending(id uint64, nowMs int64, r *request, p *plan) *pendingCheckpoint {
	c := &pendingCheckpoint{
		id: id, timestampMs: nowMs, request: r, kind: r.kind, plan: p,
		parts: make([]part, len(p.tasks)), missing: len(p.await),
		coordinators: make(map[string]*messages.OperatorCoordinatorSnapshot),
		hooks:        make(map[string]*messages.MasterState),
	}
	for i, t := range p.tasks {
		c.parts[i].finished = t.State == messages.TaskState_TASK_FINISHED
	}
	for _, i := range p.await {
		c.parts[i].awaited = true
	}
	return c
}

// acknowledge enters a task's snapshot, nil for a task without state.
func (p *pendingCheckpoint) acknowledge(task int, a *messages.AcknowledgeCheckpoint) AckResult {
	if task < 0 || !p.parts[task].awaited {
		return Unknown
	}
	part := &p.parts[task]
	if part.acknowledged {
		return Duplicate
	}
	part.acknowledged = true
	p.missing--
	if a.DeployedFinished {
		part.finished = true
		return Success
	}
	part.ending, part.snapshot = a.TaskFinished, a.Snapshot
	return Success
}

// states returns the operator states that have been acknowledged.
func (p *pendingCheckpoint) states() []*messages.OperatorSubtaskState {
	var states []*messages.OperatorSubtaskState
	for _, part := range p.parts {
		states = append(states, part.snapshot.GetOperators()...)
	}
	return states
}

// waitsFor returns an awaited task that can not acknowledge any more because
// it ended or was replaced, or -1.
func (p *pendingCheckpoint) waitsFor(e *Executions) int {
	for _, i := range p.plan.await {
		if t := e.Tasks[i]; !p.parts[i].acknowledged && (t.Attempt != p.plan.tasks[i].Attempt || t.State != messages.TaskState_TASK_RUNNING) {
			return i
		}
	}
	return -1
}

// checkUnionLists refuses a checkpoint that would lose items of a union list:
// each subtask of such an operator keeps its share for all, so either all have
// finished or none (Flink: DefaultCheckpointPlan).
func (p *pendingCheckpoint) checkUnionLists() error {
	first := 0
	for _, v := range p.plan.graph.GetVertices() {
		parts := p.parts[first : first+int(v.Parallelism)]
		first += len(parts)
		gone, ending, union := 0, 0, ""
		for _, part := range parts {
			if part.finished {
				gone++
			}
			if part.ending {
				ending++
			}
			for _, s := range part.snapshot.GetOperators() {
				if s.HasUnionList {
					union = s.Uid
				}
			}
		}
		if union != "" && (gone > 0 || ending > 0 && ending < len(parts)) {
			return fmt.Errorf("operator %q keeps a union list and only part of its tasks are FINISHED; wait until all are", union)
		}
	}
	return nil
}
