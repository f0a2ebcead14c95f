package task

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"google.golang.org/protobuf/proto"

	"cutwater/actors/system"
	"cutwater/messages"
	"cutwater/messages/describe"
	"cutwater/protocol"
	"cutwater/protocol/barrier"
	"cutwater/protocol/subtask"
	"cutwater/protocol/watermark"
	"cutwater/state"
	"cutwater/storage"
	"cutwater/storage/local"
	"cutwater/storage/vfs"
	"cutwater/stream/operator"
)

// Env is what a node gives its tasks.
type Env struct {
	Pool *Pool
	// Budget is what the node lends to the channels of its tasks; nil is no limit.
	Budget *Budget
	FS     vfs.FS
	// ScratchDir holds the local files of state backends.
	ScratchDir string
	// Programs finds the code of a job.
	Programs func(name string) (operator.Program, error)
	// Copies keeps copies of state files on this node, for jobs that want local
	// recovery; nil keeps none.
	Copies *local.Copies
	// Storage opens the checkpoint store of a job.
	Storage func(f *messages.Fence, s *messages.JobSettings) (storage.Store, error)
	// Random returns seeded or real random bits.
	Random func() uint64
	// PollRecords bounds a turn of a source; 0 means 1024.
	PollRecords int
	// Event reports something for people; may be called from any task.
	Event func(e Event)
}

// Event is something that happened in a task.
type Event struct {
	Fence  *messages.Fence
	Task   *messages.TaskId
	Uid    string
	Kind   string
	Detail string
}

// String is the event as one line.
func (e Event) String() string {
	return fmt.Sprintf("task %s/%d %s %s: %s", e.Task.GetVertex(), e.Task.GetSubtask(), e.Uid, e.Kind, e.Detail)
}

// Task is the actor.
type Task struct {
	env    *Env
	self   *system.Self
	deploy *messages.Deploy
	fence  *messages.Fence
	// coordinator is whom the task answers to; see takeover.go.
	coordinator string
	mailbox     *system.Mailbox
	ctx         context.Context // ends with the task
	cancel      context.CancelFunc

	store    storage.Store
	chain    *operator.Chain
	contexts []*operator.Context
	keyed    []state.Backend // per operator; nil unless it is keyed
	loading  backends        // until opened takes them
	copies   copies

	in    *inputs
	out   *outputs
	gate  *barrier.Gate
	valve *watermark.Valve
	sub   *subtask.Subtask
	yield operator.Yield

	step      step
	watermark eventTime
	source    sourceState
	progress  progress
	counts    counts
	endings   int // input channels that sent EndOfData
	partition int // input channels that sent EndOfPartition
	consumed  bool
	waiting   []*barrier.Trigger // triggers of a source that wait for the step in hand
	snapshots map[uint64]*snapshot
	timers    timers
	calls     calls
	waits     waits
	now       messages.TaskState         // the last state that was reported
	report    *messages.TaskStateChanged // repeated until acknowledged
	repeats   int                        // of the report of a closed task
	finishing bool                       // its last messages are on their way
	ended     bool                       // EndOfDataReached is repeated until acknowledged
	drained   bool                       // the end of the data was reached
	closed    bool
	stale     uint64
}

// Spawn starts a task's actor.
func Spawn(s *system.System, env *Env, name string, d *messages.Deploy) error {
	ctx, cancel := context.WithCancel(context.Background())
	t := &Task{env: env, deploy: d, fence: d.Fence, coordinator: d.Coordinator, ctx: ctx, cancel: cancel, snapshots: map[uint64]*snapshot{}}
	t.mailbox = system.NewMailbox(len(d.Inputs), nil)
	t.mailbox.SetWaiting(&t.yield.Control)
	t.mailbox.SetDefaultAction(t.turn)
	t.mailbox.SetStamp(func(m any) { // the age grows while the barrier waits: see inBand
		if b, ok := m.(*messages.Barrier); ok {
			b.AgeMs -= s.Clock().MonotonicMs()
		}
	})
	t.mailbox.Hold()
	_, err := s.Spawn(name, t, t.mailbox)
	if err != nil {
		cancel()
	}
	return err
}

