package split

import (
	"fmt"

	"cutwater/messages"
)

// TakeOut removes splits that readers got from the enumerator before this one, since
// the state that this one was restored from: see [Received], whose reports are in the
// accounts of the readers, by subtask, nil for one that has ended. It must come before
// the first request. The error names a split that is not there to be given, or was given
// twice; then the enumerator is of no use.
//
// Splits go out in their order, so one that was left while a later one was given was on
// its way to somebody, and has not arrived. Whoever got a later one may be past its
// times, and would take its records for late. It is kept for a reader that waits for an
// answer and has none that is later: the one that it was for is such a reader, and where
// several are on their way, one for each is found in their order.
func (e *Enumerator) TakeOut(accounts []*messages.TaskAccount) error {
	place := make(map[string]int, len(e.unassigned))
	for i, s := range e.unassigned {
		place[s.Id] = i
	}
	out := make(map[string]bool)
	newest, last := make([]int, len(accounts)), 0 // places of the last that each got, and that anybody did, from 1
	for subtask, a := range accounts {
		for _, r := range a.GetReceived() {
			at, left := place[r.Id]
			switch {
			case out[r.Id]:
				return fmt.Errorf("source %q: two readers have split %q", e.uid, r.Id)
			case !left:
				return fmt.Errorf("source %q: a reader has split %q, which is not among those that were left to give", e.uid, r.Id)
			}
			out[r.Id] = true
			newest[subtask], last = max(newest[subtask], at+1), max(last, at+1)
			delete(e.kept, r.Id)
			e.given.subtasks[subtask] = append(e.given.subtasks[subtask], givenSplit{r.Behind, e.unassigned[at]})
		}
	}
	found := make([]bool, len(accounts))
	left := make([]*messages.Split, 0, len(e.unassigned)-len(out))
	for i, s := range e.unassigned {
		if out[s.Id] {
			continue
		}
		left = append(left, s)
		if _, kept := e.kept[s.Id]; kept || i >= last {
			continue
		}
		subtask := 0
		for subtask < len(accounts) && (found[subtask] || !accounts[subtask].GetWaitsForSplit() || newest[subtask] > i) {
			subtask++
		}
		if subtask == len(accounts) {
			return fmt.Errorf("source %q: split %q was on its way, and no reader waits for it", e.uid, s.Id)
		}
		found[subtask], e.kept[s.Id] = true, subtask
	}
	e.unassigned = left
	return nil
}
