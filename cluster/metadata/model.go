package metadata

import (
	"context"
	"sync"

	"google.golang.org/protobuf/proto"

	"cutwater/messages"
	"cutwater/protocol/metadata"
)

// Fault is what a Model does to a command.
type Fault uint8

const (
	// NoFault: it is applied and answered.
	NoFault Fault = iota
	// LostAnswer: it is applied, and its outcome is UNKNOWN.
	LostAnswer
	// LostCommand: it is not applied, and its outcome is UNKNOWN.
	LostCommand
	// Unavailable: it is not applied, and Propose returns ErrUnavailable.
	Unavailable
	// LateCommand: its outcome is UNKNOWN, and it is applied later: before the next
	// command, or when Settle says so. Reads until then do not see it.
	LateCommand
)

// Model is a Store in memory, for simulations and tests: what a group of nodes
// does when its leader changes is told to it. Nodes that come and go use it
// through a Session each.
type Model struct {
	mu      sync.Mutex
	machine metadata.Machine
	fault   func(*messages.MetadataCommand) Fault
	late    []*messages.MetadataCommand
	observe func(*messages.MetadataCommand, *messages.MetadataResult)
	closed  bool
}

// NewModel returns an empty store. Fault, if not nil, decides the fate of each
// command; it is called in the order of the commands, by one caller at a time.
func NewModel(fault func(*messages.MetadataCommand) Fault) *Model { return &Model{fault: fault} }

// Observe calls f for each command that is applied, whatever its proposer was told,
// with what became of it. F must not use the Model.
func (m *Model) Observe(f func(*messages.MetadataCommand, *messages.MetadataResult)) { m.observe = f }

// Settle applies the commands that are late, or drops them: as a new leader does, in
// whose log they are, or not.
func (m *Model) Settle(keep bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.settle(keep)
}

func (m *Model) settle(keep bool) {
	late := m.late
	m.late = nil
	if keep {
		for _, c := range late {
			m.apply(c)
		}
	}
}

func (m *Model) apply(c *messages.MetadataCommand) *messages.MetadataResult {
	result := m.machine.Apply(m.machine.Index()+1, c)
	if m.observe != nil {
		m.observe(c, result)
	}
	return result
}

// Propose implements Store.
func (m *Model) Propose(_ context.Context, command *messages.MetadataCommand) (*messages.MetadataResult, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, ErrClosed
	}
	fault := NoFault
	if m.fault != nil {
		fault = m.fault(command)
	}
	return m.propose(command, fault)
}

func (m *Model) propose(command *messages.MetadataCommand, fault Fault) (*messages.MetadataResult, error) {
	unknown := &messages.MetadataResult{Outcome: messages.MetadataOutcome_UNKNOWN, Failure: "leadership was lost while the command was being replicated"}
	switch fault {
	case Unavailable:
		return nil, ErrUnavailable
	case LostCommand:
		return unknown, nil
	case LateCommand:
		m.late = append(m.late, proto.CloneOf(command))
		return unknown, nil
	}
	m.settle(true) // the log has an order
	result := m.apply(command)
	if fault == LostAnswer {
		return unknown, nil
	}
	return result, nil
}

// Job implements Store.
func (m *Model) Job(_ context.Context, job string) (*messages.JobRecord, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, ErrClosed
	}
	if r := m.machine.Job(job); r != nil {
		return r, nil
	}
	return &messages.JobRecord{}, nil
}

// Jobs implements Store.
func (m *Model) Jobs(context.Context) ([]*messages.JobRecord, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, ErrClosed
	}
	return m.machine.Jobs(), nil
}

// Standing implements Store.
func (m *Model) Standing(_ context.Context, since uint64) ([]*messages.JobRecord, uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, 0, ErrClosed
	}
	return m.machine.Standing(since), m.machine.Index(), nil
}

// Close implements Store.
func (m *Model) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}

// Session returns a Store over the model whose Close closes nothing but itself.
func (m *Model) Session() Store { return &session{model: m} }

type session struct {
	model  *Model
	mu     sync.Mutex
	closed bool
}

func (s *session) usable() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	return nil
}

func (s *session) Propose(ctx context.Context, command *messages.MetadataCommand) (*messages.MetadataResult, error) {
	if err := s.usable(); err != nil {
		return nil, err
	}
	return s.model.Propose(ctx, command)
}

func (s *session) Job(ctx context.Context, job string) (*messages.JobRecord, error) {
	if err := s.usable(); err != nil {
		return nil, err
	}
	return s.model.Job(ctx, job)
}

func (s *session) Jobs(ctx context.Context) ([]*messages.JobRecord, error) {
	if err := s.usable(); err != nil {
		return nil, err
	}
	return s.model.Jobs(ctx)
}

func (s *session) Standing(ctx context.Context, since uint64) ([]*messages.JobRecord, uint64, error) {
	if err := s.usable(); err != nil {
		return nil, 0, err
	}
	return s.model.Standing(ctx, since)
}

func (s *session) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}
