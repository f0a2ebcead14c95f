package job

import (
	"fmt"
	"slices"
	"strings"

	"cutwater/messages"
)

// In a cluster the Master asks a dispatcher for slots, each second of its life and
// through the agent of its node, which knows where the dispatcher is. The last offer
// is what the next attempt may use; what runs is left where it is. An attempt that
// lacks slots waits for as long as it takes: somebody has to start a node, and must
// not be answered with a failure meanwhile.

// never is a time at which nothing has come.
const never = -1

// slots is how the Master stands with the dispatcher.
type slots struct {
	asks    bool             // SlotRequests are sent
	term    uint64           // the highest term of a dispatcher of which was heard
	offer   uint64           // the number of the newest offer of that term
	missing string           // what the last offer lacks, as it says
	offerMs int64            // elapsedMs when it came
	lost    map[string]int64 // nodes that NodeLost named, and elapsedMs then
	said    string           // the last WaitingForSlots of this wait
}

// Waiting says why an attempt that lacks slots is not deployed, in one sentence; it is
// empty when none is waiting.
func (m *Master) Waiting() string {
	has, needs := m.slotsOffered(), slotsNeeded(m.plan)
	switch {
	case m.phase != acquiring:
		return ""
	case m.slots.offerMs == never || m.elapsedMs-m.slots.offerMs >= m.config.HeartbeatTimeoutMs:
		return "no dispatcher answers yet"
	case m.slots.missing != "":
		return m.slots.missing
	}
	return fmt.Sprintf("%d of %d slots are left of the last offer; the next one is asked for", has, needs)
}

// acquire deploys the attempt, or waits until there are slots for it.
func (m *Master) acquire() {
	if m.config.Agent == "" || m.enoughSlots() {
		m.deploy()
		return
	}
	if m.phase != acquiring {
		m.phase, m.slots.said = acquiring, ""
		m.requestSlots()
	}
	if why := m.Waiting(); why != m.slots.said {
		m.slots.said = why
		m.event(WaitingForSlots{Why: why})
	}
}

// askForSlots begins to ask, which ends with the job.
func (m *Master) askForSlots() {
	m.slots.asks = true
	m.requestSlots()
	m.arm(slotsTimer, tickMs)
}

func (m *Master) slotsTick() {
	if m.phase == over {
		return
	}
	m.askForSlots()
	if m.phase == acquiring {
		m.acquire()
	}
}

func (m *Master) requestSlots() {
	m.send(m.config.Agent, &messages.SlotRequest{Job: m.config.Job, Epoch: m.epoch, Coordinator: string(m.self),
		Wanted: uint32(slotsNeeded(m.plan)), Held: m.slotsHeld(), Term: m.slots.term, Offer: m.slots.offer})
}

// slotInquiry tells a new dispatcher which slots are in use. What the one before has
// offered beyond that is void from now on: the new one does not know of it, and may give
// it to others (protocol/dispatch has the race).
func (m *Master) slotInquiry(q *messages.SlotInquiry) {
	if m.config.Agent == "" || q.Term < m.slots.term || m.phase == over {
		m.drop("slot inquiry")
		return
	}
	held := m.slotsHeld()
	if q.Term > m.slots.term {
		m.slots.term, m.slots.offer = q.Term, 0
		m.offered(held)
	}
	if m.slots.asks {
		m.requestSlots()
	}
}

// slotsHeld is what must not be given to others: what tasks are in, and between two
// attempts the offer that waits for the next one. An offer that is not enough is not
// held: two jobs that keep their halves keep each other from running.
func (m *Master) slotsHeld() (held []*messages.NodeSlots) {
	if m.takeover != nil {
		return m.takeover.deployment.Slots
	}
	if m.failed != nil && m.phase != stopping {
		if next, err := m.place(); err == nil {
			return next.slots()
		}
	}
	if !m.live() {
		if m.slotsOffered() >= slotsNeeded(m.plan) {
			for _, n := range m.config.Nodes {
				held = append(held, &messages.NodeSlots{Node: n.Name, Slots: uint32(n.Slots)})
			}
		}
		return held
	}
	return m.slotsOf(func(e *execution) bool { return !e.terminal() })
}

// slotsOf counts the slots that such tasks are in.
func (m *Master) slotsOf(such func(*execution) bool) (slots []*messages.NodeSlots) {
	counted := make(map[uint32]bool) // the slots, by subtask
	for _, e := range m.tasks {
		if !such(e) || counted[e.task.Subtask] {
			continue
		}
		counted[e.task.Subtask] = true
		i := slices.IndexFunc(slots, func(s *messages.NodeSlots) bool { return s.Node == e.node })
		if i < 0 {
			i, slots = len(slots), append(slots, &messages.NodeSlots{Node: e.node})
		}
		slots[i].Slots++
	}
	return slots
}

// slotsOffered counts the slots of the nodes.
func (m *Master) slotsOffered() (n int) {
	for _, node := range m.config.Nodes {
		n += node.Slots
	}
	return n
}

// offered is what the next attempt may use. Nodes that were lost a moment ago are left
// out: whoever names them has not noticed.
func (m *Master) offered(slots []*messages.NodeSlots) {
	m.config.Nodes = nil
	for _, n := range slots {
		if _, lost := m.slots.lost[n.Node]; !lost {
			m.config.Nodes = append(m.config.Nodes, Node{Name: n.Node, Slots: int(n.Slots)})
		}
	}
}

// slotOffer takes what a dispatcher grants. One that is new is confirmed: what it takes
// away is free for others then.
func (m *Master) slotOffer(o *messages.SlotOffer) {
	older := o.Term < m.slots.term || o.Term == m.slots.term && o.Number < m.slots.offer
	if m.config.Agent == "" || o.Job != m.config.Job || o.Epoch != m.epoch || older || m.phase == over {
		m.drop("slot offer")
		return
	}
	news := o.Number != m.slots.offer
	m.slots.term, m.slots.offer = o.Term, o.Number
	m.slots.missing, m.slots.offerMs = o.Missing, m.elapsedMs
	for node, at := range m.slots.lost { // the order has no effect
		if m.elapsedMs-at >= m.config.HeartbeatTimeoutMs || !slices.ContainsFunc(o.Nodes, func(n *messages.NodeSlots) bool { return n.Node == node }) {
			delete(m.slots.lost, node)
		}
	}
	m.offered(o.Nodes)
	if m.phase == acquiring {
		m.acquire()
	}
	m.takeoverOffered(o)
	if news && m.phase != over {
		m.requestSlots()
	}
}

// nodeLost gives up the tasks of a node that is gone, and its slots.
func (m *Master) nodeLost(l *messages.NodeLost) {
	offers := func(n Node) bool { return n.Name == l.Node }
	runs := func(e *execution) bool { return e.node == l.Node && !e.terminal() }
	if slices.ContainsFunc(m.config.Nodes, offers) || slices.ContainsFunc(m.tasks, runs) {
		m.event(NodeLost{Node: l.Node})
	}
	if m.config.Agent != "" {
		m.slots.lost[l.Node] = m.elapsedMs
		m.config.Nodes = slices.DeleteFunc(m.config.Nodes, offers)
	}
	m.failTasksOn(l.Node, strings.TrimSuffix("its node is lost: "+l.Reason, ": "))
	m.nodeGone(l.Node, "node "+l.Node+" is lost")
}
