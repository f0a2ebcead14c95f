package subtask_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"cutwater/messages"
	"cutwater/protocol/barrier"
	"cutwater/protocol/subtask"
)

// Gates and tasks together, on FIFO channels in a random order of events, with
// overlapping checkpoints, aborts and lost notifications: two sources feed two
// counters, which feed a sink. Every completed checkpoint is a consistent cut (each
// task has counted exactly the records that the sources' snapshots say were sent),
// and after the end of data every task finishes, with a completed final checkpoint.
func TestConsistentCuts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := newNetwork(t)
		for step := 0; !n.done(); step++ {
			if step == 20000 {
				t.Fatalf("no end: %v", n)
			}
			choices := n.choices()
			if len(choices) == 0 {
				t.Fatalf("deadlock: %v", n)
			}
			choices[rapid.IntRange(0, len(choices)-1).Draw(t, "choice")]()
		}
	})
}

// counts is the state of a task: how many records of each source it has sent or seen.
type counts [2]int

// item is a message in band: a record of a source, or a control message.
type item struct {
	kind       string // record, barrier, cancel, end-of-data, end-of-partition
	source     int
	checkpoint uint64
}

type link struct {
	from, to *node
	channel  uint32
	queue    []item
	blocked  bool
}

// node is a task with its machines.
type node struct {
	name    string
	source  int // its number, or -1
	left    int // records that a source has still to send
	turn    int
	task    *subtask.Subtask
	gate    *barrier.Gate
	in, out []*link
	// ends counts ends of data that came, consumed those that consumers processed.
	ends, ended, consumed int
	state                 counts
	// final is the first checkpoint that the task took after its end of data.
	final     uint64
	snapshots map[uint64]counts
	async     []uint64
	mail      []func()
	finished  bool
}

// pending is a checkpoint of the test's coordinator.
type pending struct {
	waiting map[*node]bool
	cut     map[*node]counts
}

type network struct {
	t         *rapid.T
	nodes     []*node // sources, counters, sink
	nowMs     int64
	last      uint64
	latest    uint64 // completed
	pending   map[uint64]*pending
	abortions int
}

func newNetwork(t *rapid.T) *network {
	n := &network{t: t, pending: map[uint64]*pending{}, abortions: rapid.IntRange(0, 5).Draw(t, "aborts")}
	for i, name := range []string{"source-0", "source-1", "counter-0", "counter-1", "sink"} {
		nd := &node{name: name, source: -1, snapshots: map[uint64]counts{}}
		if i < 2 {
			nd.source = i
			nd.left = rapid.IntRange(0, 8).Draw(t, "records")
		}
		n.nodes = append(n.nodes, nd)
	}
	for _, from := range n.nodes[:2] {
		n.connect(from, n.nodes[2])
		n.connect(from, n.nodes[3])
	}
	n.connect(n.nodes[2], n.nodes[4])
	n.connect(n.nodes[3], n.nodes[4])
	for _, nd := range n.nodes {
		nd.gate = barrier.NewAligned(len(nd.in), true)
		nd.task = subtask.New(subtask.Config{
			Task: &messages.TaskId{Vertex: nd.name}, Source: nd.source >= 0, FinalCheckpoint: true,
		})
		nd.task.Running()
	}
	return n
}

func (n *network) connect(from, to *node) {
	l := &link{from: from, to: to, channel: uint32(len(to.in))}
	from.out = append(from.out, l)
	to.in = append(to.in, l)
}

func (n *network) done() bool {
	return !slices.ContainsFunc(n.nodes, func(nd *node) bool { return !nd.finished })
}

func (n *network) String() string {
	text := ""
	for _, nd := range n.nodes {
		text += fmt.Sprintf("\n%s: %v; %v", nd.name, nd.task, nd.gate)
	}
	return text
}

