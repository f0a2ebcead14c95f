package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"cutwater/actors/system"
	"cutwater/actors/system/systemtest"
	"cutwater/internal/leak"
	"cutwater/messages"
)

// Nothing that a test starts or opens outlives it.
func TestMain(m *testing.M) { leak.VerifyTestMain(m) }

// actor is what a test puts in the place of the other actors of the node.
type actor struct{ got []proto.Message }

func (a *actor) Started(*system.Self)    {}
func (a *actor) Stopped()                {}
func (a *actor) Receive(m proto.Message) { a.got = append(a.got, m) }

// rig is an agent on n1 whose leader is n2.
type rig struct {
	*systemtest.Rig
	t       *testing.T
	starts  []string
	fail    error
	running map[string]uint64
	leader  string
	term    uint64
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{Rig: systemtest.New("n1"), t: t, running: map[string]uint64{}, leader: "n2", term: 5}
	err := Spawn(r.System, Config{
		Start: func(_ context.Context, job string, epoch uint64) error {
			r.starts = append(r.starts, fmt.Sprintf("%s@%d", job, epoch))
			return r.fail
		},
		Coordinators: func() map[string]uint64 { return r.running },
		Leader:       func() (string, uint64, bool) { return r.leader, r.term, r.leader != "" },
	})
	if err != nil {
		t.Fatal(err)
	}
	r.Settle()
	return r
}

func (r *rig) order(job string, epoch uint64) {
	r.System.Deliver("n1|agent", &messages.StartCoordinator{Job: job, Epoch: epoch})
	r.Turns()
}

func (r *rig) started(want string) {
	r.t.Helper()
	r.Settle()
	if got := strings.Join(r.starts, " "); got != want {
		r.t.Fatalf("started %q, want %q", got, want)
	}
}

func (r *rig) actor(name string) *actor {
	r.t.Helper()
	a := &actor{}
	if _, err := r.System.Spawn(name, a, system.NewMailbox(0, nil)); err != nil {
		r.t.Fatal(err)
	}
	return a
}

// An order starts a coordinator; while that is under way, and while it runs, the order
// may come again.
func TestStartsOnce(t *testing.T) {
	r := newRig(t)
	r.order("j", 0)
	r.order("j", 0)
	r.order("k", 2)
	r.started("j@0 k@2")
	r.running["j"] = 0 // it has not taken its epoch yet
	r.order("j", 0)
	r.running["j"] = 1
	r.order("j", 0)
	r.order("j", 1)
	r.started("j@0 k@2")
}

// A coordinator that has ended is started anew, and one that was overtaken does not
// count as one.
func TestStartsAgain(t *testing.T) {
	r := newRig(t)
	r.order("j", 0)
	r.started("j@0")
	r.order("j", 1)
	r.started("j@0 j@1")
	r.running["j"] = 2
	r.order("j", 3)
	r.started("j@0 j@1 j@3")
}

// A start that fails is refused, to whoever leads by then, and may be tried again.
func TestRefuses(t *testing.T) {
	r := newRig(t)
	r.fail = errors.New("topology.yaml: no such file")
	r.order("j", 4)
	r.leader = "n3"
	r.Settle()
	if len(r.Sent) != 1 || r.Sent[0].To != "n3|dispatcher" {
		t.Fatalf("sent %v", r.Sent)
	}
	want := &messages.CoordinatorRefused{Node: "n1", Job: "j", Epoch: 4, Reason: "topology.yaml: no such file"}
	if !proto.Equal(r.Sent[0].Message, want) {
		t.Fatalf("sent %v", r.Sent[0].Message)
	}
	r.order("j", 4)
	r.started("j@4 j@4")
}

// A request goes to the dispatcher at the leader, and nowhere while there is none.
func TestForwardsRequests(t *testing.T) {
	r := newRig(t)
	m := &messages.SlotRequest{Job: "j", Wanted: 2}
	r.leader = ""
	r.Deliver("n1|agent", m)
	if len(r.Sent) != 0 {
		t.Fatalf("without a leader it sent %v", r.Sent)
	}
	r.leader = "n2"
	r.Deliver("n1|agent", m)
	if len(r.Sent) != 1 || r.Sent[0].To != "n2|dispatcher" || r.Sent[0].Message != m {
		t.Fatalf("sent %v", r.Sent)
	}
	r.Deliver("n1|agent", &messages.Heartbeat{Node: "n1"})
	if len(r.Sent) != 2 || r.Sent[1].To != "n2|dispatcher" {
		t.Fatalf("sent %v", r.Sent)
	}
}

// An inquiry reaches the coordinators of the node, is answered with those that have an
// epoch, and from then on requests go where it came from, until a newer leader is known.
// One of an older term changes nothing.
func TestInquiry(t *testing.T) {
	r := newRig(t)
	j, k := r.actor("coordinator/j"), r.actor("coordinator/k")
	r.running = map[string]uint64{"k": 0, "j": 3}
	q := &messages.SlotInquiry{Term: 6, Dispatcher: "n3|dispatcher"}
	r.Deliver("n1|agent", q)
	if len(j.got) != 1 || len(k.got) != 1 || !proto.Equal(j.got[0], q) {
		t.Fatalf("the coordinators got %v and %v", j.got, k.got)
	}
	want := &messages.SlotInquiryAnswer{Node: "n1", Term: 6, Coordinators: []*messages.JobEpoch{{Job: "j", Epoch: 3}}}
	if len(r.Sent) != 1 || r.Sent[0].To != "n3|dispatcher" || !proto.Equal(r.Sent[0].Message, want) {
		t.Fatalf("answered %v", r.Sent)
	}
	r.Deliver("n1|agent", &messages.SlotInquiry{Term: 5, Dispatcher: "n2|dispatcher"})
	r.Deliver("n1|agent", &messages.SlotRequest{Job: "j"})
	r.term = 7
	r.Deliver("n1|agent", &messages.SlotRequest{Job: "j"})
	if len(r.Sent) != 3 || r.Sent[1].To != "n3|dispatcher" || r.Sent[2].To != "n2|dispatcher" {
		t.Fatalf("sent %v", r.Sent[1:])
	}
	if len(j.got) != 1 {
		t.Fatalf("an older inquiry was passed on: %v", j.got)
	}
}

// A node that is lost is told to the coordinators and the dispatcher here, a link to
// the task manager.
func TestTellsOfLosses(t *testing.T) {
	r := newRig(t)
	j, k := r.actor("coordinator/j"), r.actor("coordinator/k")
	d, tm := r.actor("dispatcher"), r.actor("taskmanager")
	r.running = map[string]uint64{"k": 1, "j": 1}
	r.Deliver("n1|agent", &messages.NodeLost{Node: "n9", Reason: "its process has ended"})
	r.Deliver("n1|agent", &messages.LinkLost{Node: "n8", Reason: "the connection broke"})
	for name, a := range map[string]*actor{"j": j, "k": k, "dispatcher": d} {
		if len(a.got) != 1 || a.got[0].(*messages.NodeLost).Node != "n9" {
			t.Errorf("%s got %v", name, a.got)
		}
	}
	if len(tm.got) != 1 || tm.got[0].(*messages.LinkLost).Node != "n8" {
		t.Errorf("the task manager got %v", tm.got)
	}
}
