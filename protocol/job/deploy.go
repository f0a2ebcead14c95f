package job

import (
	"fmt"

	"cutwater/messages"
	"cutwater/protocol"
)

// Node is a node that offers slots. A slot runs at most one subtask of each
// vertex.
type Node struct {
	Name  string
	Slots int
}

// CoordinatorAddress is where the coordinator of a job is reached.
func CoordinatorAddress(node, job string) protocol.Address {
	return protocol.Address(node + "|coordinator/" + job)
}

// TaskManagerAddress is where the task manager of a node is reached.
func TaskManagerAddress(node string) protocol.Address {
	return protocol.Address(node + "|taskmanager")
}

// TaskAddress is where a task is reached.
func TaskAddress(node string, f *messages.Fence, t *messages.TaskId) protocol.Address {
	return protocol.Address(fmt.Sprintf("%s|task/%s/%s/%d/%d", node, f.GetJob(), t.GetVertex(), t.GetSubtask(), f.GetAttempt()))
}

// slotsNeeded is how many slots a plan fills.
func slotsNeeded(plan *messages.ExecutionPlan) (n int) {
	for _, v := range plan.Vertices {
		n = max(n, int(v.Parallelism))
	}
	return n
}

// execution is one task in its current attempt.
type execution struct {
	task     *messages.TaskId
	index    int // in Master.tasks
	vertex   int // index in the plan
	node     string
	address  protocol.Address
	state    messages.TaskState
	reported bool // a TaskStateChanged arrived: Deploy is not resent
	ended    bool // end of data
	missing  int  // heartbeats in a row that did not list it
	deploy   *messages.Deploy
}

func (e *execution) terminal() bool { return terminal(e.state) }

// attempt is the task's own: those of other regions may have others.
func (e *execution) attempt() uint32 { return e.deploy.Fence.Attempt }

func terminal(s messages.TaskState) bool {
	switch s {
	case messages.TaskState_TASK_FINISHED, messages.TaskState_TASK_CANCELED, messages.TaskState_TASK_FAILED:
		return true
	}
	return false
}

// wiring numbers the channels of a plan. A receiver numbers its inputs, and a
// sender its outputs, by edge in the order of the plan and then by the subtask at
// the other end.
type wiring struct {
	plan    *messages.ExecutionPlan
	vertex  map[string]*messages.Vertex
	address func(vertex string, subtask uint32) protocol.Address
}

func newWiring(plan *messages.ExecutionPlan, address func(vertex string, subtask uint32) protocol.Address) *wiring {
	w := &wiring{plan: plan, vertex: make(map[string]*messages.Vertex, len(plan.Vertices)), address: address}
	for _, v := range plan.Vertices {
		w.vertex[v.Id] = v
	}
	return w
}

// width is how many channels of the edge a task has at its end, when the vertex
// at the other end has this parallelism.
func width(e *messages.PlanEdge, parallelism uint32) uint32 {
	if e.Partitioning == messages.Partitioning_FORWARD {
		return 1
	}
	return parallelism
}

// connect sets the edges, inputs and outputs of a task.
func (w *wiring) connect(d *messages.Deploy) {
	v, subtask := d.Vertex, d.Task.Subtask
	for _, e := range w.plan.Edges {
		if e.To == v.Id {
			first := w.offset(e, func(o *messages.PlanEdge) (string, uint32) { return o.From, w.vertex[o.To].Parallelism })
			w.peers(e, subtask, w.vertex[e.From].Parallelism, func(from uint32) {
				d.Inputs = append(d.Inputs, &messages.InputChannel{
					Input:        e.ToInput,
					Sender:       string(w.address(e.From, from)),
					SenderOutput: first + at(e, subtask),
				})
			})
		}
		if e.From == v.Id {
			first := w.offset(e, func(o *messages.PlanEdge) (string, uint32) { return o.To, w.vertex[o.From].Parallelism })
			w.peers(e, subtask, w.vertex[e.To].Parallelism, func(to uint32) {
				d.Outputs = append(d.Outputs, &messages.OutputChannel{
					Edge:            uint32(len(d.Edges)),
					Receiver:        string(w.address(e.To, to)),
					ReceiverChannel: first + at(e, subtask),
				})
			})
			d.Edges = append(d.Edges, e)
		}
	}
}

