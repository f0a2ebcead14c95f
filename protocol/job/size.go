package job

import (
	"fmt"
	"strings"

	"cutwater/messages"
)

// What one job may have. Each channel costs some 25 microseconds of CPU time at every
// start and some 2 KB of memory, and an exchange between two operators has one for
// each pair of their subtasks.
const (
	MaxTasks    = 10_000
	MaxChannels = 100_000
)

// TooLargeError: the plan has more tasks or channels than a job may have.
type TooLargeError struct {
	// From and To are the uids at the ends of the edge with the most channels, empty if
	// there are too many tasks; Declared is where To was declared, if that is known.
	From, To, Declared string
	text               string
}

// Error says what there is too much of, where, and what to do.
func (e *TooLargeError) Error() string { return e.text }

// checkSize refuses what would take very long to start.
func checkSize(graph *messages.JobGraph, plan *messages.ExecutionPlan) error {
	vertices := make(map[string]*messages.Vertex, len(plan.Vertices))
	tasks := uint64(0)
	for _, v := range plan.Vertices {
		vertices[v.Id] = v
		tasks += uint64(v.Parallelism)
	}
	var widest *messages.PlanEdge
	all, most := uint64(0), uint64(0)
	for _, e := range plan.Edges {
		n := uint64(vertices[e.From].Parallelism) * uint64(width(e, vertices[e.To].Parallelism))
		all += n
		if n > most {
			widest, most = e, n
		}
	}
	switch {
	case all > MaxChannels:
		from, to := vertices[widest.From], vertices[widest.To]
		return &TooLargeError{From: widest.FromUid, To: widest.ToUid, Declared: index(graph)[widest.ToUid].GetDeclared(), text: fmt.Sprintf(
			"the job would have %d channels, and at most %d are allowed: %d are of the edge %s -> %s, one for each pair of their %d and %d subtasks; lower the parallelism of one of the two",
			all, MaxChannels, most, widest.FromUid, widest.ToUid, from.Parallelism, to.Parallelism)}
	case tasks > MaxTasks:
		var parts []string
		for _, v := range plan.Vertices {
			parts = append(parts, fmt.Sprintf("%d of %s", v.Parallelism, strings.Join(v.Operators, ", ")))
		}
		return &TooLargeError{text: fmt.Sprintf("the job would have %d tasks, and at most %d are allowed: %s; lower the parallelism",
			tasks, MaxTasks, strings.Join(parts, "; "))}
	}
	return nil
}
