package job

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"cutwater/messages"
	"cutwater/protocol"
)

// A coordinator that finds its job RUNNING on record takes the running tasks over, if
// it can: then nothing is read twice, and nobody but the checkpoints has noticed. What
// the coordinator before kept in memory comes from two places.
//
// The record says what is durable: the attempt and where it runs, the newest completed
// checkpoint, and the highest id that was given out. It is read after the new epoch was
// taken, so that no older coordinator can change it any more. A completion that was
// being recorded is in it, or will never be.
//
// The tasks say the rest, each in its own account. The question goes to the task
// managers, which tell what there is and pass it on:
//
//  1. AdoptTasks makes a task answer to this coordinator alone. From then on it drops
//     what an older one says, and the account that it gives stays true until this one
//     has spoken.
//  2. What was pending is given up: the task aborts every checkpoint above the newest
//     completed one, up to the highest id. Barriers of those that are still on their
//     way find it warned. The next checkpoint has a higher id.
//  3. An enumerator is made anew from its state in the newest completed checkpoint, or
//     from discovery where there is none, without the splits that the readers got
//     behind that checkpoint's barrier. That is what the old one had left:
//     a. A split that it gave away before its snapshot was confirmed by the reader
//     before the sources were triggered: it is in the reader's snapshot.
//     b. A split that it gave away after its snapshot was held until the reader had
//     taken its own: it is behind the barrier, and in the account.
//     c. A split that it gave away and that had not arrived at step 1 never will: it
//     is still to be given, to a reader that is not past its times
//     ([split.Enumerator.TakeOut]).
//     d. A split that it kept for a reader whose region had restarted is in no account,
//     and only the next checkpoint says for whom it is. Given to a reader that is past
//     its times, its records would be late. So the record says that there are such
//     splits, and before that checkpoint nothing is taken over.
//
// All of the tasks are taken over or none: a task that is gone has taken with it what
// its neighbours had sent. If anything is missing, or not as it was deployed, the tasks
// are cancelled and the next attempt starts from the checkpoint, as after any failure.

const (
	// adoptRepeatMs is how often what was not answered is asked again, and adoptRepeats
	// how often, before the tasks are left to end.
	adoptRepeatMs = 500
	adoptRepeats  = 6
)

// takeover is the attempt to take the tasks over that run.
type takeover struct {
	deployment *messages.Deployment
	// completed is the newest completed checkpoint, the restored one included, or 0;
	// last the highest id that was given out.
	completed, last uint64
	loaded          *messages.CheckpointLoaded // of completed; nil: there is none
	regions         regions                    // of the plan
	fingerprint     uint64                     // of what this coordinator would deploy
	asked           int
	lists           []*messages.AdoptableTasks // by the index of the node; nil: not answered
	accounts        map[string]*messages.TaskAccount
	running         int    // tasks in lists that have not ended
	lost            string // why a node that ran tasks cannot answer
	ending          bool   // the tasks are looked for only to cancel them
}

// found is a task that a task manager has listed.
type found struct {
	node  string
	ended messages.TaskState
}

// mayAdopt reports whether tasks of an earlier coordinator may still be taken over, so
// that nothing must be done that ends them.
func (m *Master) mayAdopt() bool {
	switch m.phase {
	case created, claiming, reading:
		return m.refused == nil
	}
	return m.takeover != nil
}

// mayBeAdopted looks at the job's record for tasks that may run.
func (m *Master) mayBeAdopted(r *messages.JobRecord) {
	d := r.GetDeployment()
	if r.Status != messages.JobStatus_RUNNING || d == nil {
		return
	}
	m.placed = placesOf(d)
	switch {
	case m.config.Anew:
		m.event(NotAdopted{Attempt: d.Attempt, Why: "the coordinators before this one failed too often"})
	case m.elsewhere(d):
		m.event(NotAdopted{Attempt: d.Attempt, Why: "they write their checkpoints to another folder than this node sees"})
	case len(m.config.Hooks) > 0:
		m.event(NotAdopted{Attempt: d.Attempt, Why: "the job has master hooks, whose memory is gone"})
	default:
		m.takeover = &takeover{deployment: d, last: r.LastCheckpoint,
			lists: make([]*messages.AdoptableTasks, len(d.Slots)), accounts: make(map[string]*messages.TaskAccount)}
	}
}

// startFrom goes on when all checkpoints are known: with the tasks that run, or with new
// ones.
func (m *Master) startFrom(loaded *messages.CheckpointLoaded) {
	switch {
	case m.takeover != nil:
		m.lookForTasks(loaded)
	case loaded != nil:
		m.restore(loaded)
	default:
		protocol.Assert(m.coordinator.Latest() == nil, "the job would start empty, but completed checkpoint %d", m.coordinator.Latest().GetCheckpoint())
		m.startEmpty()
	}
}

