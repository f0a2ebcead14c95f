package job

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"cutwater/messages"
	"cutwater/protocol"
	"cutwater/protocol/checkpoint"
	"cutwater/protocol/restore"
)

// ErrFenced ends a Master whose job another coordinator has taken over.
var ErrFenced = checkpoint.ErrFenced

// MasterConfig is one job on one coordinator.
type MasterConfig struct {
	// Job is the job's id.
	Job string
	// Node is where this coordinator runs; tasks answer to it.
	Node string
	// Program is the name under which nodes find the operators' code.
	Program string
	// Topology is what nodes build the code from that do not have it. May be nil.
	Topology *messages.TopologySource
	// Graph and Settings are complete: defaults are filled in.
	Graph    *messages.JobGraph
	Settings *messages.JobSettings
	// Nodes offer the slots. SetNodes changes them.
	Nodes []Node
	// Agent, if set, is where slots are asked for. The offers that come are the Nodes
	// then, and the job waits while they are not enough.
	Agent protocol.Address
	// Hooks are the names of the master hooks.
	Hooks []string
	// HeartbeatTimeoutMs is how long a node with tasks may be silent before they
	// are given up; 0 means 10 s. It is counted in ticks of a second, so that a
	// machine that slept does not lose its nodes by waking up.
	HeartbeatTimeoutMs int64
	// DeployTimeoutMs is how long an attempt may take until all tasks run; 0 means
	// 5 min.
	DeployTimeoutMs int64
	// CancelTimeoutMs is how long a task may take to stop before it is given up;
	// 0 means 3 min, Flink's task.cancellation.timeout.
	CancelTimeoutMs int64
	// Anew: tasks that an earlier coordinator left running are not taken over.
	Anew bool
	// GiveUp, if set, is why the job must end: the Master takes an epoch only to
	// record FAILED for this reason, deploys nothing and keeps every checkpoint.
	GiveUp error
}

const (
	// tickMs is how often Deploy, CancelTask and Heartbeat are repeated.
	tickMs = 1000
	// retryMs is how long a command that the metadata store did not answer waits.
	retryMs = 500
	// lostHeartbeats is how many heartbeats in a row may miss a task.
	lostHeartbeats = 3
	// finalRepeatTicks is after how many ticks a final checkpoint is repeated
	// while the tasks have not finished.
	finalRepeatTicks = 30
)

// Keys of the Master's timers; those of its coordinator start with "checkpoint/".
const (
	tickTimer    = "job/tick"
	retryTimer   = "job/retry"
	slotsTimer   = "job/slots"
	restartTimer = "job/restart"
	adoptTimer   = "job/adopt"
)

// phase is where a Master stands in its life.
type phase uint8

const (
	// created: Start was not called yet.
	created phase = iota
	// claiming: StartEpoch is outstanding.
	claiming
	// reading: the job's record is being read.
	reading
	// loading: checkpoints are being read.
	loading
	// adopting: the tasks of an earlier coordinator are asked whether they can be
	// taken over.
	adopting
	// hooking: the master hooks are restored or reset, one after the other.
	hooking
	// discovering: sources list their splits.
	discovering
	// acquiring: there are fewer slots than the attempt needs. It has no deadline.
	acquiring
	// deploying: an attempt is deployed and not all of its tasks run.
	deploying
	// running: all tasks run or have finished.
	running
	// suspending: as running, while the last checkpoint is taken.
	suspending
	// stopping: the tasks end and an outstanding completion settles; target says
	// what comes next.
	stopping
	// waiting: the delay before the next attempt.
	waiting
	// recording: the job's end is being recorded.
	recording
	// over: nothing more happens, save that files are deleted.
	over
)

var phaseNames = [...]string{"created", "claiming", "reading", "loading", "adopting", "hooking", "discovering", "acquiring", "deploying", "running",
	"suspending", "stopping", "waiting", "recording", "over"}

func (p phase) String() string { return phaseNames[p] }

