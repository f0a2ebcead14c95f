package checkpoint_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"cutwater/messages"
	"cutwater/protocol"
	"cutwater/protocol/checkpoint"
)

// TestCoordinatorProperties drives coordinators of one job with random messages,
// answers in any order, lost messages and unknown outcomes, sweeps that take their
// time, deaths, and checkpoints that cannot be read afterwards, and checks the
// invariants of the package comment after every step. At the end all is answered,
// and a new checkpoint must complete: nothing is ever stuck. The end of the job
// leaves nothing behind.
func TestCoordinatorProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		m := newModel(t, r, &messages.CheckpointConfig{
			IntervalMs: 10, TimeoutMs: 50, NumRetained: uint32(1 + r.IntN(3)), MaxConcurrent: uint32(1 + r.IntN(3)),
			MinPauseMs: 3, AfterTasksFinish: true, SavepointDir: "/sp", TolerableFailures: 2,
		})
		for range 300 {
			m.step()
		}
		m.settle()
	})
}

// model is a world that keeps its own account of what is true.
type model struct {
	t        interface{ Fatalf(string, ...any) }
	r        *rand.Rand
	settings *messages.CheckpointConfig
	// unread says whether an older checkpoint cannot be read when a coordinator starts.
	unread func(id uint64) bool

	c     *checkpoint.Coordinator
	nowMs int64
	epoch uint64
	tasks []*modelTask
	exec  *checkpoint.Executions
	// ghosts are tasks of earlier attempts that do not know that they are over.
	ghosts []*modelTask

	work   map[uint64]proto.Message
	timers map[string]uint64
	// The metadata store: the last id and the completed checkpoints.
	lastID uint64
	stored map[uint64]*messages.CompletedCheckpoint
	disk   modelDisk
	// permitted are the checkpoints that may be notified of now.
	permitted map[uint64]bool
	// proposed are completions whose proposal was sent and whose outcome the
	// coordinator does not know.
	proposed map[uint64]bool
	// requests up to lost were those of coordinators that died.
	requests, lost uint64
	answers        map[uint64]int
	savepoints     map[uint64]bool
	files          int
}

// modelTask builds each snapshot on the last completed one that it knows of.
type modelTask struct {
	name      string
	fence     *messages.Fence
	confirmed []string
	snapshots map[uint64][]string
}

// increment returns the files that a later snapshot can build on.
func increment(files []string) []string {
	for _, f := range files {
		if !strings.HasPrefix(f, "shared/") {
			return nil
		}
	}
	return files
}

func newModel(t interface{ Fatalf(string, ...any) }, r *rand.Rand, settings *messages.CheckpointConfig) *model {
	m := &model{
		t: t, r: r, settings: settings, answers: map[uint64]int{}, savepoints: map[uint64]bool{},
		stored: map[uint64]*messages.CompletedCheckpoint{}, disk: newModelDisk(),
	}
	m.unread = func(uint64) bool { return m.chance(3) }
	m.start()
	return m
}

// chance is true once in n times, and never where nothing is left to chance.
func (m *model) chance(n int) bool { return m.r != nil && m.r.IntN(n) == 0 }

// start is the beginning of a coordinator.
func (m *model) start() {
	m.work, m.timers = map[uint64]proto.Message{}, map[string]uint64{}
	m.permitted, m.proposed = map[uint64]bool{}, map[uint64]bool{}
	m.epoch++
	m.c = checkpoint.New(checkpoint.Config{Job: "j", Epoch: m.epoch, Incarnation: 1, Ops: &protocol.Ops{},
		Coordinators: []string{"a"}, Hooks: []string{"h"}, Settings: m.settings})
	m.restored()
	m.deploy(uint32(m.epoch)*1000 + 1)
}

// attempt is that of the tasks.
func (m *model) attempt() uint32 { return m.exec.Tasks[0].Attempt }

