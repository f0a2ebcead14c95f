package membership

import (
	"fmt"

	"github.com/hashicorp/memberlist"
)

// delegate is what memberlist calls, in part under its lock: nothing here waits or
// calls back.
type delegate struct{ m *Membership }

// NodeMeta implements memberlist.Delegate.
func (d delegate) NodeMeta(int) []byte {
	d.m.mu.Lock()
	defer d.m.mu.Unlock()
	return d.m.encoded
}

// Nothing but metadata is gossiped.

func (d delegate) NotifyMsg([]byte)                {}
func (d delegate) GetBroadcasts(int, int) [][]byte { return nil }
func (d delegate) LocalState(bool) []byte          { return nil }
func (d delegate) MergeRemoteState([]byte, bool)   {}

// NotifyJoin implements memberlist.EventDelegate. Who arrives was admitted by
// NotifyAlive, so it can be decoded.
func (d delegate) NotifyJoin(n *memberlist.Node) {
	if member, err := memberOf(n); err == nil {
		d.m.view.arrived(member)
	}
}

// NotifyUpdate implements memberlist.EventDelegate.
func (d delegate) NotifyUpdate(n *memberlist.Node) { d.NotifyJoin(n) }

// NotifyLeave implements memberlist.EventDelegate.
func (d delegate) NotifyLeave(n *memberlist.Node) {
	if node, number, ok := splitName(n.Name); ok {
		d.m.view.ended(start{node, number})
	}
}

// NotifyAlive implements memberlist.AliveDelegate: whatever is heard of a node, from
// whom and how ever, passes here.
func (d delegate) NotifyAlive(n *memberlist.Node) error {
	self := d.m.ownMeta()
	if n.Name == gossipName(self.Node, self.Start) {
		return nil
	}
	member, err := memberOf(n)
	if err == nil {
		err = Admit(self, member.Meta)
	}
	if err != nil {
		d.m.refuse(member, err)
		return err
	}
	if member.Meta.Node == self.Node && member.Meta.Start > self.Start {
		d.m.conflict(member)
	}
	return nil
}

// NotifyMerge implements memberlist.MergeDelegate: on a join, all nodes of the other
// side must be admitted, or none is.
func (d delegate) NotifyMerge(others []*memberlist.Node) error {
	for _, n := range others {
		if n.State != memberlist.StateAlive && n.State != memberlist.StateSuspect {
			continue
		}
		if err := d.NotifyAlive(n); err != nil {
			return err
		}
	}
	return nil
}

// NotifyConflict implements memberlist.ConflictDelegate: a start is at two addresses.
func (d delegate) NotifyConflict(_, other *memberlist.Node) {
	if member, err := memberOf(other); err == nil {
		d.m.conflict(member)
	}
}

func (m *Membership) refuse(other Member, reason error) {
	m.view.notice(Event{Kind: Refused, Member: other, Reason: reason})
}

func (m *Membership) conflict(other Member) {
	m.view.notice(Event{Kind: Conflict, Member: other, Reason: fmt.Errorf(
		"the node id %s is used by two processes, one of them at %v, because a data folder was copied; stop one, and give it an empty data folder",
		other.Meta.Node, other.Gossip)})
}