// lookForTasks asks the nodes of the attempt that is on record.
func (m *Master) lookForTasks(loaded *messages.CheckpointLoaded) {
	t := m.takeover
	t.loaded, t.completed = loaded, m.coordinator.Latest().GetCheckpoint()
	m.phase = adopting
	if err := m.divide(loaded); err != nil {
		m.leaveTasks(err.Error())
		return
	}
	if t.lost != "" {
		m.leaveTasks(t.lost)
		return
	}
	if t.completed < t.deployment.KeptBefore {
		m.leaveTasks("splits were kept for readers that had restarted, and no checkpoint has completed since that says which")
		return
	}
	t.fingerprint, t.regions = m.fingerprint(), regionsOf(m.plan)
	m.askForTasks()
}

// askForTasks asks those that have not told everything.
func (m *Master) askForTasks() {
	t := m.takeover
	t.asked++
	fence := &messages.Fence{Job: m.config.Job, Epoch: m.epoch, Attempt: t.deployment.Attempt}
	for i, n := range t.deployment.Slots {
		if !t.answered(i) {
			m.send(TaskManagerAddress(n.Node), &messages.AdoptTasks{Fence: fence, Coordinator: string(m.self), Completed: t.completed, Last: t.last, Attempts: t.deployment.Attempts})
		}
	}
	m.arm(adoptTimer, adoptRepeatMs)
}

// answered reports whether a node has listed its tasks, and each that runs has given
// its account.
func (t *takeover) answered(node int) bool {
	return t.lists[node] != nil && !slices.ContainsFunc(t.lists[node].Tasks, func(a *messages.AdoptableTask) bool {
		return a.Ended == messages.TaskState_TASK_STATE_UNSPECIFIED && t.accounts[taskName(a.Task)] == nil
	})
}

// adoptTick asks again, or gives the tasks up.
func (m *Master) adoptTick() {
	if m.phase != adopting {
		return
	}
	if m.takeover.asked < adoptRepeats {
		m.askForTasks()
		return
	}
	_, open := m.judge()
	if m.takeover.ending {
		open = "one of the nodes"
	}
	m.leaveTasks(fmt.Sprintf("%s did not answer within %d ms", open, adoptRepeats*adoptRepeatMs))
}

// ofTakeover reports whether an answer is to the question that is asked.
func (m *Master) ofTakeover(f *messages.Fence) bool {
	return m.phase == adopting && f.GetJob() == m.config.Job && f.GetEpoch() == m.epoch && f.GetAttempt() == m.takeover.deployment.Attempt
}

// adoptableTasks takes what a task manager has.
func (m *Master) adoptableTasks(a *messages.AdoptableTasks) {
	if !m.ofTakeover(a.Fence) {
		m.drop("list of the tasks on node " + a.Node)
		return
	}
	t := m.takeover
	for i, n := range t.deployment.Slots {
		if n.Node == a.Node {
			t.lists[i] = a
		}
	}
	t.running = 0
	for _, list := range t.lists {
		for _, task := range list.GetTasks() {
			if task.Ended == messages.TaskState_TASK_STATE_UNSPECIFIED {
				t.running++
			}
		}
	}
	m.decide()
}

// taskAccount takes what a task says of itself.
func (m *Master) taskAccount(a *messages.TaskAccount) {
	t := m.takeover
	if f := a.Fence; m.phase != adopting || f.GetJob() != m.config.Job || f.GetEpoch() != m.epoch || f.GetAttempt() != m.expected(a.Task) {
		m.drop("account of task " + taskName(a.Task))
		return
	}
	t.accounts[taskName(a.Task)] = a
	why, _ := m.judgeAccount(a.Task)
	switch {
	case t.ending:
	case why != "":
		m.leaveTasks(why)
	case len(t.accounts) >= t.running: // a thousand accounts are not judged a thousand times
		m.decide()
	}
}

// nodeGone: a node that runs tasks, if it does, cannot answer any more.
func (m *Master) nodeGone(node, why string) {
	t := m.takeover
	if t == nil || t.lost != "" || !slices.ContainsFunc(t.deployment.Slots, func(n *messages.NodeSlots) bool { return n.Node == node }) {
		return
	}
	if t.lost = why; m.phase != loading {
		m.leaveTasks(why)
	}
}

// takeoverOffered looks whether the nodes that run tasks are there. The dispatcher was
// told that their slots are held, and leaves out a node only if it is gone.
func (m *Master) takeoverOffered(o *messages.SlotOffer) {
	if m.takeover == nil {
		return
	}
	for _, held := range m.takeover.deployment.Slots {
		if !slices.ContainsFunc(o.Nodes, func(n *messages.NodeSlots) bool { return n.Node == held.Node }) {
			m.nodeGone(held.Node, "node "+held.Node+" is gone")
			return
		}
	}
}

