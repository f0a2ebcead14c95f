package command

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"cutwater/messages"
)

// cancelAgain is how often the end of a job is asked for: the coordinator may change
// in between.
const cancelAgain = time.Second

// cancelJSON is the output of cancel -o json.
type cancelJSON struct {
	Job  string `json:"job"`
	Name string `json:"name"`
	// Status is CANCELED; with --detach what it was when the end was asked for.
	Status string `json:"status"`
}

func newCancel() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cancel JOB",
		Short: "End a job at once",
		Long: `End a job at once and wait until it has ended. What it did since its last checkpoint
is not committed.

JOB is the job's name, its id, or the beginning of one of them.

Exit code 0: it is CANCELED. 3: there is no such job. 4: it had ended before. 6: it
failed meanwhile. 7: no node answers, or the job has not ended after --timeout.`,
		Args: oneJob,
	}
	f := newNodeFlags(cmd)
	cmd.ValidArgsFunction = jobNames(f, false)
	detach := cmd.Flags().Bool("detach", false, "do not wait")
	timeout := cmd.Flags().Duration("timeout", time.Minute, "how long to wait")
	output := formatFlag(cmd, "the job's status")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *timeout <= 0 {
			return coded(exitUsage, fmt.Errorf("--timeout %v is no time; --detach does not wait", *timeout))
		}
		t, err := f.connect()
		if err != nil {
			return err
		}
		j, err := t.find(cmd.Context(), args[0])
		switch {
		case err != nil:
			return err
		case ended(j.Status):
			return coded(exitConflict, fmt.Errorf("job %s (%s) is %s already", j.Name, shortID(j.ID), j.Status))
		}
		if err := t.Cancel(cmd.Context(), j.ID); err != nil && status(err) != http.StatusServiceUnavailable {
			return t.fail(err)
		} else if err != nil && *detach {
			return t.fail(err)
		}
		w := newFollower(t, j.ID, j.Name, cmd.ErrOrStderr())
		result := cancelJSON{j.ID, j.Name, j.Status}
		if *detach {
			w.note(fmt.Sprintf("job %s (%s) is to end", j.Name, shortID(j.ID)))
		} else if result.Status, err = cancel(cmd.Context(), w, *timeout); err != nil {
			return err
		}
		if *output == jsonText {
			return printJSON(cmd, result)
		}
		return nil
	}
	return cmd
}

// cancel asks for the end until it is there, and returns the last status.
func cancel(ctx context.Context, w *follower, timeout time.Duration) (string, error) {
	ctx, stop := interruptible(ctx, timeout)
	defer stop()
	asked := time.Now()
	v, err := w.until(ctx, func(*messages.JobView) bool {
		if time.Since(asked) >= cancelAgain {
			asked = time.Now()
			_ = w.Cancel(ctx, w.job) // the next view shows what came of it
		}
		return false
	})
	switch {
	case ctx.Err() != nil && err != nil:
		return "", w.gaveUp(err, v, timeout, "has not ended")
	case err != nil:
		return "", err
	case v.Status == messages.JobStatus_FAILED:
		return "", coded(exitFailed, fmt.Errorf("job %s (%s) failed before it was canceled: %s", w.name, shortID(w.job), v.Failure))
	case v.Status != messages.JobStatus_CANCELED:
		return "", coded(exitConflict, fmt.Errorf("job %s (%s) was %s before it was canceled", w.name, shortID(w.job), v.Status))
	}
	return v.Status.String(), nil
}
