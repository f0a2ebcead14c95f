package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"cutwater/messages"
	"cutwater/node"
	"cutwater/protocol"
	"cutwater/protocol/job"
	"cutwater/storage/vfs"
	"cutwater/stream"
	"cutwater/stream/operator"
)

// runFlags are the flags of run.
type runFlags struct {
	dataDir     string
	parallelism int
	restore     string
	fresh       bool
	drop        []string
	output      string
}

func newRun() *cobra.Command {
	f := &runFlags{}
	cmd := &cobra.Command{
		Use:   "run FILE",
		Short: "Run a topology here until its input ends",
		Long: `Run a topology on this machine, with checkpoints, until its input ends.

The same command again resumes where the last run stopped, however it ended: by
Ctrl-C, by kill -9, or by a failure. A job that finished is not run again unless
--fresh says so. Ctrl-C or SIGTERM takes one last checkpoint and suspends the job;
a second one stops at once.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return run(cmd, args[0], f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.dataDir, "data-dir", "", "where checkpoints and metadata are kept (default .cutwater/<name> beside FILE)")
	flags.IntVar(&f.parallelism, "parallelism", 0, "the job's parallelism, instead of the file's")
	flags.StringVar(&f.restore, "restore", "", "start a new incarnation from this checkpoint or savepoint")
	flags.BoolVar(&f.fresh, "fresh", false, "start a new incarnation with empty state")
	flags.StringArrayVar(&f.drop, "drop-state", nil, "drop the restored state of this operator uid (may be repeated)")
	flags.StringVarP(&f.output, "output", "o", "text", "text or json: how the summary is printed")
	return cmd
}

func run(cmd *cobra.Command, name string, f *runFlags) error {
	if f.fresh && f.restore != "" {
		return coded(exitUsage, errors.New("--fresh and --restore exclude each other: one starts empty, the other from a checkpoint"))
	}
	file, program, settings, err := load(name, f.parallelism, func(w string) { fmt.Fprintln(cmd.ErrOrStderr(), w) })
	if err != nil {
		return err
	}
	settings.DroppedState = f.drop
	dataDir, err := f.resolve(file, program, settings)
	if err != nil {
		return coded(exitError, err)
	}
	p := newProgress(cmd.ErrOrStderr(), f.output == "json")
	process, err := node.Open(node.ProcessOptions{
		DataDir:  dataDir,
		FS:       vfs.OS(),
		Programs: func(string) (operator.Program, error) { return program, nil },
		Event:    func(e protocol.Event) { p.event(e) },
	})
	if errors.Is(err, node.ErrDataDirInUse) {
		return coded(exitConflict, err)
	}
	if err != nil {
		return coded(exitError, err)
	}
	err = runJob(cmd, process, program, settings, f, p)
	if closeErr := process.Close(); err == nil && closeErr != nil {
		err = coded(exitError, closeErr)
	}
	return err
}

// resolve makes the paths absolute and fills in those that have a default.
func (f *runFlags) resolve(file string, program *stream.Program, s *messages.JobSettings) (dataDir string, err error) {
	dataDir = f.dataDir
	if dataDir == "" {
		dataDir = filepath.Join(filepath.Dir(file), ".cutwater", program.Graph().Name)
	}
	if dataDir, err = filepath.Abs(dataDir); err != nil {
		return "", err
	}
	if s.Checkpointing.Dir == "" {
		s.Checkpointing.Dir = filepath.Join(dataDir, "checkpoints")
	}
	if f.restore != "" {
		f.restore, err = filepath.Abs(f.restore)
	}
	return dataDir, err
}

// runJob registers the job, runs it to its end or to a signal, and reports.
func runJob(cmd *cobra.Command, process *node.Process, program *stream.Program, settings *messages.JobSettings, f *runFlags, p *progress) error {
	ctx := context.Background()
	graph := program.Graph()
	record, err := process.Find(ctx, graph.Name)
	if err != nil {
		return coded(exitError, err)
	}
	again := f.fresh || f.restore != ""
	register := &messages.RegisterJob{Job: node.NewJobID(), Name: graph.Name, Graph: graph, Settings: settings, RestoredFrom: f.restore}
	if record != nil {
		register.Job, register.NewIncarnation = record.Job, again
		if record.Status == messages.JobStatus_FINISHED && !again {
			fmt.Fprintf(cmd.ErrOrStderr(), "job %s (%s) has finished already; --fresh runs it again from the start\n", record.Job, record.Name)
			return nil
		}
	}
	var refused *node.RefusedError
	switch err := process.Register(ctx, register); {
	case errors.As(err, &refused):
		return coded(exitConflict, err)
	case err != nil:
		return coded(exitError, err)
	}
	running, err := process.StartJob(node.JobSpec{Job: register.Job, Program: graph.Name, Graph: graph, Settings: settings,
		Progress: p.source, Changed: func(m *job.Master) { p.look(m) }})
	if err != nil {
		return coded(exitRejected, err)
	}
	interrupted := wait(running, p)
	p.summary(cmd.OutOrStdout(), register.Job, running)
	return verdict(running, interrupted)
}

// wait returns when the job has ended; the first signal suspends it, the second
// ends the process at once.
func wait(j *node.Job, p *progress) (interrupted bool) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	for {
		select {
		case <-j.Wait():
			return interrupted
		case <-signals:
			if interrupted {
				p.note("stopped at once; the same command resumes from the last checkpoint")
				os.Exit(exitError)
			}
			interrupted = true
			p.note("taking a last checkpoint; once more to stop at once")
			j.Suspend()
		}
	}
}

// verdict turns the job's end into the command's.
func verdict(j *node.Job, interrupted bool) error {
	status, failure := j.Status(), j.Failure()
	switch {
	case status == messages.JobStatus_FINISHED, status == messages.JobStatus_SUSPENDED && interrupted:
		return nil
	case errors.Is(failure, job.ErrFenced):
		return coded(exitConflict, failure)
	case failure == nil:
		return coded(exitFailed, fmt.Errorf("the job ended as %s", status))
	}
	if refusedToStart(failure) {
		return coded(exitRejected, failure)
	}
	if stack := job.Stack(failure); stack != "" {
		failure = fmt.Errorf("%w\n%s", failure, stack)
	}
	return coded(exitFailed, failure)
}
