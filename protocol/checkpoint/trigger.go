package checkpoint

import (
	"fmt"
	"strings"

	"cutwater/messages"
	"cutwater/protocol"
)

// trigger is the one request that is being triggered: from its choice until its
// tasks are asked no other starts. Its steps, in Flink's order: plan, id,
// pending checkpoint and timeout, location, operator coordinators, master hooks,
// tasks.
type trigger struct {
	request *request
	sinceMs int64
	// pending is set when it has its id.
	pending *pendingCheckpoint
}

// request takes a user's wish.
func (c *Coordinator) request(m *messages.RequestCheckpoint) {
	r := &request{
		kind: m.Type, target: m.Target, answered: true, reply: m.Request,
		forced: isSavepoint(m.Type) && !c.settings.Unaligned,
	}
	if isSavepoint(r.kind) && r.target == "" {
		r.target = c.settings.SavepointDir
	}
	switch {
	case m.Job != c.config.Job:
		c.failRequest(r, messages.FailureReason_TRIGGER_CHECKPOINT_FAILURE, fmt.Sprintf("this coordinator serves job %s", c.config.Job))
	case c.life != serving:
		c.failRequest(r, messages.FailureReason_CHECKPOINT_COORDINATOR_SHUTDOWN, "")
	case m.Type == messages.CheckpointType_CHECKPOINT_TYPE_UNSPECIFIED:
		c.failRequest(r, messages.FailureReason_TRIGGER_CHECKPOINT_FAILURE, "the request names no checkpoint type")
	case isSavepoint(r.kind) && r.target == "":
		c.failRequest(r, messages.FailureReason_TRIGGER_CHECKPOINT_FAILURE, "No savepoint directory configured; give one or set savepoint-dir")
	default:
		c.submit(r)
	}
}

// TriggerFinal asks for one checkpoint at once: all tasks reported the end of
// their data, and each waits for a checkpoint behind it before it finishes.
func (c *Coordinator) TriggerFinal(nowMs int64) *protocol.Effects {
	c.begin(nowMs)
	if c.settings.AfterTasksFinish && c.life == serving {
		c.submit(&request{kind: messages.CheckpointType_CHECKPOINT})
	}
	return c.end()
}

// submit queues a request; the end of the step starts what may start.
func (c *Coordinator) submit(r *request) {
	r.submittedMs = c.nowMs
	if rejected := c.decider.submit(r); rejected != nil {
		c.failRequest(rejected, messages.FailureReason_TOO_MANY_CHECKPOINT_REQUESTS, fmt.Sprintf("%d requests are queued", c.decider.maxQueued))
	}
}

// startNext starts queued requests until one is being triggered or none may.
func (c *Coordinator) startNext() {
	for c.life == serving {
		r, pauseMs := c.decider.choose(c.nowMs, load{
			triggering: c.trigger != nil, pending: len(c.pending), cleaning: c.cleaning,
			completed: c.completedOnce, lastCompletionMs: c.lastCompletionMs,
		})
		switch {
		case r == nil:
			return
		case pauseMs > 0:
			c.failRequest(r, messages.FailureReason_MINIMUM_TIME_BETWEEN_CHECKPOINTS, fmt.Sprintf("%d ms too soon", pauseMs))
			c.armTick(c.nowMs + pauseMs)
		default:
			c.start(r)
		}
	}
}

// start takes the first step: is a checkpoint possible at all? If so it asks for
// an id.
func (c *Coordinator) start(r *request) {
	if _, err := calculatePlan(c.executions, c.settings.AfterTasksFinish); err != nil {
		c.failEarly(r, messages.FailureReason_NOT_ALL_REQUIRED_TASKS_RUNNING, err.Error())
		return
	}
	c.trigger = &trigger{request: r, sinceMs: c.nowMs}
	c.allocate()
}

// allocate asks for an id above every known one. A lost answer costs an id.
func (c *Coordinator) allocate() {
	c.ask(operation{kind: allocateID, trigger: c.trigger}, &messages.Propose{Command: &messages.MetadataCommand{
		Command: &messages.MetadataCommand_AllocateCheckpointId{AllocateCheckpointId: &messages.AllocateCheckpointId{
			Job: c.config.Job, Epoch: c.config.Epoch, AtLeast: c.newest + 1,
		}},
	}})
}

// idAllocated goes on with the id, unless the request was given up meanwhile.
func (c *Coordinator) idAllocated(t *trigger, m *messages.WorkDone) {
	if t != c.trigger {
		return
	}
	ok, unknown, failure := applied(m)
	switch {
	case ok:
		c.unanswered = ""
		c.idKnown(t, m.GetMetadata().Checkpoint)
	case m.Io:
		c.failTrigger(messages.FailureReason_IO_EXCEPTION, failure)
	case unknown && m.Failure == "":
		c.outcomeUnknown("the allocation of a checkpoint id", failure)
		c.arm(allocateKey, nil, retryMs)
	default:
		c.failTrigger(messages.FailureReason_TRIGGER_CHECKPOINT_FAILURE, failure)
	}
}

