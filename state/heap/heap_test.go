package heap_test

import (
	"testing"

	"cutwater/state"
	"cutwater/state/heap"
	"cutwater/state/statetest"
)

// The heap backend keeps the contract.
func TestConformance(t *testing.T) {
	statetest.Run(t, func(_ testing.TB, first, last int) state.Backend {
		return heap.New(heap.Options{MaxParallelism: statetest.MaxParallelism, FirstGroup: first, LastGroup: last})
	})
}