// choices lists what may happen next.
func (n *network) choices() []func() {
	var next []func()
	for _, nd := range n.nodes {
		if len(nd.mail) > 0 {
			next = append(next, func() {
				mail := nd.mail[0]
				nd.mail = nd.mail[1:]
				mail()
			})
		}
		for _, id := range nd.async {
			next = append(next, func() { n.asyncDone(nd, id) })
		}
		if nd.source >= 0 && nd.task.Phase() == subtask.Running {
			next = append(next, func() { n.poll(nd) })
		}
		for _, l := range nd.in {
			if len(l.queue) > 0 && !l.blocked {
				next = append(next, func() { n.deliver(l) })
			}
		}
	}
	if len(n.pending) < 2 {
		next = append(next, n.trigger)
	}
	if n.abortions > 0 && len(n.pending) > 0 {
		next = append(next, func() {
			n.abortions--
			n.abort(rapid.SampledFrom(n.ids()).Draw(n.t, "abort"))
		})
	}
	return next
}

// ids lists the pending checkpoints in ascending order.
func (n *network) ids() []uint64 {
	var ids []uint64
	for id := range n.pending {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// poll sends the next record of a source, or ends it.
func (n *network) poll(nd *node) {
	if nd.left == 0 {
		n.endOfData(nd)
		return
	}
	nd.left--
	n.record(nd, nd.source)
}

func (n *network) record(nd *node, source int) {
	nd.state[source]++
	if len(nd.out) > 0 {
		nd.turn++
		nd.out[nd.turn%len(nd.out)].send(item{kind: "record", source: source})
	}
}

func (l *link) send(i item) {
	if !l.to.finished {
		l.queue = append(l.queue, i)
	}
}

func (n *network) broadcast(nd *node, i item) {
	for _, l := range nd.out {
		l.send(i)
	}
}

func (n *network) endOfData(nd *node) {
	n.broadcast(nd, item{kind: "end-of-data"})
	n.run(nd, nd.task.EndOfData(n.nowMs, true))
	n.run(nd, nd.task.OperatorsQuiescent(true))
	if len(nd.out) == 0 {
		n.run(nd, nd.task.OutputsConsumed())
	}
}

func (n *network) deliver(l *link) {
	nd, i := l.to, l.queue[0]
	l.queue = l.queue[1:]
	switch i.kind {
	case "record":
		n.record(nd, i.source)
	case "barrier":
		n.obey(nd, nd.gate.Barrier(n.nowMs, l.channel, &messages.Barrier{Checkpoint: i.checkpoint}))
	case "cancel":
		n.obey(nd, nd.gate.Cancel(n.nowMs, l.channel, i.checkpoint))
	case "end-of-data":
		if nd.ends++; nd.ends == len(nd.in) {
			n.endOfData(nd)
		}
		if l.from.consumed++; l.from.consumed == len(l.from.out) {
			n.run(l.from, l.from.task.OutputsConsumed())
		}
	case "end-of-partition":
		n.obey(nd, nd.gate.EndOfPartition(n.nowMs, l.channel))
		if nd.ended++; nd.ended == len(nd.in) {
			n.run(nd, nd.task.EndOfInput())
		}
	}
}

// obey carries the gate's actions out.
func (n *network) obey(nd *node, a *barrier.Actions) {
	for _, abort := range a.Aborts {
		n.run(nd, nd.task.AbortOnBarrier(abort))
	}
	if a.Trigger != nil {
		n.run(nd, nd.task.CheckpointState(n.nowMs, a.Trigger))
	}
	for _, c := range a.Block {
		nd.in[c].blocked = true
	}
	for _, c := range a.Unblock {
		nd.in[c].blocked = false
	}
}

// run carries the machine's steps out.
func (n *network) run(nd *node, a *subtask.Actions) {
	for _, s := range a.Steps {
		switch s := s.(type) {
		case subtask.BroadcastBarrier:
			n.broadcast(nd, item{kind: "barrier", checkpoint: s.Checkpoint})
		case subtask.BroadcastCancel:
			n.broadcast(nd, item{kind: "cancel", checkpoint: s.Checkpoint})
		case subtask.SyncSnapshot:
			nd.snapshots[s.Checkpoint] = nd.state
			if nd.final == 0 && nd.task.Phase() == subtask.Ended {
				nd.final = s.Checkpoint
			}
			n.run(nd, nd.task.SyncDone(n.nowMs, s.Checkpoint))
		case subtask.StartAsync:
			nd.async = append(nd.async, s.Checkpoint)
		case subtask.Send:
			n.answer(nd, s)
		case subtask.Finish:
			if nd.final == 0 || n.latest < nd.final {
				n.t.Fatalf("%s finishes; its final checkpoint is %d, the latest completed %d", nd.name, nd.final, n.latest)
			}
			n.broadcast(nd, item{kind: "end-of-partition"})
			nd.finished = true
			n.run(nd, nd.task.Close())
		case subtask.Fail:
			n.t.Fatalf("%s fails: %v", nd.name, s.Err)
		}
	}
}

func (n *network) asyncDone(nd *node, id uint64) {
	nd.async = slices.DeleteFunc(nd.async, func(other uint64) bool { return other == id })
	n.run(nd, nd.task.AsyncDone(n.nowMs, id, nil, subtask.Sizes{}))
}

// trigger starts a checkpoint at the running tasks that have no running predecessor.
func (n *network) trigger() {
	n.last++
	id := n.last
	p := &pending{waiting: map[*node]bool{}, cut: map[*node]counts{}}
	n.pending[id] = p
	for _, nd := range n.nodes {
		if nd.finished {
			p.cut[nd] = nd.state
			continue
		}
		p.waiting[nd] = true
		if slices.ContainsFunc(nd.in, func(l *link) bool { return !l.from.finished }) {
			continue
		}
		nd.mail = append(nd.mail, func() {
			if nd.source >= 0 {
				n.run(nd, nd.task.CheckpointState(n.nowMs, &barrier.Trigger{Checkpoint: id}))
			} else {
				n.obey(nd, nd.gate.TriggerOnUnfinished(n.nowMs, &messages.TriggerCheckpoint{Checkpoint: id}))
			}
		})
	}
}

func (n *network) answer(nd *node, s subtask.Send) {
	switch m := s.Message.(type) {
	case *messages.DeclineCheckpoint:
		n.abort(m.Checkpoint)
	case *messages.AcknowledgeCheckpoint:
		p := n.pending[m.Checkpoint]
		if p == nil {
			return
		}
		delete(p.waiting, nd)
		p.cut[nd] = nd.snapshots[m.Checkpoint]
		if len(p.waiting) == 0 {
			n.complete(m.Checkpoint, p)
		}
	}
}

func (n *network) complete(id uint64, p *pending) {
	delete(n.pending, id)
	n.latest = max(n.latest, id)
	for source := range n.nodes[:2] {
		sent := p.cut[n.nodes[source]][source]
		counted := p.cut[n.nodes[2]][source] + p.cut[n.nodes[3]][source]
		if arrived := p.cut[n.nodes[4]][source]; sent != counted || counted != arrived {
			n.t.Fatalf("checkpoint %d is no cut: source %d sent %d, %d were counted, %d arrived",
				id, source, sent, counted, arrived)
		}
	}
	for _, older := range n.ids() {
		if older < id {
			n.abort(older) // subsumed
		}
	}
	n.notify(func(nd *node) *subtask.Actions {
		return nd.task.NotifyComplete(&messages.NotifyCheckpointComplete{Checkpoint: id})
	})
}

func (n *network) abort(id uint64) {
	if n.pending[id] == nil {
		return
	}
	delete(n.pending, id)
	latest := n.latest
	n.notify(func(nd *node) *subtask.Actions {
		return nd.task.NotifyAborted(&messages.NotifyCheckpointAborted{Checkpoint: id, LatestCompleted: latest})
	})
}

// notify mails all tasks; some notifications are lost.
func (n *network) notify(deliver func(*node) *subtask.Actions) {
	for _, nd := range n.nodes {
		if rapid.IntRange(0, 5).Draw(n.t, "lost") > 0 {
			nd.mail = append(nd.mail, func() { n.run(nd, deliver(nd)) })
		}
	}
}
