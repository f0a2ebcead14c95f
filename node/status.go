package node

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"cutwater/cluster/discovery"
	"cutwater/cluster/transport"
	"cutwater/messages"
)

// NodeStatus is what one node knows of another, or of itself.
type NodeStatus struct {
	// Meta is what the node says of itself; of one that nobody has heard since this
	// node started it has the id alone. It must not be changed.
	Meta *messages.NodeMeta
	// Name is that of its present start, as in addresses of actors.
	Name string
	// The addresses at which it listens, not valid where there is none.
	Gossip, Metadata, Control, Data, HTTP netip.AddrPort
	// Alive is what this node thinks, since the age of Since.
	Alive bool
	Since time.Duration
	// Voter and Leader tell its part in the metadata log.
	Voter, Leader bool
}

// Name is the name of this start of the node, as in addresses of actors.
func (m *Member) Name() string {
	s, err := m.current()
	if err != nil {
		return ""
	}
	return s.name
}

// ClusterID is the id of the node's cluster, or empty while it has none.
func (m *Member) ClusterID() string {
	s, err := m.current()
	if err != nil {
		return ""
	}
	return s.store.ClusterID()
}

// Started is when the node was started.
func (m *Member) Started() time.Time { return m.started }

// Nodes are the nodes that this one knows, itself included, ordered by id.
func (m *Member) Nodes() ([]NodeStatus, error) {
	s, err := m.current()
	if err != nil {
		return nil, err
	}
	voters := map[string]bool{}
	for _, member := range s.store.Members() {
		voters[member.ID] = member.Voter
	}
	leader, _ := s.store.Leader()
	var nodes []NodeStatus
	for _, k := range s.control.roster.all() {
		meta, ports := k.member.Meta, k.member.Meta.GetPorts()
		nodes = append(nodes, NodeStatus{
			Meta: meta, Name: nodeName(meta), Gossip: k.member.Gossip,
			Metadata: portOf(k.member, ports.GetMetadata()), Control: portOf(k.member, ports.GetControl()),
			Data: portOf(k.member, ports.GetData()), HTTP: portOf(k.member, ports.GetHttp()),
			Alive: k.alive, Since: time.Duration(s.clock.MonotonicMs()-k.sinceMs) * time.Millisecond,
			Voter: voters[meta.Node], Leader: meta.Node == leader && leader != "",
		})
	}
	return nodes, nil
}

// Discovery is what each source of addresses has done.
func (m *Member) Discovery() []discovery.Status {
	s, err := m.current()
	if err != nil {
		return nil
	}
	return s.discovery.Status()
}

// Ready tells why the node cannot serve now, or nil.
func (m *Member) Ready() error {
	s, err := m.current()
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away != "" {
		return fmt.Errorf("node %s is not ready: %s", shortName(s.name), s.away)
	}
	return nil
}

// AwaitReady returns when the node can serve, or why it could not until ctx was done,
// or never will.
func (m *Member) AwaitReady(ctx context.Context) error {
	for {
		changed := m.Changed()
		err := m.Ready()
		if err == nil {
			return nil
		}
		select {
		case <-m.failed:
			return m.Ready()
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-changed:
		}
	}
}

// Changed is closed when the node looks at its cluster the next time, which it does
// when something has changed there, and now and then.
func (m *Member) Changed() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changed
}

func (m *Member) notify() {
	m.mu.Lock()
	defer m.mu.Unlock()
	close(m.changed)
	m.changed = make(chan struct{})
}

// Traffic is what a node does now, for metrics.
type Traffic struct {
	Slots, SlotsUsed int
	// Term is that of the metadata log; Leads: this node leads in it.
	Term  uint64
	Leads bool
	// Control and Data are the messages from and to other nodes, since the node has
	// been in its cluster.
	Control, Data transport.LaneCounts
}

// Traffic counts what the node does.
func (m *Member) Traffic() Traffic {
	t := Traffic{Slots: m.options.Slots}
	s, err := m.current()
	if err != nil {
		return t
	}
	now, _ := s.store.Leadership()
	t.SlotsUsed, t.Term, t.Leads = s.runtime.SlotsInUse(), now.Term, now.Here
	if lanes := s.transport.Load(); lanes != nil {
		c := lanes.Counts()
		t.Control, t.Data = c.Control, c.Data
	}
	return t
}
