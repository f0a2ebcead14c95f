package job

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"cutwater/messages"
	"cutwater/protocol/checkpoint"
	"cutwater/protocol/split"
)

// source is the coordinator's side of a source in the current attempt.
type source struct {
	uid        string
	vertex     int // index in the plan
	enumerator *split.Enumerator
	gate       *checkpoint.EventGate
	// held is, by subtask, the number of the request whose answer the gate holds,
	// so that a repeated request does not add it again.
	held []uint64
	// unconfirmed is, by subtask, the assignment of a split that its reader has
	// not acknowledged, or nil.
	unconfirmed []*messages.SplitAssignment
	// waiting are the snapshots that wait until the source is settled; requests that
	// come meanwhile are postponed, so that the wait ends.
	waiting   []waitingSnapshot
	postponed []*messages.SplitRequest
}

// waitingSnapshot is an operation of the coordinator that was not answered yet.
type waitingSnapshot struct {
	op   uint64
	task *messages.SnapshotOperatorCoordinator
}

// settled reports that no split is on its way to a reader: neither sent and not
// confirmed, nor held for the snapshot of an older checkpoint. A split that is held
// has left the enumerator and is behind the reader's snapshot of that one, but the
// snapshot of a newer one would be taken without it.
func (s *source) settled() bool {
	for subtask, a := range s.unconfirmed {
		if a != nil || s.held[subtask] != 0 {
			return false
		}
	}
	return true
}

// Input is the size of what the sources discovered, and of the part of it that no
// task is known to have yet; 0 where sizes are not known. With what the tasks report as
// remaining it tells how far a bounded job is.
func (m *Master) Input() (totalBytes, unassignedBytes uint64) {
	for _, s := range m.sources {
		totalBytes += s.enumerator.TotalBytes()
		unassignedBytes += s.enumerator.UnassignedBytes()
		for _, a := range s.unconfirmed {
			unassignedBytes += a.GetSplit().GetSizeBytes()
		}
	}
	return totalBytes, unassignedBytes
}

// splitRequest answers a reader, through the gate.
func (m *Master) splitRequest(r *messages.SplitRequest) {
	e := m.sender(r.Fence, r.Task)
	if e == nil || m.falls(e) {
		m.drop("split request of " + taskName(r.Task))
		return
	}
	s := m.sourceOf(r.Uid)
	if s == nil || e.vertex != s.vertex {
		m.drop(fmt.Sprintf("split request of %s for source %q", taskName(r.Task), r.Uid))
		return
	}
	subtask := int(r.Task.Subtask)
	if u := s.unconfirmed[subtask]; u != nil && r.Number > u.Number {
		m.confirmed(s, subtask) // it asks for more, so it has the last one
	}
	if len(s.waiting) > 0 {
		s.postponed = append(s.postponed, r)
		return
	}
	if s.held[subtask] != 0 && s.held[subtask] == r.Number {
		return
	}
	for _, a := range s.enumerator.Request(r) {
		if s.gate.Offer(subtask, a) {
			m.assign(s, e, a)
		} else {
			s.held[subtask] = a.Number
		}
	}
}

// assign sends an assignment; one with a split is repeated until confirmed.
func (m *Master) assign(s *source, e *execution, a *messages.SplitAssignment) {
	if a.Split != nil {
		s.unconfirmed[e.task.Subtask] = a
	}
	m.send(e.address, a)
}

// splitAck takes a reader's confirmation.
func (m *Master) splitAck(a *messages.SplitAck) {
	s, e := m.sourceOf(a.Uid), m.sender(a.Fence, a.Task)
	if s == nil || e == nil || e.vertex != s.vertex {
		m.drop("split acknowledgement of " + taskName(a.Task))
		return
	}
	if u := s.unconfirmed[a.Task.Subtask]; u != nil && u.Number == a.Number {
		m.confirmed(s, int(a.Task.Subtask))
	}
}

// confirmed: a reader has its split.
func (m *Master) confirmed(s *source, subtask int) {
	s.unconfirmed[subtask] = nil
	m.answerWaiting(s)
}

// answerWaiting takes the snapshots that waited for the source to be settled.
func (m *Master) answerWaiting(s *source) {
	if !s.settled() {
		return
	}
	waiting := s.waiting
	s.waiting = nil
	for _, w := range waiting {
		m.take(m.coordinator.Step(m.nowMs, m.answerSnapshot(w.op, w.task)))
	}
	m.replay(s)
}

