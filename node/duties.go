package node

import (
	"google.golang.org/protobuf/proto"

	"cutwater/cluster/transport"
	"cutwater/messages"
	"cutwater/protocol"
)

// batch lends the transport a batch of the node's, to be filled.
func (s *session) batch(int) *messages.RecordBatch { return s.runtime.batches.Get() }

// Send implements system.Transport; before the node is open there is nobody to reach.
func (s *session) Send(from, to protocol.Address, m proto.Message) {
	if t := s.transport.Load(); t != nil {
		t.Send(from, to, m)
	}
}

// locate finds the addresses of a node for the transport.
func (s *session) locate(name string) (where transport.Location, ok bool) {
	m, ok := s.control.roster.find(name)
	ports := m.Meta.GetPorts()
	return transport.Location{Control: portOf(m, ports.GetControl()), Data: portOf(m, ports.GetData())}, ok
}

// locateMetadata finds where a node's log is reached now. The log asks from its first
// moment on, before this node knows of any other.
func (s *session) locateMetadata(id string) (string, bool) {
	select {
	case <-s.opened:
	default:
		return "", false
	}
	m, ok := s.control.roster.byID(id)
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
	if s.control.Lost(name, lane, err) {
		s.wake()
	}
}

// leader is the id of the node that leads the metadata, or nothing, and its term.
func (s *session) leader() (id string, term uint64) {
	now, _ := s.store.Leadership()
	return now.ID, now.Term
}
