package command

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"cutwater/messages"
	"cutwater/protocol/job"
)

// jobJSON is the output of job -o json.
type jobJSON struct {
	Job    string `json:"job"`
	Name   string `json:"name"`
	Status string `json:"status"`
	Since  stamp  `json:"since"`
	// Waiting is what it waits for, one sentence; Failure why it, or its last attempt,
	// failed. Both may be empty.
	Waiting string `json:"waiting"`
	Failure string `json:"failure"`
	// Coordinator is the id of its node; Epoch, Attempt and Restarts are of it.
	Coordinator string `json:"coordinator"`
	Incarnation uint64 `json:"incarnation"`
	Epoch       uint64 `json:"epoch"`
	Attempt     uint32 `json:"attempt"`
	Restarts    uint32 `json:"restarts"`
	// Tasks are those of the current attempt.
	Tasks []taskJSON `json:"tasks"`
	// Exceptions are the ends of attempts that failed, newest first.
	Exceptions  []exceptionJSON  `json:"exceptions"`
	Checkpoints jobCheckpointing `json:"checkpoints"`
}

// exceptionJSON is the end of an attempt.
type exceptionJSON struct {
	At      stamp  `json:"at"`
	Attempt uint32 `json:"attempt"`
	// Operator and Node are empty where none is to blame.
	Operator string `json:"operator"`
	Node     string `json:"node"`
	Message  string `json:"message"`
	// Stack is that of a panic in user code, or empty.
	Stack string `json:"stack"`
}

// jobCheckpointing counts the checkpoints since the coordinator started.
type jobCheckpointing struct {
	Completed  uint64 `json:"completed"`
	Failed     uint64 `json:"failed"`
	Aborted    uint64 `json:"aborted"`
	InProgress uint64 `json:"in_progress"`
	// Last completed, Restored is what the job last started from; null without one.
	Last     *oneCheckpointJSON `json:"last"`
	Restored *restoredJSON      `json:"restored"`
}

type restoredJSON struct {
	Checkpoint uint64 `json:"checkpoint"`
	Location   string `json:"location"`
	At         stamp  `json:"at"`
	// LocalBytes were read from copies on the nodes of the tasks, RemoteBytes from
	// Location, as far as the tasks have told; both are 0 without keyed state in files.
	LocalBytes  uint64 `json:"local_bytes"`
	RemoteBytes uint64 `json:"remote_bytes"`
}

func newJob() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "job JOB",
		Short: "Show how a job stands",
		Long: `Show how a job stands: its status and what it waits for, where its tasks run, the
last exception and its checkpoints.

JOB is the job's name, its id, or the beginning of one of them.`,
		Args: oneJob,
	}
	f := newNodeFlags(cmd)
	cmd.ValidArgsFunction = jobNames(f, true)
	output := formatFlag(cmd, "the job")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		v, err := f.view(cmd, args[0])
		switch {
		case err != nil:
			return err
		case *output == jsonText:
			return printJSON(cmd, jobOf(v))
		}
		return printJob(cmd, v, time.Now())
	}
	return cmd
}

// view asks how the job that the user names stands.
func (f *nodeFlags) view(cmd *cobra.Command, name string) (*messages.JobView, error) {
	t, err := f.connect()
	if err != nil {
		return nil, err
	}
	j, err := t.find(cmd.Context(), name)
	if err != nil {
		return nil, err
	}
	v, err := t.View(cmd.Context(), j.ID, 0)
	if err != nil {
		return nil, t.fail(err)
	}
	return v, nil
}

func jobOf(v *messages.JobView) jobJSON {
	c := v.Checkpoints
	out := jobJSON{Job: v.Job, Name: v.Name, Status: v.Status.String(), Since: statusSince(v), Waiting: v.Waiting, Failure: v.Failure,
		Coordinator: nodeID(v.Node), Incarnation: v.Incarnation, Epoch: v.Epoch, Attempt: v.Attempt, Restarts: v.Restarts,
		Tasks: tasksOf(v), Exceptions: make([]exceptionJSON, len(v.Exceptions)),
		Checkpoints: jobCheckpointing{Completed: c.GetCounts().GetCompleted(), Failed: c.GetCounts().GetFailed(),
			Aborted: c.GetCounts().GetAborted(), InProgress: c.GetCounts().GetInProgress()}}
	for i, e := range v.Exceptions {
		out.Exceptions[i] = exceptionJSON{At: stamp(e.AtMs), Attempt: e.Attempt, Operator: e.Uid, Node: nodeID(e.Node), Message: e.Message, Stack: e.Stack}
	}
	if last := c.GetLatestCompleted(); last != nil {
		one := checkpointOf(last)
		out.Checkpoints.Last = &one
	}
	if r := c.GetLatestRestored(); r != nil {
		local, remote := restoredBytes(v)
		out.Checkpoints.Restored = &restoredJSON{r.Checkpoint, r.Location, stamp(r.RestoredMs), local, remote}
	}
	return out
}