func (m *model) deploy(attempt uint32) {
	m.ghosts = append(m.ghosts, m.tasks...)
	m.tasks = nil
	for _, name := range []string{"a/0", "b/0"} {
		fence := &messages.Fence{Job: "j", Epoch: m.epoch, Attempt: attempt}
		m.tasks = append(m.tasks, &modelTask{name: name, fence: fence, snapshots: map[uint64][]string{}})
	}
	m.exec = &checkpoint.Executions{Plan: &messages.ExecutionPlan{
		Vertices: []*messages.Vertex{{Id: "a", Parallelism: 1, Operators: []string{"a"}}, {Id: "b", Parallelism: 1, Operators: []string{"b"}}},
		Edges:    []*messages.PlanEdge{{From: "a", To: "b", Partitioning: messages.Partitioning_HASH}},
	}}
	restore := m.disk.names(m.c.Latest().GetCheckpoint())
	for i, task := range m.tasks {
		for _, f := range restore {
			if path.Base(f)[0] == task.name[0] {
				task.confirmed = append(task.confirmed, f)
			}
		}
		task.confirmed = increment(task.confirmed)
		m.exec.Tasks = append(m.exec.Tasks, checkpoint.Execution{Task: taskID(task.name), Attempt: attempt, Vertex: i, State: messages.TaskState_TASK_RUNNING, Address: protocol.Address(task.name)})
	}
	m.c.SetExecutions(m.exec)
}

func (m *model) step() {
	m.nowMs += int64(m.r.IntN(6))
	task := m.tasks[m.r.IntN(len(m.tasks))]
	// Out of 100: disturbances are rare, so that checkpoints overlap and complete.
	switch n := m.r.IntN(100); {
	case n < 44:
		if ops := slices.Sorted(maps.Keys(m.work)); len(ops) > 0 {
			m.answer(ops[m.r.IntN(len(ops))], m.r.IntN(25))
		}
	case n < 49:
		m.sweep()
	case n < 50:
		if m.chance(2) {
			m.die(func() bool { return m.chance(2) })
		}
	case n < 79:
		m.acknowledge(task, m.someID())
	case n < 80:
		if len(m.ghosts) > 0 {
			m.acknowledge(m.ghosts[m.r.IntN(len(m.ghosts))], m.someID())
		}
	case n < 90:
		m.requests++
		kind := messages.CheckpointType(1 + m.r.IntN(4))
		m.do(m.c.Step(m.nowMs, &messages.RequestCheckpoint{Job: "j", Request: m.requests, Type: kind}))
	case n < 95:
		if keys := slices.Sorted(maps.Keys(m.timers)); len(keys) > 0 {
			m.fire(keys[m.r.IntN(len(keys))])
		}
	case n < 96:
		m.do(m.c.StartScheduler(m.nowMs, m.r.Uint64()))
	case n < 97:
		m.do(m.c.StopScheduler(m.nowMs))
	case n < 98:
		m.do(m.c.Failover(m.nowMs))
		if !m.c.Finalizing() {
			m.deploy(m.attempt() + 1)
		}
	default:
		m.do(m.c.Step(m.nowMs, &messages.DeclineCheckpoint{
			Fence: task.fence, Task: taskID(task.name), Checkpoint: m.someID(), Reason: messages.FailureReason_CHECKPOINT_DECLINED,
		}))
	}
}

func (m *model) someID() uint64 {
	return m.lastID - min(m.lastID, uint64(m.r.IntN(3)))
}

func (m *model) fire(key string) {
	generation := m.timers[key]
	delete(m.timers, key)
	m.do(m.c.Step(m.nowMs, &messages.TimerFired{Key: key, Generation: generation}))
}

// acknowledge makes the task's snapshot of a checkpoint once and sends it.
func (m *model) acknowledge(task *modelTask, id uint64) {
	if id == 0 {
		return
	}
	if _, taken := task.snapshots[id]; !taken {
		m.files++
		file := fmt.Sprintf("%s%d@%d", task.name[:1], m.files, id)
		switch {
		case m.savepoints[id]:
			task.snapshots[id] = []string{"/sp/" + file}
		case m.files%11 == 0: // all of it, for this checkpoint alone
			task.snapshots[id] = []string{fmt.Sprintf("chk-%d/%s", id, file)}
		case m.files%4 == 0: // all of it: it builds on nothing
			task.snapshots[id] = []string{"shared/" + file}
		default:
			task.snapshots[id] = append(slices.Clone(task.confirmed), "shared/"+file)
		}
		m.disk.write(task, task.snapshots[id])
	}
	keyed := &messages.KeyedState{}
	for _, f := range task.snapshots[id] {
		g := &messages.Segment{Handle: handle(f), Scope: messages.SegmentScope_EXCLUSIVE, Created: createdBy(f)}
		if strings.HasPrefix(f, "shared/") {
			g.Scope = messages.SegmentScope_SHARED
		}
		keyed.Segments = append(keyed.Segments, g)
	}
	vertex := taskID(task.name).Vertex
	m.do(m.c.Step(m.nowMs, &messages.AcknowledgeCheckpoint{
		Fence: task.fence, Task: taskID(task.name), Checkpoint: id,
		Snapshot: &messages.TaskSnapshot{Operators: []*messages.OperatorSubtaskState{{Uid: vertex, Keyed: keyed}}},
	}))
}

