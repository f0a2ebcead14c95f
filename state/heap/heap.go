// Package heap is the backend that keeps keyed state in memory: the tables of
// package state and nothing else. It is the default; state must fit in memory
// twice over while a snapshot is written and everything changes meanwhile.
package heap

import "cutwater/state"

// Options say which key groups the state is for.
type Options struct {
	// MaxParallelism is the number of key groups of the operator.
	MaxParallelism int
	// FirstGroup and LastGroup are this subtask's key groups, both included.
	FirstGroup, LastGroup int
}

// New returns an empty backend.
func New(o Options) state.Backend {
	return state.NewTables(state.Groups{
		MaxParallelism: o.MaxParallelism, First: o.FirstGroup, Last: o.LastGroup,
	}, nil, 0)
}
