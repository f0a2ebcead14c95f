package node

import (
	"time"

	"cutwater/cluster/membership"
	"cutwater/protocol"
)

// MemberEvent is something that happened to another node, as gossip tells it. It is
// among the events that a Member reports, with those of package protocol/dispatch.
type MemberEvent = membership.Event

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
