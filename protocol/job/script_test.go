package job

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"cutwater/internal/script"
	"cutwater/messages"
	"cutwater/messages/describe"
	"cutwater/protocol"
	"cutwater/protocol/metadata"
)

const testJob = "00000000000000000000000000000001"

// TestStories runs every story in testdata/master against a Master, a metadata
// machine and a storage that answer when the story lets them.
func TestStories(t *testing.T) {
	script.RunDir(t, "testdata/master", func(t *testing.T) script.Handler { return newWorld().run })
}

// world is a Master with everything around it; it outlives the Master, so that a
// story can start another coordinator.
type world struct {
	graph     *messages.JobGraph
	settings  *messages.JobSettings
	nodes     []Node
	store     metadata.Machine
	files     map[string]*messages.CheckpointMetadata
	broken    map[string]string // location: why it cannot be read
	splits    int
	master    *Master
	nowMs     int64
	work      []protocol.Work
	timers    []armed
	deployed  map[string]*messages.Deploy // by task name, of the newest attempt
	order     []string
	forgotten []*messages.Deploy // of earlier attempts
	out       strings.Builder
}

type armed struct {
	timer protocol.Timer
	atMs  int64
}

func newWorld() *world {
	return &world{
		nodes:    []Node{{Name: "n1", Slots: 4}},
		files:    make(map[string]*messages.CheckpointMetadata),
		broken:   make(map[string]string),
		deployed: make(map[string]*messages.Deploy),
		splits:   2,
		nowMs:    1000,
	}
}

func (w *world) run(d *script.Directive) (string, error) {
	w.out.Reset()
	err := w.directive(d)
	return w.out.String(), err
}

