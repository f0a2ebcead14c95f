package agent

import (
	"context"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"cutwater/actors/system"
	"cutwater/messages"
	"cutwater/messages/describe"
	"cutwater/protocol"
	"cutwater/protocol/dispatch"
	"cutwater/protocol/job"
)

// Name is the actor's name on every node.
const Name = "agent"

// Config is what a node gives its agent.
type Config struct {
	// Start reads the job's record and starts its coordinator on this node. It may
	// block: it runs on the Executor, once at a time for a job. Epoch is the job's
	// as the dispatcher knew it: where the record has a higher one, somebody else
	// took the job over, and Start does nothing and returns nil. An error is the
	// reason to refuse, one sentence for a person. One such reason is a coordinator
	// here that was overtaken and does not know yet.
	Start func(ctx context.Context, job string, epoch uint64) error
	// Coordinators returns the jobs whose coordinators run on this node, with their
	// epochs, 0 for one that has not taken its epoch yet. It is called in the actor
	// and must not block.
	Coordinators func() map[string]uint64
	// Leader returns the node of the metadata store's leader, if it is known, and the
	// term in which it leads. It is called in the actor and must not block.
	Leader func() (node string, term uint64, ok bool)
}

// Agent is the actor.
type Agent struct {
	config   Config
	self     *system.Self
	op       uint64
	orders   map[uint64]*messages.StartCoordinator // being carried out, by operation
	starting map[string]bool                       // the jobs of these
	newest   *messages.SlotInquiry                 // the one of the highest term; nil: none came
}

// Spawn starts the node's agent.
func Spawn(s *system.System, c Config) error {
	a := &Agent{config: c, starting: map[string]bool{}, orders: map[uint64]*messages.StartCoordinator{}}
	_, err := s.Spawn(Name, a, system.NewMailbox(0, nil))
	return err
}

// Started implements system.Handler.
func (a *Agent) Started(self *system.Self) { a.self = self }

// Stopped implements system.Handler.
func (a *Agent) Stopped() {}

// Receive implements system.Handler.
func (a *Agent) Receive(m proto.Message) {
	switch m := m.(type) {
	case *messages.StartCoordinator:
		a.start(m)
	case *messages.WorkDone:
		a.started(m)
	case *messages.SlotRequest, *messages.Heartbeat:
		a.toDispatcher(m)
	case *messages.SlotInquiry:
		a.inquired(m)
	case *messages.NodeLost:
		node := a.self.System.Node()
		for _, id := range slices.Sorted(maps.Keys(a.config.Coordinators())) {
			a.self.Send(job.CoordinatorAddress(node, id), proto.CloneOf(m))
		}
		a.self.Send(dispatch.Address(node), m)
	case *messages.Presence:
		// That there is a connection is all that it is for.
	case *messages.LinkLost:
		a.self.Send(job.TaskManagerAddress(a.self.System.Node()), m)
	}
}

// start carries an order out, unless the job has a coordinator here that may have
// taken its epoch after the order was decided.
func (a *Agent) start(m *messages.StartCoordinator) {
	if epoch, runs := a.config.Coordinators()[m.Job]; a.starting[m.Job] || runs && (epoch == 0 || epoch >= m.Epoch) {
		return
	}
	a.op++
	op := a.op
	a.starting[m.Job], a.orders[op] = true, m
	a.self.System.Executor().Run("starting the coordinator of job "+m.Job,
		func(ctx context.Context) error { return a.config.Start(ctx, m.Job, m.Epoch) },
		func(err error) {
			done := &messages.WorkDone{Op: op}
			if err != nil {
				done.Failure = describe.Error(err)
			}
			a.self.System.Deliver(a.self.Address, done)
		})
}

// started refuses an order that could not be carried out.
func (a *Agent) started(w *messages.WorkDone) {
	m, mine := a.orders[w.Op]
	if !mine {
		return
	}
	delete(a.orders, w.Op)
	delete(a.starting, m.Job)
	if w.Failure != "" {
		a.toDispatcher(&messages.CoordinatorRefused{Node: a.self.System.Node(), Job: m.Job, Epoch: m.Epoch, Reason: w.Failure})
	}
}

// inquired passes an inquiry on and tells which coordinators got it. From then on no
// request of this node goes to an older dispatcher.
func (a *Agent) inquired(m *messages.SlotInquiry) {
	if m.Term < a.newest.GetTerm() {
		return
	}
	a.newest = m
	node, epochs := a.self.System.Node(), a.config.Coordinators()
	answer := &messages.SlotInquiryAnswer{Node: node, Term: m.Term}
	for _, id := range slices.Sorted(maps.Keys(epochs)) {
		a.self.Send(job.CoordinatorAddress(node, id), proto.CloneOf(m))
		if epochs[id] > 0 { // without an epoch it has nothing
			answer.Coordinators = append(answer.Coordinators, &messages.JobEpoch{Job: id, Epoch: epochs[id]})
		}
	}
	a.self.Send(protocol.Address(m.Dispatcher), answer)
}

// toDispatcher sends a message to the dispatcher that works; lost, it comes again.
func (a *Agent) toDispatcher(m proto.Message) {
	leader, term, ok := a.config.Leader()
	switch {
	case a.newest.GetTerm() > term:
		a.self.Send(protocol.Address(a.newest.Dispatcher), m)
	case ok:
		a.self.Send(dispatch.Address(leader), m)
	}
}
