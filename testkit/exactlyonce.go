package testkit

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path"
	"sort"
	"strings"
	"time"

	"cutwater/actors/coordinator"
	"cutwater/actors/task"
	"cutwater/cluster/metadata"
	"cutwater/connector/blackhole"
	"cutwater/connector/datagen"
	"cutwater/connector/file"
	"cutwater/connector/filesink"
	"cutwater/messages"
	"cutwater/node"
	"cutwater/protocol"
	"cutwater/protocol/checkpoint"
	"cutwater/protocol/job"
	"cutwater/storage/vfs"
	"cutwater/stream"
	"cutwater/stream/catalog"
	"cutwater/stream/operator"
	"cutwater/topology"
)

// Scenario is a bounded job that reads files and writes files, to be run again
// and again under faults. "Exact" means that its committed rows are the same
// multiset as those of a run without faults.
type Scenario struct {
	// Topology is the content of a topology.yaml that stands in /job.
	Topology string
	// Program, if it is set, makes a topology that is written in Go instead, anew
	// for each run.
	Program func() (*stream.Program, *messages.JobSettings, error)
	// Files are the inputs, by path.
	Files map[string]string
	// Out is the directory that the sink writes.
	Out string
	// Nodes is the number of simulated nodes; n1 runs the coordinator, unless they are
	// a Cluster.
	Nodes int
	// Apart: n1 offers no slots, so that the tasks outlive it.
	Apart bool
	// Cluster: the nodes find each other, a dispatcher on the leader's node decides who
	// coordinates the job, and a second job wants slots, too.
	Cluster bool
	// Slots per node; 0 means 4.
	Slots int
	// LocalRecovery: nodes keep copies of the state that their tasks write.
	LocalRecovery bool
	// TurnUs bounds the virtual time that a turn of a mailbox takes; 0 means 100. A
	// larger one makes a small job last long enough to be hit by faults.
	TurnUs int
	// PollRecords is how many records a source reads in a turn; 0 means 16.
	PollRecords int
	// Expected are the rows that the job must have committed in the end, sorted; at
	// no time may it have committed others. Nil compares nothing.
	Expected []string
	// Trace, if not nil, gets a line per message, fault and event.
	Trace io.Writer
	// ChannelMemoryBytes is what each node lends to its channels; see node.Deps.
	ChannelMemoryBytes int64
	// Poisoned: the plan makes coordinators panic. In any other scenario a panic of
	// a coordinator ends the run at once, with an error that has the stack.
	Poisoned bool
}

// Run is one run of a scenario.
type Run struct {
	// Rows are the committed rows, sorted, without headers.
	Rows []string
	// Status is how the job ended.
	Status messages.JobStatus
	// Failure is why, unless it finished.
	Failure string
	// Restarts counts the attempts that failed.
	Restarts int
	// Hash is of all that happened: the same seed gives the same one.
	Hash  uint64
	Steps int
	// ElapsedMs is virtual time.
	ElapsedMs int64
	// Faults counts what was injected, by kind; Noticed what the job did about it.
	Faults  map[string]int
	Noticed map[string]int
	// LongestQueue is the most messages that were seen waiting for one actor.
	LongestQueue int
	// Tail is the end of the trace.
	Tail []string
}

// Plan is what happens to a world besides random faults: it is called once after
// the start, and usually calls World.After.
type Plan func(w *World)

// maxSteps ends a run that makes no progress; a usual one takes some thousands.
const maxSteps = 500_000

// jobID of every simulated job.
const jobID = "00000000000000000000000000000001"

// Catalog lists the connectors that a scenario may use.
func Catalog() *catalog.Catalog {
	return &catalog.Catalog{
		Sources: []catalog.SourceSpec{file.Spec(), datagen.Spec()},
		Sinks:   []catalog.SinkSpec{filesink.Spec(), blackhole.Spec()},
	}
}

// simulation is one run in progress.
type simulation struct {
	scenario *Scenario
	world    *World
	metadata *metadata.Model
	plane    *controlPlane // of a cluster
	rules    *invariants
	program  *stream.Program
	other    *stream.Program // of the second job of a cluster
	settings *messages.JobSettings
	host     *host           // the newest
	hosts    map[*Node]*host // the newest of each node
	moved    bool            // the coordinator was lost apart from its node
	noticed  map[string]int
	endedAt  time.Time // on the disk, when the job's end was on record
}

