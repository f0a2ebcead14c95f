package node

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"

	"cutwater/actors/agent"
	"cutwater/actors/dispatcher"
	"cutwater/cluster/membership"
	"cutwater/cluster/metadata/replicated"
	"cutwater/cluster/transport"
	"cutwater/messages"
	"cutwater/protocol"
	"cutwater/protocol/dispatch"
)

// ControlConfig is what a node's part in its cluster stands on. A real node and a
// simulated one differ in nothing else. Event may be nil.
type ControlConfig struct {
	Runtime *Runtime
	// NowMs is a monotonic clock.
	NowMs func() int64
	// Leader returns the id of the node that leads the metadata store, as far as this
	// one knows, or nothing, and its term. It must not block.
	Leader func() (id string, term uint64)
	// Event is told what happens, in order of the actor that tells it.
	Event func(protocol.Event)
}

// Control is a node's part in its cluster: it runs the agent and the dispatcher, and
// tells them who lives and who leads. Any goroutine may use it.
type Control struct {
	config ControlConfig
	name   string // of this start of the node
	roster *roster

	mu   sync.Mutex
	jobs map[string]*Job // that are coordinated here
}

// NewControl starts the agent and the dispatcher of a node. The dispatcher is idle
// until Lead.
func NewControl(c ControlConfig) (*Control, error) {
	if c.Event == nil {
		c.Event = func(protocol.Event) {}
	}
	s := c.Runtime.deps.System
	control := &Control{config: c, name: s.Node(), roster: newRoster(), jobs: map[string]*Job{}}
	if err := agent.Spawn(s, agent.Config{Start: control.coordinate, Coordinators: control.Coordinating, Leader: control.leader}); err != nil {
		return nil, err
	}
	err := dispatcher.Spawn(s, dispatcher.Config{Jobs: c.Runtime.deps.Metadata.Standing, Nodes: control.offers, Event: c.Event})
	return control, err
}

// Look takes in who seems to be alive by gossip, this node included, and whom the
// metadata store has on record. It is called again and again, since it keeps
// connections to the others, too.
func (c *Control) Look(members []membership.Member, onRecord []replicated.Member) {
	for _, name := range c.roster.update(c.config.NowMs(), members, onRecord) {
		c.tellLost(name, "gossip does not hear it any more")
	}
	c.tell(dispatcher.Name, &messages.NodesChanged{})
	c.greet()
}

// greet keeps a connection to every other node, whose end shows that the process there
// has ended.
func (c *Control) greet() {
	s := c.config.Runtime.deps.System
	for _, k := range c.roster.all() {
		if name := nodeName(k.member.Meta); k.alive && name != c.name {
			s.Send(s.Address(agent.Name), dispatch.AgentAddress(name), &messages.Presence{})
		}
	}
}

// Lead tells the dispatcher of this node that it works from now on. Each leadership
// begins with a call of its own; terms grow, whichever node leads.
func (c *Control) Lead(term uint64) {
	c.tell(dispatcher.Name, &messages.LeadershipChanged{Leading: true, Term: term})
	// What the lost ones coordinated need not be waited for: mostly that of the leader
	// before, whose end is why this node leads.
	for _, name := range c.roster.ended() {
		c.tell(dispatcher.Name, &messages.NodeLost{Node: name, Reason: "it ended before this node led"})
	}
}

// Follow tells the dispatcher of this node that it works no more.
func (c *Control) Follow() {
	c.tell(dispatcher.Name, &messages.LeadershipChanged{})
}

// Lost takes in what the transport says of another node, and reports whether a node is
// known to be over that was not before.
func (c *Control) Lost(name string, lane transport.Lane, err error) (over bool) {
	if lane == transport.Data {
		c.tell(agent.Name, &messages.LinkLost{Node: name, Reason: err.Error()})
		return false
	}
	if !c.roster.lost(c.config.NowMs(), name) {
		return false
	}
	c.tellLost(name, err.Error())
	return true
}

func (c *Control) tellLost(name, reason string) {
	c.config.Event(NodeEnded{name, reason})
	c.tell(agent.Name, &messages.NodeLost{Node: name, Reason: reason})
}

// tell delivers a message to an actor of this node.
func (c *Control) tell(actor string, m proto.Message) {
	s := c.config.Runtime.deps.System
	s.Deliver(s.Address(actor), m)
}

// coordinate starts the coordinator of a job here.
func (c *Control) coordinate(ctx context.Context, jobID string, epoch uint64) error {
	d := &c.config.Runtime.deps
	record, err := d.Metadata.Job(ctx, jobID)
	switch {
	case err != nil:
		return err
	case record.GetJob() != jobID:
		return fmt.Errorf("job %s is not on record", jobID)
	case record.Epoch > epoch:
		return nil // another one was faster
	}
	name := ProgramName(record.Topology)
	if d.Offer != nil {
		d.Offer(name, record.Topology)
	}
	j, err := c.config.Runtime.StartJob(JobSpec{Job: jobID, Program: name, Graph: record.Graph, Settings: record.Settings,
		Topology: record.Topology, Agent: d.System.Address(agent.Name)})
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.jobs[jobID] = j
	c.mu.Unlock()
	return nil
}

// Coordinating lists the jobs whose coordinators run here, with their epochs, and
// forgets those that have ended. An epoch of 0 is not taken yet.
func (c *Control) Coordinating() map[string]uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	epochs := make(map[string]uint64, len(c.jobs))
	for id, j := range c.jobs {
		if j.Done() {
			delete(c.jobs, id)
			continue
		}
		epochs[id] = j.Epoch()
	}
	return epochs
}

// leader is the name of the node whose dispatcher works, as far as this one knows, and
// the term.
func (c *Control) leader() (name string, term uint64, ok bool) {
	id, term := c.config.Leader()
	switch {
	case id == "":
		return "", term, false
	case strings.HasPrefix(c.name, id+"."):
		return c.name, term, true
	}
	m, ok := c.roster.byID(id)
	return nodeName(m.Meta), term, ok
}

// offers is what the dispatcher may use.
func (c *Control) offers() (nodes []dispatch.Node) {
	for _, k := range c.roster.all() {
		if k.alive {
			nodes = append(nodes, dispatch.Node{Name: nodeName(k.member.Meta), Slots: int(k.member.Meta.Slots), Leaving: k.member.Meta.Leaving})
		}
	}
	return nodes
}
