package metadata

import (
	"context"
	"sync"

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
)

// Model is a Store in memory, for simulations and tests: what a group of nodes
// does when its leader changes is told to it. Nodes that come and go use it
// through a Session each.
type Model struct {
	mu      sync.Mutex
	machine metadata.Machine
	fault   func(*messages.MetadataCommand) Fault
	closed  bool
}

// NewModel returns an empty store. Fault, if not nil, decides the fate of each
// command; it is called in the order of the commands, by one caller at a time.
func NewModel(fault func(*messages.MetadataCommand) Fault) *Model { return &Model{fault: fault} }

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
	unknown := &messages.MetadataResult{Outcome: messages.MetadataOutcome_UNKNOWN, Failure: "leadership was lost while the command was being replicated"}
	switch fault {
	case Unavailable:
		return nil, ErrUnavailable
	case LostCommand:
		return unknown, nil
	}
	result := m.machine.Apply(m.machine.Index()+1, command)
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

func (s *session) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}
