package dispatcher

import (
	"context"

	"google.golang.org/protobuf/proto"

	"cutwater/actors/system"
	"cutwater/messages"
	"cutwater/messages/describe"
	"cutwater/protocol"
	"cutwater/protocol/dispatch"
)

// Name is the actor's name on every node.
const Name = "dispatcher"

// generationBits of a timer's generation are the machine's, the others the number of
// the leadership.
const generationBits = 40

// Config is what a node gives its dispatcher. Event may be nil.
type Config struct {
	// Jobs reads how the jobs stand that have changed since a revision, from the metadata
	// store, linearizably (Standing of metadata.Store). It may block: it runs on the
	// Executor.
	Jobs func(ctx context.Context, since uint64) (records []*messages.JobRecord, revision uint64, err error)
	// Nodes returns the nodes that live, this one too. It is called in the actor when
	// a leadership begins and after each NodesChanged, and must not block.
	Nodes func() []dispatch.Node
	// Event is told what happens, in order; it runs in the actor and must not block.
	Event func(protocol.Event)
}

// Dispatcher is the actor.
type Dispatcher struct {
	config  Config
	self    *system.Self
	machine *dispatch.Dispatcher // nil: idle
	terms   uint32               // leaderships of this node so far
}

// Spawn starts the node's dispatcher. It is idle until a LeadershipChanged.
func Spawn(s *system.System, c Config) error {
	_, err := s.Spawn(Name, &Dispatcher{config: c}, system.NewMailbox(0, nil))
	return err
}

// Started implements system.Handler.
func (d *Dispatcher) Started(self *system.Self) { d.self = self }

// Stopped implements system.Handler.
func (d *Dispatcher) Stopped() {}

// Receive implements system.Handler.
func (d *Dispatcher) Receive(m proto.Message) {
	now := d.self.System.Clock().NowMs()
	switch t := m.(type) {
	case *messages.LeadershipChanged:
		d.lead(now, t)
		return
	case *messages.NodesChanged:
		if d.machine != nil {
			d.carryOut(d.machine.SetNodes(now, d.config.Nodes()))
		}
		return
	case *messages.WorkDone:
		if t.Attempt != d.terms {
			return
		}
	case *messages.TimerFired:
		if t.Generation>>generationBits != uint64(d.terms) {
			return
		}
		m = &messages.TimerFired{Key: t.Key, Generation: t.Generation & (1<<generationBits - 1)}
	}
	if d.machine != nil {
		d.carryOut(d.machine.Step(now, m))
	}
}

// lead begins a leadership, or ends it.
func (d *Dispatcher) lead(nowMs int64, m *messages.LeadershipChanged) {
	if !m.Leading {
		d.machine = nil
		return
	}
	d.terms++
	d.machine = dispatch.New(d.self.Address, m.Term)
	d.carryOut(d.machine.Start(nowMs, d.config.Nodes()))
}

// carryOut does what the machine asks for, in its order.
func (d *Dispatcher) carryOut(e *protocol.Effects) {
	for _, w := range e.Work {
		d.read(w.Op, w.Task.(*messages.ReadJobs).Since)
	}
	for _, s := range e.Send {
		d.self.Send(s.To, s.Message)
	}
	for _, t := range e.Timers {
		d.self.Send(d.self.System.Address("timer"), &messages.SetTimer{Owner: string(d.self.Address), Key: t.Key,
			Generation: uint64(d.terms)<<generationBits | t.Generation, DelayMs: t.DelayMs})
	}
	if d.config.Event != nil {
		for _, event := range e.Events {
			d.config.Event(event)
		}
	}
}

// read reads the jobs, which is all the work that there is.
func (d *Dispatcher) read(op, since uint64) {
	done := &messages.WorkDone{Op: op, Attempt: d.terms}
	d.self.System.Executor().Run("reading the jobs",
		func(ctx context.Context) error {
			jobs, revision, err := d.config.Jobs(ctx, since)
			done.Result = &messages.WorkDone_JobsRead{JobsRead: &messages.JobsRead{Jobs: jobs, Revision: revision}}
			return err
		},
		func(err error) {
			if err != nil {
				done.Result, done.Failure = nil, describe.Error(err)
			}
			d.self.System.Deliver(d.self.Address, done)
		})
}
