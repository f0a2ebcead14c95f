package checkpoint

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"cutwater/messages"
	"cutwater/protocol"
)

// acknowledge takes a task's part of a checkpoint.
func (c *Coordinator) acknowledge(m *messages.AcknowledgeCheckpoint) {
	if !c.mine("acknowledgement", m.Task, m.Checkpoint, m.Fence) {
		return
	}
	p := c.findPending(m.Checkpoint)
	if p == nil {
		c.acknowledgeLate(m)
		return
	}
	task := p.plan.find(m.Task, m.GetFence().GetAttempt())
	result := p.acknowledge(task, m)
	c.emit(Acknowledged{p.id, m.Task, result})
	switch result {
	case Unknown:
		c.discardSnapshot(m, "the task or its attempt has no part in the checkpoint")
	case Success:
		p.stats.report(task, c.nowMs, m.Metrics)
		if path := c.goneFile(p, m.Snapshot); path != "" {
			c.abort(p, messages.FailureReason_TASK_CHECKPOINT_FAILURE, fmt.Sprintf(
				"task %s built on %s, which no retained checkpoint owns; it may have missed a completion", taskName(m.Task), path), true)
			return
		}
		c.finalizeIfAcknowledged(p)
	}
}

// goneFile returns a file that the snapshot took over from an earlier
// checkpoint and that the registry does not own any more, or "". A task that missed a completion may name one: the
// abort tells it the latest completed checkpoint, and the next is right again.
func (c *Coordinator) goneFile(p *pendingCheckpoint, s *messages.TaskSnapshot) string {
	for _, o := range s.GetOperators() {
		for _, g := range o.GetKeyed().GetSegments() {
			path := g.GetHandle().GetFile().GetPath()
			if path != "" && g.Created != p.id && !c.registry.has(path) {
				return path
			}
		}
	}
	return ""
}

// acknowledgeLate judges the acknowledgement of a checkpoint that is over. What
// belongs to a completed one is kept; what is of an aborted one goes; of an id
// that nobody remembers nothing is deleted, because it may have completed.
func (c *Coordinator) acknowledgeLate(m *messages.AcknowledgeCheckpoint) {
	result := Unknown
	if e := c.ended.find(m.Checkpoint); e != nil {
		result = Duplicate
		if e.phase == aborted {
			result = Discarded
			if task := e.plan.find(m.Task, m.GetFence().GetAttempt()); task >= 0 {
				e.stats.report(task, c.nowMs, m.Metrics)
			}
			c.discardSnapshot(m, "the checkpoint was aborted")
		}
	}
	c.emit(Acknowledged{m.Checkpoint, m.Task, result})
}

// decline aborts the checkpoint that a task cannot take part in.
func (c *Coordinator) decline(m *messages.DeclineCheckpoint) {
	if !c.mine("decline", m.Task, m.Checkpoint, m.Fence) {
		return
	}
	p := c.findPending(m.Checkpoint)
	switch {
	case p == nil || p.phase == finalizing:
		c.drop("decline", m.Task, m.Checkpoint, "the checkpoint is over")
	case p.plan.find(m.Task, m.GetFence().GetAttempt()) < 0:
		c.drop("decline", m.Task, m.Checkpoint, "the task or its attempt has no part in the checkpoint")
	default:
		reason := m.Reason
		if reason == messages.FailureReason_FAILURE_REASON_UNSPECIFIED {
			reason = messages.FailureReason_CHECKPOINT_DECLINED
		}
		cause := "task " + taskName(m.Task)
		if m.Cause != "" {
			cause += ": " + m.Cause
		}
		c.abort(p, reason, cause, true)
	}
}

// abortEndedTasks aborts what waits for a task that will not answer.
func (c *Coordinator) abortEndedTasks() {
	for i := 0; i < len(c.pending); {
		p := c.pending[i]
		task := p.waitsFor(c.executions)
		if task < 0 {
			i++
			continue
		}
		reason := messages.FailureReason_TASK_FAILURE
		if now := c.executions.Tasks[task]; now.Attempt == p.plan.tasks[task].Attempt && now.State == messages.TaskState_TASK_FINISHED {
			reason = messages.FailureReason_CHECKPOINT_DECLINED_TASK_CLOSING
		}
		c.abort(p, reason, fmt.Sprintf("task %s ended before it acknowledged", taskName(p.plan.tasks[task].Task)), false)
	}
}

// mine reports whether a task's message belongs to this life of the job.
func (c *Coordinator) mine(what string, task *messages.TaskId, id uint64, f *messages.Fence) bool {
	switch {
	case c.life == fenced:
		c.drop(what, task, id, "another coordinator took over")
	case f.GetJob() != c.config.Job:
		c.drop(what, task, id, "it is of another job")
	case f.GetEpoch() != c.config.Epoch:
		c.drop(what, task, id, "it is of another epoch")
	default:
		return true
	}
	return false
}

func (c *Coordinator) drop(what string, task *messages.TaskId, id uint64, why string) {
	c.emit(Dropped{fmt.Sprintf("%s %d of %s", what, id, taskName(task)), why})
}

func (c *Coordinator) send(to protocol.Address, m proto.Message) {
	c.fx.Send = append(c.fx.Send, protocol.Send{To: to, Message: m})
}

// endedSize is how many checkpoints that are over are remembered, to judge late
// messages (Flink: recentExpiredCheckpoints).
const endedSize = 16

// endedRing remembers the newest of them.
type endedRing struct{ list []endedCheckpoint }

// endedCheckpoint is what a late message is judged by. It holds nothing of the
// checkpoint's state, and not its record, which may carry the whole metadata.
type endedCheckpoint struct {
	id    uint64
	phase phase
	plan  *plan
	stats *CheckpointStats
}

func (e *endedRing) add(p *pendingCheckpoint) {
	if len(e.list) == endedSize {
		e.list = slices.Delete(e.list, 0, 1)
	}
	e.list = append(e.list, endedCheckpoint{p.id, p.phase, p.plan, p.stats})
}

// find returns the checkpoint, or nil.
func (e *endedRing) find(id uint64) *endedCheckpoint {
	for i := range e.list {
		if e.list[i].id == id {
			return &e.list[i]
		}
	}
	return nil
}
