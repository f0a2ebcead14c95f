package job

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"cutwater/messages"
	"cutwater/protocol"
)

// TestRandomLives leads jobs through random failures of tasks, stores, messages, nodes
// and coordinators, with slots that are asked for and missing, and proves:
//
//   - every attempt restores the newest checkpoint that is on record, and none is
//     recorded behind its back by an attempt before it;
//   - no task is deployed while an earlier attempt of its region has tasks that have not
//     ended, save what a coordinator that died left running and its successor has not
//     taken over; tasks of other regions are left alone;
//   - what is taken over is one attempt, whose past has the newest checkpoint on record;
//   - ids of tasks are never used again;
//   - once everything works, the job runs and completes checkpoints, or has ended.
func TestRandomLives(t *testing.T) {
	takeovers, alone := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		s := newSimulation(t)
		defer func() { takeovers, alone = takeovers+s.takeovers, alone+s.alone }()
		for range 3 {
			for range rapid.IntRange(0, 100).Draw(t, "steps") {
				s.misbehave()
			}
			s.heal()
			if s.master.Done() {
				break
			}
		}
	})
	if takeovers == 0 && !t.Failed() {
		t.Error("no coordinator took running tasks over")
	}
	if alone == 0 && !t.Failed() {
		t.Error("no region restarted while others went on")
	}
}

// simulation is a world whose tasks answer by themselves, when they are let.
type simulation struct {
	*world
	t     *rapid.T
	used  map[string]bool
	tasks map[string]messages.TaskState // of all attempts, by address
	inbox []protocol.Send
	// hopeless are the tasks whose failure no restart can mend.
	hopeless map[string]bool
	// ended is set when the user has asked for an end.
	ended bool
	// orphans are tasks whose coordinator has died, and which no other one has.
	orphans      map[string]bool
	fingerprints map[string]uint64
	// past are the checkpoints that a task restored or took part in, by address.
	past      map[string]map[uint64]bool
	takeovers int
	alone     int              // tasks that were deployed while others went on
	agent     protocol.Address // where slots are asked for, or nothing
	poor      bool             // the dispatcher has not enough of them
}

func newSimulation(t *rapid.T) *simulation {
	s := &simulation{world: newWorld(), t: t, used: map[string]bool{}, hopeless: map[string]bool{}, tasks: map[string]messages.TaskState{},
		orphans: map[string]bool{}, fingerprints: map[string]uint64{}, past: map[string]map[uint64]bool{}}
	exchange := rapid.SampledFrom([]messages.Partitioning{messages.Partitioning_HASH, messages.Partitioning_FORWARD}).Draw(t, "exchange")
	s.graph = &messages.JobGraph{Name: "test", Parallelism: 2, Operators: []*messages.OperatorSpec{
		{Uid: "src", Source: true, NeverChain: true},
		{Uid: "out", Sink: true, Inputs: []*messages.OperatorInput{{Uid: "src", Partitioning: exchange}}},
	}}
	s.settings = &messages.JobSettings{
		Checkpointing: &messages.CheckpointConfig{IntervalMs: 500, TimeoutMs: 3000, MaxConcurrent: uint32(rapid.IntRange(1, 2).Draw(t, "concurrent")),
			NumRetained: 2, AfterTasksFinish: true, TolerableFailures: 1, Retention: messages.Retention_RETAIN_ON_CANCELLATION},
		Restart: DefaultRestart(),
	}
	if rapid.Bool().Draw(t, "asks for slots") {
		s.agent, s.nodes = "n1|agent", nil
	}
	s.apply(&messages.MetadataCommand{Command: &messages.MetadataCommand_RegisterJob{RegisterJob: &messages.RegisterJob{Job: testJob}}})
	s.coordinator(false)
	return s
}

// coordinator starts one, as after a crash of the one before, with its tasks or without.
func (s *simulation) coordinator(tasksRemain bool) {
	m, err := NewMaster(MasterConfig{Job: testJob, Node: "n1", Graph: s.graph, Settings: s.settings, Nodes: s.nodes, Agent: s.agent})
	if err != nil {
		s.t.Fatal(err)
	}
	s.master, s.work, s.timers, s.inbox = m, nil, nil, nil
	for _, address := range s.addresses() {
		if !tasksRemain || s.tasks[address] == messages.TaskState_TASK_DEPLOYING { // the order was on its way
			delete(s.tasks, address)
		} else {
			s.orphans[address] = true
		}
	}
	s.carry(m.Start(s.nowMs, 0))
}