// decide goes on as soon as it is known that the tasks can be taken over, or that they
// cannot.
func (m *Master) decide() {
	if t := m.takeover; t.ending {
		if !slices.Contains(t.lists, nil) {
			m.leaveTasks("the job is to end")
		}
		return
	}
	switch why, open := m.judge(); {
	case why != "":
		m.leaveTasks(why)
	case open == "":
		m.disarm(adoptTimer)
		m.prepareSources()
	}
}

// judge says why the tasks cannot be taken over, or what is not known yet. Both are
// empty if they can.
func (m *Master) judge() (why, open string) {
	tasks, why, silent := m.listed()
	if why != "" {
		return why, ""
	}
	running := 0
	for _, v := range m.plan.Vertices {
		for subtask := range v.Parallelism {
			id := &messages.TaskId{Vertex: v.Id, Subtask: subtask}
			f, listed := tasks[taskName(id)]
			switch {
			case listed && f.ended != messages.TaskState_TASK_STATE_UNSPECIFIED:
				if v.Source && !m.finalCheckpoint() {
					return fmt.Sprintf("source task %s has finished, and no checkpoint holds what it read", taskName(id)), ""
				}
			case listed:
				running++
				why, wait := m.judgeAccount(id)
				if why != "" {
					return why, ""
				}
				if open == "" {
					open = wait
				}
			case silent == "":
				return fmt.Sprintf("task %s is gone", taskName(id)), ""
			}
		}
	}
	switch {
	case silent != "":
		return "", silent
	case running == 0:
		return "none of them runs any more", ""
	}
	return "", open
}

// listed puts the answers of the task managers together. It says which one is awaited,
// or why the tasks cannot be taken over.
func (m *Master) listed() (tasks map[string]found, why, silent string) {
	t := m.takeover
	tasks = make(map[string]found)
	for i, n := range t.deployment.Slots {
		if t.lists[i] == nil {
			silent = "node " + n.Node
			continue
		}
		for _, a := range t.lists[i].Tasks {
			switch runs := a.Ended == messages.TaskState_TASK_STATE_UNSPECIFIED; {
			case !runs && a.Attempt != m.expected(a.Task):
				continue // another region has that attempt
			case runs && a.Attempt != m.expected(a.Task):
				return nil, fmt.Sprintf("task %s of attempt %d still runs on node %s", taskName(a.Task), a.Attempt, n.Node), ""
			case runs && a.Fingerprint != t.fingerprint:
				return nil, fmt.Sprintf("task %s was deployed with another plan, program or settings", taskName(a.Task)), ""
			case !runs && a.Ended != messages.TaskState_TASK_FINISHED:
				return nil, fmt.Sprintf("task %s is %s", taskName(a.Task), stateName(a.Ended)), ""
			}
			tasks[taskName(a.Task)] = found{n.Node, a.Ended}
		}
	}
	return tasks, "", silent
}

// judgeAccount looks at the account of a task that runs.
func (m *Master) judgeAccount(id *messages.TaskId) (why, open string) {
	a, name := m.takeover.accounts[taskName(id)], taskName(id)
	switch {
	case a == nil:
		return "", "task " + name
	case a.State != messages.TaskState_TASK_RUNNING:
		return fmt.Sprintf("task %s is %s", name, stateName(a.State)), ""
	case a.Completed != m.takeover.completed:
		return fmt.Sprintf("task %s goes on from checkpoint %d, and %d is the newest that completed", name, a.Completed, m.takeover.completed), ""
	case a.ReceivedTruncated:
		return fmt.Sprintf("task %s got too many splits since checkpoint %d", name, a.Completed), ""
	}
	return "", ""
}

func stateName(s messages.TaskState) string { return strings.TrimPrefix(s.String(), "TASK_") }

// expected is the attempt that the task is of, by the record; 0 if there is no such task.
func (m *Master) expected(id *messages.TaskId) uint32 {
	if i := m.indexOf(id); i >= 0 {
		return attemptOf(m.takeover.deployment, m.takeover.regions, i)
	}
	return 0
}

// finalCheckpoint reports whether a task finishes only behind a checkpoint.
func (m *Master) finalCheckpoint() bool {
	c := m.config.Settings.GetCheckpointing()
	return c.GetIntervalMs() > 0 && c.GetAfterTasksFinish()
}

