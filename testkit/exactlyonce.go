package testkit

import (
	"context"
	"fmt"
	"path"
	"sort"
	"strings"

	"cutwater/actors/coordinator"
	"cutwater/cluster/metadata"
	"cutwater/connector/blackhole"
	"cutwater/connector/datagen"
	"cutwater/connector/file"
	"cutwater/connector/filesink"
	"cutwater/messages"
	"cutwater/node"
	"cutwater/protocol"
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
	// Files are the inputs, by path.
	Files map[string]string
	// Out is the directory that the sink writes.
	Out string
	// Nodes is the number of simulated nodes; n1 runs the coordinator.
	Nodes int
	// Slots per node; 0 means 4.
	Slots int
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
	Hash     uint64
	Steps    int
	Faults   map[string]int
}

// Plan is what happens to a world besides random faults: it is called once after
// the start, and usually calls World.After.
type Plan func(w *World)

// maxSteps ends a run that makes no progress.
const maxSteps = 3_000_000

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
	disk     *vfs.MemFS
	fs       vfs.FS
	metadata *metadata.Model
	program  *stream.Program
	settings *messages.JobSettings
	job      *node.Job
	restarts int
	fallen   []coordinator.Fallen
}

// Run runs the scenario under a seed.
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
	finished := w.Run(maxSteps, sim.over)
	r := &Run{Hash: w.Hash(), Steps: w.Steps(), Faults: w.Faults, Status: sim.record().Status, Failure: sim.record().Failure, Restarts: sim.restarts}
	if len(sim.fallen) > 0 && !s.Poisoned {
		return r, fmt.Errorf("seed %d: after %d steps: %s\n%s", seed, w.Steps(), sim.fallen[0], sim.fallen[0].Stack)
	}
	if !finished {
		return r, fmt.Errorf("seed %d: the job did not end within %d steps (status %v, virtual time %d ms)", seed, w.Steps(), r.Status, w.NowMs()-epochUs/1000)
	}
	r.Rows, err = readRows(sim.disk, s.Out)
	return r, err
}

func (s *Scenario) start(seed uint64, faults Faults) (*simulation, error) {
	sim := &simulation{scenario: s, world: NewWorld(seed, faults), disk: vfs.Mem()}
	sim.fs = sim.disk
	sim.metadata = metadata.NewModel(func(*messages.MetadataCommand) metadata.Fault { return sim.world.metadataFault() })
	for name, content := range s.Files {
		if err := sim.disk.MkdirAll(path.Dir(name)); err != nil {
			return nil, err
		}
		if err := vfs.WriteFile(sim.disk, name, []byte(content)); err != nil {
			return nil, err
		}
	}
	t, err := topology.Load("/job/topology.yaml", []byte(s.Topology), Catalog(), func(string) (string, bool) { return "", false })
	if err != nil {
		return nil, err
	}
	if sim.program, sim.settings, err = topology.Build(t, Catalog()); err != nil {
		return nil, err
	}
	sim.settings.Checkpointing.Dir = "/checkpoints"
	if err := sim.register(); err != nil {
		return nil, err
	}
	for range max(s.Nodes, 1) {
		if _, err := sim.world.AddNode(sim.boot); err != nil {
			return nil, err
		}
	}
	return sim, nil
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
	switch sim.record().Status {
	case messages.JobStatus_FINISHED, messages.JobStatus_FAILED, messages.JobStatus_CANCELED, messages.JobStatus_SUSPENDED:
		return true
	}
	return false
}

// over reports that there is nothing more to simulate.
func (sim *simulation) over() bool {
	return sim.ended() || len(sim.fallen) > 0 && !sim.scenario.Poisoned
}

// register makes the job known; no fault hits this one command.
func (sim *simulation) register() error {
	w := sim.world
	faults := w.faults
	w.faults = Faults{}
	defer func() { w.faults = faults }()
	_, err := sim.metadata.Propose(context.Background(), &messages.MetadataCommand{Command: &messages.MetadataCommand_RegisterJob{RegisterJob: &messages.RegisterJob{
		Job: jobID, Name: sim.program.Graph().Name, Graph: sim.program.Graph(), Settings: sim.settings, AtMs: w.NowMs()}}})
	return err
}

// boot assembles a node; the first one starts, or takes up again, the job.
func (sim *simulation) boot(n *Node) (*node.Runtime, error) {
	rt, err := node.NewRuntime(node.Deps{
		System:      n.System(),
		FS:          sim.fs,
		Metadata:    sim.metadata,
		ScratchDir:  "/scratch/" + n.Name,
		Programs:    func(string) (operator.Program, error) { return sim.program, nil },
		Random:      func() uint64 { return sim.world.rng.Uint64() },
		PollRecords: 16,
		Event:       sim.event,
	})
	if err != nil || n.Name != "n1" || sim.ended() {
		return rt, err
	}
	slots := sim.scenario.Slots
	if slots == 0 {
		slots = 4
	}
	var nodes []job.Node
	for i := range max(sim.scenario.Nodes, 1) {
		nodes = append(nodes, job.Node{Name: fmt.Sprintf("n%d", i+1), Slots: slots})
	}
	sim.job, err = rt.StartJob(node.JobSpec{Job: jobID, Program: sim.program.Graph().Name, Graph: sim.program.Graph(), Settings: sim.settings, Nodes: nodes})
	return rt, err
}

// event counts the failed attempts and the coordinators that fell.
func (sim *simulation) event(e protocol.Event) {
	switch e := e.(type) {
	case job.StatusChanged:
		if e.To == messages.JobStatus_RESTARTING {
			sim.restarts++
		}
	case coordinator.Fallen:
		sim.fallen = append(sim.fallen, e)
	}
}

// metadataFault decides what the metadata store does with a command.
func (w *World) metadataFault() metadata.Fault {
	if w.inject("metadata unknown", w.faults.MetadataUnknown) {
		if w.rng.IntN(2) == 0 {
			return metadata.LostAnswer
		}
		return metadata.LostCommand
	}
	return metadata.NoFault
}

// readRows returns the rows of every visible file, sorted.
func readRows(fsys vfs.FS, dir string) ([]string, error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var rows []string
	for _, e := range entries {
		if e.IsDir() || !strings.HasPrefix(e.Name(), "part-") {
			continue
		}
		content, err := vfs.ReadFile(fsys, path.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		lines := strings.Split(strings.TrimSuffix(string(content), "\n"), "\n")
		rows = append(rows, lines[1:]...) // the first is the header
	}
	sort.Strings(rows)
	return rows, nil
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
