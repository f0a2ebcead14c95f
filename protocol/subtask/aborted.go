package subtask

import "slices"

// abortMemory remembers checkpoints whose abort came before their barrier. It
// holds the newest bound ids; what is older than the newest abort by more than
// the bound counts as aborted too.
type abortMemory struct {
	bound int
	ids   []uint64 // ascending
	max   uint64
	// floor: all up to it were aborted, or have completed, before the task's present
	// coordinator.
	floor uint64
}

func (m *abortMemory) add(checkpoint uint64) {
	m.max = max(m.max, checkpoint)
	at, found := slices.BinarySearch(m.ids, checkpoint)
	if found {
		return
	}
	m.ids = slices.Insert(m.ids, at, checkpoint)
	if len(m.ids) > m.bound {
		m.ids = slices.Delete(m.ids, 0, 1)
	}
}

func (m *abortMemory) has(checkpoint uint64) bool {
	_, found := slices.BinarySearch(m.ids, checkpoint)
	return found || checkpoint <= m.floor || checkpoint+uint64(m.bound) < m.max
}

// forgetUpTo drops what can no longer be asked for.
func (m *abortMemory) forgetUpTo(checkpoint uint64) {
	at, found := slices.BinarySearch(m.ids, checkpoint)
	if found {
		at++
	}
	m.ids = slices.Delete(m.ids, 0, at)
}