// Master leads the life of one job. It is used by one goroutine.
type Master struct {
	config MasterConfig
	self   protocol.Address
	ops    protocol.Ops
	eff    protocol.Effects
	timers map[string]uint64        // generation of each key
	asked  map[uint64]proto.Message // own work that is outstanding
	nowMs  int64                    // of the running Step
	random uint64                   // of the running Step
	// elapsedMs is the time that passed, as steps saw it: see passed.
	elapsedMs int64

	phase   phase
	sinceMs int64              // elapsedMs when the phase of the attempt began
	target  messages.JobStatus // what stopping and recording lead to
	keep    bool               // the end keeps all checkpoints
	status  messages.JobStatus
	failure error
	stale   uint64
	// left: the job is another coordinator's, now or later, and nothing is done
	// any more.
	left bool
	// unavailableMs is when the metadata store began not to answer; -1: it does.
	unavailableMs int64
	// owed is the debt of the metadata store to the coordinator, see unanswered.
	owed debt

	epoch       uint64
	marks       []uint64 // epochs whose marks are in the checkpoint folder
	incarnation uint64
	coordinator *checkpoint.Coordinator // from the answer of StartEpoch on
	informed    bool                    // the coordinator knows the completed checkpoints
	reads       []*read                 // outstanding and answered LoadCheckpoints
	initialPath string                  // the user's path that the job started from
	initial     uint64                  // the id of the checkpoint there
	restarts    *Restarts
	slots       slots
	takeover    *takeover // nil: no tasks are to be taken over
	unrecorded  bool      // the record does not say that the job runs
	refused     *takeover // the epoch is confirmed before new tasks are deployed instead

	started    bool   // an attempt was deployed
	swept      bool   // the sweep behind this attempt was asked for
	sweptLast  bool   // the sweep behind the job was, or is not this coordinator's
	attempts   uint32 // deployments under this epoch
	attempt    uint32 // the number of the last one; tasks of other regions may be of earlier ones
	plan       *messages.ExecutionPlan
	assignment *restore.Assignment // until it is deployed
	hooks      []proto.Message     // calls of master hooks that are still to be made
	triggered  map[uint64]string   // the hook of each call for a checkpoint that is outstanding
	sources    []*source
	tasks      []*execution           // in plan order
	regions    regions                // of tasks
	failed     []bool                 // by region: which ones restart while the others go on; nil: all or none do
	unions     []bool                 // by vertex: it keeps a union list, as far as restarted regions are concerned
	placed     places                 // of the last attempt, whosever it was
	executions *checkpoint.Executions // the same for the coordinator
	silent     map[string]int         // ticks since the node was heard, by its name
	endOfData  bool                   // all tasks have reported it
	finalDue   bool                   // the final checkpoint must be repeated
	finalTicks int
	skewed     map[string]int64 // by node: what its clock was ahead, as last said
	late       late             // what is known of a checkpoint that takes long
	// stopAsked: the stop-with-savepoint of this request is under way.
	stopAsked   bool
	stopRequest uint64
}

// NewMaster returns the Master of a job. The error is everything that is wrong
// with the graph or the settings.
func NewMaster(c MasterConfig) (*Master, error) {
	plan, err := Plan(c.Graph)
	if err != nil {
		return nil, err
	}
	if err := checkpoint.Validate(c.Settings.GetCheckpointing()); err != nil {
		return nil, err
	}
	if err := checkpoint.ValidateHooks(c.Hooks); err != nil {
		return nil, err
	}
	if err := ValidateRestart(c.Settings.GetRestart()); err != nil {
		return nil, err
	}
	c.HeartbeatTimeoutMs = orDefault(c.HeartbeatTimeoutMs, 10_000)
	c.DeployTimeoutMs = orDefault(c.DeployTimeoutMs, 5*60_000)
	c.CancelTimeoutMs = orDefault(c.CancelTimeoutMs, 3*60_000)
	c.Nodes = slices.Clone(c.Nodes)
	return &Master{
		config:    c,
		self:      CoordinatorAddress(c.Node, c.Job),
		timers:    make(map[string]uint64),
		asked:     make(map[uint64]proto.Message),
		silent:    make(map[string]int),
		placed:    make(places),
		triggered: make(map[uint64]string),
		status:    messages.JobStatus_CREATED,
		plan:      plan,
		restarts:  NewRestarts(c.Settings.GetRestart()),
		slots:     slots{offerMs: never, lost: make(map[string]int64)},

		unavailableMs: -1,
	}, nil
}

func orDefault(v, def int64) int64 {
	if v == 0 {
		return def
	}
	return v
}