// takeOut lets the enumerators forget what the readers have.
func (m *Master) takeOut() error {
	for _, s := range m.sources {
		v := m.plan.Vertices[s.vertex]
		accounts := make([]*messages.TaskAccount, v.Parallelism)
		for subtask := range v.Parallelism {
			accounts[subtask] = m.takeover.accounts[taskName(&messages.TaskId{Vertex: v.Id, Subtask: subtask})]
		}
		if err := s.enumerator.TakeOut(accounts); err != nil {
			return err
		}
	}
	return nil
}

// adopt makes the tasks this coordinator's own: the attempt goes on.
func (m *Master) adopt() {
	if err := m.takeOut(); err != nil {
		m.leaveTasks(err.Error())
		return
	}
	t := m.takeover
	tasks, _, _ := m.listed()
	m.takeover, m.assignment, m.regions = nil, nil, t.regions
	m.attempts, m.attempt = 1, t.deployment.Attempt
	m.started, m.swept = true, false
	m.phase, m.sinceMs = deploying, m.elapsedMs
	clear(m.placed)
	for i, v := range m.plan.Vertices {
		for subtask := range v.Parallelism {
			id := &messages.TaskId{Vertex: v.Id, Subtask: subtask}
			f, a := tasks[taskName(id)], t.accounts[taskName(id)]
			fence := m.fenceOf(attemptOf(t.deployment, t.regions, len(m.tasks)))
			e := &execution{task: id, vertex: i, node: f.node, address: TaskAddress(f.node, fence, id),
				state: messages.TaskState_TASK_RUNNING, reported: true, ended: a.GetEndOfData(),
				deploy: &messages.Deploy{Fence: fence, Task: id, Vertex: v, Finished: a.GetDeployedFinished()}}
			if f.ended != messages.TaskState_TASK_STATE_UNSPECIFIED {
				e.state = f.ended
			}
			m.tasks = append(m.tasks, e)
			m.silent[f.node] = 0
			if _, placed := m.placed[subtask]; !placed || !e.terminal() {
				m.placed[subtask] = f.node
			}
		}
	}
	m.event(Adopted{Attempt: m.attempt, Checkpoint: t.completed, Tasks: len(m.tasks)})
	m.setExecutions()
	m.arm(tickTimer, tickMs)
	m.progress()
	m.endAsked()
}

// leaveTasks ends the tasks that were found, and starts an attempt instead.
func (m *Master) leaveTasks(why string) {
	t := m.takeover
	m.takeover = nil
	m.disarm(adoptTimer)
	m.event(NotAdopted{Attempt: t.deployment.Attempt, Why: why})
	m.attempt = t.deployment.Attempt // what is heard of it from now on is of the past
	for _, list := range t.lists {
		for _, a := range list.GetTasks() {
			if a.Ended == messages.TaskState_TASK_STATE_UNSPECIFIED {
				m.send(TaskManagerAddress(list.Node), &messages.CancelTask{Coordinator: string(m.self), Task: a.Task,
					Fence: &messages.Fence{Job: m.config.Job, Epoch: m.epoch, Attempt: a.Attempt}})
			}
		}
	}
	if m.target != messages.JobStatus_JOB_STATUS_UNSPECIFIED {
		m.endBefore(m.target)
		return
	}
	// That took its time: whoever was fenced meanwhile must not deploy.
	m.refused = t
	m.readJob()
}

// endTakeover is for a job that is to end before it is known which tasks there are. To
// cancel them it is enough to find them; to suspend the job, with one last checkpoint,
// they must be taken over first, unless the checkpoints themselves are not known yet.
func (m *Master) endTakeover(status messages.JobStatus) {
	m.target = status
	switch {
	case m.phase == loading:
		m.takeover.ending = true
		m.phase, m.reads = adopting, nil
		m.askForTasks()
	case status == messages.JobStatus_CANCELED:
		m.takeover.ending = true
		m.decide()
	}
}

// endAsked carries out the end that the user asked for meanwhile.
func (m *Master) endAsked() {
	target := m.target
	m.target = messages.JobStatus_JOB_STATUS_UNSPECIFIED
	switch target {
	case messages.JobStatus_CANCELED:
		m.cancel()
	case messages.JobStatus_SUSPENDED:
		m.suspend()
	}
}

// fingerprint is of all that a task was deployed with and that its coordinator must
// know, too.
func (m *Master) fingerprint() uint64 {
	hash := fnv.New64a()
	for _, part := range []proto.Message{m.plan, m.config.Settings, m.config.Topology, &messages.Deploy{Program: m.config.Program}} {
		content, _ := proto.MarshalOptions{Deterministic: true}.Marshal(part) // what cannot be encoded cannot be on record
		fmt.Fprintf(hash, "%d %s", len(content), content)
	}
	return hash.Sum64()
}