// Started implements system.Handler.
func (t *Task) Started(self *system.Self) {
	defer t.recoverPanic()
	t.self = self
	t.timers.init(self)
	t.calls.init(t)
	t.in = newInputs(self, t.deploy)
	t.out = newOutputs(self, t.env.Pool, t.deploy, &t.yield)
	t.out.fail, t.out.budget = t.fail, t.env.Budget
	t.out.request()
	if len(t.deploy.Outputs) > 0 {
		t.armAsk()
	}
	t.armReport()
	t.in.openAll()
	afterFinish := t.deploy.Settings.GetCheckpointing().GetAfterTasksFinish()
	if t.deploy.Settings.GetCheckpointing().GetAtLeastOnce() {
		t.gate = barrier.NewAtLeastOnce(len(t.deploy.Inputs), afterFinish)
	} else {
		t.gate = barrier.NewAligned(len(t.deploy.Inputs), afterFinish)
	}
	t.valve = watermark.New(len(t.deploy.Inputs))
	t.sub = subtask.New(subtask.Config{
		Fence:            t.fence,
		Task:             t.deploy.Task,
		Restored:         t.deploy.GetRestore().GetCheckpoint(),
		Source:           len(t.deploy.Inputs) == 0,
		DeployedFinished: t.deploy.Finished,
		FinalCheckpoint:  afterFinish && t.deploy.Settings.GetCheckpointing().GetIntervalMs() > 0,
		MaxAborted:       int(t.deploy.Settings.GetCheckpointing().GetMaxConcurrent()),
	})
	t.state(messages.TaskState_TASK_INITIALIZING, nil)
	if err := t.initialize(); err != nil {
		t.fail(err)
	}
}

// Stopped implements system.Handler. A task that has not ended, because the node
// stops, gives back what it holds; it is not reported to anybody.
func (t *Task) Stopped() {
	t.cancel()
	if !t.closed {
		t.closed = true
		_ = t.close() // nobody is there to hear of it
		if t.out != nil {
			t.out.repayAll()
		}
	}
}

// Receive implements system.Handler.
func (t *Task) Receive(m proto.Message) {
	defer t.recoverPanic()
	if t.closed {
		t.receiveClosed(m)
		return
	}
	if t.finishing && late(m) {
		t.stale++
		return
	}
	if err := t.receive(m); err != nil {
		t.fail(err)
		return
	}
	t.settle()
}

// late reports whether a message comes too late for a task whose last messages are on
// their way: its part in checkpoints is over.
func late(m proto.Message) bool {
	switch m.(type) {
	case *messages.TriggerCheckpoint, *messages.NotifyCheckpointComplete, *messages.NotifyCheckpointAborted:
		return true
	}
	return false
}

// receive dispatches a message; an error fails the task.
func (t *Task) receive(m proto.Message) error {
	switch m := m.(type) {
	case *messages.RecordBatch:
		return t.recordBatch(m)
	case inBand:
		return t.inBand(m)
	case *messages.Credit:
		t.credit(m)
		t.finishArrived()
	case *messages.ChannelRequest:
		if m.Attempt != t.fence.Attempt || int(m.Input) >= len(t.in.channels) {
			t.stale++
			return nil
		}
		c := &t.in.channels[m.Input]
		c.eager = c.eager || m.Eager
		t.in.open(m.Input)
	case *messages.TimerFired:
		return t.timers.fired(m)
	case *messages.WorkDone:
		return t.calls.done(m)
	case *messages.SplitAssignment:
		return t.splitAssigned(m)
	case *messages.TriggerCheckpoint:
		return t.triggerCheckpoint(m)
	case *messages.NotifyCheckpointComplete:
		if t.current(m.Fence) {
			return t.run(t.sub.NotifyComplete(m))
		}
	case *messages.NotifyCheckpointAborted:
		if t.current(m.Fence) {
			return t.run(t.sub.NotifyAborted(m))
		}
	case *messages.TaskStateAck:
		if t.current(m.Fence) {
			t.acknowledged(m)
		}
	case *messages.EndOfDataAck:
		if t.current(m.Fence) {
			t.ended = false
		}
	case *messages.CancelTask:
		if t.ofNewest(m.Fence) {
			t.end(messages.TaskState_TASK_CANCELED, nil)
		}
	case *messages.StandingQuery:
		t.standing(m)
	case *messages.NewCoordinator:
		return t.newCoordinator(m)
	case *messages.LinkLost:
		return t.linkLost(m)
	default:
		t.stale++
	}
	return nil
}