func (w *world) directive(d *script.Directive) error {
	switch d.Verb {
	case "job": // the graph, one operator a line, and the settings
		return w.declare(d)
	case "register": // puts the job on record
		w.apply(&messages.MetadataCommand{Command: &messages.MetadataCommand_RegisterJob{RegisterJob: &messages.RegisterJob{
			Job: testJob, Name: "test", NewIncarnation: d.Has("new-incarnation"), RestoredFrom: d.Arg("from", ""), AtMs: w.nowMs,
		}}})
	case "nodes": // name:slots ...
		w.nodes = nil
		for _, word := range d.Words() {
			name, slots, _ := strings.Cut(word, ":")
			n := Node{Name: name}
			fmt.Sscan(slots, &n.Slots)
			w.nodes = append(w.nodes, n)
		}
		if w.master != nil {
			w.master.SetNodes(w.nodes)
		}
	case "start": // a new coordinator
		m, err := NewMaster(MasterConfig{Job: testJob, Node: "n1", Program: "test", Graph: w.graph, Settings: w.settings, Nodes: w.nodes})
		if err != nil {
			return err
		}
		w.master, w.work, w.timers = m, nil, nil
		w.carryOut(m.Start(w.nowMs, 0))
	case "takeover": // another coordinator takes an epoch behind the Master's back
		w.apply(&messages.MetadataCommand{Command: &messages.MetadataCommand_StartEpoch{StartEpoch: &messages.StartEpoch{Job: testJob}}})
	case "answer": // the oldest outstanding work: [fail=why] [lost] [unapplied]
		return w.answer(d)
	case "settle": // answers all outstanding work, save what words name
		for {
			i := slices.IndexFunc(w.work, func(k protocol.Work) bool { return !slices.Contains(d.Words(), nameOf(k.Task)) })
			if i < 0 {
				return nil
			}
			if err := w.done(i, w.perform(w.work[i].Task)); err != nil {
				return err
			}
		}
	case "break": // makes a checkpoint unreadable
		w.broken[d.Arg("location", "")] = d.Arg("why", "size is 3, not 5")
	case "report": // a task reports a state: task state [why=...]
		return w.report(d)
	case "all": // all tasks report a state
		for _, name := range slices.Clone(w.order) {
			w.step(w.state(w.deployed[name], messages.TaskState(messages.TaskState_value["TASK_"+d.Words()[0]]), ""))
		}
	case "end-of-data":
		for _, name := range w.tasksOf(d) {
			dep := w.deployed[name]
			w.step(&messages.EndOfDataReached{Fence: dep.Fence, Task: dep.Task})
		}
	case "ack": // checkpoint=n [task...]
		for _, name := range w.tasksOf(d) {
			dep := w.deployed[name]
			w.step(&messages.AcknowledgeCheckpoint{Fence: dep.Fence, Task: dep.Task, Checkpoint: uint64(d.Int("checkpoint", 0)),
				Metrics: &messages.CheckpointMetrics{}})
		}
	case "decline":
		dep := w.deployed[w.tasksOf(d)[0]]
		w.step(&messages.DeclineCheckpoint{Fence: dep.Fence, Task: dep.Task, Checkpoint: uint64(d.Int("checkpoint", 0)),
			Reason: messages.FailureReason_CHECKPOINT_DECLINED, Cause: "no room"})
	case "split": // task number=n
		dep := w.deployed[w.tasksOf(d)[0]]
		w.step(&messages.SplitRequest{Fence: dep.Fence, Task: dep.Task, Uid: dep.Vertex.Operators[0], Number: uint64(d.Int("number", 1))})
	case "confirm": // task number=n
		dep := w.deployed[w.tasksOf(d)[0]]
		w.step(&messages.SplitAck{Fence: dep.Fence, Task: dep.Task, Uid: dep.Vertex.Operators[0], Number: uint64(d.Int("number", 1))})
	case "request": // type=SAVEPOINT [target=] request=n
		w.step(&messages.RequestCheckpoint{Job: testJob, Request: uint64(d.Int("request", 1)), Target: d.Arg("target", ""),
			Type: messages.CheckpointType(messages.CheckpointType_value[d.Arg("type", "")])})
	case "heartbeat": // node=n [task...]
		h := &messages.Heartbeat{Node: d.Arg("node", "n1"), Fence: w.master.fence()}
		for _, name := range d.Words() {
			h.Tasks = append(h.Tasks, w.deployed[w.full(name)].Task)
		}
		w.step(h)
	case "old-heartbeat": // a task manager still runs tasks of the attempt before
		h := &messages.Heartbeat{Node: "n1"}
		for _, dep := range w.forgotten {
			h.Fence = dep.Fence
			h.Tasks = append(h.Tasks, dep.Task)
		}
		w.step(h)
	case "old-report": // a task of the attempt before reports a state
		w.step(w.state(w.forgotten[0], messages.TaskState(messages.TaskState_value["TASK_"+d.Words()[0]]), ""))
	case "stray": // messages that belong nowhere
		w.stray()
	case "cancel":
		w.step(&messages.CancelJob{Job: testJob})
	case "suspend":
		w.step(&messages.SuspendJob{Job: testJob})
	case "advance": // time passes; timers that are due fire
		w.advance(d.Int("ms", 0))
	case "beat-for": // time passes while every task manager is heard
		for end := w.nowMs + d.Int("ms", 0); w.nowMs < end; {
			byNode := map[string]*messages.Heartbeat{}
			for _, e := range w.master.tasks {
				if byNode[e.node] == nil {
					byNode[e.node] = &messages.Heartbeat{Node: e.node, Fence: w.master.fence()}
				}
				byNode[e.node].Tasks = append(byNode[e.node].Tasks, e.task)
			}
			for _, n := range w.nodes {
				if byNode[n.Name] != nil {
					w.step(byNode[n.Name])
				}
			}
			before := w.out.Len()
			w.advance(1000)
			if tick := w.out.String()[before:]; strings.Count(tick, "\n") <= int(d.Int("quiet", 3)) { // the heartbeat of a quiet second
				kept := w.out.String()[:before]
				w.out.Reset()
				w.out.WriteString(kept)
			}
		}
	case "forget": // takes a checkpoint off the record
		w.apply(&messages.MetadataCommand{Command: &messages.MetadataCommand_ForgetCheckpoints{ForgetCheckpoints: &messages.ForgetCheckpoints{
			Job: testJob, Epoch: w.store.Job(testJob).Epoch, Checkpoints: []uint64{uint64(d.Int("checkpoint", 0))}}}})
	case "move": // moves a checkpoint's directory
		w.files[d.Arg("to", "")] = w.files[d.Arg("from", "")]
		delete(w.files, d.Arg("from", ""))
	case "status":
		fmt.Fprintf(&w.out, "%s done=%v\n", w.master, w.master.Done())
		if err := w.master.Failure(); err != nil {
			fmt.Fprintf(&w.out, "failure: %v\n", err)
		}
	case "record":
		r := w.store.Job(testJob)
		r.Graph, r.Settings = nil, nil
		fmt.Fprintln(&w.out, describe.Text(r))
	default:
		return fmt.Errorf("unknown directive %s", d.Verb)
	}
	return nil
}

