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
	hooks     []string
	store     metadata.Machine
	files     map[string]*messages.CheckpointMetadata
	broken    map[string]string // location: why it cannot be read
	splits    int
	master    *Master
	history   *History
	nowMs     int64
	work      []protocol.Work
	timers    []armed
	deployed  map[string]*messages.Deploy // by task name, of the newest attempt
	order     []string
	forgotten []*messages.Deploy // of earlier attempts
	nodeOf    map[string]string  // of each task of the newest attempt
	remain    bool               // tasks outlive their coordinator
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
		nodeOf:   make(map[string]string),
		splits:   2,
		nowMs:    1000,
	}
}

func (w *world) run(d *script.Directive) (string, error) {
	w.out.Reset()
	err := w.directive(d)
	return oneSpace.Replace(w.out.String()), err
}

// oneSpace undoes what protobuf does to its errors: the space behind "proto:" differs
// from build to build, so that nobody relies on it.
var oneSpace = strings.NewReplacer("proto:\u00a0", "proto: ", `proto:\u00a0`, "proto: ")

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
	case "start": // a new coordinator; tasks of the one before are gone with it, or remain
		w.remain = d.Has("tasks-remain")
		c := MasterConfig{Job: testJob, Node: "n1", Program: "test", Graph: w.graph, Settings: w.settings, Nodes: w.nodes, Hooks: w.hooks}
		c.Node, c.Anew = d.Arg("node", "n1"), d.Has("anew")
		if d.Has("agent") { // slots are asked for
			c.Agent, c.Nodes = "n1|agent", nil
		}
		if why := d.Arg("give-up", ""); why != "" {
			c.GiveUp = errors.New(why)
		}
		m, err := NewMaster(c)
		if err != nil {
			return err
		}
		w.master, w.history, w.work, w.timers = m, NewHistory(), nil, nil
		w.carryOut(m.Start(w.nowMs, 0))
	case "takeover": // another coordinator takes an epoch behind the Master's back
		w.apply(&messages.MetadataCommand{Command: &messages.MetadataCommand_StartEpoch{StartEpoch: &messages.StartEpoch{Job: testJob}}})
	case "answer": // the oldest outstanding work, of a kind: [work=kind] [fail=why [transient] [no-restart]] [lost] [unapplied] [refused] [stale] [empty]
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
	case "report": // a task reports a state: task state [why=... [no-restart]]
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
	case "ack": // checkpoint=n [task...] [union=uid: all finish, and that operator keeps a union list]
		for _, name := range w.tasksOf(d) {
			dep := w.deployed[name]
			a := &messages.AcknowledgeCheckpoint{Fence: dep.Fence, Task: dep.Task, Checkpoint: uint64(d.Int("checkpoint", 0)),
				Metrics: &messages.CheckpointMetrics{}, TaskFinished: d.Arg("union", "") != ""}
			if uid := d.Arg("union", ""); slices.Contains(dep.Vertex.Operators, uid) {
				a.Snapshot = &messages.TaskSnapshot{Operators: []*messages.OperatorSubtaskState{{Uid: uid, HasUnionList: true}}}
			}
			w.step(a)
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
	case "heartbeat": // node=n [task...] [clock=ms]
		h := &messages.Heartbeat{Node: d.Arg("node", "n1"), Fence: w.master.fence(), NowMs: d.Int("clock", 0)}
		for _, name := range d.Words() {
			dep := w.deployed[w.full(name)]
			h.Tasks, h.Attempts = append(h.Tasks, dep.Task), append(h.Attempts, dep.Fence.Attempt)
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
	case "old-ack": // the first task of the attempt before acknowledges: checkpoint=n
		old := w.forgotten[0]
		w.step(&messages.AcknowledgeCheckpoint{Fence: old.Fence, Task: old.Task, Checkpoint: uint64(d.Int("checkpoint", 0))})
	case "inquire": // a dispatcher asks which slots are in use: term=n
		w.step(&messages.SlotInquiry{Term: uint64(d.Int("term", 0)), Dispatcher: "n1|dispatcher"})
	case "offer": // slots for the next attempt: name:slots ... [missing=why] [epoch=n] [term=n] [number=n]
		w.offer(d)
	case "node-lost": // a node is gone: name why=...
		w.step(&messages.NodeLost{Node: d.Words()[0], Reason: d.Arg("why", "")})
	case "listed": // a task manager says what it has: node=n [task...] [ended=task:STATE,...] [old] [fingerprint=n] [epoch=n]
		w.listed(d)
	case "account": // tasks give their accounts: [task...] [state=] [completed=n] [received=id@behind,...] [truncated] [end-of-data] [finished] [epoch=n]
		w.account(d)
	case "gates": // lists the subtasks that must not hear from their enumerator yet
		w.gates()
	case "early": // messages that cannot be meant for a job without an epoch
		w.early()
	case "stray": // messages that belong nowhere
		w.stray()
	case "view": // how the job stands: [checkpoint=n]
		w.view(d)
	case "progress": // a source tells what it has read: task records=n bytes=n left=n
		w.progress(d)
	case "standing": // a task says what it does about a checkpoint: task checkpoint=n doing=...
		w.standing(d)
	case "cancel":
		w.step(&messages.CancelJob{Job: testJob})
	case "suspend":
		w.step(&messages.SuspendJob{Job: testJob})
	case "advance": // time passes; timers that are due fire
		w.advance(d.Int("ms", 0))
	case "set-clock": // the clock is set, or the machine sleeps; timers are as far off as before
		w.nowMs += d.Int("ms", 0)
		for i := range w.timers {
			w.timers[i].atMs += d.Int("ms", 0)
		}
	case "beat-for": // time passes while every task manager is heard
		for end := w.nowMs + d.Int("ms", 0); w.nowMs < end; {
			byNode := map[string]*messages.Heartbeat{}
			for _, e := range w.master.tasks {
				if byNode[e.node] == nil {
					byNode[e.node] = &messages.Heartbeat{Node: e.node, Fence: w.master.fence()}
				}
				byNode[e.node].Tasks = append(byNode[e.node].Tasks, e.task)
				byNode[e.node].Attempts = append(byNode[e.node].Attempts, e.attempt())
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
	case "keyed": // gives an operator in a checkpoint state of all its key groups
		s := w.stateOf(d)
		s.Subtasks = []*messages.SubtaskEntry{{State: &messages.OperatorSubtaskState{Uid: s.Uid, Keyed: &messages.KeyedState{
			KeyGroups: &messages.KeyGroupRange{Last: s.MaxParallelism - 1}}}}}
	case "spoil": // makes the state of a source's enumerator unreadable
		w.stateOf(d).Coordinator.Where = &messages.StateHandle_Inline{Inline: []byte{0xff}}
	case "move": // moves a checkpoint's directory
		w.files[d.Arg("to", "")] = w.files[d.Arg("from", "")]
		delete(w.files, d.Arg("from", ""))
	case "status":
		fmt.Fprintf(&w.out, "%s done=%v\n", w.master, w.master.Done())
		if err := w.master.Failure(); err != nil {
			fmt.Fprintf(&w.out, "failure: %v\n", err)
		}
		if why := w.master.Waiting(); why != "" {
			fmt.Fprintf(&w.out, "waiting: %s\n", why)
		}
	case "stats":
		fmt.Fprintf(&w.out, "%+v\n", w.master.Stats().Counts)
	case "record":
		r := w.store.Job(testJob)
		r.Graph, r.Settings = nil, nil
		fmt.Fprintln(&w.out, describe.Text(r))
	default:
		return fmt.Errorf("unknown directive %s", d.Verb)
	}
	return nil
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
