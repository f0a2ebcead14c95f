package job

import "cutwater/messages"

// regions says which tasks stand and fall together: those that channels connect, over
// however many others (Flink: pipelined regions). A task that failed has taken with it
// what its neighbours had sent, so they start anew with it; tasks of other regions do
// not notice.
type regions struct {
	of    []int // the region of each task, in plan order; regions are numbered by their first task
	count int
}

// regionsOf finds the regions of a plan. A FORWARD edge connects subtasks of the same
// number; any other one connects all of both sides.
func regionsOf(plan *messages.ExecutionPlan) regions {
	first, vertex, tasks := make(map[string]int), make(map[string]*messages.Vertex), 0
	for _, v := range plan.Vertices {
		first[v.Id], vertex[v.Id] = tasks, v
		tasks += int(v.Parallelism)
	}
	s := newSets(tasks)
	for _, e := range plan.Edges {
		from, to := first[e.From], first[e.To]
		if e.Partitioning == messages.Partitioning_FORWARD {
			for i := range int(vertex[e.From].Parallelism) {
				s.join(from+i, to+i)
			}
			continue
		}
		for i := range int(vertex[e.From].Parallelism) {
			s.join(from+i, to)
		}
		for i := range int(vertex[e.To].Parallelism) {
			s.join(from, to+i)
		}
	}
	r := regions{of: make([]int, tasks)}
	number := make(map[int]int)
	for i := range r.of {
		root := s.root(i)
		if _, ok := number[root]; !ok {
			number[root] = r.count
			r.count++
		}
		r.of[i] = number[root]
	}
	return r
}

// sets are disjoint sets of the numbers below a bound (union-find).
type sets []int // the parent of each; a root is its own

func newSets(n int) sets {
	s := make(sets, n)
	for i := range s {
		s[i] = i
	}
	return s
}

func (s sets) root(i int) int {
	for s[i] != i {
		s[i] = s[s[i]]
		i = s[i]
	}
	return i
}

func (s sets) join(a, b int) { s[s.root(b)] = s.root(a) }