// Run runs the scenario under a seed. The error says which invariant broke and
// when, that rows are missing or surplus, or that the job did not end.
func (s *Scenario) Run(seed uint64, faults Faults, plan Plan) (*Run, error) {
	sim, err := s.start(seed, faults)
	if err != nil {
		return nil, err
	}
	w := sim.world
	defer w.Close()
	if plan != nil {
		plan(w)
	}
	finished := w.Run(maxSteps, sim.ended)
	if finished {
		err = sim.cleaned()
	}
	record := sim.record()
	r := &Run{Hash: w.Hash(), Steps: w.Steps(), ElapsedMs: w.ElapsedMs(), Faults: w.Faults, Noticed: sim.noticed,
		Status: record.Status, Failure: record.Failure, Restarts: sim.noticed[restarted], LongestQueue: sim.rules.longest, Tail: w.Tail()}
	switch {
	case err != nil:
	case w.Err() != nil:
		err = w.Err()
	case !finished:
		err = fmt.Errorf("the job did not end (status %v)", r.Status)
	default:
		if err = sim.checkLeftovers(); err == nil {
			err = sim.endOther()
		}
		if err == nil {
			r.Rows, err = sim.rules.end()
		}
	}
	if err != nil {
		return r, fmt.Errorf("seed %d, after %d steps and %d ms of virtual time: %w", seed, r.Steps, r.ElapsedMs, err)
	}
	return r, nil
}

func (s *Scenario) start(seed uint64, faults Faults) (*simulation, error) {
	sim := &simulation{scenario: s, world: NewWorld(seed, faults), noticed: map[string]int{}, hosts: map[*Node]*host{}}
	w := sim.world
	if s.Trace != nil {
		w.Trace(s.Trace)
	}
	if s.TurnUs > 0 {
		w.turnUs = s.TurnUs
	}
	if s.Cluster {
		sim.newCluster()
	} else {
		sim.metadata = metadata.NewModel(func(*messages.MetadataCommand) metadata.Fault { return w.metadataFault() })
	}
	sim.rules = newInvariants(sim)
	w.loseCoordinator = sim.loseCoordinator
	for name, content := range s.Files {
		if err := writeInput(w.Disk(), name, content); err != nil {
			return nil, err
		}
	}
	var err error
	if sim.program, sim.settings, err = s.build(); err != nil {
		return nil, err
	}
	sim.settings.Checkpointing.Dir = "/checkpoints"
	sim.settings.LocalRecovery = s.LocalRecovery
	boot := sim.boot
	if s.Cluster {
		boot = sim.plane.boot
	}
	if err := sim.register(); err != nil {
		return nil, err
	}
	for range max(s.Nodes, 1) {
		if _, err := w.AddNode(boot); err != nil {
			return nil, err
		}
	}
	if s.Cluster {
		return sim, sim.startCluster()
	}
	return sim, nil
}

// build makes the program of one run.
func (s *Scenario) build() (*stream.Program, *messages.JobSettings, error) {
	if s.Program != nil {
		return s.Program()
	}
	t, err := topology.Load("/job/topology.yaml", []byte(s.Topology), Catalog(), noEnvironment)
	if err != nil {
		return nil, nil, err
	}
	return topology.Build(t, Catalog())
}

func noEnvironment(string) (string, bool) { return "", false }

// writeInput makes a durable file.
func writeInput(disk *vfs.MemFS, name, content string) error {
	dir := path.Dir(name)
	if err := disk.MkdirAll(dir); err != nil {
		return err
	}
	if err := vfs.WriteFile(disk, name, []byte(content)); err != nil {
		return err
	}
	return disk.SyncDir(dir)
}

// record is what the metadata store knows of the job.
func (sim *simulation) record() *messages.JobRecord {
	r, err := sim.metadata.Job(context.Background(), jobID)
	if err != nil {
		panic(err) // a model that is open answers
	}
	return r
}

// ended reports that the job's end is recorded.
func (sim *simulation) ended() bool {
	return sim.rules.over
}

// register makes the job known; no fault hits this one command.
func (sim *simulation) register() error {
	w := sim.world
	faults := w.faults
	w.faults = Faults{}
	defer func() { w.faults = faults }()
	_, err := sim.metadata.Propose(context.Background(), &messages.MetadataCommand{Command: &messages.MetadataCommand_RegisterJob{RegisterJob: &messages.RegisterJob{
		Job: jobID, Name: sim.program.Graph().Name, Graph: sim.program.Graph(), Settings: sim.settings, AtMs: w.NowMs(), Topology: sim.topology()}}})
	return err
}

