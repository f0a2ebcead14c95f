package membership

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"
)

// maxNotices bounds the refusals and conflicts that wait to be told, and the memory
// of those that were.
const maxNotices = 256

// view is what gossip says now, and what of it was told. Gossip calls it under a
// lock of its own, so nothing here waits: what changes faster than it can be told is
// told as the difference, and memory is bounded by the number of nodes.
type view struct {
	self string // the node's id
	// changed has an element if there may be something to tell.
	changed chan struct{}

	mu sync.Mutex
	// alive are the starts that seem to be alive; of one node there can be several.
	alive map[start]Member
	// left are the starts that ended of their own will since the last telling.
	left map[start]bool
	// told are the members by node id as of the last telling.
	told map[string]Member
	// notices are refusals and conflicts that wait; noticed those of the past.
	notices []Event
	noticed map[string]bool
}

// start is one start of a node.
type start struct {
	node   string
	number uint64
}

func startOf(m Member) start { return start{m.Meta.Node, m.Meta.Start} }

func newView(self string) *view {
	return &view{
		self: self, changed: make(chan struct{}, 1),
		alive: map[start]Member{}, left: map[start]bool{}, told: map[string]Member{}, noticed: map[string]bool{},
	}
}

// arrived takes in a start that is alive, or says something else.
func (v *view) arrived(m Member) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.alive[startOf(m)] = m
	v.wake()
}

// ended takes in that a start is not alive any more.
func (v *view) ended(s start) {
	v.mu.Lock()
	defer v.mu.Unlock()
	m, ok := v.alive[s]
	if !ok {
		return
	}
	delete(v.alive, s)
	if m.Meta.Leaving {
		v.left[s] = true
	}
	v.wake()
}

// notice takes in a refusal or a conflict, unless it is known.
func (v *view) notice(e Event) {
	v.mu.Lock()
	defer v.mu.Unlock()
	key := e.String()
	if v.noticed[key] || len(v.notices) >= maxNotices {
		return
	}
	if len(v.noticed) >= maxNotices {
		clear(v.noticed) // some will be told twice
	}
	v.noticed[key] = true
	v.notices = append(v.notices, e)
	v.wake()
}

func (v *view) wake() {
	select {
	case v.changed <- struct{}{}:
	default:
	}
}

// members are the newest starts that seem to be alive, sorted by node id.
func (v *view) members() []Member {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := v.newest()
	members := make([]Member, 0, len(now))
	for _, node := range slices.Sorted(maps.Keys(now)) {
		members = append(members, now[node])
	}
	return members
}

func (v *view) newest() map[string]Member {
	now := map[string]Member{}
	for s, m := range v.alive {
		if other, ok := now[s.node]; !ok || other.Meta.Start < s.number {
			now[s.node] = m
		}
	}
	return now
}

// tell returns what has changed since the last call, sorted by node id; the node
// itself is left out.
func (v *view) tell() []Event {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := v.newest()
	delete(now, v.self)
	var events []Event
	for node, before := range v.told {
		after, ok := now[node]
		if ok && after.Meta.Start == before.Meta.Start {
			if after.Gossip != before.Gossip || !proto.Equal(after.Meta, before.Meta) {
				events = append(events, Event{Kind: Updated, Member: after})
			}
			continue
		}
		gone := Failed
		if v.left[startOf(before)] {
			gone = Left
		}
		events = append(events, Event{Kind: gone, Member: before})
		if ok {
			events = append(events, Event{Kind: Joined, Member: after})
		}
	}
	for node, m := range now {
		if _, ok := v.told[node]; !ok {
			events = append(events, Event{Kind: Joined, Member: m})
		}
	}
	slices.SortStableFunc(events, func(a, b Event) int { return cmp.Compare(a.Member.Meta.Node, b.Member.Meta.Node) })
	events = append(events, v.notices...)
	v.told, v.notices = now, nil
	clear(v.left)
	return events
}
