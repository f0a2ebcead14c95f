package replicated

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"cutwater/internal/script"
)

// TestDecide runs testdata/*.txt: nodes and members are set up, and decide or depart
// prints the steps, which are then taken.
func TestDecide(t *testing.T) {
	script.RunDir(t, "testdata", func(*testing.T) script.Handler {
		v := &View{}
		return func(d *script.Directive) (string, error) {
			switch d.Verb {
			case "leader":
				v.Leader = d.Words()[0]
				return "", nil
			case "node":
				for _, id := range ids(d) {
					n := Node{ID: id, Addr: d.Arg("addr", id+":1"), Zone: d.Arg("zone", ""), Alive: !d.Has("dead"), SinceMs: d.Int("since", 0)}
					v.Nodes = append(without(v.Nodes, func(o Node) bool { return o.ID == id }), n)
				}
				return "", nil
			case "voter", "non-voter":
				for _, id := range ids(d) {
					m := Member{ID: id, Addr: d.Arg("addr", id+":1"), Voter: d.Verb == "voter", CaughtUp: !d.Has("behind")}
					v.Members = append(without(v.Members, func(o Member) bool { return o.ID == id }), m)
				}
				return "", nil
			case "decide":
				v.NowMs = d.Int("at", 1_000_000)
				changes := Decide(Policy{Voters: int(d.Int("voters", 0))}, *v)
				take(v, changes)
				return print(changes, ""), nil
			case "depart":
				changes, ok := Depart(v.Leader, d.Words()[0], v.Members)
				take(v, changes)
				return print(changes, map[bool]string{true: "and it is gone\n", false: "not now\n"}[ok]), nil
			}
			return "", fmt.Errorf("unknown directive %s", d.Verb)
		}
	})
}

// ids are the words that are no property.
func ids(d *script.Directive) []string {
	return without(d.Words(), func(word string) bool { return word == "dead" || word == "behind" })
}

func print(changes []Change, after string) string {
	var b strings.Builder
	for _, c := range changes {
		fmt.Fprintln(&b, c)
	}
	if len(changes) == 0 && after == "" {
		return "nothing"
	}
	return b.String() + after
}

func without[T any](list []T, gone func(T) bool) (rest []T) {
	for _, x := range list {
		if !gone(x) {
			rest = append(rest, x)
		}
	}
	return rest
}

// take does to the members what the library would.
func take(v *View, changes []Change) {
	for _, c := range changes {
		m := Member{ID: c.ID, Addr: c.Addr}
		for _, o := range v.Members {
			if o.ID == c.ID {
				m = o
			}
		}
		v.Members = without(v.Members, func(o Member) bool { return o.ID == c.ID })
		switch c.Kind {
		case AddVoter:
			m.Voter, m.Addr = true, c.Addr
		case AddNonvoter:
			m.Addr = c.Addr
		case Demote:
			m.Voter = false
		case Remove:
			continue
		}
		v.Members = append(v.Members, m)
	}
}

