package node

import (
	"net/netip"
	"slices"
	"testing"

	"cutwater/cluster/membership"
	"cutwater/cluster/metadata/replicated"
	"cutwater/messages"
)

func member(id string, start uint64) membership.Member {
	return membership.Member{Meta: &messages.NodeMeta{Node: id, Start: start, Ports: &messages.NodePorts{Metadata: 7}},
		Gossip: netip.MustParseAddrPort("127.0.0.1:9")}
}

// A start of a node ends once: when gossip drops it, when another start of the node
// appears, or when the transport knows that it is over, whatever gossip still says.
func TestRoster(t *testing.T) {
	r := newRoster()
	steps := []struct {
		what    string
		members []membership.Member
		gone    []string
		alive   string // the names that live after it
	}{
		{"two come", []membership.Member{member("a", 1), member("b", 1)}, nil, "a.1 b.1"},
		{"nothing changes", []membership.Member{member("a", 1), member("b", 1)}, nil, "a.1 b.1"},
		{"b starts again", []membership.Member{member("a", 1), member("b", 2)}, []string{"b.1"}, "a.1 b.2"},
		{"both go", nil, []string{"a.1", "b.2"}, ""},
		{"a is heard again", []membership.Member{member("a", 1)}, nil, "a.1"},
	}
	alive := func() (names string) {
		for _, k := range r.all() {
			if k.alive {
				if names != "" {
					names += " "
				}
				names += nodeName(k.member.Meta)
			}
		}
		return names
	}
	for i, s := range steps {
		if gone := r.update(int64(i), s.members, nil); !slices.Equal(gone, s.gone) || alive() != s.alive {
			t.Errorf("%s: gone %v, want %v; alive %s, want %s", s.what, gone, s.gone, alive(), s.alive)
		}
	}
	if !r.lost(9, "a.1") || r.lost(9, "a.1") {
		t.Error("the end of a start is news once")
	}
	if gone := r.update(10, []membership.Member{member("a", 1)}, nil); gone != nil || alive() != "" {
		t.Errorf("a start that is over lives: gone %v, alive %s", gone, alive())
	}
	r.update(11, []membership.Member{member("a", 2)}, []replicated.Member{{ID: "c"}})
	if alive() != "a.2" {
		t.Errorf("alive: %s", alive())
	}
	// A voter that was never seen is dead from when it was first missed.
	r.update(20, []membership.Member{member("a", 2)}, []replicated.Member{{ID: "c"}})
	for _, n := range r.voters() {
		if n.ID == "c" && (n.Alive || n.SinceMs != 11) || n.ID == "a" && (!n.Alive || n.Addr != "127.0.0.1:7") {
			t.Errorf("the store is told %+v", n)
		}
	}
}
