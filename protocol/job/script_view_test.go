package job

import (
	"fmt"

	"cutwater/internal/script"
	"cutwater/messages"
	"cutwater/messages/describe"
)

// view prints what people are shown of the job.
func (w *world) view(d *script.Directive) {
	v := w.master.View(w.nowMs, &messages.JobQuery{Job: testJob, Id: 7, Checkpoint: uint64(d.Int("checkpoint", 0))}, w.history)
	fmt.Fprintf(&w.out, "%s at %d, epoch %d attempt %d restarts %d\n", v.Status, v.NowMs, v.Epoch, v.Attempt, v.Restarts)
	for _, s := range v.StatusTimes {
		fmt.Fprintf(&w.out, "  %s since %d\n", s.Status, s.AtMs)
	}
	if v.Waiting != "" {
		fmt.Fprintf(&w.out, "waits for: %s\n", v.Waiting)
	}
	if v.Failure != "" {
		fmt.Fprintf(&w.out, "failure: %s\n", v.Failure)
	}
	for _, t := range v.Tasks {
		fmt.Fprintf(&w.out, "task %s\n", describe.Text(t))
	}
	for _, x := range v.Exceptions {
		fmt.Fprintf(&w.out, "exception %s\n", describe.Text(x))
	}
	c := v.Checkpoints
	fmt.Fprintf(&w.out, "checkpoints %s duration %s\n", describe.Text(c.Counts), describe.Text(c.DurationMs))
	for _, h := range c.History {
		fmt.Fprintf(&w.out, "history %s\n", describe.Text(h))
	}
	fmt.Fprintf(&w.out, "latest completed %d failed %d savepoint %d restored %d\n", c.LatestCompleted.GetCheckpoint(),
		c.LatestFailed.GetCheckpoint(), c.LatestSavepoint.GetCheckpoint(), c.LatestRestored.GetCheckpoint())
}

func (w *world) progress(d *script.Directive) {
	dep := w.deployed[w.tasksOf(d)[0]]
	w.history.Progress(w.master, &messages.SourceProgress{Fence: dep.Fence, Task: dep.Task, Uid: dep.Vertex.Operators[0],
		Records: uint64(d.Int("records", 0)), Bytes: uint64(d.Int("bytes", 0)), RemainingBytes: uint64(d.Int("left", 0))})
}

func (w *world) standing(d *script.Directive) {
	dep := w.deployed[w.tasksOf(d)[0]]
	w.step(&messages.Standing{Fence: dep.Fence, Task: dep.Task, Checkpoint: uint64(d.Int("checkpoint", 0)), Doing: d.Arg("doing", "")})
}
