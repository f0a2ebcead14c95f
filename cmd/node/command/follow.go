package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"cutwater/messages"
	"cutwater/protocol/metadata"
)

// lookEvery is how often a command that waits asks how the job stands.
const lookEvery = 200 * time.Millisecond

// follower waits for a job of the cluster and prints what happens to it, one line
// each. The job does not depend on it.
type follower struct {
	*target
	job, name string // id and name
	out       io.Writer
	now       func() time.Time

	// what was printed last
	status  messages.JobStatus
	waiting string
	trouble string
	failed  uint64          // checkpoint
	said    map[string]bool // exceptions
}

// newFollower follows a job; id and name are its.
func newFollower(t *target, id, name string, out io.Writer) *follower {
	return &follower{target: t, job: id, name: name, out: out, now: time.Now, said: map[string]bool{}}
}

// until returns how the job stands when it is as wanted, or has ended. It returns
// the error of ctx when that is done first, with the last view, and what makes
// further questions useless.
func (f *follower) until(ctx context.Context, wanted func(*messages.JobView) bool) (last *messages.JobView, err error) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		view, err := f.View(ctx, f.job, 0)
		switch {
		case ctx.Err() != nil:
			return last, ctx.Err()
		case err == nil:
			last, f.trouble = view, ""
			f.show(view)
			if metadata.Ended(view.Status) || wanted(view) {
				return view, nil
			}
		case status(err) != 0 && status(err) < http.StatusInternalServerError:
			return last, f.fail(err) // it will not get better
		case err.Error() != f.trouble: // a node may be gone for a while
			f.trouble = err.Error()
			f.note(f.fail(err).Error() + " (asking again)")
		}
		select {
		case <-ctx.Done():
			return last, ctx.Err()
		case <-ticker.C:
		}
	}
}

// show prints what has changed.
func (f *follower) show(v *messages.JobView) {
	for i := len(v.Exceptions) - 1; i >= 0; i-- { // oldest first
		e := v.Exceptions[i]
		if key := fmt.Sprint(e.Attempt, e.AtMs, e.Message); !f.said[key] {
			f.said[key] = true
			f.note(exceptionText(e))
		}
	}
	if v.Status != f.status {
		f.status = v.Status
		f.note("job " + v.Status.String())
	}
	if v.Waiting != f.waiting {
		f.waiting = v.Waiting
		if f.waiting != "" {
			f.note("waiting: " + f.waiting)
		}
	}
	if c := v.Checkpoints.GetLatestFailed(); c != nil && c.Checkpoint != f.failed {
		f.failed = c.Checkpoint
		f.note(fmt.Sprintf("checkpoint %d failed: %s", c.Checkpoint, cause(c.Reason, c.Cause)))
	}
}

// exceptionText is the end of an attempt in one line.
func exceptionText(e *messages.ExceptionView) string {
	what := fmt.Sprintf("attempt %s failed", attemptText(e.Attempt))
	if e.Uid != "" && !strings.Contains(e.Message, e.Uid) {
		what += fmt.Sprintf(" in operator %q", e.Uid)
	}
	if e.Node != "" {
		what += " on node " + shortNode(e.Node)
	}
	return what + ": " + cell(e.Message)
}

// attemptText is the number of an attempt as people read it: that of the epoch, and
// within it.
func attemptText(attempt uint32) string {
	const perEpoch = 1_000_000 // see attemptNumber in protocol/job
	return fmt.Sprintf("%d.%d", attempt/perEpoch, attempt%perEpoch)
}

// note prints a line.
func (f *follower) note(line string) {
	fmt.Fprintf(f.out, "%s %s\n", f.now().Format("15:04:05.000"), line)
}

// gaveUp is what a command says that does not wait any longer: the user did not want
// to, or the time was over. Goal is what it waited for.
func (f *follower) gaveUp(err error, last *messages.JobView, timeout time.Duration, goal string) error {
	goesOn := fmt.Sprintf("it goes on without this command: `cutwater job %s` shows how it stands, `cutwater cancel %s` ends it", f.name, f.name)
	if !errors.Is(err, context.DeadlineExceeded) {
		return coded(exitError, fmt.Errorf("not waited for job %s (%s) any longer; %s", f.name, shortID(f.job), goesOn))
	}
	how := "nothing was heard of it"
	if last != nil {
		how = "it is " + last.Status.String()
		switch {
		case f.trouble != "":
			how += " as far as is known"
		case last.Waiting != "":
			how += ", waiting: " + last.Waiting
		case last.Failure != "":
			how += ", and failed before: " + last.Failure
		case last.Checkpoints.GetLatestFailed() != nil:
			c := last.Checkpoints.LatestFailed
			how += fmt.Sprintf(", and checkpoint %d failed: %s", c.Checkpoint, cause(c.Reason, c.Cause))
		}
	}
	return coded(exitUnreachable, fmt.Errorf("job %s (%s) %s within %v: %s; %s", f.name, shortID(f.job), goal, timeout, how, goesOn))
}

// interruptible is done when the user presses Ctrl-C, or at the timeout.
func interruptible(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	return ctx, func() { cancel(); stop() }
}
