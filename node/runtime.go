// Package node is one running node as a library: the assembly of its actors, and
// the jobs that it coordinates.
package node

import (
	"sync"

	"cutwater/actors/coordinator"
	"cutwater/actors/system"
	"cutwater/actors/task"
	"cutwater/actors/taskmanager"
	"cutwater/actors/timer"
	"cutwater/cluster/metadata"
	"cutwater/messages"
	"cutwater/protocol"
	"cutwater/protocol/job"
	"cutwater/storage"
	"cutwater/storage/filestore"
	"cutwater/storage/local"
	"cutwater/storage/memstore"
	"cutwater/storage/vfs"
	"cutwater/stream/operator"
)

// Deps is what a Runtime stands on. A real process and a simulation differ in
// nothing else.
type Deps struct {
	System   *system.System
	FS       vfs.FS
	Metadata metadata.Store
	// Programs finds the code of a job by name.
	Programs func(name string) (operator.Program, error)
	// Offer is told what the program of a task that is deployed here is built from,
	// before Programs is asked for it. May be nil.
	Offer func(name string, topology *messages.TopologySource)
	// ScratchDir holds the local files of state backends.
	ScratchDir string
	// CopiesDir holds copies of state files for local recovery, also from one start of
	// the node to the next; empty keeps none.
	CopiesDir string
	// Random returns 64 random bits.
	Random func() uint64
	// PollRecords bounds a turn of a source; 0 means the default.
	PollRecords int
	// ChannelMemoryBytes is what the node lends to the channels between its tasks
	// beyond one batch each, which every channel has; 0 means 64 MiB. Less of it
	// costs speed and nothing else.
	ChannelMemoryBytes int64
	// Event is told what happens in tasks and coordinators. It may be called
	// from several actors at once and must not block. May be nil.
	Event func(protocol.Event)
	// JobEvent is told what happens in coordinators, with the id of the job, instead
	// of Event. May be nil.
	JobEvent func(job string, e protocol.Event)
	// LastView is told how a job stood when its coordinator here ended. May be nil.
	LastView func(*messages.JobView)
}

// Runtime runs tasks and coordinators on one node.
type Runtime struct {
	deps    Deps
	batches *task.Pool
	copies  *local.Copies // nil: none are kept
	tasks   *taskmanager.TaskManager
}

// NewRuntime starts the node's actors: the timer and the task manager.
func NewRuntime(d Deps) (*Runtime, error) {
	r := &Runtime{deps: d, batches: &task.Pool{}}
	if err := timer.Spawn(d.System); err != nil {
		return nil, err
	}
	if d.CopiesDir != "" {
		r.copies = local.New(d.FS, d.CopiesDir)
	}
	env := &task.Env{
		Pool:        r.batches,
		Budget:      task.NewBudget(d.ChannelMemoryBytes),
		FS:          d.FS,
		ScratchDir:  d.ScratchDir,
		Copies:      r.copies,
		Programs:    d.Programs,
		Random:      d.Random,
		PollRecords: d.PollRecords,
		Storage: func(f *messages.Fence, s *messages.JobSettings) (storage.Store, error) {
			return openStorage(d.FS, f.Job, 0, s)
		},
		Event: func(e task.Event) {
			if d.Event != nil {
				d.Event(e)
			}
		},
	}
	start := func(s *system.System, name string, deploy *messages.Deploy) error {
		if d.Offer != nil && deploy.Topology != nil {
			d.Offer(deploy.Program, deploy.Topology)
		}
		return task.Spawn(s, env, name, deploy)
	}
	var err error
	r.tasks, err = taskmanager.Spawn(d.System, start)
	return r, err
}

// SlotsInUse is how many slots tasks run in here.
func (r *Runtime) SlotsInUse() int { return r.tasks.SlotsInUse() }

// openStorage opens a job's checkpoint store.
func openStorage(fsys vfs.FS, jobID string, epoch uint64, s *messages.JobSettings) (storage.Store, error) {
	c := s.GetCheckpointing()
	if c.GetStorage() == "coordinator" {
		return memstore.New(memstore.Options{FS: fsys, Job: jobID, Epoch: epoch}), nil
	}
	return filestore.New(filestore.Options{FS: fsys, Dir: c.GetDir(), Job: jobID, Epoch: epoch, InlineThreshold: int(c.GetInlineThresholdBytes())}), nil
}

