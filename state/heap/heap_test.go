package heap_test

import (
	"testing"

	"cutwater/state"
	"cutwater/state/heap"
	"cutwater/state/statetest"
)

// The heap backend passes the conformance suite.
func TestConformance(t *testing.T) {
	statetest.Run(t, func(_ statetest.TB, g state.Groups) state.Backend {
		return heap.New(heap.Options{MaxParallelism: g.MaxParallelism, FirstGroup: g.First, LastGroup: g.Last})
	})
}
