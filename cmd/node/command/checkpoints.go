package command

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cutwater/messages"
)

// oneCheckpointJSON is an element of the array that checkpoints -o json prints.
type oneCheckpointJSON struct {
	Checkpoint uint64 `json:"checkpoint"`
	// Status is IN_PROGRESS, COMPLETED, FAILED or ABORTED; Type a CheckpointType, such
	// as CHECKPOINT or SAVEPOINT.
	Status    string `json:"status"`
	Type      string `json:"type"`
	Triggered stamp  `json:"triggered"`
	// Ended is null while it is in progress.
	Ended      stamp `json:"ended"`
	DurationMs int64 `json:"duration_ms"`
	// CheckpointBytes were written for it; StateBytes is what it restores.
	CheckpointBytes uint64 `json:"checkpoint_bytes"`
	StateBytes      uint64 `json:"state_bytes"`
	// Acknowledged of the Subtasks have.
	Acknowledged uint64 `json:"acknowledged"`
	Subtasks     uint64 `json:"subtasks"`
	Unaligned    bool   `json:"unaligned"`
	// Location is the folder of its metadata; Discarded: it was deleted since.
	Location  string `json:"location"`
	Discarded bool   `json:"discarded"`
	// Failure is why it did not complete, or empty.
	Failure string `json:"failure"`
}

func newCheckpoints() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "checkpoints JOB",
		Short: "List the last checkpoints of a job",
		Long: `List the last checkpoints of a job, newest first, also those that are in progress
or failed. The list begins anew with each coordinator of the job.

JOB is the job's name, its id, or the beginning of one of them.`,
		Args: oneJob,
	}
	f := newNodeFlags(cmd)
	cmd.ValidArgsFunction = jobNames(f, true)
	output := formatFlag(cmd, "the list of checkpoints")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		v, err := f.view(cmd, args[0])
		if err != nil {
			return err
		}
		history := v.Checkpoints.GetHistory()
		if *output == jsonText {
			all := make([]oneCheckpointJSON, len(history)) // never nil: none are []
			for i, c := range history {
				all[i] = checkpointOf(c)
			}
			return printJSON(cmd, all)
		}
		if err := checkpointsTable(cmd, history, time.Now()); err != nil {
			return err
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "job %s (%s) %s: %s\n", cell(v.Name), shortID(v.Job), v.Status, checkpointsText(v.Checkpoints, time.Now()))
		return nil
	}
	return cmd
}

func checkpointOf(c *messages.CheckpointView) oneCheckpointJSON {
	return oneCheckpointJSON{Checkpoint: c.Checkpoint, Status: checkpointState(c), Type: c.Type.String(), Triggered: stamp(c.TriggeredMs),
		Ended: stamp(c.EndedMs), DurationMs: c.DurationMs, CheckpointBytes: c.Sums.GetCheckpointBytes(), StateBytes: c.Sums.GetStateBytes(),
		Acknowledged: c.Sums.GetAcknowledged(), Subtasks: c.Sums.GetSubtasks(), Unaligned: c.Unaligned, Location: c.Location,
		Discarded: c.Discarded, Failure: checkpointFailure(c)}
}

func checkpointState(c *messages.CheckpointView) string {
	return strings.TrimPrefix(c.State.String(), "CHECKPOINT_")
}

func checkpointFailure(c *messages.CheckpointView) string {
	switch c.State {
	case messages.CheckpointState_CHECKPOINT_FAILED, messages.CheckpointState_CHECKPOINT_ABORTED:
		return cause(c.Reason, c.Cause)
	}
	return ""
}

func checkpointsTable(cmd *cobra.Command, history []*messages.CheckpointView, now time.Time) error {
	rows := make([][]string, len(history))
	for i, c := range history {
		rows[i] = []string{strconv.FormatUint(c.Checkpoint, 10), checkpointState(c), c.Type.String(), stamp(c.TriggeredMs).ago(now),
			fmt.Sprintf("%d ms", c.DurationMs), size(c.Sums.GetCheckpointBytes()), size(c.Sums.GetStateBytes()),
			fmt.Sprintf("%d/%d", c.Sums.GetAcknowledged(), c.Sums.GetSubtasks()), checkpointFailure(c)}
	}
	return table(cmd, []string{"ID", "STATUS", "TYPE", "TRIGGERED", "DURATION", "SIZE", "STATE", "ACKS", "FAILURE"}, rows)
}
