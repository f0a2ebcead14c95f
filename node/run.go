package node

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"google.golang.org/protobuf/proto"

	"cutwater/messages"
	"cutwater/protocol/job"
	"cutwater/storage/vfs"
	"cutwater/stream/operator"
)

// Run runs one program on a node of its own until the job ends. When ctx is done
// it takes one last checkpoint and suspends the job. A job of the program's name
// that did not finish goes on from its newest checkpoint, however its last run
// ended; one that has finished stays so.
//
// Of the options only DataDir must be set: FS is that of the machine, and Programs
// finds the program. Checkpoints go to the folder checkpoints in DataDir if the
// settings name none.
//
// It returns how the job stands, and an error if it neither finished nor was
// suspended. Errors: ErrDataDirInUse, a *RefusedError, why the job failed, or
// that of the disk.
func Run(ctx context.Context, o ProcessOptions, program operator.Program, settings *messages.JobSettings) (status messages.JobStatus, err error) {
	if o.FS == nil {
		o.FS = vfs.OS()
	}
	if o.Programs == nil {
		o.Programs = func(string) (operator.Program, error) { return program, nil }
	}
	if settings.GetCheckpointing() == nil {
		return status, errors.New("the job has no settings; topology.Settings makes them, from an empty text all defaults")
	}
	if o.DataDir, err = filepath.Abs(o.DataDir); err != nil {
		return status, err
	}
	if settings.Checkpointing.Dir == "" {
		settings = proto.CloneOf(settings)
		settings.Checkpointing.Dir = filepath.Join(o.DataDir, "checkpoints")
	}
	p, err := Open(o)
	if err != nil {
		return status, err
	}
	defer func() {
		if closeErr := p.Close(); err == nil {
			err = closeErr
		}
	}()
	// The job is known from now on, whatever ctx says.
	record, err := p.Find(context.WithoutCancel(ctx), program.Graph().Name)
	switch {
	case err != nil:
		return status, err
	case record == nil:
		record = &messages.JobRecord{Job: NewJobID()}
	case record.Status == messages.JobStatus_FINISHED:
		if _, err := p.SweepEnded(context.WithoutCancel(ctx), record); err != nil && o.Event != nil {
			o.Event(job.SweepFailed{Failure: err.Error()})
		}
		return record.Status, nil
	}
	graph := program.Graph()
	register := &messages.RegisterJob{Job: record.Job, Name: graph.Name, Graph: graph, Settings: settings}
	if _, err := p.Register(context.WithoutCancel(ctx), register); err != nil {
		return status, err
	}
	j, err := p.StartJob(JobSpec{Job: record.Job, Program: graph.Name, Graph: graph, Settings: settings})
	if err != nil {
		return status, err
	}
	select {
	case <-j.Wait():
	case <-ctx.Done():
		j.Suspend()
		<-j.Wait()
	}
	if status = j.Status(); status != messages.JobStatus_FINISHED && status != messages.JobStatus_SUSPENDED {
		if err = j.Failure(); err == nil {
			err = fmt.Errorf("the job ended as %s", status)
		}
	}
	return status, err
}
