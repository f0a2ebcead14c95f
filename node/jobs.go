package node

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"cutwater/actors/agent"
	"cutwater/cluster/metadata"
	"cutwater/messages"
	"cutwater/protocol"
	"cutwater/protocol/job"
	machine "cutwater/protocol/metadata"
)

// Why a Member refuses; the errors that wrap them are one sentence.
var (
	// ErrUnknownJob: there is no job of this id.
	ErrUnknownJob = errors.New("there is no such job")
	// ErrNameTaken: a living job has the name.
	ErrNameTaken = errors.New("the name is taken")
	// ErrEnded: the job has ended.
	ErrEnded = errors.New("the job has ended")
	// ErrNoCoordinator: nobody coordinates the job now.
	ErrNoCoordinator = errors.New("nobody coordinates the job now")
)

// askAgain is how long a question that may have been lost waits for its answer.
const askAgain = 500 * time.Millisecond

// DeployOptions change how a topology is deployed; the zero value changes nothing.
type DeployOptions struct {
	// Parallelism is the job's, instead of the file's; 0 means the file's.
	Parallelism uint32
	// Restore is the folder of the checkpoint or savepoint to start from.
	Restore string
	// DropState are uids whose state in it is given up.
	DropState []string
}

// Deploy registers a topology as a new job, durably, and returns its id; its
// coordinator starts behind that. Errors: what is wrong with the topology, of any
// type that Build returns; *RefusedError; ErrNameTaken; those of the metadata store.
func (m *Member) Deploy(ctx context.Context, source *messages.TopologySource, o DeployOptions) (string, error) {
	s, err := m.current()
	if err != nil {
		return "", err
	}
	program, settings, err := m.options.Build(source)
	if err != nil {
		return "", err
	}
	settings = proto.CloneOf(settings)
	settings.DroppedState = o.DropState
	c := settings.GetCheckpointing()
	if c.GetStorage() != "coordinator" && c.GetDir() == "" {
		return "", &RefusedError{"checkpointing has no dir; give the folder or URL that all nodes of the cluster see, or storage: coordinator"}
	}
	graph := proto.CloneOf(program.Graph())
	if o.Parallelism > 0 {
		graph.Parallelism = o.Parallelism
	}
	if _, err := job.Plan(graph); err != nil {
		return "", &RefusedError{err.Error()}
	}
	if o.Restore != "" && !strings.Contains(o.Restore, "://") {
		if o.Restore, err = filepath.Abs(o.Restore); err != nil {
			return "", err
		}
	}
	id := NewJobID()
	result, err := s.store.Propose(ctx, &messages.MetadataCommand{Command: &messages.MetadataCommand_RegisterJob{RegisterJob: &messages.RegisterJob{
		Job: id, Name: graph.Name, Graph: graph, Settings: settings, Topology: source, RestoredFrom: o.Restore, UniqueName: true,
		AtMs: s.clock.NowMs()}}})
	switch {
	case err != nil:
		return "", err
	case result.Outcome == messages.MetadataOutcome_UNKNOWN:
		if r, err := s.store.Job(ctx, id); err != nil || r.GetJob() != id {
			return "", errors.Join(fmt.Errorf("%w: whether job %s was registered is not known; list the jobs before you deploy it again", metadata.ErrUnavailable, id), err)
		}
	case result.Outcome == messages.MetadataOutcome_NAME_TAKEN:
		return "", fmt.Errorf("%w: %s", ErrNameTaken, result.Failure)
	case result.Outcome != messages.MetadataOutcome_APPLIED:
		return "", &RefusedError{result.Failure}
	}
	s.control.tell("dispatcher", &messages.JobsChanged{})
	return id, nil
}

// Jobs are the records of all jobs, which must not be changed.
func (m *Member) Jobs(ctx context.Context) ([]*messages.JobRecord, error) {
	s, err := m.current()
	if err != nil {
		return nil, err
	}
	return s.store.Jobs(ctx)
}

// Job is the record of a job. Errors: ErrUnknownJob, those of the metadata store.
func (m *Member) Job(ctx context.Context, id string) (*messages.JobRecord, error) {
	s, err := m.current()
	if err != nil {
		return nil, err
	}
	return s.job(ctx, id)
}

func (s *session) job(ctx context.Context, id string) (*messages.JobRecord, error) {
	r, err := s.store.Job(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case r.GetJob() != id:
		return nil, fmt.Errorf("%w: %s; list the jobs to see their ids", ErrUnknownJob, id)
	}
	return r, nil
}

// View is how a job stands now, as its coordinator says; of one that has ended, how it
// stood then, as long as its coordinator's node remembers. Errors: ErrUnknownJob,
// ErrNoCoordinator, those of the metadata store.
func (m *Member) View(ctx context.Context, id string, checkpoint uint64) (*messages.JobView, error) {
	s, err := m.current()
	if err != nil {
		return nil, err
	}
	for {
		r, err := s.job(ctx, id)
		if err != nil {
			return nil, err
		}
		if !s.control.roster.alive(hostOf(r.Coordinator)) {
			return nil, fmt.Errorf("%w: job %s is %s", ErrNoCoordinator, id, r.Status)
		}
		who := protocol.Address(r.Coordinator)
		if machine.Ended(r.Status) {
			who = askerAddress(hostOf(r.Coordinator))
		}
		wait, cancel := context.WithTimeout(ctx, askAgain)
		view, err := s.asker.ask(wait, who, &messages.JobQuery{Job: id, Checkpoint: checkpoint})
		cancel()
		switch {
		case err == nil || ctx.Err() != nil:
			return view, err
		case machine.Ended(r.Status):
			return nil, fmt.Errorf("%w: job %s is %s, and its last view was forgotten", ErrNoCoordinator, id, r.Status)
		}
	}
}

// Cancel asks for the end of a job, whoever coordinates it, and does not wait: the
// node goes on asking until the job has ended. Errors: ErrUnknownJob, ErrEnded, those
// of the metadata store.
func (m *Member) Cancel(ctx context.Context, id string) error {
	s, err := m.current()
	if err != nil {
		return err
	}
	r, err := s.job(ctx, id)
	switch {
	case err != nil:
		return err
	case machine.Ended(r.Status):
		return fmt.Errorf("%w: job %s is %s", ErrEnded, id, r.Status)
	}
	s.mu.Lock()
	under := s.cancelling[id]
	s.cancelling[id] = true
	s.mu.Unlock()
	if !under {
		s.start(func() { s.cancel(id) })
	}
	return nil
}

// cancel tells the job's coordinator, the present one each time, since the message,
// or the coordinator, may be lost.
func (s *session) cancel(id string) {
	defer func() {
		s.mu.Lock()
		delete(s.cancelling, id)
		s.mu.Unlock()
	}()
	ticker := time.NewTicker(askAgain)
	defer ticker.Stop()
	for {
		r, err := s.job(s.ctx, id)
		switch {
		case errors.Is(err, ErrUnknownJob) || err == nil && machine.Ended(r.Status):
			return
		case err == nil && r.Coordinator != "":
			s.system.Send(s.system.Address(agent.Name), protocol.Address(r.Coordinator), &messages.CancelJob{Job: id})
		}
		select {
		case <-s.ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