// statusSince is when the job came to its status.
func statusSince(v *messages.JobView) stamp {
	for _, t := range v.StatusTimes {
		if t.Status == v.Status {
			return stamp(t.AtMs)
		}
	}
	return 0
}

// printJob shows a job to people.
func printJob(cmd *cobra.Command, v *messages.JobView, now time.Time) error {
	out := cmd.OutOrStdout()
	line := func(what, text string) {
		if text != "" {
			fmt.Fprintf(out, "%-12s %s\n", what, text)
		}
	}
	line("job", fmt.Sprintf("%s (%s)", cell(v.Name), v.Job))
	status := v.Status.String()
	if since := statusSince(v).ago(now); since != "" {
		status += ", " + since
	}
	line("status", status)
	line("waiting", v.Waiting)
	line("failure", v.Failure)
	for _, c := range v.Clocks {
		line("clock", job.ClockSkewed{Node: shortNode(c.Node), AheadMs: c.AheadMs}.String())
	}
	if len(v.Exceptions) > 0 && v.Exceptions[0].Message != v.Failure {
		line("exception", stamp(v.Exceptions[0].AtMs).ago(now)+", "+exceptionText(v.Exceptions[0]))
	}
	line("coordinator", coordinatorText(v))
	if v.Node != "" || v.Checkpoints.GetLatestCompleted() != nil { // else nobody has counted
		line("checkpoints", checkpointsText(v.Checkpoints, now))
	}
	if r := v.Checkpoints.GetLatestRestored(); r != nil {
		line("restored", fmt.Sprintf("checkpoint %d %s", r.Checkpoint, r.Location)+restoredText(v))
	}
	if len(v.Tasks) == 0 {
		return nil
	}
	fmt.Fprintln(out)
	return tasksTable(cmd, v, now)
}

// restoredBytes is what the tasks of the attempt restored of keyed state: from copies on
// their nodes, and from the checkpoint directory.
func restoredBytes(v *messages.JobView) (local, remote uint64) {
	for _, t := range v.Tasks {
		local += t.Report.GetRestoredLocalBytes()
		remote += t.Report.GetRestoredRemoteBytes()
	}
	return local, remote
}

// restoredText says so where something was read from a copy.
func restoredText(v *messages.JobView) string {
	local, remote := restoredBytes(v)
	if local == 0 {
		return ""
	}
	return fmt.Sprintf(", %s of it from copies on the nodes, %s from there", size(local), size(remote))
}

func coordinatorText(v *messages.JobView) string {
	if v.Node == "" {
		return ""
	}
	return fmt.Sprintf("node %s, attempt %s, %s", shortNode(v.Node), attemptText(v.Attempt), count(int(v.Restarts), "restart"))
}

// checkpointsText sums up the checkpoints in one line.
func checkpointsText(c *messages.CheckpointsView, now time.Time) string {
	n := c.GetCounts()
	text := fmt.Sprintf("%d completed, %d failed, %d in progress", n.GetCompleted(), n.GetFailed(), n.GetInProgress())
	if last := c.GetLatestCompleted(); last != nil {
		text += fmt.Sprintf("; checkpoint %d completed %s after %d ms, %s", last.Checkpoint, stamp(last.EndedMs).ago(now), last.DurationMs, size(last.Sums.GetStateBytes()))
	}
	if failed := c.GetLatestFailed(); failed != nil && failed.Checkpoint > c.GetLatestCompleted().GetCheckpoint() {
		text += fmt.Sprintf("; checkpoint %d failed %s: %s", failed.Checkpoint, stamp(failed.EndedMs).ago(now), cause(failed.Reason, failed.Cause))
	}
	return text
}
