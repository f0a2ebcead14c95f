package checkpoint

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"cutwater/messages"
	"cutwater/protocol"
)

// Requester is where a CheckpointOutcome goes: the shell that received the
// RequestCheckpoint of that number knows who sent it.
const Requester protocol.Address = "requester"

// Coordinator is the machine that takes a job's checkpoints (Flink:
// CheckpointCoordinator). The effects that a method returns are valid until the
// next call. It is not safe for concurrent use.
type Coordinator struct {
	config   Config
	settings *messages.CheckpointConfig
	fx       protocol.Effects
	nowMs    int64

	life life
	// endStatus is how the job ended, once life is ending.
	endStatus messages.JobStatus
	// retired: what the retention policy deletes is being deleted.
	retired bool

	executions *Executions
	// changed: the executions changed since the last step.
	changed bool

	scheduler scheduler
	decider   decider
	// trigger is the request that is being triggered, or nil.
	trigger *trigger
	// pending are ascending by id; finalizing are those of them that are fully
	// acknowledged, in the order in which they became it.
	pending    []*pendingCheckpoint
	finalizing []*pendingCheckpoint
	ended      endedRing

	store    completedStore
	registry registry
	failures failureManager
	stats    statsTracker

	operations map[uint64]operation
	timers     map[string]timer
	generation uint64

	// newest is the highest id that was allocated or restored.
	newest uint64
	// forceFull: the next checkpoint must not build on the state before, which
	// the job does not own.
	forceFull        bool
	completedOnce    bool
	lastCompletionMs int64
	// unanswered is why the metadata store owes an outcome, since unansweredMs;
	// empty if it does not. forgetting counts its answers of this kind to retire.
	unanswered   string
	unansweredMs int64
	forgetting   int
	// cleaning counts checkpoints that are being deleted.
	cleaning int
}

// life is the coordinator's own phase.
type life uint8

const (
	// serving: it takes checkpoints.
	serving life = iota
	// ending: the job has ended; outcomes and deletions are still awaited.
	ending
	// fenced: another coordinator took over; everything is dropped.
	fenced
)

// New returns a coordinator without tasks, whose scheduler stands still.
func New(c Config) *Coordinator {
	return &Coordinator{
		config: c, settings: c.Settings,
		decider: decider{
			maxConcurrent: int(c.Settings.MaxConcurrent),
			minPauseMs:    c.Settings.MinPauseMs,
			maxQueued:     maxQueuedRequests,
		},
		store:      completedStore{retain: int(c.Settings.NumRetained)},
		failures:   failureManager{tolerable: c.Settings.TolerableFailures},
		operations: make(map[uint64]operation),
		timers:     make(map[string]timer),
	}
}

// Step takes one message: AcknowledgeCheckpoint, DeclineCheckpoint,
// RequestCheckpoint, a TimerFired whose key starts with "checkpoint/", or the
// WorkDone of an operation that Owns knows.
func (c *Coordinator) Step(nowMs int64, m proto.Message) *protocol.Effects {
	c.begin(nowMs)
	switch m := m.(type) {
	case *messages.AcknowledgeCheckpoint:
		c.acknowledge(m)
	case *messages.DeclineCheckpoint:
		c.decline(m)
	case *messages.RequestCheckpoint:
		c.request(m)
	case *messages.TimerFired:
		c.timerFired(m)
	case *messages.WorkDone:
		c.workDone(m)
	default:
		protocol.Assert(false, "the checkpoint coordinator does not know the message %T", m)
	}
	return c.end()
}

// begin opens a step.
func (c *Coordinator) begin(nowMs int64) {
	c.fx.Reset()
	c.nowMs = nowMs
	if c.changed {
		c.changed = false
		c.abortEndedTasks()
	}
}

// end closes a step: whatever happened in it may have made room for the next
// finalization, the next request, or the retirement. Doing that here, and only
// here, no path can forget it.
func (c *Coordinator) end() *protocol.Effects {
	c.finalizeNext()
	c.startNext()
	c.retire()
	return &c.fx
}

// SetExecutions tells the current tasks: whenever a task's state changes and
// when an attempt is deployed. What follows is done by the next step; Poll does
// it at once.
func (c *Coordinator) SetExecutions(e *Executions) {
	c.executions, c.changed = e, true
}

// Poll carries out what SetExecutions implied: a checkpoint that waits for a
// task that has ended is aborted.
func (c *Coordinator) Poll(nowMs int64) *protocol.Effects {
	c.begin(nowMs)
	return c.end()
}

// StopScheduler stops the periodic checkpoints and aborts all checkpoints but
// those that are finalizing: the job does not run at the moment.
func (c *Coordinator) StopScheduler(nowMs int64) *protocol.Effects {
	c.begin(nowMs)
	c.stop(messages.FailureReason_CHECKPOINT_COORDINATOR_SUSPEND)
	return c.end()
}

// Failover aborts all checkpoints but those that are finalizing: the tasks are
// being replaced. Completed ones stay. The owner restores when Finalizing
// reports false.
func (c *Coordinator) Failover(nowMs int64) *protocol.Effects {
	c.begin(nowMs)
	c.stop(messages.FailureReason_JOB_FAILOVER_REGION)
	return c.end()
}

