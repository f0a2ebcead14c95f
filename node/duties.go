package node

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	"cutwater/actors/agent"
	"cutwater/cluster/transport"
	"cutwater/messages"
	"cutwater/protocol"
	"cutwater/protocol/dispatch"
)

// batch lends the transport a batch of the node's, to be filled.
func (s *session) batch(int) *messages.RecordBatch { return s.runtime.batches.Get() }

// Send implements system.Transport; before the node is open there is nobody to reach.
func (s *session) Send(from, to protocol.Address, m proto.Message) {
	if t := s.transport.Load(); t != nil {
		t.Send(from, to, m)
	}
}

// coordinate starts the coordinator of a job here.
func (s *session) coordinate(ctx context.Context, jobID string, epoch uint64) error {
	record, err := s.store.Job(ctx, jobID)
	switch {
	case err != nil:
		return err
	case record.GetJob() != jobID:
		return fmt.Errorf("job %s is not on record", jobID)
	case record.Epoch > epoch:
		return nil // another one was faster
	}
	name := ProgramName(record.Topology)
	s.programs.offer(name, record.Topology)
	j, err := s.runtime.StartJob(JobSpec{Job: jobID, Program: name, Graph: record.Graph, Settings: record.Settings,
		Topology: record.Topology, Agent: s.system.Address(agent.Name)})
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.jobs[jobID] = j
	s.mu.Unlock()
	return nil
}

// coordinating lists the jobs whose coordinators run here, with their epochs, and
// forgets those that have ended.
func (s *session) coordinating() map[string]uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	epochs := make(map[string]uint64, len(s.jobs))
	for id, j := range s.jobs {
		if j.Done() {
			delete(s.jobs, id)
			continue
		}
		epochs[id] = j.Epoch()
	}
	return epochs
}

// leader is the name of the node whose dispatcher works, as far as this one knows.
func (s *session) leader() (string, bool) {
	now, _ := s.store.Leadership()
	switch {
	case now.ID == s.identity.Node:
		return s.name, true
	case now.ID == "":
		return "", false
	}
	m, ok := s.roster.byID(now.ID)
	return nodeName(m.Meta), ok
}

// offers is what the dispatcher may use.
func (s *session) offers() (nodes []dispatch.Node) {
	for _, k := range s.roster.all() {
		if k.alive {
			nodes = append(nodes, dispatch.Node{Name: nodeName(k.member.Meta), Slots: int(k.member.Meta.Slots), Leaving: k.member.Meta.Leaving})
		}
	}
	return nodes
}

// locate finds the addresses of a node for the transport.
func (s *session) locate(name string) (where transport.Location, ok bool) {
	m, ok := s.roster.find(name)
	ports := m.Meta.GetPorts()
	return transport.Location{Control: portOf(m, ports.GetControl()), Data: portOf(m, ports.GetData())}, ok
}

// locateMetadata finds where a node's log is reached now.
func (s *session) locateMetadata(id string) (string, bool) {
	m, ok := s.roster.byID(id)
	if !ok || m.Meta.GetPorts().GetMetadata() == 0 {
		return "", false
	}
	return portOf(m, m.Meta.Ports.Metadata).String(), true
}

// deliver takes in a message of another node.
func (s *session) deliver(to protocol.Address, m proto.Message) {
	if on(to, s.name) {
		s.system.Deliver(to, m)
	}
}

// lost takes in what the transport says of another node.
func (s *session) lost(name string, lane transport.Lane, err error) {
	if lane == transport.Data {
		s.tell(agent.Name, &messages.LinkLost{Node: name, Reason: err.Error()})
		return
	}
	if s.roster.lost(s.clock.MonotonicMs(), name) {
		s.tellLost(name, err.Error())
		s.wake()
	}
}

func (s *session) tellLost(name, reason string) {
	s.happened(NodeEnded{name, reason})
	s.tell(agent.Name, &messages.NodeLost{Node: name, Reason: reason})
}

// tell delivers a message to an actor of this node.
func (s *session) tell(actor string, m proto.Message) {
	s.system.Deliver(s.system.Address(actor), m)
}
