package taskmanager

import (
	"fmt"
	"slices"
	"sync/atomic"

	"google.golang.org/protobuf/proto"

	"cutwater/actors/system"
	"cutwater/messages"
	"cutwater/messages/describe"
	"cutwater/protocol"
	"cutwater/protocol/job"
)

// Name is the actor's name on every node.
const Name = "taskmanager"

// HeartbeatMs is how often a task manager tells the coordinators of its tasks
// that it is alive and what runs.
const HeartbeatMs = 1000

// CoordinatorTimeoutMs is how long the coordinator of a task may be silent before
// the task is cancelled: longer than it takes another one to take the job over. It
// is counted in heartbeats, so that a machine that slept cancels nothing by waking
// up.
const CoordinatorTimeoutMs = 3 * 60_000

// orphanedBeats is after how many heartbeats without a word of a coordinator the
// dispatcher is told of its tasks, with each one: another coordinator may have the job,
// and not know of them.
const orphanedBeats = 3

// rememberedEnds is how many ended attempts are remembered, to answer repeated
// or late messages.
const rememberedEnds = 4096

// Start starts a task's actor under the name. It is package task's in
// production; the parameter keeps actor packages apart.
type Start func(s *system.System, name string, d *messages.Deploy) error

// TaskManager is the actor.
type TaskManager struct {
	self    *system.Self
	start   Start
	running map[string]*task
	order   []string       // names in running, in the order of their start
	silent  map[string]int // heartbeats since the coordinator of that address was heard
	ended   map[string]*messages.TaskStateChanged
	endings []string // names in ended, oldest first
	beat    uint64
	slots   atomic.Int64 // see SlotsInUse
}

// SlotsInUse is how many slots tasks run in here: each holds the subtasks of one number
// of one job. One whose tasks have ended is free, though they may still tell so. Any
// goroutine may call it.
func (tm *TaskManager) SlotsInUse() int { return int(tm.slots.Load()) }

// count brings SlotsInUse up to date.
func (tm *TaskManager) count() {
	type slot struct {
		job     string
		subtask uint32
	}
	slots := make(map[slot]bool, len(tm.running))
	for _, t := range tm.running { // the order has no effect
		slots[slot{t.fence.GetJob(), t.deploy.Task.GetSubtask()}] = true
	}
	tm.slots.Store(int64(len(slots)))
}

// task is one that runs. Its coordinator, and with it the epoch of its fence, may be
// another than the one that deployed it: see adopt.go.
type task struct {
	deploy      *messages.Deploy
	fence       *messages.Fence
	coordinator string
}

// Spawn starts the node's task manager.
func Spawn(s *system.System, start Start) (*TaskManager, error) {
	tm := &TaskManager{start: start, running: map[string]*task{}, silent: map[string]int{}, ended: map[string]*messages.TaskStateChanged{}}
	_, err := s.Spawn(Name, tm, system.NewMailbox(0, nil))
	return tm, err
}

// TaskName is the name of a task's actor.
func TaskName(f *messages.Fence, t *messages.TaskId) string {
	return fmt.Sprintf("task/%s/%s/%d/%d", f.GetJob(), t.GetVertex(), t.GetSubtask(), f.GetAttempt())
}

// Started implements system.Handler.
func (tm *TaskManager) Started(self *system.Self) {
	tm.self = self
	tm.armHeartbeat()
}

// Stopped implements system.Handler.
func (tm *TaskManager) Stopped() {}

// Receive implements system.Handler.
func (tm *TaskManager) Receive(m proto.Message) {
	switch m := m.(type) {
	case *messages.Deploy:
		tm.deploy(m)
		tm.count()
	case *messages.CancelTask:
		tm.cancel(m)
	case *messages.TaskStateChanged:
		tm.taskEnded(m)
		tm.count()
	case *messages.Heartbeat:
		tm.silent[string(job.CoordinatorAddress(m.Node, m.Fence.GetJob()))] = 0
	case *messages.AdoptTasks:
		tm.adopt(m)
	case *messages.LinkLost:
		for _, name := range tm.order { // each knows where its channels lead
			tm.self.Send(tm.self.System.Address(name), m)
		}
	case *messages.TimerFired:
		tm.heartbeat()
	}
}

// deploy starts a task, once.
func (tm *TaskManager) deploy(d *messages.Deploy) {
	name := TaskName(d.Fence, d.Task)
	if end, ok := tm.ended[name]; ok {
		tm.self.Send(protocol.Address(d.Coordinator), end)
		return
	}
	if _, ok := tm.running[name]; ok {
		return // resent; the task reports its state by itself
	}
	if tm.overtaken(d) {
		return // whoever sends it will find out
	}
	if !d.Regional { // else the others are known to whoever deploys
		tm.cancelOvertaken(d)
	}
	tm.running[name] = &task{d, d.Fence, d.Coordinator}
	tm.silent[d.Coordinator] = 0
	tm.order = append(tm.order, name)
	if err := tm.start(tm.self.System, name, d); err != nil {
		failed := &messages.TaskStateChanged{Fence: d.Fence, Task: d.Task, State: messages.TaskState_TASK_FAILED,
			Failure: &messages.Failure{Message: describe.Error(err)}}
		tm.self.Send(protocol.Address(d.Coordinator), failed)
		tm.taskEnded(failed)
	}
}

