package replicated

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"cutwater/messages"
)

// caughtUp is how many entries the copy of a member may be behind.
const caughtUp = 128

// Members returns who has a copy of the log, as this member knows it, ordered by id.
func (s *Store) Members() []Member {
	f := s.raft.GetConfiguration()
	if f.Error() != nil {
		return nil
	}
	var members []Member
	for _, server := range f.Configuration().Servers {
		members = append(members, Member{ID: string(server.ID), Addr: string(server.Address), Voter: server.Suffrage == raft.Voter})
	}
	slices.SortFunc(members, func(a, b Member) int { return strings.Compare(a.ID, b.ID) })
	return members
}

// Steer does what Decide says of the nodes, if this member is the leader, and
// returns what it did. Every member calls it, each second or so and when a node comes
// or goes. An error ends it; the next call goes on from what is then so.
func (s *Store) Steer(ctx context.Context, p Policy, nowMs int64, nodes []Node) ([]Change, error) {
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	leader, _ := s.Leadership()
	if !leader.Here {
		return nil, nil
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	members := s.askProgress(ctx, s.Members())
	changes := Decide(p, View{NowMs: nowMs, Leader: s.options.NodeID, Nodes: nodes, Members: members})
	return s.apply(ctx, changes)
}

// apply takes the steps, and returns those that it took.
func (s *Store) apply(ctx context.Context, changes []Change) (done []Change, err error) {
	for i, c := range changes {
		deadline, _ := ctx.Deadline()
		timeout := max(time.Millisecond, time.Until(deadline))
		var f raft.Future
		switch id, addr := raft.ServerID(c.ID), raft.ServerAddress(c.Addr); c.Kind {
		case AddNonvoter:
			f = s.raft.AddNonvoter(id, addr, 0, timeout)
		case AddVoter:
			f = s.raft.AddVoter(id, addr, 0, timeout)
		case Demote:
			f = s.raft.DemoteVoter(id, 0, timeout)
		case Remove:
			f = s.raft.RemoveServer(id, 0, timeout)
		}
		if err := s.await(ctx, f); err != nil {
			return changes[:i], fmt.Errorf("metadata: the members could not be changed (%s): %w", c, err)
		}
		s.log.Info("the members changed", "change", c.String())
	}
	return changes, nil
}

// progressTimeout is how long a member may take to say how far it is, before it
// counts as behind.
const progressTimeout = time.Second

// askProgress fills in which members answer and are caught up.
func (s *Store) askProgress(ctx context.Context, members []Member) []Member {
	ctx, cancel := context.WithTimeout(ctx, progressTimeout)
	defer cancel()
	committed := s.raft.CommitIndex()
	var wg sync.WaitGroup
	for i := range members {
		m := &members[i]
		if m.ID == s.options.NodeID {
			m.CaughtUp = true
			continue
		}
		wg.Go(func() {
			response, err := s.progressOf(ctx, *m)
			m.CaughtUp = err == nil && response.LastIndex > 0 && response.LastIndex+caughtUp >= committed
		})
	}
	wg.Wait()
	return members
}

func (s *Store) progressOf(ctx context.Context, m Member) (*messages.MetadataResponse, error) {
	request := &messages.MetadataRequest{Request: &messages.MetadataRequest_Progress{Progress: &messages.MemberProgress{}}}
	response, _, err := s.links.call(ctx, s.locate(m.ID, m.Addr), nil, request)
	switch {
	case err != nil:
		return nil, err
	case response.Unavailable || response.Failure != "":
		return nil, errors.New(response.Failure)
	}
	return response, nil
}

// ErrLastVoter: the node cannot leave before another one has its log.
var ErrLastVoter = errors.New("metadata: the last voter cannot leave; start another node and wait until it has caught up, or stop this one without leaving")

// TransferLeadership hands leadership to another voter, if this member leads and
// there is one. Call it before Close, and others take over without an election.
func (s *Store) TransferLeadership(ctx context.Context) error {
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	return s.transfer(ctx)
}

func (s *Store) transfer(ctx context.Context) error {
	voters := 0
	for _, m := range s.Members() {
		if m.Voter {
			voters++
		}
	}
	if s.raft.State() != raft.Leader || voters < 2 {
		return nil
	}
	if err := s.await(ctx, s.raft.LeadershipTransfer()); err != nil {
		return fmt.Errorf("metadata: no other voter took the lead: %w", err)
	}
	return nil
}

// Leave takes this node off the members for good, so that its absence counts for
// nobody. A leader hands leadership over first; the last voter gives its vote to
// another member, or, where there is none that is caught up, returns ErrLastVoter
// when the time is up. A sole member has nobody to leave and does nothing. After it
// the store can only be closed.
func (s *Store) Leave(ctx context.Context) error {
	if len(s.Members()) <= 1 {
		return nil
	}
	last := error(nil)
	err := s.ask(ctx, func(ctx context.Context, leader Leadership, changed <-chan struct{}) error {
		if leader.Here {
			if err := s.dismiss(ctx, s.options.NodeID); !errors.Is(err, errStays) {
				return err
			}
			if last = s.transfer(ctx); last == nil && s.raft.State() == raft.Leader {
				last = ErrLastVoter
			}
			return errElsewhere // and on to whoever leads now
		}
		request := &messages.MetadataRequest{Request: &messages.MetadataRequest_Leave{Leave: &messages.LeaveMetadata{NodeId: s.options.NodeID}}}
		_, sent, err := s.forward(ctx, leader, changed, request)
		if err != nil && sent {
			return fmt.Errorf("%w: %w", errElsewhere, err) // leaving twice is leaving
		}
		return err
	})
	if err != nil && last != nil {
		return errors.Join(last, err)
	}
	return err
}

// errStays: a member cannot leave yet.
var errStays = fmt.Errorf("%w, or the member cannot leave yet", errElsewhere)

// dismiss takes a member off, as the leader. What it must do before comes first: when
// it returns errStays the leader still has to hand over, or a vote to be taken.
func (s *Store) dismiss(ctx context.Context, id string) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	changes, ok := Depart(s.options.NodeID, id, s.askProgress(ctx, s.Members()))
	if _, err := s.apply(ctx, changes); err != nil {
		return fmt.Errorf("%w: %w", errElsewhere, err)
	}
	if !ok {
		return errStays
	}
	return nil
}
