package replicated

import (
	"time"

	"github.com/hashicorp/raft"

	"cutwater/messages"
	machine "cutwater/protocol/metadata"
)

// Leadership is who leads the log, as one member knows it.
type Leadership struct {
	// Term grows with each election. Two nodes never lead in the same one.
	Term uint64
	// ID and Addr are the leader's, empty where none is known.
	ID, Addr string
	// Here: this node leads, and has applied everything that was committed before its
	// term. What it does about the cluster as its leader may begin.
	Here bool
}

// Leader returns the id and address of the leader, empty where none is known.
func (s *Store) Leader() (id, addr string) {
	now, _ := s.Leadership()
	return now.ID, now.Addr
}

// Leadership returns who leads, and a channel that is closed when that changes. Where
// the leader is now is looked up each time: the log may hear from one that has just
// started before membership knows that it has moved.
func (s *Store) Leadership() (now Leadership, changed <-chan struct{}) {
	s.mu.Lock()
	now, changed = s.leadership, s.changed
	s.mu.Unlock()
	now.Addr = s.locate(now.ID, now.Addr)
	return now, changed
}

// observe follows the library's observations until the store is closed. Each is a
// hint to look: some may be dropped while others wait.
func (s *Store) observe(observations <-chan raft.Observation) {
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-observations:
		}
		s.look()
	}
}

// look publishes who leads. A leader becomes one Here once it has prepared its term.
func (s *Store) look() {
	term := s.raft.CurrentTerm()
	addr, id := s.raft.LeaderWithID()
	now := Leadership{Term: term, ID: string(id), Addr: string(addr)}
	if s.raft.State() == raft.Leader {
		s.mu.Lock()
		now.Here = s.leadership.Here && s.leadership.Term == term
		s.mu.Unlock()
		if !now.Here {
			s.publish(now)
			now.Here = s.prepare(term)
		}
	}
	s.publish(now)
}

func (s *Store) publish(now Leadership) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now == s.leadership {
		return
	}
	s.leadership = now
	close(s.changed)
	s.changed = make(chan struct{})
}

// locate returns the newest known address of a node.
func (s *Store) locate(id, addr string) string {
	if newer, ok := s.options.Locate(id); ok && id != "" {
		return newer
	}
	return addr
}

// prepare is the first that a leader does in its term: it applies what earlier
// leaders left, names the cluster if nobody has, and tells the members where it is.
// It reports whether the node may act as the leader; if not, another election will
// follow.
func (s *Store) prepare(term uint64) bool {
	timeout := time.Duration(s.options.TimeoutMs) * time.Millisecond
	if err := s.settled(s.raft.Barrier(timeout)); err != nil {
		return false
	}
	var known string
	if err := s.fsm.read(func(m *machine.Machine) { known = m.ClusterID() }); err != nil {
		s.log.Error("this node cannot lead", "error", err)
		s.giveWay()
		return false
	}
	if id := s.ClusterID(); known == "" && id != "" {
		command := &messages.MetadataCommand{Command: &messages.MetadataCommand_FoundCluster{FoundCluster: &messages.FoundCluster{ClusterId: id}}}
		body, err := encodeCommand(command)
		if err != nil || s.settled(s.raft.Apply(body, timeout)) != nil {
			return false
		}
	}
	for _, m := range s.Members() {
		if m.ID == s.options.NodeID && m.Voter && m.Addr != s.options.Advertise {
			if err := s.settled(s.raft.AddVoter(raft.ServerID(m.ID), raft.ServerAddress(s.options.Advertise), 0, timeout)); err != nil {
				return false
			}
		}
	}
	return s.raft.State() == raft.Leader && s.raft.CurrentTerm() == term
}

// giveWay hands leadership to another voter, if there is one.
func (s *Store) giveWay() {
	if err := s.settled(s.raft.LeadershipTransfer()); err != nil {
		s.log.Warn("no other voter takes the lead", "error", err)
	}
}

// elect makes a sole voter leader at once: nobody else can object, so there is
// nothing to wait for.
func (s *Store) elect() {
	members := s.Members()
	voters := 0
	here := false
	for _, m := range members {
		if m.Voter {
			voters++
			here = here || m.ID == s.options.NodeID
		}
	}
	if voters == 1 && here {
		s.campaign()
	}
}

// campaign stands for election without waiting for the silence of a leader.
func (s *Store) campaign() {
	header := raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(s.options.NodeID), Addr: []byte(s.options.Advertise)}
	id, self := raft.ServerID(s.options.NodeID), raft.ServerAddress(s.options.Advertise)
	if err := s.transport.TimeoutNow(id, self, &raft.TimeoutNowRequest{RPCHeader: header}, &raft.TimeoutNowResponse{}); err != nil {
		s.log.Debug("the election waits for its time", "error", err)
	}
}
