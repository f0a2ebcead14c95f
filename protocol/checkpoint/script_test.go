package checkpoint_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"cutwater/internal/script"
	"cutwater/messages"
	"cutwater/messages/describe"
	"cutwater/protocol"
	"cutwater/protocol/checkpoint"
)

// TestScripts runs the stories under testdata: each says in its comments what it
// proves.
func TestScripts(t *testing.T) {
	script.RunDir(t, "testdata", func(*testing.T) script.Handler {
		w := &world{
			settings: &messages.CheckpointConfig{TimeoutMs: 600000, MaxConcurrent: 1, NumRetained: 1, AfterTasksFinish: true},
			work:     make(map[uint64]proto.Message), timers: make(map[string]armed), nextID: 1,
			last: make(map[uint64]*messages.RecordCompletion), epoch: 1,
		}
		return w.run
	})
}

// world is what surrounds a coordinator in a script: tasks, work that is to be
// answered by hand, armed timers and a clock.
type world struct {
	settings     *messages.CheckpointConfig
	coordinators []string
	hooks        []string
	epoch        uint64
	c            *checkpoint.Coordinator
	nowMs        int64
	tasks        *checkpoint.Executions
	work         map[uint64]proto.Message
	timers       map[string]armed
	nextID       uint64
	last         map[uint64]*messages.RecordCompletion
}

type armed struct {
	generation uint64
	dueMs      int64
}

// run executes one directive:
//
//	config KEY=VALUE..        before the first other directive
//	tasks [attempt=N]         body: `vertex parallelism [operator..]`, `from -> to hash|forward`
//	task NAME=STATE..         states: running, finished, failed, deploying
//	start|stop|failover|final|poll|tick|fire KEY [generation=N]
//	advance MS: the clock moves and timers fire; wait MS: it only moves
//	shutdown STATUS           request N TYPE [target=..] [job=..]
//	ack TASK|all ID ..        decline TASK ID [reason=..] [cause=..]
//	answer OP ..              run: answer everything well until nothing is asked
//	restored ID ..            state, stats, completed
//
// `quiet` hides the effects.
func (w *world) run(d *script.Directive) (string, error) {
	if d.Verb == "config" {
		return "", w.configure(d)
	}
	if w.c == nil {
		w.c = checkpoint.New(checkpoint.Config{
			Job: "j", Epoch: w.epoch, Incarnation: 1, Binary: "test", Settings: w.settings,
			Coordinators: w.coordinators, Hooks: w.hooks, Ops: &protocol.Ops{},
		})
	}
	out, err := w.step(d)
	if d.Has("quiet") {
		out = ""
	}
	return out, err
}