func (s *simulation) send(m proto.Message) { s.carry(s.master.Step(s.nowMs, 0, m)) }

// carry collects the effects and checks deployments.
func (s *simulation) carry(e *protocol.Effects) {
	s.work = append(s.work, e.Work...)
	for _, t := range e.Timers {
		s.timers = slices.DeleteFunc(s.timers, func(a armed) bool { return a.timer.Key == t.Key })
		if !t.Cancel {
			s.timers = append(s.timers, armed{timer: t, atMs: s.nowMs + t.DelayMs})
		}
	}
	for _, event := range e.Events {
		if a, ok := event.(Adopted); ok {
			s.adopted(a)
		}
	}
	for _, out := range e.Send {
		if d, ok := out.Message.(*messages.Deploy); ok {
			s.deployment(d)
		}
		s.inbox = append(s.inbox, out)
	}
	switch {
	case errors.Is(e.Fail, ErrStoreUnavailable):
		s.ended = false
		s.coordinator(false) // the next one goes on, and nobody has asked it to end
	case e.Fail != nil:
		s.t.Fatalf("the Master failed: %v", e.Fail)
	}
}

func (s *simulation) deployment(d *messages.Deploy) {
	address := string(TaskAddress("n1", d.Fence, d.Task))
	if s.used[address] {
		return // repeated
	}
	s.used[address] = true
	var newest uint64
	record := s.store.Job(testJob)
	for _, c := range record.Completed {
		newest = max(newest, c.Checkpoint)
	}
	if d.Restore.GetCheckpoint() != newest {
		s.t.Fatalf("%s restores checkpoint %d, but %d is the newest on record", address, d.Restore.GetCheckpoint(), newest)
	}
	for _, w := range s.work {
		if p, ok := w.Task.(*messages.Propose); ok && p.Command.GetRecordCompletion() != nil {
			s.t.Fatalf("%s is deployed while a completion is outstanding", address)
		}
	}
	region := func(id *messages.TaskId) int { return s.master.regions.of[s.master.indexOf(id)] }
	for other, state := range s.tasks {
		id, attempt := parseAddress(other)
		switch {
		case attempt == d.Fence.Attempt || terminal(state) || s.orphans[other]:
		case region(id) == region(d.Task):
			s.t.Fatalf("%s is deployed while %s is %s", address, other, state)
		default:
			s.alone++
		}
	}
	s.tasks[address] = messages.TaskState_TASK_DEPLOYING
	s.fingerprints[address] = d.Fingerprint
	s.past[address] = map[uint64]bool{newest: true}
}

func (s *simulation) adopted(a Adopted) {
	s.takeovers++
	newest := uint64(0)
	for _, c := range s.store.Job(testJob).Completed {
		newest = max(newest, c.Checkpoint)
	}
	if a.Checkpoint != newest {
		s.t.Fatalf("%s; %d is the newest on record", a, newest)
	}
	for _, e := range s.master.tasks {
		if past := s.past[string(e.address)]; !past[newest] && !e.terminal() {
			s.t.Fatalf("%s; %d is the newest on record, the past of %s has %v", a, newest, e.address, past)
		}
		if _, known := s.tasks[string(e.address)]; !known {
			s.t.Fatalf("%s, and %s is none", a, e.address)
		}
		delete(s.orphans, string(e.address))
	}
}

// tellTasks answers for the task manager, and for its tasks; some answers are lost.
func (s *simulation) tellTasks(m *messages.AdoptTasks) {
	list := &messages.AdoptableTasks{Fence: m.Fence, Node: "n1"}
	var accounts []*messages.TaskAccount
	for _, address := range s.addresses() {
		task, attempt := parseAddress(address)
		state := s.tasks[address]
		switch {
		case state == messages.TaskState_TASK_DEPLOYING:
			continue
		case terminal(state) && (attempt == m.Fence.Attempt || slices.Contains(m.Attempts, attempt)):
			list.Tasks = append(list.Tasks, &messages.AdoptableTask{Task: task, Attempt: attempt, Ended: state})
		case !terminal(state):
			list.Tasks = append(list.Tasks, &messages.AdoptableTask{Task: task, Attempt: attempt, Fingerprint: s.fingerprints[address]})
			a := &messages.TaskAccount{Fence: &messages.Fence{Job: testJob, Epoch: m.Fence.Epoch, Attempt: attempt}, Task: task, State: state}
			if s.past[address][m.Completed] {
				a.Completed = m.Completed
			}
			accounts = append(accounts, a)
		}
	}
	s.send(list)
	for _, a := range accounts {
		if rapid.IntRange(0, 9).Draw(s.t, "account") > 0 {
			s.send(a)
		}
	}
}

