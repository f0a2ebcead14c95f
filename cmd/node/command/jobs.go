package command

import (
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"cutwater/api"
)

// jobsJSON is an element of the array that jobs -o json prints: what the record of
// a job says.
type jobsJSON struct {
	Job  string `json:"job"`
	Name string `json:"name"`
	// Status is a JobStatus, such as RUNNING; Since when it has it.
	Status      string `json:"status"`
	Since       stamp  `json:"since"`
	Created     stamp  `json:"created"`
	Incarnation uint64 `json:"incarnation"`
	Epoch       uint64 `json:"epoch"`
	// Coordinator is the id of the node that coordinates it, or did last.
	Coordinator string `json:"coordinator"`
	// Failure is why it failed, or empty.
	Failure string `json:"failure"`
	// CompletedCheckpoint is the newest that it can be restored from, 0 for none.
	CompletedCheckpoint uint64 `json:"completed_checkpoint"`
}

func newJobs() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "jobs",
		Short: "List the jobs of the cluster",
		Long: `List the jobs of the cluster that have not ended, oldest first.

The beginning of an id, or of a name, is enough to name a job to other commands.`,
		Args: cobra.NoArgs,
	}
	f := newNodeFlags(cmd)
	all := cmd.Flags().BoolP("all", "a", false, "list those too that have ended")
	output := formatFlag(cmd, "the list of jobs")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		t, err := f.connect()
		if err != nil {
			return err
		}
		jobs, err := t.Jobs(cmd.Context())
		if err != nil {
			return t.fail(err)
		}
		shown := make([]api.Job, 0, len(jobs))
		for _, j := range jobs {
			if *all || !ended(j.Status) {
				shown = append(shown, j)
			}
		}
		if *output == jsonText {
			return printJSON(cmd, jobsOf(shown))
		}
		if err := jobsTable(cmd, shown, time.Now()); err != nil {
			return err
		}
		if hidden := len(jobs) - len(shown); hidden > 0 {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s that ended: -a lists all\n", count(hidden, "job"))
		}
		return nil
	}
	return cmd
}

func jobsOf(jobs []api.Job) []jobsJSON {
	out := make([]jobsJSON, len(jobs)) // never nil: no jobs are []
	for i, j := range jobs {
		out[i] = jobsJSON{Job: j.ID, Name: j.Name, Status: j.Status, Since: stamp(j.ChangedMs), Created: stamp(j.CreatedMs),
			Incarnation: j.Incarnation, Epoch: j.Epoch, Coordinator: nodeID(j.Coordinator), Failure: j.Failure, CompletedCheckpoint: j.Completed}
	}
	return out
}

func jobsTable(cmd *cobra.Command, jobs []api.Job, now time.Time) error {
	rows := make([][]string, len(jobs))
	for i, j := range jobs {
		rows[i] = []string{shortID(j.ID), j.Name, j.Status, stamp(j.ChangedMs).ago(now), number(j.Completed), shortNode(j.Coordinator)}
	}
	return table(cmd, []string{"ID", "NAME", "STATUS", "SINCE", "CHECKPOINT", "COORDINATOR"}, rows)
}

// number is a number that is not there if it is 0.
func number(n uint64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatUint(n, 10)
}