// boot assembles a node; the first one starts, or takes up again, the job.
func (sim *simulation) boot(n *Node) (*node.Runtime, error) {
	rt, err := node.NewRuntime(node.Deps{
		System:             n.System(),
		FS:                 n.FS(),
		Metadata:           witness{sim.metadata, sim.rules},
		ScratchDir:         "/scratch/" + n.Name,
		CopiesDir:          copiesDir(n),
		Programs:           func(string) (operator.Program, error) { return sim.program, nil },
		Random:             func() uint64 { return sim.world.rng.Uint64() },
		PollRecords:        cmp.Or(sim.scenario.PollRecords, 16),
		ChannelMemoryBytes: sim.scenario.ChannelMemoryBytes,
		Event:              func(e protocol.Event) { sim.event(n, e) },
	})
	if err != nil || n.Name != "n1" || sim.ended() || sim.host != nil && sim.host.node != n {
		return rt, err
	}
	return rt, sim.coordinate(n, rt)
}

// What a job does about faults, as Run.Noticed counts it.
const (
	restarted         = "attempts restarted"
	gapNoticed        = "gaps and repetitions noticed"
	nodeLostNoticed   = "nodes given up"
	checkpointAborted = "checkpoints aborted"
	commitRetried     = "commits tried again"
	outcomeAsked      = "unknown outcomes asked for"
	staleDropped      = "stale messages dropped"
	restored          = "restores from a checkpoint"
	leftSwept         = "files of ended attempts swept"
	sweepFailed       = "sweeps that failed"
	foundClean        = "checkpoint directories clean at the end"
	regionRestarted   = "restarts of regions while other tasks went on"
	adopted           = "takeovers of running tasks"
	notAdopted        = "takeovers refused"
	restoredLocally   = "tasks restored from local copies"
	copyGivenUp       = "damaged local copies given up"
)

// event counts what the job does on a node and holds it to the invariants.
func (sim *simulation) event(n *Node, e protocol.Event) {
	switch e := e.(type) {
	case job.StatusChanged:
		if e.To == messages.JobStatus_RESTARTING {
			sim.noticed[restarted]++
		}
	case job.NodeLost:
		sim.noticed[nodeLostNoticed]++
	case job.Stale, checkpoint.Dropped:
		sim.noticed[staleDropped]++
	case job.Restoring:
		sim.noticed[restored]++
		sim.regions(e.Going)
	case job.StartingEmpty:
		sim.regions(e.Going)
	case job.Adopted:
		sim.noticed[adopted]++
	case job.NotAdopted:
		sim.noticed[notAdopted]++
	case job.Swept:
		sim.noticed[leftSwept] += int(e.Files)
	case job.SweepFailed:
		sim.noticed[sweepFailed]++
	case checkpoint.Aborted:
		sim.noticed[checkpointAborted]++
	case checkpoint.OutcomeUnknown:
		sim.noticed[outcomeAsked]++
	case task.Event:
		switch {
		case e.Kind == "commit-retry":
			sim.noticed[commitRetried]++
		case e.Kind == "restored" && !strings.HasPrefix(e.Detail, "0 "):
			sim.noticed[restoredLocally]++
		case e.Kind == "local copy damaged":
			sim.noticed[copyGivenUp]++
		}
	case coordinator.Fallen:
		if !sim.scenario.Poisoned {
			sim.world.Fail(fmt.Errorf("%s\n%s", e, e.Stack))
		}
	}
	sim.world.remark("EVENT %v", e)
	sim.rules.event(e, sim.leads(n))
}

// regions counts a restart that left running tasks alone.
func (sim *simulation) regions(going int) {
	if going > 0 {
		sim.noticed[regionRestarted]++
	}
}

// metadataFault decides what the metadata store does with a command.
func (w *World) metadataFault() metadata.Fault {
	if w.inject(MetadataUnavailable, w.faults.MetadataUnavailable) {
		return metadata.Unavailable
	}
	if w.inject(MetadataUnknown, w.faults.MetadataUnknown) {
		if w.rng.IntN(2) == 0 {
			return metadata.LostAnswer
		}
		return metadata.LostCommand
	}
	return metadata.NoFault
}

// Diff describes how the rows of two runs differ; empty if they do not.
func Diff(got, want []string) string {
	count := map[string]int{}
	for _, r := range want {
		count[r]++
	}
	for _, r := range got {
		count[r]--
	}
	var lines []string
	for r, n := range count {
		switch {
		case n > 0:
			lines = append(lines, fmt.Sprintf("missing %dx %s", n, r))
		case n < 0:
			lines = append(lines, fmt.Sprintf("surplus %dx %s", -n, r))
		}
	}
	sort.Strings(lines)
	if len(lines) > 20 {
		lines = append(lines[:20], fmt.Sprintf("and %d more", len(lines)-20))
	}
	return strings.Join(lines, "\n")
}
