package coordinator

import (
	"context"
	"fmt"
	"runtime/debug"

	"google.golang.org/protobuf/proto"

	"cutwater/actors/system"
	"cutwater/cluster/metadata"
	"cutwater/messages"
	"cutwater/messages/describe"
	"cutwater/protocol"
	"cutwater/protocol/checkpoint"
	"cutwater/protocol/job"
	"cutwater/storage"
	"cutwater/storage/failpoint"
	"cutwater/storage/vfs"
	"cutwater/stream/operator"
)

// Config is one job for one coordinator.
type Config struct {
	// Master's Hooks are those of Program, if it is an operator.Hooked.
	Master   job.MasterConfig
	Metadata metadata.Store
	Program  operator.Program
	FS       vfs.FS
	// Storage opens the job's checkpoint store for an epoch.
	Storage func(epoch uint64) (storage.Store, error)
	// Random returns 64 random bits.
	Random func() uint64
	// Event is told what happens, in order; it runs in the actor and must not
	// block. May be nil.
	Event func(protocol.Event)
	// Progress is told what source tasks have read. May be nil.
	Progress func(*messages.SourceProgress)
	// LastView is told how the job stood as its coordinator ended, with the subtasks
	// of no checkpoint. May be nil.
	LastView func(*messages.JobView)
	// Outcome is told how requested checkpoints end. May be nil.
	Outcome func(*messages.CheckpointOutcome)
	// Changed is called after every message, in the actor, with the Master to
	// look at. May be nil.
	Changed func(*job.Master)
	// Ended is called once: with nil when the job has ended (see Master.Status),
	// else with job.ErrFenced or with what broke the last coordinator, see Fallen.
	Ended func(error)
}

// Coordinator is the actor.
type Coordinator struct {
	config Config
	self   *system.Self
	master *job.Master
	// history is what only people want to know; see view.go.
	history *job.History
	worker  worker
	epoch   uint64 // of worker.store
	line    line
	// heir is spawned when this actor has stopped, if it fell.
	heir *Coordinator
	over bool
}

// Spawn starts the job's coordinator. The error is everything that is wrong with
// the graph or the settings, or that the job has a coordinator here already.
func Spawn(s *system.System, c Config) error {
	hooks := newHooks(c.Program)
	c.Master.Hooks = hooks.names()
	actor, err := newCoordinator(c, newLine(hooks))
	if err != nil {
		return err
	}
	return actor.spawn(s)
}

func newCoordinator(c Config, l line) (*Coordinator, error) {
	m, err := job.NewMaster(c.Master)
	if err != nil {
		return nil, err
	}
	return &Coordinator{config: c, master: m, history: job.NewHistory(), line: l,
		worker: worker{metadata: c.Metadata, program: c.Program, fs: c.FS, hooks: l.hooks, shared: c.Master.Agent != ""}}, nil
}

func (c *Coordinator) spawn(s *system.System) error {
	_, err := s.Spawn("coordinator/"+c.config.Master.Job, c, system.NewMailbox(0, nil))
	return err
}

// Started implements system.Handler.
func (c *Coordinator) Started(self *system.Self) {
	c.self = self
	defer c.recoverPanic()
	c.carryOut(c.master.Start(self.System.Clock().NowMs(), c.config.Random()))
}

// Stopped implements system.Handler: the name is free for the successor.
func (c *Coordinator) Stopped() { c.succeed() }

// Receive implements system.Handler.
func (c *Coordinator) Receive(m proto.Message) {
	if c.over {
		return
	}
	defer c.recoverPanic()
	switch t := m.(type) {
	case *messages.JobQuery:
		c.view(t)
		return
	case *messages.TaskReport:
		c.history.Report(c.master, t)
		return
	case *messages.SourceProgress:
		c.history.Progress(c.master, t)
		if c.config.Progress != nil {
			c.config.Progress(t)
		}
	case *messages.WorkDone:
		if t.Attempt != c.self.Number {
			return // another coordinator asked for it, see fence
		}
	case *messages.TimerFired:
		if t.Generation>>generationBits != c.fence() {
			return // another coordinator armed it
		}
		m = &messages.TimerFired{Key: t.Key, Generation: t.Generation & (1<<generationBits - 1)}
	}
	c.carryOut(c.master.Step(c.self.System.Clock().NowMs(), c.config.Random(), m))
}