// receiveClosed repeats the task's last state, and the last messages of its
// channels, until they are confirmed.
func (t *Task) receiveClosed(m proto.Message) {
	switch m := m.(type) {
	case *messages.TaskStateAck:
		if t.current(m.Fence) {
			t.acknowledged(m)
		}
	case *messages.TimerFired:
		_ = t.timers.fired(m) // only the repetition is armed, and it cannot fail
	case *messages.Credit:
		t.credit(m)
		t.leave()
	case *messages.CancelTask:
		t.sendReport()
	case *messages.NewCoordinator:
		if t.follow(m) {
			t.sendReport()
		}
	}
}

// current reports whether a control message belongs to this attempt and comes from
// its present coordinator.
func (t *Task) current(f *messages.Fence) bool {
	if f.GetJob() != t.fence.Job || f.GetAttempt() != t.fence.Attempt || f.GetEpoch() != t.fence.Epoch {
		t.stale++
		return false
	}
	return true
}

// ofNewest reports whether a message is to this attempt, and from its coordinator or from
// one that has taken the job over since.
func (t *Task) ofNewest(f *messages.Fence) bool {
	if f.GetJob() != t.fence.Job || f.GetAttempt() != t.fence.Attempt || f.GetEpoch() < t.fence.Epoch {
		t.stale++
		return false
	}
	return true
}

// settle is done after every message and turn: half-filled batches get a timer,
// and a task that has ended looks whether it may finish.
func (t *Task) settle() {
	if t.closed {
		return
	}
	if t.out.halfFilled() {
		t.timers.arm(flushTimer, max(t.deploy.Settings.GetBufferTimeoutMs(), 1), t.flush)
	}
	if t.sub.Phase() == subtask.Ended {
		if err := t.checkEnd(); err != nil {
			t.fail(err)
		}
	}
}

func (t *Task) flush() error {
	t.out.flush()
	return nil
}

// credit takes in what a receiver gave back; it may be what the step in hand
// waits for.
func (t *Task) credit(m *messages.Credit) {
	if m.Attempt != t.fence.Attempt || t.out == nil || int(m.Output) >= len(t.out.channels) {
		t.stale++
		return
	}
	t.out.credit(m)
	t.mailbox.Wake()
}

// toCoordinator sends a message to the job's coordinator.
func (t *Task) toCoordinator(m proto.Message) {
	t.self.Send(protocol.Address(t.coordinator), m)
}

// recoverPanic turns a panic, of the user's code or of an assertion, into the
// task's failure: the node lives, the job restarts from its last checkpoint.
func (t *Task) recoverPanic() {
	if r := recover(); r != nil {
		err, ok := r.(error)
		if !ok {
			err = fmt.Errorf("%v", r)
		}
		t.failWith(err, string(debug.Stack()))
	}
}

// fail ends the task with an error.
func (t *Task) fail(err error) { t.failWith(err, "") }

func (t *Task) failWith(err error, stack string) {
	t.end(messages.TaskState_TASK_FAILED, failureOf(err, stack))
}

// noRestart reports whether no restart can mend err: whoever returned it says so, or
// state was written by another codec than it is read with.
func noRestart(err error) bool {
	var codec *state.DecodeError
	return errors.Is(err, operator.ErrNoRestart) || errors.As(err, &codec)
}

// failureOf describes an error; one of user code brings its own stack.
func failureOf(err error, stack string) *messages.Failure {
	f := &messages.Failure{Message: describe.Error(err), Stack: stack, NoRestart: noRestart(err)}
	var user *operator.UserError
	if errors.As(err, &user) {
		f.Uid, f.Stack = user.Uid, user.Stack
		if err == error(user) && user.Uid != "" {
			f.Message = describe.Error(user.Cause) // who reports it names the operator
		}
	}
	return f
}
