package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"cutwater/connector/stdout"
	"cutwater/messages"
	"cutwater/node"
	"cutwater/protocol"
	"cutwater/protocol/job"
	"cutwater/protocol/keygroup"
	"cutwater/protocol/restore"
	"cutwater/storage"
	"cutwater/storage/vfs"
	"cutwater/stream/operator"
	"cutwater/topology"
)

// runFlags are the flags of run.
type runFlags struct {
	dataDir     string
	parallelism int
	restore     string
	fresh       bool
	drop        []string
	channelMiB  int64
	output      *format
}

func newRun() *cobra.Command {
	f := &runFlags{}
	cmd := &cobra.Command{
		Use:   "run FILE",
		Short: "Run a topology here until its input ends",
		Long: `Run a topology on this machine, with checkpoints, until its input ends.

The same command again resumes where the last run stopped, however it ended: by
Ctrl-C, by kill -9, or by a failure. An edited file resumes, too, if the uids, the
types and the parallelism fit the state; else nothing is started.

Ctrl-C or SIGTERM takes one last checkpoint and suspends the job; a second one
stops at once, and nothing is lost but the work since the last checkpoint.

A job that finished is not run again unless --fresh or --restore says so. Both
begin a new incarnation of the job. Files that earlier incarnations committed to
an output folder stay there, because somebody may read them already: the command
says how many and how to remove them. The number after the job's id in a file's
name is the incarnation.

Exit code 0: the job finished or was suspended. 1: error. 2: usage. 3: --restore
names no checkpoint. 4: the data folder is in use, or the job was taken over. 5:
the topology is rejected, or does not fit its state. 6: the job failed.`,
		Args:              oneFile,
		ValidArgsFunction: topologyFiles,
		RunE:              func(cmd *cobra.Command, args []string) error { return run(cmd, args[0], f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.dataDir, "data-dir", "", "where checkpoints and metadata are kept (default .cutwater/<name> beside FILE)")
	flags.IntVar(&f.parallelism, "parallelism", 0, "the job's parallelism, instead of the file's")
	flags.StringVar(&f.restore, "restore", "", "start a new incarnation from the checkpoint or savepoint in this folder")
	flags.BoolVar(&f.fresh, "fresh", false, "start a new incarnation with empty state, from the start of the input")
	flags.StringArrayVar(&f.drop, "drop-state", nil, "give up the state of this uid, which the file does not have any more (may be repeated)")
	flags.Int64Var(&f.channelMiB, "channel-memory", 64, "MiB for batches between tasks, beyond the one that each channel may always hold")
	f.output = formatFlag(cmd, "the summary")
	return cmd
}

func run(cmd *cobra.Command, name string, f *runFlags) error {
	switch {
	case f.fresh && f.restore != "":
		return coded(exitUsage, errors.New("--fresh and --restore exclude each other: one starts empty, the other from a checkpoint"))
	case cmd.Flags().Changed("restore") && f.restore == "":
		return coded(exitUsage, errors.New("--restore needs the folder of a checkpoint or savepoint"))
	case cmd.Flags().Changed("parallelism") && (f.parallelism < 1 || f.parallelism > keygroup.MaxParallelismLimit):
		return coded(exitUsage, fmt.Errorf("--parallelism %d is not from 1 to %d", f.parallelism, keygroup.MaxParallelismLimit))
	case f.channelMiB < 1 || f.channelMiB > 1<<20:
		return coded(exitUsage, fmt.Errorf("--channel-memory %d is not from 1 to %d (MiB)", f.channelMiB, 1<<20))
	}
	if err := f.checkText(); err != nil {
		return coded(exitUsage, err)
	}
	l, err := load(name, f.parallelism, func(w string) { fmt.Fprintln(cmd.ErrOrStderr(), w) })
	if err != nil {
		return err
	}
	if err := checkDropped(f.drop, l.program.Graph()); err != nil {
		return err
	}
	l.settings.DroppedState = f.drop
	dataDir, err := f.resolve(l)
	if err != nil {
		return coded(exitError, err)
	}
	p := newProgress(cmd.ErrOrStderr())
	defer p.end()
	if isTerminal(cmd.OutOrStdout()) && printsRows(l.topology) {
		p.plain()
	}
	p.drop = f.drop
	p.panics = func(e node.CoordinatorFallen) string { return keepStack(dataDir, e) }
	process, err := node.Open(node.ProcessOptions{
		DataDir:  dataDir,
		FS:       vfs.OS(),
		Programs: func(string) (operator.Program, error) { return l.program, nil },
		Event:    func(e protocol.Event) { p.event(e) },

		ChannelMemoryBytes: f.channelMiB << 20,
	})
	if errors.Is(err, node.ErrDataDirInUse) {
		return coded(exitConflict, err)
	}
	if err != nil {
		return coded(exitError, err)
	}
	err = runJob(cmd, process, l, f, p)
	if errors.Is(err, errAtOnce) {
		return err // nothing is waited for, as after kill -9
	}
	if closeErr := process.Close(); err == nil && closeErr != nil {
		err = coded(exitError, closeErr)
	}
	return err
}

// printsRows reports whether a sink writes to standard output.
func printsRows(t *topology.Topology) bool {
	return slices.ContainsFunc(t.Operators, func(o *topology.Operator) bool {
		return o.Kind == topology.Sink && o.Connector.Name == stdout.Spec().Name
	})
}

// checkText refuses what could not be part of a message: its text is UTF-8.
func (f *runFlags) checkText() error {
	for _, uid := range f.drop {
		if !utf8.ValidString(uid) {
			return fmt.Errorf("--drop-state %q is not UTF-8 text, and every uid is", uid)
		}
	}
	return nil
}

// checkDropped refuses to drop what would be restored all the same: the state of
// an operator that is there.
func checkDropped(uids []string, graph *messages.JobGraph) error {
	for _, o := range graph.GetOperators() {
		if slices.Contains(uids, o.Uid) {
			return coded(exitRejected, fmt.Errorf("--drop-state %s: the topology has this operator, and its state is restored; to give the state up, give the operator a new uid", o.Uid))
		}
	}
	return nil
}

// keepStack appends the stack of a panic to a file in the data folder and returns
// its path, or "" if that fails.
func keepStack(dataDir string, e node.CoordinatorFallen) string {
	where := filepath.Join(dataDir, "panic.log")
	f, err := os.OpenFile(where, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return ""
	}
	_, err = fmt.Fprintf(f, "%s\n%s\n", e, e.Stack)
	if errors.Join(err, f.Close()) != nil {
		return ""
	}
	return where
}

// resolve makes the paths absolute and fills in those that have a default.
func (f *runFlags) resolve(l *loaded) (dataDir string, err error) {
	dataDir = f.dataDir
	if dataDir == "" {
		dataDir = filepath.Join(filepath.Dir(l.path), ".cutwater", l.topology.Name)
	}
	if dataDir, err = filepath.Abs(dataDir); err != nil {
		return "", err
	}
	if c := l.settings.Checkpointing; c.Dir == "" {
		c.Dir = filepath.Join(dataDir, "checkpoints")
	}
	if f.restore != "" {
		f.restore, err = filepath.Abs(f.restore)
	}
	if err == nil && !utf8.ValidString(f.restore) { // it goes on record
		err = fmt.Errorf("the path of --restore %q is not UTF-8 text; rename the folder, or move it to one whose name is", f.restore)
	}
	return dataDir, err
}

// runJob registers the job, runs it to its end or to a signal, and reports.
func runJob(cmd *cobra.Command, process *node.Process, l *loaded, f *runFlags, p *progress) error {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	record, isNew, err := register(process, l, f, p)
	if err != nil {
		return err
	}
	older := olderFiles(vfs.OS(), l.topology, record.Job, record.Incarnation, isNew, cmd.ErrOrStderr())
	finish := func(status messages.JobStatus, failure error) error {
		s := p.summary(record, status, failure)
		s.OlderFiles = older
		if *f.output == jsonText {
			return printJSON(cmd, s)
		}
		s.print(cmd.ErrOrStderr())
		return nil
	}
	if record.Status == messages.JobStatus_FINISHED {
		p.note(fmt.Sprintf("job %s (%s) has finished already; --fresh runs it again from the start", record.Name, record.Job))
		switch swept, err := process.SweepEnded(context.Background(), record); {
		case err != nil:
			p.event(job.SweepFailed{Failure: err.Error()})
		default:
			p.event(job.Swept{Files: swept.Files, Bytes: swept.Bytes})
		}
		if *f.output == jsonText {
			return finish(record.Status, nil)
		}
		return nil
	}
	running, err := process.StartJob(node.JobSpec{Job: record.Job, Program: record.Name, Graph: record.Graph, Settings: record.Settings,
		Progress: p.source, Changed: p.look})
	if err != nil {
		return coded(exitRejected, err)
	}
	interrupted, err := wait(running, signals, p)
	if err != nil {
		return err
	}
	switch status := running.Status(); {
	case status == messages.JobStatus_SUSPENDED && interrupted:
		p.suspended()
	case status == messages.JobStatus_FAILED:
		p.kept(process, record)
	}
	if err := finish(running.Status(), running.Failure()); err != nil {
		return err
	}
	return verdict(running.Status(), running.Failure(), interrupted, p.gaveUp())
}

// register makes the job known, with the graph and settings of the file, and
// returns its record. A job that has finished stays as it is, unless a new
// incarnation is asked for.
func register(process *node.Process, l *loaded, f *runFlags, p *progress) (record *messages.JobRecord, isNew bool, err error) {
	ctx := context.Background()
	graph := l.program.Graph()
	record, err = process.Find(ctx, graph.Name)
	if err != nil {
		return nil, false, coded(exitError, err)
	}
	isNew = f.fresh || f.restore != ""
	if f.restore != "" {
		// A mistake must not cost the job the checkpoints that it has.
		if err := process.CheckRestore(ctx, f.restore, graph, l.settings); err != nil {
			return nil, false, cannotRestore(f.restore, err)
		}
	}
	r := &messages.RegisterJob{Job: node.NewJobID(), Name: graph.Name, Graph: graph, Settings: l.settings, RestoredFrom: f.restore}
	if record != nil {
		if record.Status == messages.JobStatus_FINISHED && !isNew {
			return record, false, nil
		}
		r.Job, r.NewIncarnation = record.Job, isNew
		if paths := checkpoints(record); isNew && len(paths) > 0 {
			p.note(fmt.Sprintf("the checkpoints of incarnation %d are left where they are; --restore %s goes back to the newest", record.Incarnation, paths[0]))
		}
	}
	incarnation, err := process.Register(ctx, r)
	var refused *node.RefusedError
	switch {
	case errors.As(err, &refused):
		return nil, false, coded(exitConflict, err)
	case err != nil:
		return nil, false, coded(exitError, err)
	}
	return &messages.JobRecord{Job: r.Job, Name: r.Name, Graph: graph, Settings: l.settings, Incarnation: incarnation}, isNew, nil
}

// cannotRestore says why, and that nothing has changed.
func cannotRestore(path string, err error) error {
	var refused *restore.RefusedError
	code := exitError
	switch {
	case errors.Is(err, storage.ErrMissing):
		code = exitNotFound
	case errors.As(err, &refused):
		code = exitRejected
	}
	text := strings.TrimSuffix(err.Error(), ": "+storage.ErrMissing.Error()) // it says so already
	return coded(code, fmt.Errorf("--restore %s: nothing was started: %s", path, text))
}

// errAtOnce: the user did not want to wait.
var errAtOnce = coded(exitError, errors.New("stopped at once; the same command resumes from the last checkpoint"))

// suspendable is what wait needs of a node.Job.
type suspendable interface {
	Wait() <-chan struct{}
	Suspend()
}

// wait returns when the job has ended; the first signal suspends it, the second
// is errAtOnce.
func wait(j suspendable, signals <-chan os.Signal, p *progress) (interrupted bool, err error) {
	for {
		select {
		case <-j.Wait():
			return interrupted, nil
		case <-signals:
			if interrupted {
				return true, errAtOnce
			}
			interrupted = true
			p.note("taking a last checkpoint; once more to stop at once")
			j.Suspend()
		}
	}
}

// verdict turns the job's end into the command's.
func verdict(status messages.JobStatus, failure error, interrupted, gaveUp bool) error {
	var refused *restore.RefusedError
	switch {
	case status == messages.JobStatus_FINISHED, status == messages.JobStatus_SUSPENDED && interrupted:
		return nil
	case errors.Is(failure, job.ErrFenced):
		return coded(exitConflict, failure)
	case errors.Is(failure, job.ErrStoreUnavailable):
		return coded(exitError, failure)
	case failure == nil:
		return coded(exitFailed, fmt.Errorf("the job ended as %s", status))
	case errors.As(failure, &refused):
		return coded(exitRejected, failure) // its state does not fit the topology
	case gaveUp:
		return coded(exitError, failure) // an error of the program, not of the job
	}
	return coded(exitFailed, failure)
}
