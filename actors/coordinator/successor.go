package coordinator

import (
	"fmt"
	"strings"

	"cutwater/messages"
	"cutwater/protocol/job"
	"cutwater/protocol/metadata"
)

// Fallen: a coordinator broke an assertion, or panicked otherwise. It is an error
// in Cutwater, never in a job. What the coordinator held in memory cannot be
// trusted any more, so it stops, and a successor takes the job over as after a
// crash of the node: with a new epoch, and with the tasks that run. Where that falls,
// too, what the tasks say may be the reason, and the next one starts new tasks from the
// last completed checkpoint.
type Fallen struct {
	Job string
	// Life numbers the job's coordinators since it was spawned here, from 1.
	Life int
	// Cause is one line; Stack is for a bug report.
	Cause, Stack string
	// GivenUp: no successor tries again; the job ends FAILED.
	GivenUp bool
	// Ended: the job's end was on record already, and stays.
	Ended bool
}

// String leaves the stack out.
func (e Fallen) String() string {
	next := "a successor takes over"
	switch {
	case e.Ended:
		next = "the job has ended all the same"
	case e.GivenUp:
		next = "the job is given up"
	}
	return fmt.Sprintf("coordinator %d of job %s failed: %s; %s", e.Life, e.Job, e.Cause, next)
}

const (
	// maxFalls within fallsWithinMs are followed by a successor, one more is not:
	// what panics again and again is not a matter of chance.
	maxFalls      = 3
	fallsWithinMs = 10 * 60_000
	// generationBits of a timer's generation are the Master's, the others a fence.
	generationBits = 40
)

// line is what a coordinator passes on to its successor.
type line struct {
	// life numbers the job's coordinators since it was spawned here, from 1.
	life  int
	falls *job.Restarts
	hooks *hooks
	// last: it has only to record that the job failed.
	last bool
	// fallen: a coordinator has fallen, at fallenMs.
	fallen   bool
	fallenMs int64
}

func newLine(h *hooks) line {
	return line{life: 1, hooks: h, falls: job.NewRestarts(&messages.RestartConfig{
		Kind: messages.RestartKind_FAILURE_RATE, MaxFailures: maxFalls, IntervalMs: fallsWithinMs})}
}

// fall stops the actor and prepares its successor. After too many falls that one
// only records the job's failure; if it falls too, nobody follows.
func (c *Coordinator) fall(cause, stack string) {
	if c.over {
		return
	}
	cause, _, _ = strings.Cut(cause, "\n")
	ended := metadata.Ended(c.master.Status())
	nowMs := c.self.System.Clock().NowMs()
	_, giveUp := c.line.falls.Failed(nowMs, 0)
	next := line{life: c.line.life + 1, falls: c.line.falls, hooks: c.line.hooks, last: giveUp != "" && !ended, fallen: true, fallenMs: nowMs}
	reason := fmt.Errorf("the coordinator of job %s failed more than %d times within %d minutes, last because: %s; this is an error in Cutwater, "+
		"report it with the stack from the log; every checkpoint is kept, so the job can be started again from the newest",
		c.config.Master.Job, maxFalls, fallsWithinMs/60_000, cause)
	config := c.config
	config.Master.Anew = c.line.fallen && nowMs-c.line.fallenMs < fallsWithinMs
	if next.last {
		config.Master.GiveUp = reason
	}
	if c.config.Event != nil {
		c.config.Event(Fallen{Job: config.Master.Job, Life: c.line.life, Cause: cause, Stack: stack, GivenUp: next.last, Ended: ended})
	}
	switch {
	case ended:
		c.end(nil) // what was still to be deleted stays
		return
	case c.line.last:
		c.end(reason)
		return
	}
	heir, err := newCoordinator(config, next)
	if err != nil {
		c.end(err)
		return
	}
	c.over, c.heir = true, heir
	c.self.Stop()
}

// succeed starts the heir, if there is one.
func (c *Coordinator) succeed() {
	if c.heir == nil {
		return
	}
	if err := c.heir.spawn(c.self.System); err != nil && c.config.Ended != nil {
		c.config.Ended(err)
	}
}
