package job

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"cutwater/messages"
	"cutwater/protocol"
	"cutwater/protocol/checkpoint"
)

// A view says what the job waits for in one sentence and in one word, so that a person
// and an alarm find the same cause. What a master waits for itself comes first, then
// what a checkpoint waits for, then what tasks wait for though checkpoints complete.

// Report takes in what a task has done and waits for.
func (h *History) Report(m *Master, r *messages.TaskReport) {
	e := m.execution(r.Task)
	if e == nil || r.Fence.GetJob() != m.config.Job || r.Fence.GetAttempt() != e.deploy.GetFence().GetAttempt() {
		return
	}
	if h.reports == nil {
		h.reports = make(map[string]*messages.TaskReport)
	}
	h.reports[taskName(r.Task)] = r
}

// explain completes a view: what tasks have reported, what the job waits for, and whose
// clock is off.
func (h *History) explain(m *Master, v *messages.JobView) {
	for i, e := range m.tasks {
		if r := h.reports[taskName(e.task)]; r.GetFence().GetAttempt() == e.deploy.GetFence().GetAttempt() && i < len(v.Tasks) {
			v.Tasks[i].Report = r
		}
	}
	if full := m.outOfSpace(h, v.Checkpoints); full != "" {
		v.Waiting, v.Cause = full, messages.WaitCause_WAIT_SPACE
	} else if v.Waiting != "" {
		v.Cause = m.waitCause(v.NowMs)
	} else if m.phase == running && h.notStarted != "" {
		v.Waiting, v.Cause = "no checkpoint was started: "+h.notStarted, messages.WaitCause_WAIT_CHECKPOINT
		if strings.HasPrefix(h.notStarted, "metadata: ") {
			v.Cause = messages.WaitCause_WAIT_METADATA
		}
	} else if m.phase == running {
		v.Waiting, v.Cause = waitingTask(v.Tasks)
	}
	for node, ahead := range m.skewed {
		if ahead >= skewMs || ahead <= -skewMs {
			v.Clocks = append(v.Clocks, &messages.ClockView{Node: node, AheadMs: ahead})
		}
	}
	slices.SortFunc(v.Clocks, func(a, b *messages.ClockView) int { return cmp.Compare(a.Node, b.Node) })
}

// heed takes in whether checkpoints can be started.
func (h *History) heed(e protocol.Event) {
	switch e := e.(type) {
	case checkpoint.RequestFailed:
		if e.Failed {
			h.notStarted = cmp.Or(e.Cause, e.Reason.String())
		}
	case checkpoint.Triggered:
		h.notStarted = ""
	}
}

// waitingTask is what the first task waits for that says so.
func waitingTask(tasks []*messages.TaskView) (string, messages.WaitCause) {
	count := 0
	var first *messages.TaskView
	for _, t := range tasks {
		if t.Report.GetWaiting() != "" && t.State == messages.TaskState_TASK_RUNNING {
			if count++; count == 1 {
				first = t
			}
		}
	}
	if first == nil {
		return "", messages.WaitCause_WAIT_CAUSE_UNSPECIFIED
	}
	return fmt.Sprintf("%d of %d tasks wait; the first is %s on node %s: %s", count, len(tasks), taskName(first.Task), first.Node, first.Report.Waiting), first.Report.Cause
}

// waitCause is the word for what waitsFor says.
func (m *Master) waitCause(nowMs int64) messages.WaitCause {
	if m.unavailableMs >= 0 {
		return messages.WaitCause_WAIT_METADATA
	}
	if m.coordinator != nil {
		if _, why := m.coordinator.Unanswered(); why != "" {
			return messages.WaitCause_WAIT_METADATA
		}
	}
	switch m.phase {
	case created, claiming, reading:
		return messages.WaitCause_WAIT_METADATA
	case loading:
		return messages.WaitCause_WAIT_STORAGE
	case acquiring:
		return messages.WaitCause_WAIT_SLOTS
	case running, suspending:
		return m.lateCause(nowMs)
	case stopping, recording, over:
		return messages.WaitCause_WAIT_END
	}
	return messages.WaitCause_WAIT_START
}

// lateCause is the word for what a late checkpoint waits for.
func (m *Master) lateCause(nowMs int64) messages.WaitCause {
	l := m.coordinator.Late(nowMs)
	switch {
	case l == nil:
		return messages.WaitCause_WAIT_CHECKPOINT
	case len(l.Missing) == 0:
		return l.Cause
	case l.Checkpoint != m.late.checkpoint || m.late.asked == 0:
		return messages.WaitCause_WAIT_CHECKPOINT
	}
	if cause, answered := m.late.causes[taskName(l.Missing[0].Task)]; answered {
		return cause
	}
	return messages.WaitCause_WAIT_TASK
}

// cause keeps the word for what a task does about the checkpoint.
func (l *late) cause(task string, cause messages.WaitCause) {
	if l.causes == nil {
		l.causes = make(map[string]messages.WaitCause)
	}
	l.causes[task] = cause
}

// full are what operating systems say where there is no space; every layer hands the
// text on.
var full = []string{"no space left on device", "disk quota exceeded"}

// outOfSpace says that a disk is full, in one sentence, or nothing: the newest
// checkpoint or attempt failed of it, and none has completed since.
func (m *Master) outOfSpace(h *History, c *messages.CheckpointsView) string {
	isFull := func(text string) bool {
		return slices.ContainsFunc(full, func(s string) bool { return strings.Contains(text, s) })
	}
	failed, completed := c.GetLatestFailed(), c.GetLatestCompleted()
	if m.phase == over {
		return ""
	}
	if failed.GetCheckpoint() > completed.GetCheckpoint() && isFull(failed.GetCause()) {
		return fmt.Sprintf("space on a disk: checkpoint %d failed: %s", failed.Checkpoint, failed.Cause)
	}
	if len(h.exceptions) == 0 {
		return ""
	}
	last := h.exceptions[len(h.exceptions)-1]
	gone := m.phase == running && m.config.Settings.GetCheckpointing().GetIntervalMs() == 0 || last.AtMs < completed.GetEndedMs()
	if gone || !isFull(last.Message) {
		return ""
	}
	return "space on a disk: " + last.Message
}