// overtaken reports whether tasks of the job run here for a newer coordinator than the
// one that deploys.
func (tm *TaskManager) overtaken(d *messages.Deploy) bool {
	return slices.ContainsFunc(tm.order, func(name string) bool {
		f := tm.running[name].fence
		return f.Job == d.Fence.Job && f.Epoch > d.Fence.Epoch
	})
}

// cancelOvertaken cancels the tasks that earlier coordinators of the job left here. Who
// deploys has taken the job over, and may not know of them.
func (tm *TaskManager) cancelOvertaken(d *messages.Deploy) {
	for _, name := range tm.order {
		if old := tm.running[name]; old.fence.Job == d.Fence.Job && old.deploy.Fence.Epoch < d.Fence.Epoch {
			tm.cancelForCoordinator(name, old)
		}
	}
}

// cancelForCoordinator cancels a task in the name of its coordinator.
func (tm *TaskManager) cancelForCoordinator(name string, t *task) {
	tm.self.Send(tm.self.System.Address(name), &messages.CancelTask{Fence: t.fence, Task: t.deploy.Task, Coordinator: t.coordinator})
}

// cancel passes the message on, or answers for an attempt that is not here.
func (tm *TaskManager) cancel(c *messages.CancelTask) {
	name := TaskName(c.Fence, c.Task)
	if _, ok := tm.running[name]; ok {
		tm.self.Send(tm.self.System.Address(name), c)
		return
	}
	end, ok := tm.ended[name]
	if !ok {
		end = &messages.TaskStateChanged{Fence: c.Fence, Task: c.Task, State: messages.TaskState_TASK_CANCELED}
		tm.remember(name, end)
	}
	tm.self.Send(protocol.Address(c.Coordinator), end)
}

// taskEnded forgets a task and remembers how it ended.
func (tm *TaskManager) taskEnded(m *messages.TaskStateChanged) {
	name := TaskName(m.Fence, m.Task)
	if _, ok := tm.running[name]; !ok {
		return
	}
	delete(tm.running, name)
	for i, n := range tm.order {
		if n == name {
			tm.order = append(tm.order[:i], tm.order[i+1:]...)
			break
		}
	}
	tm.remember(name, m)
}

func (tm *TaskManager) remember(name string, m *messages.TaskStateChanged) {
	tm.ended[name] = m
	tm.endings = append(tm.endings, name)
	if len(tm.endings) > rememberedEnds {
		delete(tm.ended, tm.endings[0])
		tm.endings = tm.endings[1:]
	}
}

func (tm *TaskManager) armHeartbeat() {
	tm.beat++
	tm.self.Send(tm.self.System.Address("timer"), &messages.SetTimer{Owner: string(tm.self.Address), Key: "heartbeat", Generation: tm.beat, DelayMs: HeartbeatMs})
}

// heartbeat tells each coordinator which of its tasks run here.
func (tm *TaskManager) heartbeat() {
	var coordinators []string
	beats := map[string]*messages.Heartbeat{}
	for _, name := range tm.order {
		t := tm.running[name]
		b, ok := beats[t.coordinator]
		if !ok {
			b = &messages.Heartbeat{Node: tm.self.System.Node(), Number: tm.beat, Fence: t.fence, NowMs: tm.self.System.Clock().NowMs()}
			beats[t.coordinator] = b
			coordinators = append(coordinators, t.coordinator)
		}
		if t.fence.Attempt > b.Fence.Attempt {
			b.Fence = t.fence
		}
		b.Tasks, b.Attempts = append(b.Tasks, t.deploy.Task), append(b.Attempts, t.fence.Attempt)
	}
	for _, c := range coordinators {
		b := beats[c]
		if !slices.ContainsFunc(b.Attempts, func(a uint32) bool { return a != b.Fence.Attempt }) {
			b.Attempts = nil
		}
		tm.self.Send(protocol.Address(c), b)
		if tm.silent[c] >= orphanedBeats {
			tm.self.Send(tm.self.System.Address("agent"), proto.CloneOf(b))
		}
	}
	tm.giveUpSilent(coordinators)
	tm.armHeartbeat()
}

// giveUpSilent counts a heartbeat of silence of the coordinators that have tasks
// here, forgets the others, and cancels the tasks of those that are gone: nobody
// else would. Their successor, if there is one, has not asked for them.
func (tm *TaskManager) giveUpSilent(coordinators []string) {
	silent := make(map[string]int, len(coordinators))
	for _, c := range coordinators {
		silent[c] = tm.silent[c] + 1
	}
	tm.silent = silent
	for _, name := range tm.order {
		if t := tm.running[name]; silent[t.coordinator]*HeartbeatMs > CoordinatorTimeoutMs {
			tm.cancelForCoordinator(name, t)
		}
	}
}