func (w *world) declare(d *script.Directive) error {
	w.splits = int(d.Int("splits", 2))
	w.graph = parseGraph(d)
	retention := messages.Retention(messages.Retention_value[d.Arg("retention", "RETAIN_NEVER")])
	w.settings = &messages.JobSettings{
		Checkpointing: &messages.CheckpointConfig{
			IntervalMs: d.Int("interval", 0), TimeoutMs: d.Int("timeout", 60000), MaxConcurrent: 1,
			MinPauseMs: d.Int("interval", 0), NumRetained: 2, AfterTasksFinish: true, Retention: retention,
			TolerableFailures: uint32(d.Int("tolerable", 0)),
		},
		Restart: &messages.RestartConfig{
			Kind:     messages.RestartKind(messages.RestartKind_value[d.Arg("restart", "FIXED_DELAY")]),
			Attempts: uint32(d.Int("attempts", 3)), DelayMs: d.Int("delay", 100),
		},
		Backend: "heap",
	}
	if s := d.Arg("drop-state", ""); s != "" {
		w.settings.DroppedState = strings.Split(s, ",")
	}
	return nil
}

// parseGraph reads lines of the form
//
//	uid source|sink|keyed|never-chain parallelism=2 max=8 schema=int in=a:HASH in=b.late:REBALANCE
func parseGraph(d *script.Directive) *messages.JobGraph {
	g := &messages.JobGraph{Name: "test", Parallelism: uint32(d.Int("parallelism", 1)), MaxParallelism: uint32(d.Int("max", 0))}
	for i, line := range strings.Split(d.Body, "\n") {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		op := &messages.OperatorSpec{Uid: strings.Trim(words[0], `"`), Declared: fmt.Sprintf("test.go:%d", i+1)}
		for _, word := range words[1:] {
			key, value, _ := strings.Cut(word, "=")
			switch key {
			case "source":
				op.Source = true
			case "sink":
				op.Sink = true
			case "keyed":
				op.Keyed = true
			case "never-chain":
				op.NeverChain = true
			case "parallelism":
				fmt.Sscan(value, &op.Parallelism)
			case "max":
				fmt.Sscan(value, &op.MaxParallelism)
			case "schema":
				op.StateSchema = value
			case "in":
				from, how, _ := strings.Cut(value, ":")
				uid, side, _ := strings.Cut(from, ".")
				op.Inputs = append(op.Inputs, &messages.OperatorInput{Uid: uid, Side: side,
					Partitioning: messages.Partitioning(messages.Partitioning_value[how])})
			default:
				panic("unknown word " + word)
			}
		}
		g.Operators = append(g.Operators, op)
	}
	return g
}

func (w *world) apply(c *messages.MetadataCommand) *messages.MetadataResult {
	return w.store.Apply(w.store.Index()+1, c)
}

func (w *world) answer(d *script.Directive) error {
	if len(w.work) == 0 {
		return errors.New("no work is outstanding")
	}
	task := w.work[0].Task
	if why := d.Arg("fail", ""); why != "" {
		return w.done(0, &messages.WorkDone{Failure: why, Io: true})
	}
	a := &messages.WorkDone{}
	if !d.Has("unapplied") {
		a = w.perform(task)
	}
	if d.Has("lost") || d.Has("unapplied") {
		a.Result = &messages.WorkDone_Metadata{Metadata: &messages.MetadataResult{
			Outcome: messages.MetadataOutcome_UNKNOWN, Failure: "leadership was lost"}}
	}
	return w.done(0, a)
}

func nameOf(m proto.Message) string { return string(m.ProtoReflect().Descriptor().Name()) }

// done takes the i-th work off the list and hands its answer to the Master.
func (w *world) done(i int, a *messages.WorkDone) error {
	a.Op = w.work[i].Op
	w.work = slices.Delete(w.work, i, i+1)
	w.step(a)
	return nil
}