// JobSpec is a job to coordinate here.
type JobSpec struct {
	// Job is the job's id; it is registered in the metadata store already.
	Job string
	// Program is the name of its code.
	Program string
	// Topology is what other nodes build the code from; nil where they need not.
	Topology *messages.TopologySource
	Graph    *messages.JobGraph
	Settings *messages.JobSettings
	// Nodes offer slots; empty means this node with enough of them.
	Nodes []job.Node
	// Agent, if set, is where slots are asked for instead.
	Agent protocol.Address
	// Progress is told what the sources have read. May be nil.
	Progress func(*messages.SourceProgress)
	// Changed is called after every message of the coordinator, in its actor, with
	// the Master to look at. May be nil.
	Changed func(*job.Master)
}

// Job is a job that this node coordinates. Its methods may be called by any
// goroutine.
type Job struct {
	runtime *Runtime
	spec    JobSpec
	address protocol.Address
	done    chan struct{}

	mu      sync.Mutex
	status  messages.JobStatus
	epoch   uint64
	failure error
	ended   bool
}

// StartJob starts the job's coordinator. The job must be registered in the
// metadata store.
func (r *Runtime) StartJob(spec JobSpec) (*Job, error) {
	program, err := r.deps.Programs(spec.Program)
	if err != nil {
		return nil, err
	}
	node := r.deps.System.Node()
	if len(spec.Nodes) == 0 && spec.Agent == "" {
		spec.Nodes = []job.Node{{Name: node, Slots: 1 << 15}}
	}
	j := &Job{runtime: r, spec: spec, address: job.CoordinatorAddress(node, spec.Job), done: make(chan struct{}),
		status: messages.JobStatus_CREATED}
	err = coordinator.Spawn(r.deps.System, coordinator.Config{
		Master:   job.MasterConfig{Job: spec.Job, Node: node, Program: spec.Program, Topology: spec.Topology, Graph: spec.Graph, Settings: spec.Settings, Nodes: spec.Nodes, Agent: spec.Agent},
		Metadata: r.deps.Metadata,
		Program:  program,
		FS:       r.deps.FS,
		Storage: func(epoch uint64) (storage.Store, error) {
			return openStorage(r.deps.FS, spec.Job, epoch, spec.Settings)
		},
		Random:   r.deps.Random,
		Event:    r.deps.eventOf(spec.Job),
		LastView: r.deps.LastView,
		Progress: spec.Progress,
		Changed:  j.changed,
		Ended:    j.end,
	})
	if err != nil {
		return nil, err
	}
	return j, nil
}

// eventOf is who is told of a job's events.
func (d *Deps) eventOf(job string) func(protocol.Event) {
	if d.JobEvent == nil {
		return d.Event
	}
	return func(e protocol.Event) { d.JobEvent(job, e) }
}

func (j *Job) changed(m *job.Master) {
	j.mu.Lock()
	j.status, j.epoch, j.failure = m.Status(), m.Epoch(), m.Failure()
	j.mu.Unlock()
	if j.spec.Changed != nil {
		j.spec.Changed(m)
	}
}

func (j *Job) end(err error) {
	j.mu.Lock()
	if err != nil {
		j.failure = err
	}
	j.ended = true
	j.mu.Unlock()
	close(j.done)
}

// Status is how the job stands.
func (j *Job) Status() messages.JobStatus {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.status
}

// Epoch is the coordinator's epoch, 0 before it has one.
func (j *Job) Epoch() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.epoch
}

// Failure is why the job, or its last attempt, failed; nil if it did not.
func (j *Job) Failure() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.failure
}

// Done reports that the coordinator has ended.
func (j *Job) Done() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.ended
}

// Wait is closed when the coordinator has ended.
func (j *Job) Wait() <-chan struct{} { return j.done }

// Suspend asks for one last checkpoint and the end of the tasks.
func (j *Job) Suspend() {
	j.runtime.deps.System.Deliver(j.address, &messages.SuspendJob{Job: j.spec.Job})
}

// Cancel asks for the end of the tasks at once.
func (j *Job) Cancel() {
	j.runtime.deps.System.Deliver(j.address, &messages.CancelJob{Job: j.spec.Job})
}