// parseAddress reads n1|task/job/vertex/subtask/attempt.
func parseAddress(address string) (task *messages.TaskId, attempt uint32) {
	parts := strings.Split(address, "/")
	task = &messages.TaskId{Vertex: parts[2]}
	fmt.Sscan(parts[3], &task.Subtask)
	fmt.Sscan(parts[4], &attempt)
	return task, attempt
}

func (s *simulation) misbehave() {
	chance := func(n int) bool { return rapid.IntRange(1, n).Draw(s.t, "chance") == 1 }
	switch rapid.SampledFrom([]string{"answer", "answer", "answer", "deliver", "deliver", "deliver", "drop", "time", "time", "fail", "crash", "crash", "end", "slots"}).Draw(s.t, "what") {
	case "answer":
		for range rapid.IntRange(1, 4).Draw(s.t, "many") {
			if len(s.work) > 0 {
				s.complete(rapid.IntRange(0, len(s.work)-1).Draw(s.t, "which"), rapid.IntRange(0, 15).Draw(s.t, "how"))
			}
		}
	case "deliver":
		for range rapid.IntRange(1, 8).Draw(s.t, "many") {
			s.deliver()
		}
	case "drop":
		if len(s.inbox) > 0 {
			s.inbox = s.inbox[1:]
		}
	case "time":
		s.pass(int64(rapid.SampledFrom([]int{1, 50, 500, 1000, 4000}).Draw(s.t, "ms")))
	case "fail":
		for _, address := range s.addresses() {
			if !terminal(s.tasks[address]) && chance(3) {
				s.hopeless[address] = chance(20)
				s.becomes(address, messages.TaskState_TASK_FAILED)
				return
			}
		}
	case "crash":
		if chance(4) && !s.ended {
			s.coordinator(!chance(3))
		}
	case "slots":
		if s.poor = chance(3); chance(6) {
			s.lose()
		}
	case "end":
		if chance(40) {
			s.ended = true
			s.send(rapid.SampledFrom([]proto.Message{&messages.CancelJob{Job: testJob}, &messages.SuspendJob{Job: testJob}}).Draw(s.t, "end"))
		}
	}
}

// complete answers the i-th outstanding work: mostly well, sometimes with a
// failure or an unknown outcome.
func (s *simulation) complete(i, how int) {
	w := s.work[i]
	s.work = slices.Delete(s.work, i, i+1)
	a := &messages.WorkDone{}
	_, proposal := w.Task.(*messages.Propose)
	unknown := &messages.WorkDone_Metadata{Metadata: &messages.MetadataResult{Outcome: messages.MetadataOutcome_UNKNOWN}}
	_, load := w.Task.(*messages.LoadCheckpoint)
	_, discover := w.Task.(*messages.DiscoverSplits)
	switch {
	case how == 0 && proposal: // lost on its way
		a.Result = unknown
	case how == 1 && proposal: // applied, its answer lost
		s.perform(w.Task)
		a.Result = unknown
	case how == 2 && !load && !discover: // these end a job that starts
		a.Failure, a.Io = "no luck", true
	default:
		a = s.perform(w.Task)
	}
	a.Op = w.Op
	s.send(a)
}

func (s *simulation) addresses() []string {
	var all []string
	for a := range s.tasks {
		all = append(all, a)
	}
	slices.Sort(all)
	return all
}