func createdBy(file string) (id uint64) {
	var name string
	for i, r := range file {
		if r == '@' {
			name = file[i+1:]
		}
	}
	_, _ = fmt.Sscan(name, &id)
	return id
}

// answer lets an operation end: outcome 0 fails it, 1 and 2 leave a command's
// outcome unknown, not applied and applied; the rest is success.
func (m *model) answer(op uint64, outcome int) {
	task := m.work[op]
	delete(m.work, op)
	done := &messages.WorkDone{Op: op}
	if !m.c.Owns(op) {
		m.t.Fatalf("operation %d was asked for and is not owned", op)
	}
	switch w := task.(type) {
	case *messages.Propose:
		r := &messages.MetadataResult{Outcome: messages.MetadataOutcome_APPLIED}
		if outcome == 1 || outcome == 2 {
			r.Outcome = messages.MetadataOutcome_UNKNOWN
		}
		if outcome == 0 {
			r.Outcome = messages.MetadataOutcome_REFUSED
		} else if outcome != 1 {
			r.Checkpoint = m.apply(w.Command)
		}
		if rec := w.Command.GetRecordCompletion(); rec != nil {
			id := rec.Checkpoint.Checkpoint
			if _, applied := m.stored[id]; outcome == 0 && applied {
				r.Outcome = messages.MetadataOutcome_ALREADY_RECORDED
			}
			if r.Outcome != messages.MetadataOutcome_UNKNOWN {
				delete(m.proposed, id)
			}
			m.permitted[id] = r.Outcome == messages.MetadataOutcome_APPLIED || r.Outcome == messages.MetadataOutcome_ALREADY_RECORDED
		}
		done.Result = &messages.WorkDone_Metadata{Metadata: r}
	case *messages.WriteMetadata:
		if outcome == 0 {
			done.Failure = "no space"
			break
		}
		id := w.Metadata.Checkpoint
		m.disk.published[id] = w.Metadata
		done.Result = &messages.WorkDone_MetadataWritten{MetadataWritten: &messages.MetadataWritten{Location: fmt.Sprintf("chk-%d", id), Hash: id}}
	case *messages.ReadJob:
		r := &messages.JobRecord{Job: "j", Epoch: m.epoch}
		for _, id := range slices.Sorted(maps.Keys(m.stored)) {
			r.Completed = append(r.Completed, &messages.CompletedCheckpoint{Checkpoint: id, MetadataHash: id})
			m.permitted[id] = m.permitted[id] || m.proposed[id]
			delete(m.proposed, id)
		}
		done.Result = &messages.WorkDone_JobRecord{JobRecord: r}
	default:
		if outcome == 0 {
			done.Failure = "broken"
		}
	}
	m.do(m.c.Step(m.nowMs, done))
}

// apply is the metadata store.
func (m *model) apply(command *messages.MetadataCommand) uint64 {
	if a := command.GetAllocateCheckpointId(); a != nil {
		m.lastID = max(m.lastID+1, a.AtLeast)
	}
	if r := command.GetRecordCompletion(); r != nil {
		m.stored[r.Checkpoint.Checkpoint] = r.Checkpoint
		for _, id := range r.Subsumed {
			delete(m.stored, id)
		}
	}
	for _, id := range command.GetForgetCheckpoints().GetCheckpoints() {
		delete(m.stored, id)
	}
	return m.lastID
}

