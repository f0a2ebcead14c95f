package job

import (
	"fmt"

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
}

// splitRequest answers a reader, through the gate.
func (m *Master) splitRequest(r *messages.SplitRequest) {
	if !m.current(r.Fence) {
		m.drop("split request of " + taskName(r.Task))
		return
	}
	s := m.sourceOf(r.Uid)
	e := m.execution(r.Task)
	if s == nil || e == nil || e.vertex != s.vertex {
		m.drop(fmt.Sprintf("split request of %s for source %q", taskName(r.Task), r.Uid))
		return
	}
	subtask := int(r.Task.Subtask)
	if s.held[subtask] != 0 && s.held[subtask] == r.Number {
		return
	}
	for _, a := range s.enumerator.Request(r) {
		if s.gate.Offer(subtask, a) {
			m.send(e.address, a)
		} else {
			s.held[subtask] = a.Number
		}
	}
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
		for _, h := range s.gate.ReleaseAll(id) {
			m.release(s, h.Subtask, h.Event)
		}
	}
}

// release sends an assignment that was held.
func (m *Master) release(s *source, subtask int, assignment proto.Message) {
	s.held[subtask] = 0
	for _, e := range m.tasks {
		if e.vertex == s.vertex && int(e.task.Subtask) == subtask && !e.terminal() {
			m.send(e.address, assignment)
		}
	}
}
