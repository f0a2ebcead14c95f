package dispatch_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"cutwater/messages"
	"cutwater/protocol"
	"cutwater/protocol/dispatch"
	"cutwater/protocol/job"
	"cutwater/protocol/metadata"
)

// TestRandomClusters lets nodes die and start again, coordinators break, the leader
// change and messages get lost, with the Masters of two jobs that need most of the
// slots, and proves that once this ends each job
//
//   - has one coordinator, the one on record, on a node that lives;
//   - runs, all its tasks on nodes that live;
//   - shares no slot with the other one, if all that dispatchers asked, and were told,
//     about slots arrived in time. Offers may be late, or lost.
func TestRandomClusters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newCluster(t)
		for range rapid.IntRange(0, 120).Draw(t, "steps") {
			c.misbehave()
		}
		c.heal()
	})
}

// cluster is three machines with two slots each, and what is on its way between them.
type cluster struct {
	t      *rapid.T
	store  metadata.Machine
	nowMs  int64
	hosts  []*host
	leader int
	term   uint64
	mail   []letter
	// confused: something that tells a dispatcher of slots was lost, or is too old.
	confused bool
}

// host is one machine.
type host struct {
	id         int
	start      int // in its name
	alive      bool
	known      bool // the others have noticed that it lives
	dispatcher *actor
	d          *dispatch.Dispatcher
	inquiry    *messages.SlotInquiry // the newest that its agent has seen
	masters    map[string]*master
	tasks      map[protocol.Address]*task
}

func (h *host) name() string { return fmt.Sprintf("n%d.%d", h.id, h.start) }

// actor has timers; when it is dead, nothing reaches it.
type actor struct {
	dead   bool
	timers map[string]alarm
	step   func(proto.Message)
}

type alarm struct {
	generation uint64
	atMs       int64
}

type master struct {
	*actor
	m *job.Master
}

type task struct {
	deploy   *messages.Deploy
	state    messages.TaskState
	reported bool
}

// letter is a message to an address, or the answer of work to who asked for it.
type letter struct {
	to     protocol.Address
	asker  *actor
	action func() proto.Message
	sentMs int64
	slots  bool // by it a dispatcher knows which slots are in use
}

// lateMs is how old a letter that is marked so may be: the next one is sent then.
const lateMs = 900

const slotsPerNode = 2

func newCluster(t *rapid.T) *cluster {
	c := &cluster{t: t, nowMs: 1000}
	for id := range 3 {
		c.hosts = append(c.hosts, &host{id: id})
		c.boot(c.hosts[id])
	}
	c.lead(0)
	for i, name := range []string{"a", "b"} {
		c.apply(&messages.MetadataCommand{Command: &messages.MetadataCommand_RegisterJob{RegisterJob: &messages.RegisterJob{
			Job: strings.Repeat(name, 32), Graph: &messages.JobGraph{Name: name, Parallelism: uint32(2 + i),
				Operators: []*messages.OperatorSpec{{Uid: "src", Source: true}}},
			Settings: &messages.JobSettings{Checkpointing: &messages.CheckpointConfig{TimeoutMs: 1000, MaxConcurrent: 1, NumRetained: 1}}}}})
	}
	return c
}

func (c *cluster) apply(command *messages.MetadataCommand) *messages.MetadataResult {
	return c.store.Apply(c.store.Index()+1, command)
}

func (c *cluster) boot(h *host) {
	h.start++
	h.alive, h.known, h.inquiry = true, false, nil
	h.masters, h.tasks = map[string]*master{}, map[protocol.Address]*task{}
}

func (c *cluster) kill(h *host) {
	h.alive, h.known = false, false
	if h.dispatcher != nil {
		h.dispatcher.dead, h.dispatcher, h.d = true, nil, nil
	}
	for _, m := range h.masters {
		m.dead = true
	}
}

// notice tells a survivor that a start of a node is over; the dispatcher hears of it
// from gossip.
func (c *cluster) notice(h *host, gone string) {
	lost := &messages.NodeLost{Node: gone, Reason: "its process has ended"}
	for _, id := range slices.Sorted(maps.Keys(h.masters)) {
		h.masters[id].step(lost)
	}
}

func (c *cluster) living() (nodes []dispatch.Node) {
	for _, h := range c.hosts {
		if h.alive && (h.known || h.id == c.leader) {
			nodes = append(nodes, dispatch.Node{Name: h.name(), Slots: slotsPerNode})
		}
	}
	return nodes
}