func (w *world) step(d *script.Directive) (string, error) {
	words := slices.DeleteFunc(d.Words(), func(s string) bool { return s == "quiet" })
	word := func(i int) string {
		if i < len(words) {
			return words[i]
		}
		return ""
	}
	switch d.Verb {
	case "tasks":
		return "", w.deploy(d)
	case "task":
		return "", w.change(d)
	case "start":
		return w.log(w.c.StartScheduler(w.nowMs, uint64(d.Int("random", 0)))), nil
	case "stop":
		return w.log(w.c.StopScheduler(w.nowMs)), nil
	case "failover":
		return w.log(w.c.Failover(w.nowMs)), nil
	case "final":
		return w.log(w.c.TriggerFinal(w.nowMs)), nil
	case "poll":
		return w.log(w.c.Poll(w.nowMs)), nil
	case "shutdown":
		return w.log(w.c.Shutdown(w.nowMs, messages.JobStatus(messages.JobStatus_value[word(0)]))), nil
	case "tick":
		return w.fire("checkpoint/periodic", 0)
	case "fire":
		return w.fire(word(0), uint64(d.Int("generation", 0)))
	case "wait":
		w.nowMs += number(word(0))
		return "", nil
	case "advance":
		return w.advance(number(word(0)))
	case "request":
		return w.log(w.c.Step(w.nowMs, &messages.RequestCheckpoint{
			Job: d.Arg("job", "j"), Request: uint64(number(word(0))), Target: d.Arg("target", ""),
			Type: messages.CheckpointType(messages.CheckpointType_value[word(1)]),
		})), nil
	case "ack":
		return w.acknowledge(d, word(0), uint64(number(word(1)))), nil
	case "decline":
		return w.log(w.c.Step(w.nowMs, &messages.DeclineCheckpoint{
			Fence: w.fence(d), Task: taskID(word(0)), Checkpoint: uint64(number(word(1))), Cause: d.Arg("cause", ""),
			Reason: messages.FailureReason(messages.FailureReason_value[d.Arg("reason", "CHECKPOINT_DECLINED")]),
		})), nil
	case "answer":
		return w.answer(d, uint64(number(word(0))))
	case "run":
		return w.answerAll(d)
	case "restored":
		w.restored(d, uint64(number(word(0))))
		return "", nil
	case "report-restore":
		w.c.ReportRestore(w.nowMs)
		return "", nil
	case "state":
		return fmt.Sprintf("%s\nfinalizing=%t settled=%t", w.c, w.c.Finalizing(), w.c.Settled()), nil
	case "completed":
		var b strings.Builder
		for _, r := range w.c.Completed() {
			fmt.Fprintln(&b, describe.Text(r))
		}
		fmt.Fprintf(&b, "latest %d", w.c.Latest().GetCheckpoint())
		return b.String(), nil
	case "stats":
		return printStats(w.c.Stats()), nil
	}
	return "", fmt.Errorf("unknown directive %s", d.Verb)
}

func (w *world) configure(d *script.Directive) error {
	s := w.settings
	s.IntervalMs = d.Int("interval", s.IntervalMs)
	s.TimeoutMs = d.Int("timeout", s.TimeoutMs)
	s.MinPauseMs = d.Int("pause", s.MinPauseMs)
	s.MaxConcurrent = uint32(d.Int("max", int64(s.MaxConcurrent)))
	s.NumRetained = uint32(d.Int("retain", int64(s.NumRetained)))
	s.TolerableFailures = uint32(d.Int("tolerable", int64(s.TolerableFailures)))
	s.AlignedTimeoutMs = d.Int("aligned-timeout", 0)
	s.Unaligned, s.AtLeastOnce, s.AfterTasksFinish = d.Has("unaligned"), d.Has("at-least-once"), !d.Has("no-after-finish")
	s.SavepointDir = d.Arg("savepoint-dir", "")
	s.Retention = messages.Retention(messages.Retention_value[d.Arg("retention", "RETAIN_NEVER")])
	w.coordinators, w.hooks = list(d.Arg("coordinators", "")), list(d.Arg("hooks", ""))
	return checkpoint.Validate(s)
}

// deploy makes an attempt whose tasks all run.
func (w *world) deploy(d *script.Directive) error {
	e := &checkpoint.Executions{Plan: &messages.ExecutionPlan{}}
	for line := range strings.Lines(d.Body) {
		f := strings.Fields(line)
		if f[1] == "->" {
			p := messages.Partitioning_HASH
			if f[3] == "forward" {
				p = messages.Partitioning_FORWARD
			}
			e.Plan.Edges = append(e.Plan.Edges, &messages.PlanEdge{From: f[0], To: f[2], Partitioning: p})
			continue
		}
		v := &messages.Vertex{Id: f[0], Parallelism: uint32(number(f[1])), MaxParallelism: 128, Operators: f[2:]}
		if len(v.Operators) == 0 {
			v.Operators = []string{v.Id}
		}
		for s := range v.Parallelism {
			e.Tasks = append(e.Tasks, checkpoint.Execution{
				Task: &messages.TaskId{Vertex: v.Id, Subtask: s}, Attempt: uint32(d.Int("attempt", 1)), Vertex: len(e.Plan.Vertices), State: messages.TaskState_TASK_RUNNING,
				Address: protocol.Address(fmt.Sprintf("%s/%d", v.Id, s)),
			})
		}
		e.Plan.Vertices = append(e.Plan.Vertices, v)
	}
	w.tasks = e
	w.c.SetExecutions(e)
	return nil
}

