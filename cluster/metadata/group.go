package metadata

import (
	"context"

	"cutwater/messages"
)

// Group is a Model as several nodes see it: one of them leads at most, and each has
// an idea of its own which one that is. What a node asks through a leader that is
// none any more has an unknown outcome, or none; its answer is never wrong. It is not
// safe for concurrent use.
type Group struct {
	// Model is what the leader of the moment knows.
	*Model
	leader string
}

// Request is what becomes of something that a node asks.
type Request struct {
	// Leader is the node that it takes for the leader; nothing: it knows none.
	Leader string
	// Fault is what happens on the way there and back. Of a read that is hit by any
	// nothing comes back.
	Fault Fault
}

// NewGroup returns a group without a leader.
func NewGroup() *Group { return &Group{Model: NewModel(nil)} }

// Leader is the node that leads, or nothing.
func (g *Group) Leader() string { return g.leader }

// Elect makes a node the leader, or leaves the group without one. The new leader's log
// has what the old one had not answered, or has it not.
func (g *Group) Elect(node string, keep bool) {
	if g.leader = node; node != "" {
		g.Settle(keep)
	}
}

// Member returns the store as one node sees it. Ask says what becomes of each request.
func (g *Group) Member(ask func() Request) Store { return &member{group: g, ask: ask} }

// do proposes with a fault that was decided already.
func (g *Group) do(c *messages.MetadataCommand, fault Fault) (*messages.MetadataResult, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.propose(c, fault)
}

type member struct {
	group  *Group
	ask    func() Request
	closed bool
}

// read returns why nothing can be read now, or nil: it takes the leader, and a majority
// that confirms that it leads.
func (m *member) read() error {
	if m.closed {
		return ErrClosed
	}
	if r := m.ask(); r.Leader == "" || r.Leader != m.group.leader || r.Fault != NoFault {
		return ErrUnavailable
	}
	return nil
}

// Propose implements Store.
func (m *member) Propose(_ context.Context, c *messages.MetadataCommand) (*messages.MetadataResult, error) {
	if m.closed {
		return nil, ErrClosed
	}
	r := m.ask()
	switch fault := r.Fault; {
	case r.Leader == "" || fault == Unavailable:
		return nil, ErrUnavailable
	case r.Leader == m.group.leader:
		return m.group.do(c, fault)
	case m.group.leader == "":
		return m.group.do(c, LateCommand) // in the log of one that may lead again
	}
	return m.group.do(c, LostCommand) // in a log that another one overwrites
}

// Job implements Store.
func (m *member) Job(ctx context.Context, job string) (*messages.JobRecord, error) {
	if err := m.read(); err != nil {
		return nil, err
	}
	return m.group.Job(ctx, job)
}

// Jobs implements Store.
func (m *member) Jobs(ctx context.Context) ([]*messages.JobRecord, error) {
	if err := m.read(); err != nil {
		return nil, err
	}
	return m.group.Jobs(ctx)
}

// Standing implements Store.
func (m *member) Standing(ctx context.Context, since uint64) ([]*messages.JobRecord, uint64, error) {
	if err := m.read(); err != nil {
		return nil, 0, err
	}
	return m.group.Standing(ctx, since)
}

// Close implements Store; the group stays.
func (m *member) Close() error {
	m.closed = true
	return nil
}