// Shutdown ends the coordinator: the job has reached the status for good, or is
// suspended. All checkpoints but those that are finalizing are aborted; when the
// outcomes of those are known, the completed ones are deleted as the retention
// policy says. Settled reports when that is done.
func (c *Coordinator) Shutdown(nowMs int64, status messages.JobStatus) *protocol.Effects {
	c.begin(nowMs)
	if c.life == serving {
		c.stop(messages.FailureReason_CHECKPOINT_COORDINATOR_SHUTDOWN)
		c.life, c.endStatus = ending, status
	}
	return c.end()
}

// stop ends everything that can be ended.
func (c *Coordinator) stop(reason messages.FailureReason) {
	c.stopTimer()
	for _, r := range c.decider.drain() {
		c.failRequest(r, reason, "")
	}
	if c.trigger != nil && c.trigger.pending == nil {
		c.failTrigger(reason, "")
	}
	for _, p := range slices.Clone(c.pending) {
		if p.phase != finalizing {
			c.abort(p, reason, "", false)
		}
	}
}

// Restored enters a checkpoint that is known from the job's record or from a
// path that a user gave; the owner calls it oldest first, the one that the job
// starts from last, before the first step. Metadata may be nil for an older one
// that could not be read: while it is retained no shared file is deleted, because it
// may name it, and those that it alone names are left to a sweep. A user's
// checkpoint that the job claims has neither Savepoint nor Unclaimed set: its files
// are deleted when no checkpoint needs them. After one that is not the job's own,
// savepoints included, the next checkpoint is full.
func (c *Coordinator) Restored(r *messages.CompletedCheckpoint, m *messages.CheckpointMetadata) {
	c.stats.restored(r, 0)
	entry := &completedCheckpoint{record: r}
	c.newest = max(c.newest, r.Checkpoint)
	if c.store.find(r.Checkpoint) != nil {
		return
	}
	c.store.add(entry)
	c.forceFull = !c.store.latest().discardable()
	switch {
	case !entry.discardable():
	case m == nil:
		entry.unread = true
	case entry.ownDirectory():
		entry.shared = sharedFiles(r.Checkpoint, statesOf(m)...)
	default:
		entry.shared = filesOf(statesOf(m), anySegment)
	}
	c.registry.register(entry.shared)
}

// ReportRestore enters into the statistics that the job restored from Latest
// after a failover.
func (c *Coordinator) ReportRestore(nowMs int64) {
	if latest := c.Latest(); latest != nil {
		c.stats.restored(latest, nowMs)
	}
}

// Latest returns the newest completed checkpoint, or nil.
func (c *Coordinator) Latest() *messages.CompletedCheckpoint {
	if l := c.store.latest(); l != nil {
		return l.record
	}
	return nil
}

// Completed returns the completed checkpoints that are retained, newest last.
// The records are not to be changed.
func (c *Coordinator) Completed() []*messages.CompletedCheckpoint {
	var all []*messages.CompletedCheckpoint
	for _, e := range c.store.list {
		all = append(all, e.record)
	}
	return all
}

// Finalizing reports whether the outcome of a fully acknowledged checkpoint is
// outstanding: a failover must wait for it before it chooses what to restore.
func (c *Coordinator) Finalizing() bool { return len(c.finalizing) > 0 }

// Unanswered returns since when, and why, the metadata store owes the outcome of a
// command of the coordinator, which asks again and again; the reason is empty if
// it owes none. How long to bear that is the owner's decision.
func (c *Coordinator) Unanswered() (sinceMs int64, why string) { return c.unansweredMs, c.unanswered }

// Settled reports whether no outcome and no deletion is outstanding. After
// Shutdown the owner may stop then.
func (c *Coordinator) Settled() bool {
	return len(c.finalizing) == 0 && len(c.operations) == 0 && len(c.timers) == 0
}

// Stats returns the statistics.
func (c *Coordinator) Stats() Statistics { return c.stats.snapshot() }

// String describes the coordinator in a few lines.
func (c *Coordinator) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "queued=%d triggering=%t cleaning=%d", len(c.decider.queue), c.trigger != nil, c.cleaning)
	if c.forceFull {
		b.WriteString(" force-full")
	}
	for _, p := range c.pending {
		fmt.Fprintf(&b, "\npending %d %s %s missing=%d", p.id, p.kind, p.phase, p.missing)
	}
	for _, e := range c.store.list {
		fmt.Fprintf(&b, "\ncompleted %d", e.record.Checkpoint)
	}
	return b.String()
}

// emit adds an event.
func (c *Coordinator) emit(e protocol.Event) { c.fx.Events = append(c.fx.Events, e) }

// fence is this coordinator's and the attempt's mark.
func (c *Coordinator) fence(attempt uint32) *messages.Fence {
	return &messages.Fence{Job: c.config.Job, Epoch: c.config.Epoch, Attempt: attempt}
}

// oldestPending returns the lowest id of a pending checkpoint.
func (c *Coordinator) oldestPending() uint64 {
	if len(c.pending) == 0 {
		return nonePending
	}
	return c.pending[0].id
}

func (c *Coordinator) findPending(id uint64) *pendingCheckpoint {
	for _, p := range c.pending {
		if p.id == id {
			return p
		}
	}
	return nil
}