// gossip lets everybody notice who lives.
func (c *cluster) gossip() {
	for _, h := range c.hosts {
		h.known = h.alive
	}
	if d := c.hosts[c.leader].d; d != nil {
		c.carry(c.hosts[c.leader].dispatcher, d.SetNodes(c.nowMs, c.living()))
	}
}

// lead makes a living machine the leader; the one before may not know yet.
func (c *cluster) lead(id int) {
	h := c.hosts[id]
	if !h.alive {
		return
	}
	if old := c.hosts[c.leader]; old.dispatcher != nil {
		old.dispatcher.dead, old.dispatcher, old.d = true, nil, nil
	}
	c.leader = id
	c.term++
	d := dispatch.New(dispatch.Address(h.name()), c.term)
	a := &actor{timers: map[string]alarm{}}
	a.step = func(m proto.Message) { c.carry(a, d.Step(c.nowMs, m)) }
	h.dispatcher, h.d = a, d
	c.carry(a, d.Start(c.nowMs, c.living()))
}

// carry does what a machine asks for.
func (c *cluster) carry(a *actor, e *protocol.Effects) {
	for _, w := range e.Work {
		c.mail = append(c.mail, letter{asker: a, action: func() proto.Message { return c.work(w) }})
	}
	for _, s := range e.Send {
		c.post(s.To, s.Message)
	}
	for _, t := range e.Timers {
		if delete(a.timers, t.Key); !t.Cancel {
			a.timers[t.Key] = alarm{t.Generation, c.nowMs + t.DelayMs}
		}
	}
	if e.Fail != nil {
		a.dead = true
	}
}

func (c *cluster) post(to protocol.Address, m proto.Message) {
	l := letter{to: to, action: func() proto.Message { return m }, sentMs: c.nowMs}
	switch m.(type) {
	case *messages.SlotRequest, *messages.SlotInquiry, *messages.SlotInquiryAnswer:
		l.slots = true
	}
	c.mail = append(c.mail, l)
}

func (c *cluster) work(w protocol.Work) proto.Message {
	done := &messages.WorkDone{Op: w.Op}
	switch t := w.Task.(type) {
	case *messages.Propose:
		done.Result = &messages.WorkDone_Metadata{Metadata: c.apply(t.Command)}
	case *messages.ReadJob:
		done.Result = &messages.WorkDone_JobRecord{JobRecord: c.store.Job(t.Job)}
	case *messages.ReadJobs:
		done.Result = &messages.WorkDone_JobsRead{JobsRead: &messages.JobsRead{Jobs: c.store.Jobs()}}
	case *messages.DiscoverSplits:
		done.Result = &messages.WorkDone_SplitsDiscovered{SplitsDiscovered: &messages.SplitsDiscovered{}}
	}
	return done
}

// deliver hands a letter over.
func (c *cluster) deliver(l letter) {
	c.confused = c.confused || l.slots && c.nowMs-l.sentMs > lateMs
	if l.asker != nil {
		if m := l.action(); !l.asker.dead {
			l.asker.step(m)
		}
		return
	}
	node, name, _ := strings.Cut(string(l.to), "|")
	i := slices.IndexFunc(c.hosts, func(h *host) bool { return h.alive && h.name() == node })
	if i < 0 {
		return
	}
	h, m := c.hosts[i], l.action()
	switch kind, rest, _ := strings.Cut(name, "/"); kind {
	case "agent":
		c.agent(h, m)
	case "dispatcher":
		if h.dispatcher != nil {
			h.dispatcher.step(m)
		}
	case "coordinator":
		if coordinator := h.masters[rest]; coordinator != nil && !coordinator.dead {
			coordinator.step(m)
		}
	case "taskmanager":
		c.taskManager(h, m)
	case "task":
		if k := h.tasks[l.to]; k != nil && m.(*messages.TaskStateAck).State == k.state {
			k.reported = true
		}
	}
}

