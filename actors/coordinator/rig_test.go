package coordinator

import (
	"context"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"cutwater/actors/system"
	"cutwater/actors/timer"
	"cutwater/cluster/metadata"
	"cutwater/messages"
	"cutwater/protocol"
	"cutwater/protocol/job"
	"cutwater/storage"
	"cutwater/storage/filestore"
	"cutwater/storage/vfs"
	"cutwater/stream/operator"
)

// Nothing that a test starts outlives it.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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

// rig is a coordinator whose turns, work and time a test takes. Its tasks stand on
// another node, so that everything that is sent to them comes to the rig.
type rig struct {
	t        *testing.T
	nowMs    int64
	ready    []func()
	alarms   []alarm
	work     []func()
	sent     []proto.Message
	to       []protocol.Address
	events   []protocol.Event
	ends     []error
	status   messages.JobStatus
	failure  error
	metadata *metadata.Model
	system   *system.System
	changed  func() // poisons the coordinator, if set
}

type alarm struct {
	atMs int64
	f    func()
}

func (r *rig) NowMs() int64       { return r.nowMs }
func (r *rig) MonotonicMs() int64 { return r.nowMs }
func (r *rig) AfterMs(delayMs int64, f func()) func() {
	stopped := false
	r.alarms = append(r.alarms, alarm{r.nowMs + delayMs, func() {
		if !stopped {
			f()
		}
	}})
	return func() { stopped = true }
}

func (r *rig) Throughput() int   { return 1 }
func (r *rig) Schedule(f func()) { r.ready = append(r.ready, f) }

func (r *rig) Run(name string, work func(context.Context) error, done func(error)) {
	r.work = append(r.work, func() { done(system.Guarded(context.Background(), name, work)) })
}

func (r *rig) Send(_, to protocol.Address, m proto.Message) {
	r.to, r.sent = append(r.to, to), append(r.sent, m)
}

// newRig registers the job and starts its coordinator; nothing has run yet.
func newRig(t *testing.T, hooks ...operator.MasterHook) *rig {
	t.Helper()
	r := &rig{t: t, nowMs: 1000, metadata: metadata.NewModel(nil)}
	r.system = system.New(system.Options{Node: "n1", Clock: r, Executor: r, Dispatcher: r, Transport: r})
	if err := timer.Spawn(r.system); err != nil {
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
	err := Spawn(r.system, Config{
		Master:   job.MasterConfig{Job: testJob, Node: "n1", Program: "test", Graph: p.Graph(), Settings: settings, Nodes: []job.Node{{Name: "n2", Slots: 4}}},
		Metadata: r.metadata, Program: p, FS: fs,
		Storage: func(epoch uint64) (storage.Store, error) {
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
		Ended: func(err error) { r.ends = append(r.ends, err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// turns lets all mailboxes run dry.
func (r *rig) turns() {
	for len(r.ready) > 0 {
		f := r.ready[0]
		r.ready = r.ready[1:]
		f()
	}
}

// settle does all outstanding work, and what follows from it.
func (r *rig) settle() {
	for r.turns(); len(r.work) > 0; r.turns() {
		f := r.work[0]
		r.work = r.work[1:]
		f()
	}
}

// advance lets time pass and timers fire.
func (r *rig) advance(ms int64) {
	r.nowMs += ms
	due := r.alarms
	r.alarms = nil
	for _, a := range due {
		if a.atMs > r.nowMs {
			r.alarms = append(r.alarms, a)
			continue
		}
		a.f()
	}
	r.settle()
}

// deliver hands the coordinator a message.
func (r *rig) deliver(m proto.Message) {
	r.system.Deliver(job.CoordinatorAddress("n1", testJob), m)
	r.settle()
}

// last returns the newest message of its type that was sent to the other node.
func last[M proto.Message](r *rig) M {
	r.t.Helper()
	for i := len(r.sent) - 1; i >= 0; i-- {
		if m, ok := r.sent[i].(M); ok {
			return m
		}
	}
	var none M
	r.t.Fatalf("no %T was sent", none)
	return none
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