// perform does what an Executor would.
func (w *world) perform(task proto.Message) *messages.WorkDone {
	switch t := task.(type) {
	case *messages.Propose:
		return &messages.WorkDone{Result: &messages.WorkDone_Metadata{Metadata: w.apply(t.Command)}}
	case *messages.ReadJob:
		return &messages.WorkDone{Result: &messages.WorkDone_JobRecord{JobRecord: w.store.Job(t.Job)}}
	case *messages.WriteMetadata:
		location := t.Target
		if location == "" {
			location = fmt.Sprintf("chk-%d", t.Metadata.Checkpoint)
		}
		w.files[location] = proto.CloneOf(t.Metadata)
		return &messages.WorkDone{Result: &messages.WorkDone_MetadataWritten{MetadataWritten: &messages.MetadataWritten{
			Location: location, Size: 5, Hash: t.Metadata.Checkpoint}}}
	case *messages.LoadCheckpoint:
		location := t.Path
		if t.Record != nil {
			location = t.Record.Location
		}
		if why := w.broken[location]; why != "" {
			return &messages.WorkDone{Failure: why}
		}
		md := w.files[location]
		if md == nil {
			return &messages.WorkDone{Failure: "no such file", Io: true}
		}
		loaded := &messages.CheckpointLoaded{Metadata: md, Record: t.Record}
		for _, op := range md.Operators {
			if op.HasCoordinator {
				loaded.Coordinators = append(loaded.Coordinators, &messages.LoadedCoordinator{Uid: op.Uid, State: op.Coordinator.GetInline()})
			}
		}
		return &messages.WorkDone{Result: &messages.WorkDone_CheckpointLoaded{CheckpointLoaded: loaded}}
	case *messages.DiscoverSplits:
		s := &messages.SplitsDiscovered{}
		for i := range w.splits {
			s.Splits = append(s.Splits, &messages.Split{Id: fmt.Sprintf("%s-%d", t.Uid, i)})
		}
		return &messages.WorkDone{Result: &messages.WorkDone_SplitsDiscovered{SplitsDiscovered: s}}
	}
	return &messages.WorkDone{}
}

func (w *world) report(d *script.Directive) error {
	words := d.Words()
	dep := w.deployed[w.full(words[0])]
	if dep == nil {
		return fmt.Errorf("no task %s", words[0])
	}
	w.step(w.state(dep, messages.TaskState(messages.TaskState_value["TASK_"+words[1]]), d.Arg("why", "")))
	return nil
}

// stray sends one message of each kind that the Master must not obey.
func (w *world) stray() {
	now, old := w.deployed[w.order[0]], w.forgotten[0]
	other := w.deployed[w.order[len(w.order)-1]]
	nobody := &messages.TaskId{Vertex: "nobody"}
	future := &messages.Fence{Job: testJob, Epoch: now.Fence.Epoch + 1, Attempt: now.Fence.Attempt}
	foreign := &messages.Fence{Job: strings.Repeat("f", 32), Epoch: 1}
	for _, m := range []proto.Message{
		&messages.SplitRequest{Fence: old.Fence, Task: old.Task, Uid: "src", Number: 1},
		&messages.SplitRequest{Fence: now.Fence, Task: now.Task, Uid: "nothing", Number: 1},
		&messages.SplitRequest{Fence: now.Fence, Task: other.Task, Uid: "src", Number: 1},
		&messages.SplitRequest{Fence: now.Fence, Task: nobody, Uid: "src", Number: 1},
		&messages.EndOfDataReached{Fence: old.Fence, Task: old.Task},
		&messages.EndOfDataReached{Fence: now.Fence, Task: nobody},
		&messages.TaskStateChanged{Fence: now.Fence, Task: nobody, State: messages.TaskState_TASK_FAILED},
		&messages.TaskStateChanged{Fence: future, Task: now.Task, State: messages.TaskState_TASK_FAILED},
		&messages.TaskStateChanged{Fence: foreign, Task: now.Task, State: messages.TaskState_TASK_FAILED},
		&messages.Heartbeat{Node: "n9", Fence: future, Tasks: []*messages.TaskId{now.Task}},
		&messages.AcknowledgeCheckpoint{Fence: old.Fence, Task: old.Task, Checkpoint: 1},
		&messages.WorkDone{Op: 4711},
		&messages.TimerFired{Key: tickTimer, Generation: 1},
		&messages.TimerFired{Key: restartTimer, Generation: w.master.timers[restartTimer]},
		&messages.SourceProgress{Fence: now.Fence, Task: now.Task},
		&messages.Deploy{},
	} {
		w.step(m)
	}
}

func (w *world) state(dep *messages.Deploy, s messages.TaskState, why string) *messages.TaskStateChanged {
	r := &messages.TaskStateChanged{Fence: dep.Fence, Task: dep.Task, State: s}
	if why != "" {
		r.Failure = &messages.Failure{Message: why, Uid: dep.Vertex.Operators[0]}
	}
	return r
}

// full completes "src/0" to the name of the task whose head is src.
func (w *world) full(name string) string {
	head, subtask, _ := strings.Cut(name, "/")
	for _, n := range w.order {
		if dep := w.deployed[n]; dep.Vertex.Operators[0] == head && fmt.Sprint(dep.Task.Subtask) == subtask {
			return n
		}
	}
	return name
}

