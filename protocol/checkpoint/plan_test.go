package checkpoint

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"cutwater/messages"
	"cutwater/protocol"
)

// Property of rows 33, 34: for random graphs and sets of finished tasks all
// running tasks are awaited, exactly those without a running predecessor are
// asked, and so every running task is reached by a barrier.
func TestPlanProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		width := uint32(rapid.IntRange(1, 4).Draw(t, "parallelism"))
		e := &Executions{Plan: &messages.ExecutionPlan{}}
		for v := range rapid.IntRange(1, 5).Draw(t, "vertices") {
			id := fmt.Sprintf("v%d", v)
			e.Plan.Vertices = append(e.Plan.Vertices, &messages.Vertex{Id: id, Parallelism: width})
			for from := range v {
				if p := rapid.SampledFrom([]messages.Partitioning{0, 1, 2}).Draw(t, "edge"); p != 0 {
					e.Plan.Edges = append(e.Plan.Edges, &messages.PlanEdge{From: fmt.Sprintf("v%d", from), To: id, Partitioning: p})
				}
			}
			for s := range width {
				state := rapid.SampledFrom([]messages.TaskState{messages.TaskState_TASK_RUNNING, messages.TaskState_TASK_FINISHED}).Draw(t, "state")
				e.Tasks = append(e.Tasks, Execution{Task: &messages.TaskId{Vertex: id, Subtask: s}, Attempt: 3, Vertex: v, State: state, Address: protocol.Address(id)})
			}
		}
		runs := func(i int) bool { return e.Tasks[i].State == messages.TaskState_TASK_RUNNING }
		feeds := func(from, to int) bool {
			a, b := e.Tasks[from].Task, e.Tasks[to].Task
			return slices.ContainsFunc(e.Plan.Edges, func(edge *messages.PlanEdge) bool {
				return edge.From == a.Vertex && edge.To == b.Vertex && (edge.Partitioning != messages.Partitioning_FORWARD || a.Subtask == b.Subtask)
			})
		}
		p, err := calculatePlan(e, true)
		reached := make([]bool, len(e.Tasks))
		for to := range e.Tasks {
			if err != nil {
				if runs(to) {
					t.Fatalf("task %d runs, but %v", to, err)
				}
				continue
			}
			fed := false
			for from := range e.Tasks {
				if runs(from) && feeds(from, to) {
					fed = true
					reached[to] = reached[to] || reached[from]
				}
			}
			reached[to] = reached[to] || slices.Contains(p.trigger, to)
			if got, want := slices.Contains(p.trigger, to), runs(to) && !fed; got != want {
				t.Fatalf("task %s asked: %t, want %t", taskName(e.Tasks[to].Task), got, want)
			}
			if got := slices.Contains(p.await, to); got != runs(to) {
				t.Fatalf("task %s awaited: %t, runs: %t", taskName(e.Tasks[to].Task), got, runs(to))
			}
			if runs(to) && !reached[to] {
				t.Fatalf("no barrier reaches task %s", taskName(e.Tasks[to].Task))
			}
			if p.find(e.Tasks[to].Task, e.Tasks[to].Attempt) != to {
				t.Fatalf("task %s was found at %d, want %d", taskName(e.Tasks[to].Task), p.find(e.Tasks[to].Task, e.Tasks[to].Attempt), to)
			}
		}
	})
}

// A plan whose tasks do not match its vertices breaks an assertion.
func TestPlanMismatch(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a missing task passed")
		}
	}()
	_, _ = calculatePlan(&Executions{
		Plan:  &messages.ExecutionPlan{Vertices: []*messages.Vertex{{Id: "a", Parallelism: 2}}},
		Tasks: []Execution{{Task: &messages.TaskId{Vertex: "a"}, State: messages.TaskState_TASK_RUNNING, Address: "a"}},
	}, true)
}