// replay handles the requests that were postponed.
func (m *Master) replay(s *source) {
	requests := s.postponed
	s.postponed = nil
	for _, r := range requests {
		m.splitRequest(r)
	}
}

// postpone keeps a snapshot of an enumerator waiting while a split is on its way.
func (m *Master) postpone(op uint64, t *messages.SnapshotOperatorCoordinator) bool {
	s := m.sourceOf(t.Uid)
	if s == nil || s.settled() {
		return false
	}
	s.waiting = append(s.waiting, waitingSnapshot{op, t})
	return true
}

// giveUpWaiting answers the snapshots that waited for a checkpoint that is over.
func (m *Master) giveUpWaiting(s *source, checkpoint uint64) {
	var over []waitingSnapshot
	s.waiting = slices.DeleteFunc(s.waiting, func(w waitingSnapshot) bool {
		if w.task.Checkpoint == checkpoint {
			over = append(over, w)
		}
		return w.task.Checkpoint == checkpoint
	})
	for _, w := range over {
		m.take(m.coordinator.Step(m.nowMs, &messages.WorkDone{Op: w.op, Failure: "the checkpoint is over"}))
	}
	if len(s.waiting) == 0 {
		m.replay(s)
	}
}

// repeatAssignments sends again what no reader has confirmed.
func (m *Master) repeatAssignments() {
	for _, s := range m.sources {
		for _, e := range m.tasks {
			if e.vertex == s.vertex && !e.terminal() && s.unconfirmed[e.task.Subtask] != nil {
				m.send(e.address, s.unconfirmed[e.task.Subtask])
			}
		}
	}
}

// reset is for a reader that restarts from a checkpoint, 0 for none, while others go on.
// No checkpoint is under way then, so that nothing is held for it.
func (s *source) reset(subtask int, restored uint64) {
	s.held[subtask], s.unconfirmed[subtask] = 0, nil
	s.enumerator.Reset(subtask, restored)
}

func (m *Master) sourceOf(uid string) *source {
	for _, s := range m.sources {
		if s.uid == uid {
			return s
		}
	}
	return nil
}

// snapshotSource takes the state of a source's enumerator for a checkpoint and
// holds back from then on what the state does not contain any more.
func (m *Master) snapshotSource(t *messages.SnapshotOperatorCoordinator) (*messages.OperatorCoordinatorSnapshot, error) {
	s := m.sourceOf(t.Uid)
	if s == nil {
		return nil, fmt.Errorf("source %q has no enumerator in this attempt", t.Uid)
	}
	state, err := proto.MarshalOptions{Deterministic: true}.Marshal(s.enumerator.Snapshot())
	if err != nil {
		return nil, fmt.Errorf("the progress of source %q cannot be encoded: %w", t.Uid, err)
	}
	s.enumerator.Behind(t.Checkpoint)
	s.gate.Hold(t.Checkpoint)
	return &messages.OperatorCoordinatorSnapshot{Uid: t.Uid, Checkpoint: t.Checkpoint, State: state, HasState: true}, nil
}

// acknowledged opens the gate to a subtask that has taken its snapshot.
func (m *Master) acknowledged(id uint64, task *messages.TaskId) {
	e := m.execution(task)
	for _, s := range m.sources {
		if e == nil || e.vertex != s.vertex {
			continue
		}
		for _, a := range s.gate.Release(int(task.Subtask), id) {
			m.release(s, int(task.Subtask), a)
		}
	}
}

// concluded opens the gates for a checkpoint that is over.
func (m *Master) concluded(id uint64) {
	for _, s := range m.sources {
		m.giveUpWaiting(s, id)
		for _, h := range s.gate.ReleaseAll(id) {
			m.release(s, h.Subtask, h.Event)
		}
	}
}

// completed lets the enumerators forget what no restart needs any more. A job does not
// restart from a plain savepoint.
func (m *Master) completed(c checkpoint.Completed) {
	for _, s := range m.sources {
		if c.Type != messages.CheckpointType_SAVEPOINT {
			s.enumerator.Completed(c.Checkpoint)
		}
	}
}

// release sends an assignment that was held.
func (m *Master) release(s *source, subtask int, assignment proto.Message) {
	s.held[subtask] = 0
	for _, e := range m.tasks {
		if e.vertex == s.vertex && int(e.task.Subtask) == subtask && !e.terminal() {
			m.assign(s, e, assignment.(*messages.SplitAssignment))
		}
	}
	m.answerWaiting(s) // where it was the word that there are no more splits
}