// tasksOf returns the tasks that the words name, or all.
func (w *world) tasksOf(d *script.Directive) []string {
	var names []string
	for _, word := range d.Words() {
		names = append(names, w.full(word))
	}
	if len(names) == 0 {
		names = slices.Clone(w.order)
	}
	return names
}

func (w *world) advance(ms int64) {
	end := w.nowMs + ms
	for {
		due := -1
		for i, a := range w.timers {
			if a.atMs <= end && (due < 0 || a.atMs < w.timers[due].atMs) {
				due = i
			}
		}
		if due < 0 {
			break
		}
		a := w.timers[due]
		w.timers = slices.Delete(w.timers, due, due+1)
		w.nowMs = max(w.nowMs, a.atMs)
		fmt.Fprintf(&w.out, "at %d: %s\n", w.nowMs, a.timer.Key)
		w.step(&messages.TimerFired{Key: a.timer.Key, Generation: a.timer.Generation})
	}
	w.nowMs = end
}

func (w *world) step(m proto.Message) { w.carryOut(w.master.Step(w.nowMs, 0, m)) }

func (w *world) carryOut(e *protocol.Effects) {
	for _, k := range e.Work {
		w.work = append(w.work, k)
		fmt.Fprintf(&w.out, "work %s\n", brief(k.Task))
	}
	for _, s := range e.Send {
		if d, ok := s.Message.(*messages.Deploy); ok {
			w.keep(d)
		}
		fmt.Fprintf(&w.out, "-> %s %s\n", shortAddress(s.To), brief(s.Message))
	}
	for _, t := range e.Timers {
		w.timers = slices.DeleteFunc(w.timers, func(a armed) bool { return a.timer.Key == t.Key })
		if t.Cancel {
			fmt.Fprintf(&w.out, "timer %s off\n", t.Key)
			continue
		}
		w.timers = append(w.timers, armed{timer: t, atMs: w.nowMs + t.DelayMs})
		fmt.Fprintf(&w.out, "timer %s in %d\n", t.Key, t.DelayMs)
	}
	for _, ev := range e.Events {
		fmt.Fprintf(&w.out, "* %s\n", ev)
	}
	if e.Fail != nil {
		fmt.Fprintf(&w.out, "FAIL %v\n", e.Fail)
	}
}

// keep remembers a deployed task; those of the attempt before are forgotten.
func (w *world) keep(d *messages.Deploy) {
	name := taskName(d.Task)
	if len(w.order) > 0 && w.deployed[w.order[0]].Fence.Attempt != d.Fence.Attempt ||
		len(w.order) > 0 && w.deployed[w.order[0]].Fence.Epoch != d.Fence.Epoch {
		w.forgotten = nil
		for _, n := range w.order {
			w.forgotten = append(w.forgotten, w.deployed[n])
		}
		w.order, w.deployed = nil, make(map[string]*messages.Deploy)
	}
	if w.deployed[name] == nil {
		w.order = append(w.order, name)
	}
	w.deployed[name] = d
}

// shortAddress leaves the job out.
func shortAddress(a protocol.Address) string {
	return strings.Replace(string(a), "/"+testJob, "", 1)
}

// brief prints a message without what every line would repeat.
func brief(m proto.Message) string {
	switch t := m.(type) {
	case *messages.Deploy:
		return briefDeploy(t)
	case *messages.Propose:
		return "Propose " + withoutJob(strings.TrimPrefix(describe.Text(t.Command), "MetadataCommand"))
	}
	return withoutJob(describe.Text(m))
}

func withoutJob(text string) string {
	return strings.NewReplacer("/"+testJob, "", "job:"+testJob+" ", "", "job:"+testJob, "").Replace(text)
}

func briefDeploy(d *messages.Deploy) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Deploy %s epoch=%d attempt=%d incarnation=%d operators=%v", taskName(d.Task), d.Fence.Epoch, d.Fence.Attempt, d.Incarnation, d.Vertex.Operators)
	for _, in := range d.Inputs {
		fmt.Fprintf(&b, " in%d<-%s#%d", in.Input, shortAddress(protocol.Address(in.Sender)), in.SenderOutput)
	}
	for _, o := range d.Outputs {
		fmt.Fprintf(&b, " edge%d->%s#%d", o.Edge, shortAddress(protocol.Address(o.Receiver)), o.ReceiverChannel)
	}
	if d.Finished {
		b.WriteString(" finished")
	}
	if d.Restore != nil {
		b.WriteString(" " + describe.Text(d.Restore))
	}
	return b.String()
}
