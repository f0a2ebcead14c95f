package dispatcher

import (
	"context"
	"errors"
	"testing"

	"cutwater/actors/system/systemtest"
	"cutwater/actors/timer"
	"cutwater/internal/leak"
	"cutwater/messages"
	"cutwater/protocol"
	"cutwater/protocol/dispatch"
)

// Nothing that a test starts or opens outlives it.
func TestMain(m *testing.M) { leak.VerifyTestMain(m) }

// rig is a dispatcher on n1; the agents and coordinators stand on other nodes.
type rig struct {
	*systemtest.Rig
	jobs   []*messages.JobRecord
	fail   error // of the next readings
	reads  int
	since  uint64 // of the last reading
	nodes  []dispatch.Node
	events []string
	term   uint64
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{Rig: systemtest.New("n1"), nodes: []dispatch.Node{{Name: "n2", Slots: 4}}}
	if err := timer.Spawn(r.System); err != nil {
		t.Fatal(err)
	}
	err := Spawn(r.System, Config{
		Jobs: func(_ context.Context, since uint64) ([]*messages.JobRecord, uint64, error) {
			r.reads, r.since = r.reads+1, since
			return r.jobs, 42, r.fail
		},
		Nodes: func() []dispatch.Node { return r.nodes },
		Event: func(e protocol.Event) { r.events = append(r.events, e.String()) },
	})
	if err != nil {
		t.Fatal(err)
	}
	r.Settle()
	return r
}

func (r *rig) lead(leading bool) {
	if leading {
		r.term++
	}
	r.Deliver("n1|dispatcher", &messages.LeadershipChanged{Leading: leading, Term: r.term})
}

func request() *messages.SlotRequest {
	return &messages.SlotRequest{Job: "j", Epoch: 1, Coordinator: "n2|coordinator/j", Wanted: 2, Term: 1}
}

// Without a leadership nothing is read, ordered or answered.
func TestIdle(t *testing.T) {
	r := newRig(t)
	r.jobs = []*messages.JobRecord{{Job: "j"}}
	r.Deliver("n1|dispatcher", request())
	r.Deliver("n1|dispatcher", &messages.NodesChanged{})
	r.Advance(5000)
	if r.reads != 0 || len(r.Sent) != 0 || len(r.events) != 0 {
		t.Fatalf("read %d times, sent %v, said %v", r.reads, r.Sent, r.events)
	}
}

// A leadership reads the jobs, asks the nodes, orders coordinators and grants slots as
// soon as the nodes have answered.
func TestLeads(t *testing.T) {
	r := newRig(t)
	r.jobs = []*messages.JobRecord{{Job: "j", Epoch: 3}}
	r.lead(true)
	if q, ok := r.Sent[0].Message.(*messages.SlotInquiry); !ok || r.Sent[0].To != "n2|agent" || q.Term != 1 || q.Dispatcher != "n1|dispatcher" {
		t.Fatalf("asked %v", r.Sent)
	}
	if got := systemtest.Take[*messages.StartCoordinator](r.Rig); len(got) != 1 || got[0].Job != "j" || got[0].Epoch != 3 {
		t.Fatalf("ordered %v", got)
	}
	r.Deliver("n1|dispatcher", request())
	if got := systemtest.Take[*messages.SlotOffer](r.Rig); len(got) != 0 {
		t.Fatalf("a coordinator of epoch 1 was offered %v", got)
	}
	asks := request()
	asks.Epoch = 4
	r.Deliver("n1|dispatcher", asks)
	r.Deliver("n1|dispatcher", &messages.SlotInquiryAnswer{Node: "n2", Term: 1})
	if got, ok := systemtest.Last[*messages.SlotOffer](r.Rig); !ok || got.Missing != "" || len(got.Nodes) != 1 || got.Nodes[0].Slots != 2 {
		t.Fatalf("offered %v", got)
	}
}

// NodesChanged makes it look at the nodes again.
func TestNodesChanged(t *testing.T) {
	r := newRig(t)
	r.jobs = []*messages.JobRecord{{Job: "j", Epoch: 1, Coordinator: "n2|coordinator/j"}}
	r.lead(true)
	r.nodes = []dispatch.Node{{Name: "n3", Slots: 4}}
	r.Deliver("n1|dispatcher", &messages.NodesChanged{})
	if got := r.Sent[len(r.Sent)-1]; got.To != "n3|agent" {
		t.Fatalf("sent %v", r.Sent)
	}
}

// A reading that fails is told, and repeated.
func TestReadingFails(t *testing.T) {
	r := newRig(t)
	r.fail = errors.New("no leader")
	r.lead(true)
	if last := r.events[len(r.events)-1]; last != "the jobs could not be read: no leader" {
		t.Fatalf("said %q", last)
	}
	r.fail, r.jobs = nil, []*messages.JobRecord{{Job: "j"}}
	r.Advance(500)
	if got := systemtest.Take[*messages.StartCoordinator](r.Rig); len(got) != 1 {
		t.Fatalf("ordered %v", got)
	}
}

// Each leadership begins with nothing: what an earlier one read, and its timer, do not
// reach it.
func TestLeadershipsAreApart(t *testing.T) {
	r := newRig(t)
	r.jobs = []*messages.JobRecord{{Job: "old"}}
	r.System.Deliver("n1|dispatcher", &messages.LeadershipChanged{Leading: true})
	r.Turns() // the reading is outstanding
	old := r.Work
	r.Work = nil
	r.lead(false)
	r.Advance(500)
	r.System.Deliver("n1|dispatcher", &messages.LeadershipChanged{Leading: true})
	r.Turns()
	for _, work := range old {
		work() // its answer is of the first leadership
	}
	r.Turns()
	r.jobs = []*messages.JobRecord{{Job: "new"}}
	r.Settle()
	if got := systemtest.Take[*messages.StartCoordinator](r.Rig); len(got) != 1 || got[0].Job != "new" {
		t.Fatalf("ordered %v", got)
	}
	reads := r.reads
	r.Deliver("n1|dispatcher", &messages.TimerFired{Key: "dispatch/tick", Generation: 1<<generationBits | 1})
	if r.reads != reads {
		t.Fatal("a timer of the first leadership made the second one read")
	}
	r.Deliver("n1|dispatcher", &messages.TimerFired{Key: "dispatch/tick", Generation: 2<<generationBits | 1})
	if r.reads != reads+1 {
		t.Fatal("its own timer did not")
	}
	if r.since != 42 {
		t.Fatalf("it read since %d, and knows 42", r.since)
	}
}