// agent does what package actors/agent and the node do.
func (c *cluster) agent(h *host, m proto.Message) {
	if q, ok := m.(*messages.SlotInquiry); ok {
		c.inquired(h, q)
		return
	}
	order, ok := m.(*messages.StartCoordinator)
	if !ok { // it may know of the newest dispatcher, or of the last that asked
		to := dispatch.Address(c.hosts[c.leader].name())
		if h.inquiry != nil && rapid.Bool().Draw(c.t, "unaware") {
			to = protocol.Address(h.inquiry.Dispatcher)
		}
		c.post(to, m)
		return
	}
	if old := h.masters[order.Job]; old != nil && !old.dead && (old.m.Epoch() == 0 || old.m.Epoch() >= order.Epoch) {
		return
	}
	record := c.store.Job(order.Job)
	if record.Epoch > order.Epoch {
		return
	}
	if h.masters[order.Job] != nil {
		h.masters[order.Job].dead = true // overtaken; here it notices at once
	}
	machine, err := job.NewMaster(job.MasterConfig{Job: order.Job, Node: h.name(), Graph: record.Graph, Settings: record.Settings,
		Agent: dispatch.AgentAddress(h.name())})
	if err != nil {
		c.t.Fatal(err)
	}
	a := &master{actor: &actor{timers: map[string]alarm{}}, m: machine}
	a.step = func(m proto.Message) { c.carry(a.actor, machine.Step(c.nowMs, 0, m)) }
	h.masters[order.Job] = a
	c.carry(a.actor, machine.Start(c.nowMs, 0))
}

func (c *cluster) inquired(h *host, q *messages.SlotInquiry) {
	if q.Term < h.inquiry.GetTerm() {
		return
	}
	h.inquiry = q
	answer := &messages.SlotInquiryAnswer{Node: h.name(), Term: q.Term}
	for _, id := range slices.Sorted(maps.Keys(h.masters)) {
		if m := h.masters[id]; !m.dead {
			c.post(job.CoordinatorAddress(h.name(), id), q)
			if m.m.Epoch() > 0 {
				answer.Coordinators = append(answer.Coordinators, &messages.JobEpoch{Job: id, Epoch: m.m.Epoch()})
			}
		}
	}
	c.post(protocol.Address(q.Dispatcher), answer)
}

// taskManager runs tasks that never end by themselves.
func (c *cluster) taskManager(h *host, m proto.Message) {
	switch m := m.(type) {
	case *messages.Deploy:
		address := job.TaskAddress(h.name(), m.Fence, m.Task)
		if h.tasks[address] == nil {
			h.tasks[address] = &task{deploy: m, state: messages.TaskState_TASK_RUNNING}
		}
		c.report(h.tasks[address])
	case *messages.CancelTask:
		address := job.TaskAddress(h.name(), m.Fence, m.Task)
		if h.tasks[address] == nil {
			h.tasks[address] = &task{deploy: &messages.Deploy{Fence: m.Fence, Task: m.Task, Coordinator: m.Coordinator}}
		}
		h.tasks[address].state, h.tasks[address].reported = messages.TaskState_TASK_CANCELED, false
		c.report(h.tasks[address])
	}
}

func (c *cluster) report(k *task) {
	report := &messages.TaskStateChanged{Fence: k.deploy.Fence, Task: k.deploy.Task, State: k.state}
	c.post(protocol.Address(k.deploy.Coordinator), report)
}

// pass lets time go by: timers fire, and each second tasks are reported and heard.
func (c *cluster) pass(ms int64) {
	for end := c.nowMs + ms; c.nowMs < end; {
		c.nowMs += 100
		for _, a := range c.actors() {
			for _, key := range slices.Sorted(maps.Keys(a.timers)) {
				if t, armed := a.timers[key]; armed && t.atMs <= c.nowMs && !a.dead {
					delete(a.timers, key)
					a.step(&messages.TimerFired{Key: key, Generation: t.generation})
				}
			}
		}
		if c.nowMs%1000 == 0 {
			c.heartbeats()
		}
	}
}

func (c *cluster) actors() (all []*actor) {
	for _, h := range c.hosts {
		if h.dispatcher != nil {
			all = append(all, h.dispatcher)
		}
		for _, id := range slices.Sorted(maps.Keys(h.masters)) {
			all = append(all, h.masters[id].actor)
		}
	}
	return all
}