// Start begins the job's life; it is called once, before any Step.
func (m *Master) Start(nowMs int64, random uint64) *protocol.Effects {
	protocol.Assert(m.phase == created, "Start was called in phase %s", m.phase)
	m.begin(nowMs, random)
	m.claim()
	return m.end()
}

// Step handles one message. Random is 64 fresh random bits. The effects are valid
// until the next Step. Fail is set once: to ErrFenced when another coordinator has
// taken over, since the tasks are its business then; or to ErrStoreUnavailable
// when the metadata store did not answer for too long.
func (m *Master) Step(nowMs int64, random uint64, message proto.Message) *protocol.Effects {
	m.begin(nowMs, random)
	if m.left {
		return &m.eff
	}
	switch t := message.(type) {
	case *messages.WorkDone:
		m.workDone(t)
	case *messages.TimerFired:
		m.timerFired(t)
	case *messages.TaskStateChanged:
		m.taskStateChanged(t)
	case *messages.EndOfDataReached:
		m.endOfDataReached(t)
	case *messages.Heartbeat:
		m.heartbeat(t)
	case *messages.AdoptableTasks:
		m.adoptableTasks(t)
	case *messages.TaskAccount:
		m.taskAccount(t)
	case *messages.SlotOffer:
		m.slotOffer(t)
	case *messages.SlotInquiry:
		m.slotInquiry(t)
	case *messages.NodeLost:
		m.nodeLost(t)
	case *messages.SplitRequest:
		m.splitRequest(t)
	case *messages.SplitAck:
		m.splitAck(t)
	case *messages.AcknowledgeCheckpoint:
		m.toCoordinator(t)
	case *messages.DeclineCheckpoint:
		m.toCoordinator(t)
	case *messages.RequestCheckpoint:
		m.requestCheckpoint(t)
	case *messages.CancelJob:
		m.cancel()
	case *messages.SuspendJob:
		m.suspend()
	case *messages.Standing:
		m.standing(t)
	case *messages.SourceProgress:
		// For people only: the shell shows it.
	default:
		m.drop(fmt.Sprintf("message %T", message))
	}
	return m.end()
}

// SetNodes replaces the nodes that offer slots; the next attempt uses them. It
// has no effects.
func (m *Master) SetNodes(nodes []Node) { m.config.Nodes = slices.Clone(nodes) }

// Status is how the job stands. An ended status is recorded durably, save that of
// a job that could not even take an epoch.
func (m *Master) Status() messages.JobStatus { return m.status }

// Failure is why the last attempt or the job failed, or nil.
func (m *Master) Failure() error { return m.failure }

// Done reports that the job has ended, or was taken over, and that no work is
// outstanding: the shell may stop.
func (m *Master) Done() bool {
	return m.left || m.phase == over && len(m.asked) == 0 && (m.coordinator == nil || m.coordinator.Settled())
}

// Epoch is the coordinator's epoch, 0 until it has one.
func (m *Master) Epoch() uint64 { return m.epoch }

// Incarnation is the job's incarnation, 0 until it is known.
func (m *Master) Incarnation() uint64 { return m.incarnation }

// Attempt is the number of the current deployment of the tasks, unique within
// the job; 0 before the first.
func (m *Master) Attempt() uint32 { return m.attempt }

// Restarts counts the deployments after the first under this coordinator.
func (m *Master) Restarts() int { return max(0, int(m.attempts)-1) }

// Plan is what is or was last deployed. The caller does not change it.
func (m *Master) Plan() *messages.ExecutionPlan { return m.plan }

// Stats is the statistics of the job's checkpoints under this coordinator.
func (m *Master) Stats() checkpoint.Statistics {
	if m.coordinator == nil {
		return checkpoint.Statistics{}
	}
	return m.coordinator.Stats()
}

// Stale counts the messages that were dropped because they belong to another life
// of the job.
func (m *Master) Stale() uint64 { return m.stale }

// TaskStatus is one task of the current attempt, for people.
type TaskStatus struct {
	Task  *messages.TaskId
	Node  string
	State messages.TaskState
	// EndOfData: all inputs of the task have ended.
	EndOfData bool
	// Attempt is the task's own.
	Attempt uint32
}

