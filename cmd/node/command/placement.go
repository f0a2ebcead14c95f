package command

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cutwater/messages"
)

// taskJSON is a task in the outputs of deploy and job.
type taskJSON struct {
	// Vertex is the id of the chain of operators that the task runs; Operators are
	// their uids.
	Vertex    string   `json:"vertex"`
	Operators []string `json:"operators"`
	Subtask   uint32   `json:"subtask"`
	// Node is the id of its node, or empty.
	Node string `json:"node"`
	// State is that of the task, such as RUNNING; Since when the coordinator learned
	// of it.
	State string `json:"state"`
	Since stamp  `json:"since"`
}

func tasksOf(v *messages.JobView) []taskJSON {
	operators := map[string][]string{}
	for _, x := range v.Plan.GetVertices() {
		operators[x.Id] = x.Operators
	}
	out := make([]taskJSON, len(v.Tasks)) // never nil: no tasks are []
	for i, t := range v.Tasks {
		vertex := t.Task.GetVertex()
		out[i] = taskJSON{Vertex: vertex, Operators: append([]string{}, operators[vertex]...), Subtask: t.Task.GetSubtask(),
			Node: nodeID(t.Node), State: taskState(t.State), Since: stamp(t.SinceMs)}
	}
	return out
}

// taskState is Flink's name of the state.
func taskState(s messages.TaskState) string { return strings.TrimPrefix(s.String(), "TASK_") }

// placementTable shows on which nodes each vertex runs.
func placementTable(cmd *cobra.Command, v *messages.JobView) error {
	var rows [][]string
	for _, x := range v.Plan.GetVertices() {
		var nodes []string // in the order of the subtasks
		subtasks := map[string]int{}
		for _, t := range v.Tasks {
			if t.Task.GetVertex() != x.Id {
				continue
			}
			node := shortNode(t.Node)
			if subtasks[node]++; subtasks[node] == 1 {
				nodes = append(nodes, node)
			}
		}
		for i, node := range nodes {
			nodes[i] = fmt.Sprintf("%s (%d)", node, subtasks[node])
		}
		rows = append(rows, []string{strings.Join(x.Operators, " -> "), strconv.Itoa(int(x.Parallelism)), strings.Join(nodes, ", ")})
	}
	return table(cmd, []string{"VERTEX", "PARALLELISM", "NODES (TASKS)"}, rows)
}

// tasksTable shows the tasks of each vertex: a row for each node and state.
func tasksTable(cmd *cobra.Command, v *messages.JobView, now time.Time) error {
	type group struct {
		subtasks []uint32
		since    int64 // of the newest
		records  uint64
	}
	var rows [][]string
	for _, x := range v.Plan.GetVertices() {
		var order [][2]string // node, state
		groups := map[[2]string]*group{}
		for _, t := range v.Tasks {
			if t.Task.GetVertex() != x.Id {
				continue
			}
			key := [2]string{shortNode(t.Node), taskState(t.State)}
			g := groups[key]
			if g == nil {
				g = &group{}
				groups[key], order = g, append(order, key)
			}
			g.subtasks = append(g.subtasks, t.Task.GetSubtask())
			g.since = max(g.since, t.SinceMs)
			g.records += t.RecordsRead
		}
		for _, key := range order {
			g := groups[key]
			read := ""
			if x.Source {
				read = thousands(g.records)
			}
			rows = append(rows, []string{strings.Join(x.Operators, " -> "), ranges(g.subtasks), key[0], key[1], stamp(g.since).ago(now), read})
		}
	}
	return table(cmd, []string{"VERTEX", "SUBTASKS", "NODE", "STATE", "SINCE", "RECORDS READ"}, rows)
}