// do carries effects out and checks each.
func (m *model) do(fx *protocol.Effects) {
	for _, w := range fx.Work {
		m.work[w.Op] = w.Task
		switch task := w.Task.(type) {
		case *messages.Propose:
			if r := task.Command.GetRecordCompletion(); r != nil {
				id := r.Checkpoint.Checkpoint
				if m.disk.published[id] == nil {
					m.t.Fatalf("the completion of checkpoint %d was proposed before its metadata was written", id)
				}
				m.proposed[id] = true
			}
		case *messages.PrepareLocation:
			m.savepoints[task.Checkpoint] = task.Savepoint
		case *messages.DiscardState:
			m.discard(task)
		}
	}
	for _, s := range fx.Send {
		m.receive(s)
	}
	for _, t := range fx.Timers {
		if t.Cancel {
			delete(m.timers, t.Key)
		} else {
			m.timers[t.Key] = t.Generation
		}
	}
	for _, e := range fx.Events {
		if done, ok := e.(checkpoint.Completed); ok && done.Type != messages.CheckpointType_SAVEPOINT && !m.chance(2) {
			m.disk.sweeps = append(m.disk.sweeps, &modelSweep{task: m.c.SweepBefore(m.attempt())})
		}
	}
	clear(m.permitted)
	m.check()
}

// receive delivers a message, or loses it.
func (m *model) receive(s protocol.Send) {
	lost := m.chance(4)
	var task *modelTask
	for _, t := range m.tasks {
		if protocol.Address(t.name) == s.To && !lost {
			task = t
		}
	}
	confirm := func(id uint64) {
		if task != nil && task.snapshots[id] != nil {
			task.confirmed = increment(task.snapshots[id])
		}
	}
	switch msg := s.Message.(type) {
	case *messages.CheckpointOutcome:
		if m.answers[msg.Request]++; m.answers[msg.Request] > 1 {
			m.t.Fatalf("request %d was answered twice", msg.Request)
		}
	case *messages.NotifyCheckpointComplete:
		if !m.permitted[msg.Checkpoint] {
			m.t.Fatalf("checkpoint %d was notified, but this step did not receive the store's answer to it", msg.Checkpoint)
		}
		confirm(msg.Checkpoint)
	case *messages.NotifyCheckpointAborted:
		if m.proposed[msg.Checkpoint] {
			m.t.Fatalf("checkpoint %d was aborted while its outcome was unknown", msg.Checkpoint)
		}
		if _, recorded := m.stored[msg.Checkpoint]; recorded {
			m.t.Fatalf("checkpoint %d was aborted, but it is recorded", msg.Checkpoint)
		}
		confirm(msg.LatestCompleted)
	}
}

// settle answers everything well; then a request must complete.
func (m *model) settle() {
	quiet := func() {
		for len(m.work) > 0 || m.timers["checkpoint/retry"] != 0 || m.timers["checkpoint/allocate"] != 0 {
			for _, op := range slices.Sorted(maps.Keys(m.work)) {
				m.answer(op, 5)
			}
			for _, key := range []string{"checkpoint/retry", "checkpoint/allocate"} {
				if m.timers[key] != 0 {
					m.fire(key)
				}
			}
		}
	}
	quiet()
	m.do(m.c.Failover(m.nowMs))
	quiet()
	m.deploy(m.attempt() + 1)
	m.requests++
	m.do(m.c.Step(m.nowMs, &messages.RequestCheckpoint{Job: "j", Request: m.requests, Type: messages.CheckpointType_CHECKPOINT}))
	quiet()
	for _, task := range m.tasks {
		m.acknowledge(task, m.lastID)
	}
	quiet()
	if latest := m.c.Latest().GetCheckpoint(); latest != m.lastID {
		m.t.Fatalf("the last checkpoint is %d, but %d is the latest completed:\n%s", m.lastID, latest, m.c)
	}
	for r := m.lost + 1; r <= m.requests; r++ {
		if m.answers[r] != 1 {
			m.t.Fatalf("request %d was answered %d times", r, m.answers[r])
		}
	}
	var recorded []uint64
	for _, r := range m.c.Completed() {
		recorded = append(recorded, r.Checkpoint)
	}
	if want := slices.Sorted(maps.Keys(m.stored)); !slices.Equal(recorded, want) {
		m.t.Fatalf("the view holds %v, the store %v", recorded, want)
	}
	m.do(m.c.Shutdown(m.nowMs, messages.JobStatus_CANCELED))
	quiet()
	if !m.c.Settled() {
		m.t.Fatalf("not settled:\n%s", m.c)
	}
	m.leavesNothing()
}
