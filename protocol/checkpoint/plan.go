package checkpoint

import (
	"fmt"
	"slices"

	"cutwater/messages"
	"cutwater/protocol"
)

// Executions is the current attempt of the job's tasks, in plan order: the
// subtasks of the first vertex, of the second, and so on. The coordinator keeps
// it; whoever sets it does not change it afterwards.
type Executions struct {
	Plan  *messages.ExecutionPlan
	Tasks []Execution
}

// Execution is one task of the attempt.
type Execution struct {
	Task *messages.TaskId
	// Attempt is the task's own: after the restart of a region the tasks have several.
	Attempt uint32
	// Vertex is the index of the task's vertex in the plan.
	Vertex int
	State  messages.TaskState
	// Address is where the task is reached; empty while it has none.
	Address protocol.Address
	// DeployedFinished: the task had finished before the restored checkpoint and
	// only forwards barriers.
	DeployedFinished bool
	// EndOfData: the task reported that all its inputs have ended.
	EndOfData bool
}

// plan is who takes part in one checkpoint (Flink: CheckpointPlan). It is fixed
// when the checkpoint gets its id.
type plan struct {
	graph *messages.ExecutionPlan
	tasks []Execution
	// trigger are the tasks that are asked: those that run without a running
	// predecessor. await are those that must acknowledge, the same that are told
	// the outcome: all that run. Both are indexes of tasks.
	trigger, await []int
}

// calculatePlan returns the plan, or why there can be none now (Flink:
// DefaultCheckpointPlanCalculator). As long as no task has finished, the tasks
// without a running predecessor are the sources.
func calculatePlan(e *Executions, afterTasksFinish bool) (*plan, error) {
	if e == nil || len(e.Tasks) == 0 {
		return nil, fmt.Errorf("no task is deployed")
	}
	p := &plan{graph: e.Plan, tasks: slices.Clone(e.Tasks)}
	running := make([]bool, len(e.Tasks))
	for i, t := range e.Tasks {
		switch {
		case t.State == messages.TaskState_TASK_FINISHED && afterTasksFinish:
			continue
		case t.State == messages.TaskState_TASK_FINISHED:
			return nil, fmt.Errorf("task %s has finished and after-tasks-finish is off", taskName(t.Task))
		case t.State != messages.TaskState_TASK_RUNNING:
			return nil, fmt.Errorf("task %s is %s", taskName(t.Task), t.State)
		case t.Address == "":
			return nil, fmt.Errorf("task %s has no address", taskName(t.Task))
		}
		running[i] = true
		p.await = append(p.await, i)
	}
	if len(p.await) == 0 {
		return nil, fmt.Errorf("all tasks have finished")
	}
	fed := p.fedByRunning(running)
	for _, i := range p.await {
		if !fed[i] {
			p.trigger = append(p.trigger, i)
		}
	}
	return p, nil
}

// fedByRunning reports for each task whether a predecessor of it runs.
func (p *plan) fedByRunning(running []bool) []bool {
	fed := make([]bool, len(p.tasks))
	first, vertices := p.firstTasks(), p.graph.GetVertices()
	index := make(map[string]int, len(vertices))
	for i, v := range vertices {
		index[v.Id] = i
	}
	for _, e := range p.graph.GetEdges() {
		from, to := index[e.From], index[e.To]
		upstream := running[first[from] : first[from]+int(vertices[from].Parallelism)]
		for s := range int(vertices[to].Parallelism) {
			if e.Partitioning == messages.Partitioning_FORWARD {
				fed[first[to]+s] = fed[first[to]+s] || s < len(upstream) && upstream[s]
				continue
			}
			for _, runs := range upstream {
				fed[first[to]+s] = fed[first[to]+s] || runs
			}
		}
	}
	return fed
}

// firstTasks returns, for each vertex, the index of its subtask 0.
func (p *plan) firstTasks() []int {
	first, next := make([]int, len(p.graph.GetVertices())), 0
	for i, v := range p.graph.GetVertices() {
		first[i] = next
		next += int(v.Parallelism)
	}
	protocol.Assert(next == len(p.tasks), "the plan has %d tasks, the attempt %d", next, len(p.tasks))
	return first
}

// find returns the index of the task in the attempt that takes part, or -1.
func (p *plan) find(id *messages.TaskId, attempt uint32) int {
	next := 0
	for _, v := range p.graph.GetVertices() {
		if v.Id == id.GetVertex() && id.GetSubtask() < v.Parallelism {
			if i := next + int(id.Subtask); p.tasks[i].Attempt == attempt {
				return i
			}
			return -1
		}
		next += int(v.Parallelism)
	}
	return -1
}

func taskName(t *messages.TaskId) string {
	return fmt.Sprintf("%s/%d", t.GetVertex(), t.GetSubtask())
}
