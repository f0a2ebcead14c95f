package checkpoint

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"cutwater/protocol"
)

// EventGate holds the events of one operator coordinator to its subtasks, so
// that each event stands either in the coordinator's snapshot or behind the
// subtask's, never in between (Flink: SubtaskGatewayImpl): what was sent before
// the coordinator's snapshot arrives before the barrier; what is offered after
// it waits until the subtask has taken its snapshot too.
//
// The owner calls Hold when it snapshots the coordinator, Release when it sees
// [Acknowledged] of a subtask, and ReleaseAll when it sees [Completed] or
// [Aborted].
type EventGate struct {
	// subtasks hold their marks, oldest checkpoint first.
	subtasks [][]mark
	// ended is the newest checkpoint that is over: it can not be held any more.
	ended uint64
}

// mark holds what was offered after the snapshot of a checkpoint and before
// that of the next.
type mark struct {
	checkpoint uint64
	events     []proto.Message
}

// HeldEvent is an event that may go to its subtask now.
type HeldEvent struct {
	Subtask int
	Event   proto.Message
}

// NewEventGate returns an open gate.
func NewEventGate(subtasks int) *EventGate {
	return &EventGate{subtasks: make([][]mark, subtasks)}
}

// Hold closes the gate to every subtask for a checkpoint, which is newer than
// those that are held. One that is over already changes nothing.
func (g *EventGate) Hold(checkpoint uint64) {
	if checkpoint <= g.ended {
		return
	}
	for i, marks := range g.subtasks {
		protocol.Assert(len(marks) == 0 || marks[len(marks)-1].checkpoint < checkpoint,
			"the gate of subtask %d is held for a checkpoint that is not older than %d", i, checkpoint)
		g.subtasks[i] = append(marks, mark{checkpoint: checkpoint})
	}
}

// Offer reports whether the event may be sent at once; if not, it is kept until
// a Release returns it.
func (g *EventGate) Offer(subtask int, event proto.Message) bool {
	marks := g.subtasks[subtask]
	if len(marks) == 0 {
		return true
	}
	last := &marks[len(marks)-1]
	last.events = append(last.events, event)
	return false
}

// Release opens the gate to one subtask for a checkpoint and returns what may
// go, in the order of the offers. What an older checkpoint still holds waits
// for that one. A checkpoint that is not held changes nothing.
func (g *EventGate) Release(subtask int, checkpoint uint64) []proto.Message {
	marks := g.subtasks[subtask]
	at := slices.IndexFunc(marks, func(m mark) bool { return m.checkpoint == checkpoint })
	if at < 0 {
		return nil
	}
	events := marks[at].events
	if at > 0 {
		marks[at-1].events = append(marks[at-1].events, events...)
		events = nil
	}
	g.subtasks[subtask] = slices.Delete(marks, at, at+1)
	return events
}

// ReleaseAll opens the gate to all subtasks for a checkpoint that is over and
// returns what may go, by subtask.
func (g *EventGate) ReleaseAll(checkpoint uint64) []HeldEvent {
	g.ended = max(g.ended, checkpoint)
	var all []HeldEvent
	for i := range g.subtasks {
		for _, e := range g.Release(i, checkpoint) {
			all = append(all, HeldEvent{Subtask: i, Event: e})
		}
	}
	return all
}

// Reset drops everything that is held: the subtasks are gone, and those that
// replace them ask again.
func (g *EventGate) Reset() { clear(g.subtasks) }
