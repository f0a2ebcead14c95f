package command

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"cutwater/api"
	"cutwater/api/client"
	"cutwater/messages"
	"cutwater/protocol/keygroup"
	"cutwater/topology"
)

// deployFlags are the flags of deploy.
type deployFlags struct {
	parallelism int
	restore     string
	drop        []string
	detach      bool
	timeout     time.Duration
	output      *format
}

// deployJSON is the output of deploy -o json: one object, when the job runs or has
// finished; with --detach as soon as it is on record.
type deployJSON struct {
	Job    string `json:"job"`
	Name   string `json:"name"`
	Status string `json:"status"`
	// Checkpoint is the newest that completed, 0 for none.
	Checkpoint uint64 `json:"checkpoint"`
	// Placement lists the tasks, in the order of the topology.
	Placement []taskJSON `json:"placement"`
}

func newDeploy() *cobra.Command {
	f := &deployFlags{}
	cmd := &cobra.Command{
		Use:   "deploy FILE",
		Short: "Give a topology to the cluster to run",
		Long: `Check a topology here, give it to the cluster to run, and wait until the job runs
and has completed its first checkpoint. The list of its tasks with their nodes is
printed then.

The file's text and the values of the variables that it mentions travel to the
nodes. Paths in it become absolute here and must mean the same files on all nodes.
Checkpoints need a folder that all nodes see (checkpointing: {dir: ...}), or
storage: coordinator.

Ctrl-C stops the waiting, not the job.

Exit code 0: the job runs, or has finished. 1: error, or Ctrl-C. 2: usage. 4: a living
job has the name. 5: the topology is rejected. 6: the job failed. 7: no node answers,
or the job does not run after --timeout; the message says what it waits for.`,
		Args:              oneFile,
		ValidArgsFunction: topologyFiles,
	}
	n := newNodeFlags(cmd)
	flags := cmd.Flags()
	flags.IntVar(&f.parallelism, "parallelism", 0, "the job's parallelism, instead of the file's")
	flags.StringVar(&f.restore, "restore", "", "start from the checkpoint or savepoint in this folder, which all nodes see")
	flags.StringArrayVar(&f.drop, "drop-state", nil, "give up the state of this uid, which the file does not have any more (may be repeated)")
	flags.BoolVar(&f.detach, "detach", false, "do not wait: print the job's id when it is on record")
	flags.DurationVar(&f.timeout, "timeout", time.Minute, "how long to wait")
	f.output = formatFlag(cmd, "the placement")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return deploy(cmd, args[0], n, f) }
	return cmd
}

func deploy(cmd *cobra.Command, name string, n *nodeFlags, f *deployFlags) error {
	if err := f.check(cmd); err != nil {
		return coded(exitUsage, err)
	}
	l, err := load(name, f.parallelism, func(w string) { fmt.Fprintln(cmd.ErrOrStderr(), w) })
	if err != nil {
		return err
	}
	if err := checkDropped(f.drop, l.program.Graph()); err != nil {
		return err
	}
	source, err := pack(name)
	if err != nil {
		return err
	}
	t, err := n.connect()
	if err != nil {
		return err
	}
	id, err := t.Deploy(cmd.Context(), source, api.DeployOptions{Parallelism: uint32(f.parallelism), Restore: f.restore, DropState: f.drop})
	if err != nil {
		return t.notDeployed(name, err)
	}
	w := newFollower(t, id, l.topology.Name, cmd.ErrOrStderr())
	if f.detach {
		w.note(fmt.Sprintf("job %s is deployed; `cutwater job %s` shows how it stands", w.name, w.name))
		if *f.output == jsonText {
			return printJSON(cmd, deployJSON{Job: id, Name: w.name, Status: messages.JobStatus_CREATED.String(), Placement: []taskJSON{}})
		}
		return printLine(cmd, id)
	}
	w.note(fmt.Sprintf("job %s (%s) is deployed", w.name, id))
	ctx, cancel := interruptible(cmd.Context(), f.timeout)
	defer cancel()
	interval := time.Duration(l.settings.GetCheckpointing().GetIntervalMs()) * time.Millisecond
	checkpoints := interval > 0 && interval < f.timeout
	view, err := w.until(ctx, func(v *messages.JobView) bool { return runs(v, checkpoints) })
	switch {
	case ctx.Err() != nil && err != nil:
		return w.gaveUp(err, view, f.timeout, "did not get to run")
	case err != nil:
		return err
	}
	return deployed(cmd, w, view, *f.output)
}

