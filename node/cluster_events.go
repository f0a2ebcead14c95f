package node

import (
	"cutwater/cluster/membership"
	"cutwater/protocol"
)

// MemberEvent is something that happened to another node, as gossip tells it. It is
// among the events that a Member reports, with those of package protocol/dispatch.
type MemberEvent = membership.Event

// happened reports an event of this node.
func (s *session) happened(e protocol.Event) { s.member.options.Event(e) }
