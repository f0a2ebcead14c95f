package node

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"sync"

	"cutwater/cluster/membership"
	"cutwater/cluster/metadata/replicated"
	"cutwater/messages"
	"cutwater/protocol"
)

// roster is what this node knows of the nodes of its cluster: what gossip says, less
// the starts that are known to be over. Any goroutine may use it.
type roster struct {
	mu sync.Mutex
	// known are all nodes that were ever seen, by node id.
	known map[string]*known
	// over are the names of starts that have ended, whatever gossip still says.
	over map[string]bool
}

// known is one node.
type known struct {
	member  membership.Member
	alive   bool
	sinceMs int64 // of alive, by this node's monotonic clock
}

func newRoster() *roster { return &roster{known: map[string]*known{}, over: map[string]bool{}} }

// nodeName is the name of one start of a node: what stands before the bar in the
// addresses of its actors.
func nodeName(m *messages.NodeMeta) string {
	return m.GetNode() + "." + strconv.FormatUint(m.GetStart(), 10)
}

// update takes in who seems to be alive, and returns the names of the starts that
// have gone since the last time.
func (r *roster) update(nowMs int64, members []membership.Member, others []replicated.Member) (gone []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	present := make(map[string]bool, len(members))
	for _, m := range members {
		if r.over[nodeName(m.Meta)] {
			continue
		}
		present[m.Meta.Node] = true
		k := r.known[m.Meta.Node]
		switch {
		case k == nil:
			k = &known{sinceMs: nowMs}
			r.known[m.Meta.Node] = k
		case nodeName(k.member.Meta) != nodeName(m.Meta):
			if k.alive {
				gone = append(gone, nodeName(k.member.Meta))
			}
			k.sinceMs = nowMs
		case !k.alive:
			k.sinceMs = nowMs
		}
		k.member, k.alive = m, true
	}
	for id, k := range r.known {
		if k.alive && !present[id] {
			gone = append(gone, nodeName(k.member.Meta))
			k.alive, k.sinceMs = false, nowMs
		}
	}
	// A member of the log that nobody has seen since this node started is dead, too.
	for _, m := range others {
		if r.known[m.ID] == nil {
			r.known[m.ID] = &known{member: membership.Member{Meta: &messages.NodeMeta{Node: m.ID}}, sinceMs: nowMs}
		}
	}
	slices.Sort(gone)
	return gone
}

// lost notes that a start of a node is over, and reports whether that is news.
func (r *roster) lost(nowMs int64, name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over[name] {
		return false
	}
	r.over[name] = true
	for _, k := range r.known {
		if k.alive && nodeName(k.member.Meta) == name {
			k.alive, k.sinceMs = false, nowMs
			return true
		}
	}
	return false
}

// ended are the names of starts that are over, sorted.
func (r *roster) ended() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.over))
}

// all returns every node, ordered by id.
func (r *roster) all() []known {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]known, 0, len(r.known))
	for _, k := range r.known {
		list = append(list, *k)
	}
	slices.SortFunc(list, func(a, b known) int { return cmp.Compare(a.member.Meta.Node, b.member.Meta.Node) })
	return list
}

// voters is what the metadata store decides its members by.
func (r *roster) voters() (nodes []replicated.Node) {
	for _, k := range r.all() {
		nodes = append(nodes, replicated.Node{ID: k.member.Meta.Node, Addr: portOf(k.member, k.member.Meta.GetPorts().GetMetadata()).String(),
			Zone: k.member.Meta.Zone, Alive: k.alive && !k.member.Meta.Leaving, SinceMs: k.sinceMs})
	}
	return nodes
}

// alive reports whether the start of a node with that name lives.
func (r *roster) alive(name string) bool {
	_, ok := r.find(name)
	return ok
}

// find returns the living member with that name.
func (r *roster) find(name string) (membership.Member, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range r.known {
		if k.alive && nodeName(k.member.Meta) == name {
			return k.member, true
		}
	}
	return membership.Member{}, false
}

// byID returns the living member of that node id.
func (r *roster) byID(id string) (membership.Member, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if k := r.known[id]; k != nil && k.alive {
		return k.member, true
	}
	return membership.Member{}, false
}

// portOf is one of a member's TCP addresses; it is not valid if the port is 0.
func portOf(m membership.Member, port uint32) netip.AddrPort {
	if port == 0 || port > 65535 {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(m.Gossip.Addr(), uint16(port))
}

// hostOf is the node of an actor's address.
func hostOf(a string) string {
	for i := range len(a) {
		if a[i] == '|' {
			return a[:i]
		}
	}
	return ""
}

// on reports whether an actor's address is on a node.
func on(a protocol.Address, name string) bool { return hostOf(string(a)) == name }
