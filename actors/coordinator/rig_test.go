package coordinator

import (
	"context"
	"testing"

	"google.golang.org/protobuf/proto"

	"cutwater/actors/system/systemtest"
	"cutwater/actors/timer"
	"cutwater/cluster/metadata"
	"cutwater/internal/leak"
	"cutwater/messages"
	"cutwater/protocol"
	"cutwater/protocol/job"
	"cutwater/storage"
	"cutwater/storage/filestore"
	"cutwater/storage/vfs"
	"cutwater/stream/operator"
)

// Nothing that a test starts or opens outlives it.
func TestMain(m *testing.M) { leak.VerifyTestMain(m) }

const testJob = "00000000000000000000000000000001"

// program is the code of a job with one source; its tasks are played by the tests.
type program struct{ hooks []operator.MasterHook }

func (p *program) Graph() *messages.JobGraph {
	return &messages.JobGraph{Name: "test", Parallelism: 1, Operators: []*messages.OperatorSpec{{Uid: "src", Source: true}}}
}

func (p *program) NewChain([]string, []*operator.EdgeWriter) (*operator.Chain, error) {
	panic("the coordinator makes no chains")
}

func (p *program) Discover(context.Context, string, vfs.FS, int) (*messages.SplitsDiscovered, error) {
	return &messages.SplitsDiscovered{Splits: []*messages.Split{{Id: "a"}}}, nil
}

func (p *program) MasterHooks() []operator.MasterHook { return p.hooks }

// rig is a coordinator that runs by hand. Its tasks stand on another node, so that
// the test sees everything that is sent to them.
type rig struct {
	*systemtest.Rig
	t        *testing.T
	events   []protocol.Event
	ends     []error
	status   messages.JobStatus
	failure  error
	metadata *metadata.Model
	changed  func() // poisons the coordinator, if set
	outcomes []*messages.CheckpointOutcome
	progress []*messages.SourceProgress
	views    []*messages.JobView // last ones
	storage  error               // why the store cannot be opened
	config   Config
}

// newRig registers the job and starts its coordinator; nothing has run yet.
func newRig(t *testing.T, hooks ...operator.MasterHook) *rig {
	t.Helper()
	r := &rig{Rig: systemtest.New("n1"), t: t, metadata: metadata.NewModel(nil)}
	if err := timer.Spawn(r.System); err != nil {
		t.Fatal(err)
	}
	p, fs := &program{hooks: hooks}, vfs.Mem()
	settings := &messages.JobSettings{
		Checkpointing: &messages.CheckpointConfig{IntervalMs: 100, TimeoutMs: 1000, MaxConcurrent: 1, NumRetained: 1, AfterTasksFinish: true, Retention: messages.Retention_RETAIN_NEVER},
		Restart:       &messages.RestartConfig{Kind: messages.RestartKind_FIXED_DELAY, Attempts: 3},
	}
	if _, err := r.metadata.Propose(context.Background(), &messages.MetadataCommand{Command: &messages.MetadataCommand_RegisterJob{
		RegisterJob: &messages.RegisterJob{Job: testJob, Name: "test", Graph: p.Graph(), Settings: settings}}}); err != nil {
		t.Fatal(err)
	}
	r.config = Config{
		Master:   job.MasterConfig{Job: testJob, Node: "n1", Program: "test", Graph: p.Graph(), Settings: settings, Nodes: []job.Node{{Name: "n2", Slots: 4}}},
		Metadata: r.metadata, Program: p, FS: fs,
		Storage: func(epoch uint64) (storage.Store, error) {
			if r.storage != nil {
				return nil, r.storage
			}
			return filestore.New(filestore.Options{FS: fs, Dir: "/chk", Job: testJob, Epoch: epoch, InlineThreshold: 1 << 10}), nil
		},
		Random: func() uint64 { return 0 },
		Event:  func(e protocol.Event) { r.events = append(r.events, e) },
		Changed: func(m *job.Master) {
			r.status, r.failure = m.Status(), m.Failure()
			if r.changed != nil {
				r.changed()
			}
		},
		Outcome:  func(o *messages.CheckpointOutcome) { r.outcomes = append(r.outcomes, o) },
		Progress: func(p *messages.SourceProgress) { r.progress = append(r.progress, p) },
		LastView: func(v *messages.JobView) { r.views = append(r.views, v) },
		Ended:    func(err error) { r.ends = append(r.ends, err) },
	}
	if err := Spawn(r.System, r.config); err != nil {
		t.Fatal(err)
	}
	return r
}

// deliver hands the coordinator a message.
func (r *rig) deliver(m proto.Message) {
	r.Deliver(job.CoordinatorAddress("n1", testJob), m)
}

// last returns the newest message of its type that was sent to the other node.
func last[M proto.Message](r *rig) M {
	r.t.Helper()
	m, ok := systemtest.Last[M](r.Rig)
	if !ok {
		r.t.Fatalf("no %T was sent", m)
	}
	return m
}

// report says that the deployed task is in a state.
func (r *rig) report(s messages.TaskState) {
	d := last[*messages.Deploy](r)
	r.deliver(&messages.TaskStateChanged{Fence: d.Fence, Task: d.Task, State: s})
}

// record is what the metadata store knows of the job.
func (r *rig) record() *messages.JobRecord {
	rec, err := r.metadata.Job(context.Background(), testJob)
	if err != nil {
		r.t.Fatal(err)
	}
	return rec
}