// check refuses flags that cannot be meant, and makes the path absolute.
func (f *deployFlags) check(cmd *cobra.Command) error {
	switch flags := cmd.Flags(); {
	case flags.Changed("restore") && f.restore == "":
		return errors.New("--restore needs the folder of a checkpoint or savepoint")
	case flags.Changed("parallelism") && (f.parallelism < 1 || f.parallelism > keygroup.MaxParallelismLimit):
		return fmt.Errorf("--parallelism %d is not from 1 to %d", f.parallelism, keygroup.MaxParallelismLimit)
	case f.timeout <= 0:
		return fmt.Errorf("--timeout %v is no time; --detach does not wait", f.timeout)
	}
	for _, text := range append([]string{f.restore}, f.drop...) {
		if !utf8.ValidString(text) {
			return fmt.Errorf("%q is not UTF-8 text, and all paths and uids on record are", text)
		}
	}
	if f.restore == "" || strings.Contains(f.restore, "://") {
		return nil
	}
	var err error
	f.restore, err = filepath.Abs(f.restore)
	return err
}

// pack reads the topology again, as it travels.
func pack(name string) (*messages.TopologySource, error) {
	path, src, err := readTopology(name)
	if err != nil {
		return nil, coded(exitError, err)
	}
	source, err := topology.SourceOf(path, src, os.LookupEnv)
	if err != nil {
		return nil, coded(exitError, err)
	}
	return source, nil
}

// notDeployed says why, and if it is not known whether the job was deployed.
func (t *target) notDeployed(file string, err error) error {
	var answer *client.Error
	var unreachable *client.UnreachableError
	switch {
	case errors.As(err, &answer) && answer.Status == http.StatusBadRequest:
		return rejected(file, errors.New(strings.Join(answer.Reasons, "\n")))
	case errors.As(err, &unreachable) && errors.Is(err, syscall.ECONNREFUSED):
		return t.fail(err)
	case errors.As(err, &unreachable), errors.Is(err, context.DeadlineExceeded):
		return coded(exitUnreachable, fmt.Errorf("%w; whether the job is deployed is not known: `cutwater jobs` tells, and to deploy it again is safe, as its name is taken once only", t.fail(err)))
	}
	return t.fail(err)
}

// runs reports that a job does what it is to do: all tasks run, and it has completed
// a checkpoint, if that is to be waited for.
func runs(v *messages.JobView, checkpoint bool) bool {
	if v.Status != messages.JobStatus_RUNNING || len(v.Tasks) == 0 {
		return false
	}
	for _, t := range v.Tasks {
		if t.State != messages.TaskState_TASK_RUNNING && t.State != messages.TaskState_TASK_FINISHED {
			return false
		}
	}
	return !checkpoint || v.Checkpoints.GetLatestCompleted() != nil
}

// deployed reports how the job came to run, or why it did not.
func deployed(cmd *cobra.Command, w *follower, v *messages.JobView, output format) error {
	completed := v.Checkpoints.GetLatestCompleted()
	line := fmt.Sprintf("job %s (%s) %s", w.name, shortID(w.job), v.Status)
	if completed != nil {
		line += fmt.Sprintf(", checkpoint %d completed after %d ms, %s", completed.Checkpoint, completed.DurationMs, size(completed.Sums.GetStateBytes()))
	}
	w.note(line)
	if v.Status != messages.JobStatus_RUNNING && v.Status != messages.JobStatus_FINISHED {
		why := v.Failure
		if why == "" {
			why = "somebody else ended it"
		}
		return coded(exitFailed, fmt.Errorf("job %s (%s) is %s: %s", w.name, shortID(w.job), v.Status, why))
	}
	if output == jsonText {
		return printJSON(cmd, deployJSON{Job: w.job, Name: w.name, Status: v.Status.String(), Checkpoint: completed.GetCheckpoint(), Placement: tasksOf(v)})
	}
	if v.Status != messages.JobStatus_RUNNING {
		return nil // it has finished, and its tasks are gone
	}
	return placementTable(cmd, v)
}
