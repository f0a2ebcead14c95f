package split

import (
	"slices"

	"cutwater/messages"
)

// given remembers, by subtask, the splits that were given away and that may be in no
// completed checkpoint, so that a reader that restarts alone gets them again (Flink:
// SplitAssignmentTracker).
//
// A split is noted with the newest checkpoint for which the enumerator had given its
// state when the split left. Because of the gate it is behind the barrier of checkpoint
// n, and not in the reader's part of it, if and only if that number is n or more.
type given struct {
	behind   uint64
	subtasks [][]givenSplit // behind never falls
}

type givenSplit struct {
	behind uint64
	split  *messages.Split
}

// completed forgets what the checkpoint holds: it is the oldest that will be restored.
func (g *given) completed(checkpoint uint64) {
	for i, splits := range g.subtasks {
		g.subtasks[i] = slices.DeleteFunc(splits, func(s givenSplit) bool { return s.behind < checkpoint })
	}
}

// takeBack returns what the subtask got behind the checkpoint, and forgets all that it
// had.
func (g *given) takeBack(subtask int, restored uint64) (splits []*messages.Split) {
	for _, s := range g.subtasks[subtask] {
		if s.behind >= restored {
			splits = append(splits, s.split)
		}
	}
	g.subtasks[subtask] = nil
	return splits
}

// Behind says that what is given from now on is behind this checkpoint: the enumerator
// was restored from it, or has just given its state for it.
func (e *Enumerator) Behind(checkpoint uint64) { e.given.behind = checkpoint }

// Completed says that no older checkpoint than this one will be restored.
func (e *Enumerator) Completed(checkpoint uint64) { e.given.completed(checkpoint) }

// Reset is for a subtask that restarts from a checkpoint, 0 for none, while others go
// on (Flink: subtaskReset). What it got behind the checkpoint comes back, and is kept
// for its next attempt: another reader may be past the times of those splits already,
// and would take their records for late. Its next request is its first.
func (e *Enumerator) Reset(subtask int, restored uint64) {
	splits := e.given.takeBack(subtask, restored)
	for _, s := range splits {
		e.kept[s.Id] = subtask
	}
	e.subtasks[subtask] = conversation{}
	e.AddBack(splits)
}

// Keeps reports whether there are splits that one subtask alone may get.
func (e *Enumerator) Keeps() bool { return len(e.kept) > 0 }

// next takes the split out that the subtask gets next: one that is kept for it, or the
// first that is kept for nobody. It is nil if there is none.
func (e *Enumerator) next(subtask int) *messages.Split {
	at := -1
	for i, s := range e.unassigned {
		owner, kept := e.kept[s.Id]
		if kept && owner == subtask {
			at = i
			break
		}
		if !kept && at < 0 {
			at = i
			if len(e.kept) == 0 {
				break
			}
		}
	}
	if at < 0 {
		return nil
	}
	s := e.unassigned[at]
	delete(e.kept, s.Id)
	if at == 0 {
		e.unassigned = e.unassigned[1:]
	} else {
		e.unassigned = slices.Concat(e.unassigned[:at], e.unassigned[at+1:]) // snapshots share the old one
	}
	e.given.subtasks[subtask] = append(e.given.subtasks[subtask], givenSplit{e.given.behind, s})
	return s
}

// forSubtask are the unassigned splits that the subtask may get.
func (e *Enumerator) forSubtask(subtask int) []*messages.Split {
	if len(e.kept) == 0 {
		return e.unassigned
	}
	var mine []*messages.Split
	for _, s := range e.unassigned {
		if owner, kept := e.kept[s.Id]; !kept || owner == subtask {
			mine = append(mine, s)
		}
	}
	return mine
}