func (c *cluster) heartbeats() {
	for _, h := range c.hosts {
		if !h.alive {
			continue
		}
		beats := map[string]*messages.Heartbeat{}
		for _, address := range slices.Sorted(maps.Keys(h.tasks)) {
			k := h.tasks[address]
			if !k.reported {
				c.report(k)
			}
			if k.state != messages.TaskState_TASK_RUNNING {
				continue
			}
			b := beats[k.deploy.Coordinator]
			if b == nil {
				b = &messages.Heartbeat{Node: h.name(), Fence: k.deploy.Fence}
				beats[k.deploy.Coordinator] = b
			}
			if b.Fence.Attempt < k.deploy.Fence.Attempt {
				b.Fence = k.deploy.Fence
			}
			b.Tasks, b.Attempts = append(b.Tasks, k.deploy.Task), append(b.Attempts, k.deploy.Fence.Attempt)
		}
		for _, to := range slices.Sorted(maps.Keys(beats)) {
			c.post(protocol.Address(to), beats[to])
		}
	}
}

func (c *cluster) misbehave() {
	h := c.hosts[rapid.IntRange(0, 2).Draw(c.t, "node")]
	switch rapid.SampledFrom([]string{"deliver", "deliver", "deliver", "drop", "time", "time", "kill", "boot", "gossip", "lead", "break"}).Draw(c.t, "what") {
	case "deliver":
		for range rapid.IntRange(1, 20).Draw(c.t, "many") {
			c.oneLetter(rapid.IntRange(0, 3).Draw(c.t, "which"))
		}
	case "drop":
		c.mail = slices.DeleteFunc(c.mail, func(l letter) bool {
			lost := l.asker == nil && rapid.Bool().Draw(c.t, "lost")
			c.confused = c.confused || lost && l.slots
			return lost
		})
	case "time":
		c.pass(int64(rapid.SampledFrom([]int{100, 500, 2000, 12_000}).Draw(c.t, "ms")))
	case "kill":
		if h.alive && rapid.Bool().Draw(c.t, "really") {
			c.kill(h)
			for _, other := range c.hosts {
				if other.alive && rapid.Bool().Draw(c.t, "notices") {
					c.notice(other, h.name())
				}
			}
		}
	case "boot":
		if !h.alive {
			c.boot(h)
		}
	case "gossip":
		c.gossip()
	case "lead":
		c.lead(h.id)
	case "break": // as after a broken assertion, without a successor
		for _, id := range slices.Sorted(maps.Keys(h.masters)) {
			h.masters[id].dead = true
		}
	}
}

func (c *cluster) oneLetter(i int) {
	if i < len(c.mail) {
		l := c.mail[i]
		c.mail = slices.Delete(c.mail, i, i+1)
		c.deliver(l)
	}
}

// heal lets everything work for two minutes.
func (c *cluster) heal() {
	for _, h := range c.hosts {
		if !h.alive {
			c.boot(h)
		}
	}
	if c.hosts[c.leader].d == nil {
		c.lead(c.leader)
	}
	c.gossip()
	for range 1200 {
		for len(c.mail) > 0 {
			c.oneLetter(0)
		}
		c.pass(100)
	}
	c.check()
}

func (c *cluster) check() {
	used := map[string]int{}
	for _, record := range c.store.Jobs() {
		var newest *job.Master
		for _, h := range c.hosts {
			if m := h.masters[record.Job]; m != nil && !m.dead && m.m.Epoch() == record.Epoch {
				newest = m.m
				if want := string(job.CoordinatorAddress(h.name(), record.Job)); record.Coordinator != want {
					c.t.Fatalf("job %s is coordinated at %s, on record at %s", record.Graph.Name, want, record.Coordinator)
				}
			}
		}
		if newest == nil {
			c.t.Fatalf("job %s, on record at %s in epoch %d, has no coordinator; %s", record.Graph.Name, record.Coordinator, record.Epoch, c.hosts[c.leader].d)
		}
		if record.Status != messages.JobStatus_RUNNING || newest.Status() != messages.JobStatus_RUNNING {
			c.t.Fatalf("job %s is %s on record: %s %s", record.Graph.Name, record.Status, newest, newest.Waiting())
		}
		for _, k := range newest.Tasks() {
			used[k.Node]++
			if !slices.ContainsFunc(c.hosts, func(h *host) bool { return h.name() == k.Node }) {
				c.t.Fatalf("a task of job %s runs on %s, which is gone", record.Graph.Name, k.Node)
			}
		}
	}
	for node, n := range used {
		if n > slotsPerNode && !c.confused {
			c.t.Fatalf("node %s has %d slots, and tasks in %d", node, slotsPerNode, n)
		}
	}
}