// carryOut does what the Master asks for, in its order.
func (c *Coordinator) carryOut(e *protocol.Effects) {
	c.history.Observe(c.master, e.Events)
	for _, w := range e.Work {
		c.start(w)
	}
	for _, s := range e.Send {
		c.send(s)
	}
	for _, t := range e.Timers {
		c.timer(t)
	}
	if c.config.Event != nil {
		for _, event := range e.Events {
			c.config.Event(event)
		}
	}
	if c.config.Changed != nil {
		c.config.Changed(c.master)
	}
	switch {
	case e.Fail != nil:
		c.lastView()
		c.end(e.Fail)
	case c.master.Done():
		c.lastView()
		c.end(nil)
	}
}

// start hands work to the Executor; its answer comes back as WorkDone.
func (c *Coordinator) start(w protocol.Work) {
	if epoch := c.master.Epoch(); epoch != c.epoch || c.worker.store == nil {
		store, err := c.config.Storage(epoch)
		if err != nil {
			c.answer(&messages.WorkDone{Op: w.Op}, err)
			return
		}
		c.worker.store, c.epoch = store, epoch
	}
	worker := c.worker
	done := &messages.WorkDone{Op: w.Op}
	c.self.System.Executor().Run(fmt.Sprintf("%T", w.Task),
		func(ctx context.Context) error { return worker.run(ctx, w.Task, done) },
		func(err error) { c.answer(done, err) })
}

func (c *Coordinator) answer(done *messages.WorkDone, err error) {
	done.Attempt = c.self.Number
	if err != nil {
		done.Result = nil
		done.Failure, done.Io = describe.Error(err), ioFailure(err)
		done.Transient, done.NoRestart = transient(err), noRestart(err)
	}
	c.self.System.Deliver(c.self.Address, done)
}

func (c *Coordinator) send(s protocol.Send) {
	if s.To == checkpoint.Requester {
		if outcome, ok := s.Message.(*messages.CheckpointOutcome); ok && c.config.Outcome != nil {
			c.config.Outcome(outcome)
		}
		return
	}
	c.self.Send(s.To, s.Message)
	if _, notified := s.Message.(*messages.NotifyCheckpointComplete); notified {
		failpoint.Hit(failpoint.NotifySent)
	}
}

func (c *Coordinator) timer(t protocol.Timer) {
	actor := c.self.System.Address("timer")
	if t.Cancel {
		c.self.Send(actor, &messages.CancelTimer{Owner: string(c.self.Address), Key: t.Key})
		return
	}
	c.self.Send(actor, &messages.SetTimer{Owner: string(c.self.Address), Key: t.Key,
		Generation: c.fence()<<generationBits | t.Generation, DelayMs: t.DelayMs})
}

// fence tells whose timers arrive. All coordinators of a job that a node has had, one
// after the other, have one address, and each counts its operations and timers from 1:
//
//  1. coordinator 1 has checkpoint 1's metadata written, as its operation 8;
//  2. it ends, and coordinator 2 starts here under the next epoch;
//  3. its operation 8 is the metadata of checkpoint 2;
//  4. the answer of 1 arrives, and would put checkpoint 1's file on record as 2.
//
// So answers and timers carry the number of the actor (TestAnswersOfAnEarlierCoordinator).
func (c *Coordinator) fence() uint64 { return uint64(c.self.Number) & (1<<(64-generationBits) - 1) }

// end stops the actor, once.
func (c *Coordinator) end(err error) {
	if c.over {
		return
	}
	c.over = true
	if c.config.Ended != nil {
		c.config.Ended(err)
	}
	c.self.Stop()
}

// recoverPanic lets the coordinator fall whose Master broke an assertion.
func (c *Coordinator) recoverPanic() {
	if r := recover(); r != nil {
		c.fall(fmt.Sprint(r), string(debug.Stack()))
	}
}