// Tasks returns the tasks of the current attempt in plan order.
func (m *Master) Tasks() []TaskStatus {
	tasks := make([]TaskStatus, len(m.tasks))
	for i, e := range m.tasks {
		tasks[i] = TaskStatus{Task: e.task, Node: e.node, State: e.state, EndOfData: e.ended, Attempt: e.attempt()}
	}
	return tasks
}

// String describes the Master in one line.
func (m *Master) String() string {
	return fmt.Sprintf("job %s phase=%s epoch=%d attempt=%d stale=%d", m.status, m.phase, m.epoch, m.attempt, m.stale)
}

func (m *Master) begin(nowMs int64, random uint64) {
	m.eff.Reset()
	m.elapsedMs += passed(m.nowMs, nowMs)
	m.nowMs, m.random = nowMs, random
}

// passed is the time between two steps while there are tasks: then each tick is
// one. If the clock says much more than a tick, the machine slept or the clock was
// set, and nobody is late because of that.
func passed(fromMs, toMs int64) int64 { return min(max(toMs-fromMs, 0), 2*tickMs) }

func (m *Master) end() *protocol.Effects {
	m.settle()
	m.sweepLast()
	return &m.eff
}

func (m *Master) fence() *messages.Fence { return m.fenceOf(m.attempt) }

func (m *Master) fenceOf(attempt uint32) *messages.Fence {
	return &messages.Fence{Job: m.config.Job, Epoch: m.epoch, Attempt: attempt}
}

// live reports whether there are tasks. Between two attempts of the whole job there
// are none: the enumerators that are being prepared are the next one's, and nothing
// that the last one's tasks still say may reach them.
func (m *Master) live() bool {
	switch m.phase {
	case deploying, running, suspending, stopping:
		return true
	}
	return m.failed != nil
}

// current reports whether a message belongs to an attempt that has tasks.
func (m *Master) current(f *messages.Fence) bool {
	return m.live() && f.GetJob() == m.config.Job && f.GetEpoch() == m.epoch &&
		(f.GetAttempt() == m.attempt || slices.ContainsFunc(m.tasks, func(e *execution) bool { return e.attempt() == f.GetAttempt() }))
}

// sender returns the task that a message is from, or nil if it is of another attempt of
// the task or of another life of the job.
func (m *Master) sender(f *messages.Fence, id *messages.TaskId) *execution {
	if !m.live() || f.GetJob() != m.config.Job || f.GetEpoch() != m.epoch {
		return nil
	}
	if e := m.execution(id); e != nil && e.attempt() == f.GetAttempt() {
		return e
	}
	return nil
}

// past reports whether a task's message belongs to an attempt of the task that is over.
// One of an earlier epoch may be of the current attempt, if that was taken over.
func (m *Master) past(f *messages.Fence, id *messages.TaskId) bool {
	if f.GetJob() != m.config.Job || f.GetEpoch() > m.epoch || m.mayAdopt() {
		return false
	}
	if e := m.execution(id); m.live() && e != nil && e.attempt() == f.GetAttempt() {
		return false
	}
	return f.GetEpoch() < m.epoch || f.GetAttempt() < m.attempt || f.GetAttempt() == m.attempt && !m.live()
}

func (m *Master) drop(what string) {
	m.stale++
	m.event(Stale{What: what})
}

func (m *Master) event(e protocol.Event) { m.eff.Events = append(m.eff.Events, e) }

func (m *Master) send(to protocol.Address, message proto.Message) {
	m.eff.Send = append(m.eff.Send, protocol.Send{To: to, Message: message})
}

// ask starts work of the Master's own.
func (m *Master) ask(task proto.Message) uint64 {
	op := m.ops.Next()
	m.asked[op] = task
	m.eff.Work = append(m.eff.Work, protocol.Work{Op: op, Task: task})
	return op
}

func (m *Master) arm(key string, delayMs int64) {
	m.timers[key]++
	m.eff.Timers = append(m.eff.Timers, protocol.Timer{Key: key, Generation: m.timers[key], DelayMs: delayMs})
}

func (m *Master) disarm(key string) {
	m.timers[key]++
	m.eff.Timers = append(m.eff.Timers, protocol.Timer{Key: key, Generation: m.timers[key], Cancel: true})
}

func (m *Master) setStatus(s messages.JobStatus, cause string) {
	if s != m.status {
		m.event(StatusChanged{From: m.status, To: s, Cause: cause})
		m.status = s
	}
}