// TestDecideProperties proves over random groups: the leader keeps its vote; after
// each step the voters that are alive are a majority, if they were one before; the
// voters are never more than one above the policy on the way; nobody votes who is not
// stable and caught up; and it comes to rest with an odd number of voters, where there
// is a majority at all.
func TestDecideProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const nowMs = 1_000_000
		v := View{NowMs: nowMs, Leader: "n0"}
		policy := Policy{Voters: rapid.SampledFrom([]int{0, 1, 2, 3, 5}).Draw(t, "policy")}
		since := rapid.SampledFrom([]int64{0, nowMs - 20_000, nowMs - 1})
		for i := range rapid.IntRange(1, 9).Draw(t, "nodes") {
			id := fmt.Sprintf("n%d", i)
			n := Node{ID: id, Addr: id + ":1", Zone: rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "zone"), Alive: i == 0 || rapid.Bool().Draw(t, "alive"), SinceMs: since.Draw(t, "since")}
			known := rapid.IntRange(0, 9).Draw(t, "known") > 0
			if known {
				v.Nodes = append(v.Nodes, n)
			}
			switch role := rapid.IntRange(0, 2).Draw(t, "role"); {
			case i == 0 || role == 2:
				v.Members = append(v.Members, Member{ID: id, Addr: id + ":1", Voter: true})
			case role == 1 || !known:
				v.Members = append(v.Members, Member{ID: id, Addr: id + ":1", CaughtUp: rapid.Bool().Draw(t, "caught up")})
			}
		}
		d := decision{view: v}
		node := func(id string) Node {
			if n, known := d.node(id); known {
				return n
			}
			return Node{Alive: true} // nothing is known against it
		}
		count := func() (voters, alive int) {
			for _, m := range v.Members {
				if m.Voter {
					voters++
					if m.ID == v.Leader || node(m.ID).Alive {
						alive++
					}
				}
			}
			return voters, alive
		}
		limit := policy.withDefaults().Voters
		before, _ := count()
		changes := Decide(policy, v)
		for round := 0; len(changes) > 0; round++ {
			if round == 5 {
				t.Fatalf("it does not come to rest: %v", changes)
			}
			for _, c := range changes {
				voters, alive := count()
				had := alive >= voters/2+1
				for _, m := range v.Members {
					n := node(m.ID)
					if c.Kind == AddVoter && m.ID == c.ID && !m.Voter && (!m.CaughtUp || !n.Alive || nowMs-n.SinceMs < 10_000) {
						t.Fatalf("%v: it must not vote yet", c)
					}
				}
				take(&v, []Change{c})
				voters, alive = count()
				switch {
				case had && alive < voters/2+1:
					t.Fatalf("%v leaves %d of %d alive", c, alive, voters)
				case voters > max(before, limit+1):
					t.Fatalf("%v makes %d voters", c, voters)
				case c.ID == v.Leader && c.Kind != AddVoter:
					t.Fatalf("%v is done to the leader", c)
				}
			}
			changes = Decide(policy, v)
		}
		if voters, alive := count(); voters%2 == 0 && alive >= voters/2+1 {
			t.Fatalf("%d voters are left", voters)
		}
	})
}

// TestDepartProperties proves over random groups: whoever leaves, each step keeps those
// that answer a majority, if they were one; the leader keeps its vote; and who is gone
// leaves an odd number of voters.
func TestDepartProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := View{Leader: "n0"}
		for i := range rapid.IntRange(1, 7).Draw(t, "members") {
			v.Members = append(v.Members, Member{
				ID: fmt.Sprintf("n%d", i), Addr: "x:1",
				Voter:    i == 0 || rapid.Bool().Draw(t, "voter"),
				CaughtUp: i == 0 || rapid.IntRange(0, 3).Draw(t, "caught up") > 0,
			})
		}
		id := fmt.Sprintf("n%d", rapid.IntRange(0, len(v.Members)).Draw(t, "leaves"))
		count := func() (voters, alive int) {
			for _, m := range v.Members {
				if m.Voter {
					voters++
					if m.CaughtUp {
						alive++
					}
				}
			}
			return voters, alive
		}
		before, _ := count()
		changes, gone := Depart(v.Leader, id, v.Members)
		for _, c := range changes {
			voters, alive := count()
			had := alive >= voters/2+1
			take(&v, []Change{c})
			voters, alive = count()
			switch {
			case had && alive < voters/2+1:
				t.Fatalf("%v leaves %d of %d", c, alive, voters)
			case c.ID == v.Leader && c.Kind != AddVoter:
				t.Fatalf("%v is done to the leader", c)
			}
		}
		still := slices.ContainsFunc(v.Members, func(m Member) bool { return m.ID == id })
		if gone == still {
			t.Fatalf("gone is %t after %v", gone, changes)
		}
		if voters, _ := count(); gone && before%2 == 1 && voters%2 == 0 {
			t.Fatalf("%d voters are left after %v", voters, changes)
		}
	})
}