// idKnown makes the pending checkpoint. The tasks may have changed while the id
// was fetched, so its plan is made now.
func (c *Coordinator) idKnown(t *trigger, id uint64) {
	protocol.Assert(id > c.newest, "the checkpoint id %d was allocated after %d", id, c.newest)
	c.newest = id
	plan, err := calculatePlan(c.executions, c.settings.AfterTasksFinish)
	if err != nil {
		c.failTrigger(messages.FailureReason_NOT_ALL_REQUIRED_TASKS_RUNNING, err.Error())
		return
	}
	p := newPending(id, c.nowMs, t.request, plan)
	if isSavepoint(p.kind) {
		p.target = savepointDirectory(t.request.target, c.config.Job, id)
	} else if c.forceFull {
		p.kind = messages.CheckpointType_FULL_CHECKPOINT
	}
	p.stats = c.stats.pending(id, p.kind, c.nowMs, plan)
	t.pending = p
	c.pending = append(c.pending, p)
	c.arm(timeoutKey(id), p, c.settings.TimeoutMs)
	c.ask(operation{kind: prepareLocation, pending: p}, &messages.PrepareLocation{
		Job: c.config.Job, Checkpoint: id, Savepoint: isSavepoint(p.kind), Target: p.target,
	})
}

// failTrigger ends the request that is being triggered and has no id.
func (c *Coordinator) failTrigger(reason messages.FailureReason, cause string) {
	r := c.trigger.request
	c.endTrigger()
	c.failEarly(r, reason, cause)
}

// endTrigger lets the next request start.
func (c *Coordinator) endTrigger() {
	c.trigger = nil
	c.cancelTimer(allocateKey)
}

// savepointDirectory names a savepoint's own directory nearly as Flink does: with
// the first 8 digits of the job id, which name its files everywhere, and the id
// where Flink has a random number.
func savepointDirectory(base, job string, id uint64) string {
	return fmt.Sprintf("%s/savepoint-%s-%d", strings.TrimRight(base, "/"), job[:min(8, len(job))], id)
}

// answeredWhileTriggering reports whether the answer of a step still matters,
// and aborts the checkpoint if it is a failure.
func (c *Coordinator) answeredWhileTriggering(p *pendingCheckpoint, what string, m *messages.WorkDone) bool {
	switch {
	case p.phase != triggering:
		return false
	case m.Failure == "":
		return true
	case m.Io:
		c.abort(p, messages.FailureReason_IO_EXCEPTION, what+": "+m.Failure, false)
	default:
		c.abort(p, messages.FailureReason_TRIGGER_CHECKPOINT_FAILURE, what+": "+m.Failure, false)
	}
	return false
}

// locationPrepared asks every operator coordinator for its state: before the
// tasks, so that what it sends from now on can be held back from them.
func (c *Coordinator) locationPrepared(p *pendingCheckpoint, m *messages.WorkDone) {
	if p.phase == aborted && !isSavepoint(p.kind) {
		c.clean(p.id, nil, "its location was made after it was aborted")
	}
	if !c.answeredWhileTriggering(p, "the location", m) {
		return
	}
	p.outstanding = len(c.config.Coordinators)
	for _, uid := range c.config.Coordinators {
		c.ask(operation{kind: snapshotCoordinator, pending: p, name: uid}, &messages.SnapshotOperatorCoordinator{Uid: uid, Checkpoint: p.id})
	}
	c.runHooks(p)
}

// coordinatorSnapshotted keeps a coordinator's state.
func (c *Coordinator) coordinatorSnapshotted(p *pendingCheckpoint, uid string, m *messages.WorkDone) {
	if !c.answeredWhileTriggering(p, "the coordinator of operator "+uid, m) {
		return
	}
	p.coordinators[uid] = m.GetCoordinatorSnapshot()
	p.outstanding--
	c.runHooks(p)
}

// runHooks runs the master hooks once all coordinators have answered.
func (c *Coordinator) runHooks(p *pendingCheckpoint) {
	if p.outstanding > 0 {
		return
	}
	p.outstanding = len(c.config.Hooks)
	for _, hook := range c.config.Hooks {
		c.ask(operation{kind: runHook, pending: p, name: hook}, &messages.RunMasterHook{Hook: hook, Checkpoint: p.id})
	}
	c.triggerTasks(p)
}

// hookRan keeps a hook's state, if it has any.
func (c *Coordinator) hookRan(p *pendingCheckpoint, hook string, m *messages.WorkDone) {
	if !c.answeredWhileTriggering(p, "the master hook "+hook, m) {
		return
	}
	p.hooks[hook] = m.GetHookSnapshot().GetState()
	p.outstanding--
	c.triggerTasks(p)
}

// triggerTasks asks the tasks once all hooks have answered. Tasks that are
// driven by a hook may have acknowledged by now.
func (c *Coordinator) triggerTasks(p *pendingCheckpoint) {
	if p.outstanding > 0 {
		return
	}
	p.phase = collecting
	c.endTrigger()
	options := optionsFor(c.settings, p.kind, p.target)
	for _, i := range p.plan.trigger {
		t := p.plan.tasks[i]
		c.send(t.Address, &messages.TriggerCheckpoint{
			Fence: c.fence(t.Attempt), Task: t.Task, Checkpoint: p.id, TimestampMs: p.timestampMs, Options: options,
		})
	}
	c.emit(Triggered{p.id, p.kind, len(p.plan.trigger), len(p.plan.await)})
	c.finalizeIfAcknowledged(p)
}
