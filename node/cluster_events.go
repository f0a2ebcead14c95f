package node

import (
	"fmt"
	"time"

	"cutwater/cluster/membership"
	"cutwater/protocol"
)

// MemberEvent is something that happened to another node, as gossip tells it. It is
// among the events that a Member reports, with those of package protocol/dispatch.
type MemberEvent = membership.Event

// NodeEnded: another node is gone. The reason says how that is known: by the end of a
// connection, which takes milliseconds, or by the silence of gossip, which takes
// seconds.
type NodeEnded struct{ Node, Reason string }

// String is the event as one line.
func (e NodeEnded) String() string { return "node " + shortName(e.Node) + " has ended: " + e.Reason }

// MetadataLed: this node leads the metadata. No two nodes ever do in one term.
type MetadataLed struct{ Term uint64 }

// String is the event as one line.
func (e MetadataLed) String() string {
	return fmt.Sprintf("this node leads the metadata in term %d", e.Term)
}

// SourceChanged: a source of addresses, such as a seed of --join, has a problem, another
// one, or none any more.
type SourceChanged struct {
	Source string
	// Error is empty if all is well.
	Error string
}

// String is the event as one line.
func (e SourceChanged) String() string {
	if e.Error == "" {
		return e.Source + ": nothing is wrong any more"
	}
	return e.Source + ": no node was joined: " + e.Error
}

// happened reports an event of this node.
func (s *session) happened(e protocol.Event) {
	job := ""
	if t, ok := e.(TaskEvent); ok {
		job = t.Fence.GetJob()
	}
	s.happenedTo(job, e)
}

// happenedTo reports an event of a job.
func (s *session) happenedTo(job string, e protocol.Event) {
	s.member.events.add(LoggedEvent{At: time.Now(), Node: s.name, Job: job, Event: e})
	s.member.options.Event(e)
}