// peers calls f for each subtask at the other end of the edge.
func (w *wiring) peers(e *messages.PlanEdge, subtask, parallelism uint32, f func(peer uint32)) {
	if e.Partitioning == messages.Partitioning_FORWARD {
		f(subtask)
		return
	}
	for peer := range parallelism {
		f(peer)
	}
}

// at is the place of a subtask among the channels of an edge.
func at(e *messages.PlanEdge, subtask uint32) uint32 {
	if e.Partitioning == messages.Partitioning_FORWARD {
		return 0
	}
	return subtask
}

// offset returns how many channels the task at one end of the edge has before
// it. End returns, for an edge, the vertex at that end and the parallelism at the
// other.
func (w *wiring) offset(e *messages.PlanEdge, end func(*messages.PlanEdge) (string, uint32)) uint32 {
	mine, _ := end(e)
	offset := uint32(0)
	for _, o := range w.plan.Edges {
		if o == e {
			break
		}
		if theirs, parallelism := end(o); theirs == mine {
			offset += width(o, parallelism)
		}
	}
	return offset
}

// attemptNumber numbers the n-th attempt of an epoch so that no two attempts of a
// job share a number, whoever deployed them: the names of tasks and the messages
// on data channels carry the attempt, but not the epoch. It reads as the epoch,
// then six digits of n. The numbers repeat after 4000 epochs, or a million
// attempts in one; what they named is gone by then.
func attemptNumber(epoch uint64, n uint32) uint32 {
	const perEpoch, epochs = 1_000_000, 4000
	return uint32(epoch%epochs)*perEpoch + n%perEpoch
}

// deploy starts the next attempt with the assigned state: of all tasks, or of the failed
// regions.
func (m *Master) deploy() {
	m.attempts++
	m.attempt = attemptNumber(m.epoch, m.attempts)
	m.started, m.phase, m.sinceMs = true, deploying, m.elapsedMs
	m.endOfData, m.finalDue = false, false
	regional, oldest := m.failed != nil, m.oldest()
	if !regional {
		m.tasks, m.regions, m.unions = nil, regionsOf(m.plan), nil
	}
	slots, err := m.place()
	if err != nil {
		m.fail(err)
		return
	}
	m.placed = slots
	var tasks, deployed []*execution
	fence, fingerprint := m.fence(), m.fingerprint()
	w := newWiring(m.plan, func(vertex string, subtask uint32) protocol.Address {
		return TaskAddress(slots[subtask], fence, &messages.TaskId{Vertex: vertex, Subtask: subtask})
	})
	for i, v := range m.plan.Vertices {
		for subtask := range v.Parallelism {
			if at := len(tasks); regional && !m.falls(m.tasks[at]) {
				tasks = append(tasks, m.tasks[at])
				continue
			}
			d := &messages.Deploy{
				Fence:       fence,
				Task:        &messages.TaskId{Vertex: v.Id, Subtask: subtask},
				Incarnation: m.incarnation,
				Vertex:      v,
				Settings:    m.config.Settings,
				Coordinator: string(m.self),
				Program:     m.config.Program,
				Topology:    m.config.Topology,
				Fingerprint: fingerprint,
				Mark:        m.mark(),
				Regional:    regional,
			}
			if m.assignment != nil {
				d.Restore = m.assignment.Vertices[i].Tasks[subtask]
				d.Finished = m.assignment.Vertices[i].Finished
			}
			w.connect(d)
			e := &execution{
				task: d.Task, vertex: i, node: slots[subtask], deploy: d,
				address: w.address(v.Id, subtask),
				state:   messages.TaskState_TASK_DEPLOYING,
			}
			tasks, deployed = append(tasks, e), append(deployed, e)
			m.silent[slots[subtask]] = 0
		}
	}
	m.assignment = nil // the tasks have it; it may be large
	m.tasks, m.failed = tasks, nil
	m.swept = regional && m.swept && m.oldest() == oldest // there is more to sweep
	m.setExecutions()
	for _, e := range deployed {
		m.send(TaskManagerAddress(e.node), e.deploy)
	}
	if !regional {
		m.arm(tickTimer, tickMs)
	}
}