// change gives tasks other states.
func (w *world) change(d *script.Directive) error {
	next := *w.tasks
	next.Tasks = slices.Clone(w.tasks.Tasks)
	for i := range next.Tasks {
		t := &next.Tasks[i]
		name := fmt.Sprintf("%s/%d", t.Task.Vertex, t.Task.Subtask)
		switch state := d.Arg(name, ""); state {
		case "":
		case "nowhere":
			t.Address = ""
		default:
			t.State = messages.TaskState(messages.TaskState_value["TASK_"+strings.ToUpper(state)])
		}
	}
	w.tasks = &next
	w.c.SetExecutions(w.tasks)
	return nil
}

func (w *world) fence(d *script.Directive) *messages.Fence {
	return &messages.Fence{Job: d.Arg("job", "j"), Epoch: uint64(d.Int("epoch", 1)), Attempt: uint32(d.Int("attempt", int64(w.tasks.Tasks[0].Attempt)))}
}

// acknowledge sends an ack: new=(file..) are shared segments that it wrote,
// own=(file..) exclusive ones, old=(file@ID..) shared ones of earlier
// checkpoints, lists=file its list state.
func (w *world) acknowledge(d *script.Directive, who string, id uint64) string {
	var names []string
	for _, t := range w.tasks.Tasks {
		name := fmt.Sprintf("%s/%d", t.Task.Vertex, t.Task.Subtask)
		if who == name || who == "all" && t.State == messages.TaskState_TASK_RUNNING {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		names = []string{who}
	}
	var b strings.Builder
	for _, name := range names {
		b.WriteString(w.log(w.c.Step(w.nowMs, &messages.AcknowledgeCheckpoint{
			Fence: w.fence(d), Task: taskID(name), Checkpoint: id, Snapshot: w.snapshot(d, taskID(name).Vertex, id),
			Metrics: &messages.CheckpointMetrics{
				CheckpointBytes: uint64(d.Int("bytes", 0)), FullStateBytes: uint64(d.Int("full", 0)), Unaligned: d.Has("unaligned"),
				AlignmentProcessedBytes: uint64(d.Int("processed", 0)), AlignmentPersistedBytes: uint64(d.Int("persisted", 0)),
			},
			TaskFinished: d.Has("task-finished"), DeployedFinished: d.Has("deployed-finished"),
		})))
	}
	return b.String()
}

// restored hands a checkpoint of an earlier life over.
func (w *world) restored(d *script.Directive, id uint64) {
	r := &messages.CompletedCheckpoint{Checkpoint: id, Savepoint: d.Has("savepoint"), Unclaimed: d.Has("unclaimed"), Location: d.Arg("location", fmt.Sprintf("chk-%d", id))}
	var m *messages.CheckpointMetadata
	if !d.Has("unloaded") {
		m = &messages.CheckpointMetadata{Operators: []*messages.OperatorState{{Subtasks: []*messages.SubtaskEntry{{State: &messages.OperatorSubtaskState{Keyed: segments(d, id)}}}}}}
	}
	w.nextID = max(w.nextID, id+1)
	w.c.Restored(r, m)
}

// answer gives one operation its result: well by default, or fail=TEXT [io],
// outcome=NAME, listed, epoch=N, empty, nothing.
func (w *world) answer(d *script.Directive, op uint64) (string, error) {
	task, asked := w.work[op]
	delete(w.work, op)
	done := &messages.WorkDone{Op: op, Failure: d.Arg("fail", ""), Io: d.Has("io")}
	if asked != w.c.Owns(op) {
		return "", fmt.Errorf("operation %d: asked %t, owned %t", op, asked, !asked)
	}
	if done.Failure != "" || d.Has("nothing") {
		return w.log(w.c.Step(w.nowMs, done)), nil
	}
	switch t := task.(type) {
	case *messages.Propose:
		outcome := messages.MetadataOutcome(messages.MetadataOutcome_value[d.Arg("outcome", "APPLIED")])
		r := &messages.MetadataResult{Outcome: outcome, Failure: d.Arg("why", "")}
		if a := t.Command.GetAllocateCheckpointId(); a != nil && outcome == messages.MetadataOutcome_APPLIED {
			w.nextID = max(w.nextID, a.AtLeast)
			r.Checkpoint = uint64(d.Int("id", int64(w.nextID)))
			w.nextID = r.Checkpoint + 1
		}
		if c := t.Command.GetRecordCompletion(); c != nil {
			w.last[c.Checkpoint.Checkpoint] = c
		}
		done.Result = &messages.WorkDone_Metadata{Metadata: r}
	case *messages.WriteMetadata:
		location := t.Target
		if location == "" {
			location = fmt.Sprintf("chk-%d", t.Metadata.Checkpoint)
		}
		done.Result = &messages.WorkDone_MetadataWritten{MetadataWritten: &messages.MetadataWritten{Location: location, Size: 9, Hash: t.Metadata.Checkpoint}}
	case *messages.ReadJob:
		r := &messages.JobRecord{Job: "j", Epoch: uint64(d.Int("epoch", 1))}
		if id := uint64(d.Int("listed", 0)); id > 0 {
			r.Completed = []*messages.CompletedCheckpoint{{Checkpoint: id, MetadataHash: uint64(d.Int("hash", int64(id)))}}
		}
		done.Result = &messages.WorkDone_JobRecord{JobRecord: r}
	case *messages.SnapshotOperatorCoordinator:
		done.Result = &messages.WorkDone_CoordinatorSnapshot{CoordinatorSnapshot: &messages.OperatorCoordinatorSnapshot{
			Uid: t.Uid, Checkpoint: t.Checkpoint, State: []byte("state of " + t.Uid), HasState: !d.Has("empty"),
		}}
	case *messages.RunMasterHook:
		s := &messages.MasterHookSnapshot{Hook: t.Hook, Checkpoint: t.Checkpoint}
		if !d.Has("empty") {
			s.State = &messages.MasterState{Hook: t.Hook, State: []byte("state of " + t.Hook), Version: 1}
		}
		done.Result = &messages.WorkDone_HookSnapshot{HookSnapshot: s}
	}
	return w.log(w.c.Step(w.nowMs, done)), nil
}

// answerAll answers the outstanding work, oldest first, until there is none.
// With but=NAME it leaves work of that kind alone.
func (w *world) answerAll(d *script.Directive) (string, error) {
	var b strings.Builder
	for {
		var ops []uint64
		for op, task := range w.work {
			if string(task.ProtoReflect().Descriptor().Name()) != d.Arg("but", "") {
				ops = append(ops, op)
			}
		}
		if len(ops) == 0 {
			return b.String(), nil
		}
		out, err := w.answer(d, slices.Min(ops))
		if err != nil {
			return "", err
		}
		b.WriteString(out)
	}
}

func (w *world) fire(key string, generation uint64) (string, error) {
	t, ok := w.timers[key]
	if generation == 0 {
		if !ok {
			return "", fmt.Errorf("timer %s is not armed", key)
		}
		delete(w.timers, key)
		generation, w.nowMs = t.generation, max(w.nowMs, t.dueMs)
	}
	return w.log(w.c.Step(w.nowMs, &messages.TimerFired{Key: key, Generation: generation})), nil
}

// advance moves the clock and fires what is due, in the order of the due times.
func (w *world) advance(delayMs int64) (string, error) {
	var b strings.Builder
	end := w.nowMs + delayMs
	for {
		next := ""
		for key, t := range w.timers {
			if t.dueMs <= end && (next == "" || t.dueMs < w.timers[next].dueMs || t.dueMs == w.timers[next].dueMs && key < next) {
				next = key
			}
		}
		if next == "" {
			w.nowMs = end
			return b.String(), nil
		}
		out, err := w.fire(next, 0)
		if err != nil {
			return "", err
		}
		b.WriteString(out)
	}
}

func taskID(name string) *messages.TaskId {
	vertex, subtask, _ := strings.Cut(name, "/")
	return &messages.TaskId{Vertex: vertex, Subtask: uint32(number(subtask))}
}

func number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("%q is not a number", s))
	}
	return n
}

func list(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}