// deliver lets a task, or its task manager, have its next message.
func (s *simulation) deliver() {
	if len(s.inbox) == 0 {
		return
	}
	out := s.inbox[0]
	s.inbox = s.inbox[1:]
	switch m := out.Message.(type) {
	case *messages.Deploy:
		if a := string(TaskAddress("n1", m.Fence, m.Task)); s.tasks[a] == messages.TaskState_TASK_DEPLOYING {
			s.becomes(a, messages.TaskState_TASK_RUNNING)
		} else if _, known := s.tasks[a]; known {
			s.report(a)
		}
	case *messages.CancelTask:
		if a := string(TaskAddress("n1", m.Fence, m.Task)); !terminal(s.tasks[a]) {
			s.becomes(a, messages.TaskState_TASK_CANCELED)
		} else {
			s.report(a)
		}
	case *messages.AdoptTasks:
		s.tellTasks(m)
	case *messages.SlotRequest:
		o := &messages.SlotOffer{Job: m.Job, Epoch: m.Epoch, Nodes: []*messages.NodeSlots{{Node: "n1", Slots: 2}}}
		if s.poor {
			o.Nodes[0].Slots, o.Missing = 1, "one slot is missing"
		}
		s.send(o)
	case *messages.TriggerCheckpoint:
		r := s.master.regions
		for _, e := range slices.Clone(s.master.tasks) {
			if s.tasks[string(e.address)] == messages.TaskState_TASK_RUNNING && e.attempt() == m.Fence.Attempt && r.of[e.index] == r.of[s.master.indexOf(m.Task)] {
				s.past[string(e.address)][m.Checkpoint] = true
				s.send(&messages.AcknowledgeCheckpoint{Fence: m.Fence, Task: e.task, Checkpoint: m.Checkpoint, Metrics: &messages.CheckpointMetrics{}})
			}
		}
	}
}

// lose ends the node of all tasks, which is there again under the same name.
func (s *simulation) lose() {
	for address, state := range s.tasks {
		if !terminal(state) {
			s.tasks[address] = messages.TaskState_TASK_FAILED
		}
	}
	s.send(&messages.NodeLost{Node: "n1", Reason: "its process has ended"})
}

func (s *simulation) becomes(address string, state messages.TaskState) {
	s.tasks[address] = state
	s.report(address)
}

func (s *simulation) report(address string) {
	task, attempt := parseAddress(address)
	r := &messages.TaskStateChanged{Fence: &messages.Fence{Job: testJob, Epoch: s.master.epoch, Attempt: attempt}, Task: task, State: s.tasks[address]}
	if s.hopeless[address] {
		r.Failure = &messages.Failure{NoRestart: true}
	}
	s.send(r)
}

// pass lets time go by; task managers are heard in between.
func (s *simulation) pass(ms int64) {
	for end := s.nowMs + ms; ; {
		due := -1
		for i, a := range s.timers {
			if a.atMs <= end && (due < 0 || a.atMs < s.timers[due].atMs) {
				due = i
			}
		}
		if due < 0 {
			s.nowMs = end
			return
		}
		a := s.timers[due]
		s.timers = slices.Delete(s.timers, due, due+1)
		s.nowMs = max(s.nowMs, a.atMs)
		h := &messages.Heartbeat{Node: "n1", Fence: s.master.fence()}
		for _, e := range s.master.tasks {
			h.Tasks, h.Attempts = append(h.Tasks, e.task), append(h.Attempts, e.attempt())
		}
		s.send(h)
		s.send(&messages.TimerFired{Key: a.timer.Key, Generation: a.timer.Generation})
	}
}

// heal lets everything work for a while: the job must run and complete
// checkpoints, or have ended.
func (s *simulation) heal() {
	last := s.store.Job(testJob).LastCompleted
	s.poor = false
	for range 1000 {
		for len(s.work) > 0 || len(s.inbox) > 0 {
			for len(s.work) > 0 {
				s.complete(0, 15)
			}
			s.deliver()
		}
		if s.master.Done() {
			if !s.ended && s.master.Status() != messages.JobStatus_FAILED {
				s.t.Fatalf("the job ended by itself: %s", s.master)
			}
			// Who left without an answer does not know whether the end was recorded;
			// who claimed no epoch, because it was, has ended nothing.
			if got := s.store.Job(testJob).Status; got != s.master.Status() && !s.master.left && s.master.Epoch() > 0 {
				s.t.Fatalf("the job ended as %s, on record as %s: %v", s.master.Status(), got, s.master.failure)
			}
			return
		}
		if !s.ended && s.master.Status() == messages.JobStatus_RUNNING && s.store.Job(testJob).LastCompleted > last {
			return
		}
		s.pass(500)
	}
	s.t.Fatalf("nothing moves: %s\n%s", s.master, s.master.coordinator)
}
