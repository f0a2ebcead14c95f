package job

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"cutwater/internal/script"
	"cutwater/messages"
)

func (w *world) report(d *script.Directive) error {
	words := d.Words()
	dep := w.deployed[w.full(words[0])]
	if dep == nil {
		return fmt.Errorf("no task %s", words[0])
	}
	r := w.state(dep, messages.TaskState(messages.TaskState_value["TASK_"+words[1]]), d.Arg("why", ""))
	if d.Has("no-restart") {
		r.Failure.NoRestart = true
	}
	w.step(r)
	return nil
}

func (w *world) offer(d *script.Directive) {
	o := &messages.SlotOffer{Job: testJob, Epoch: uint64(d.Int("epoch", int64(w.master.epoch))), Missing: d.Arg("missing", ""), Term: uint64(d.Int("term", 0)), Number: uint64(d.Int("number", 0))}
	for _, word := range d.Words() {
		name, slots, _ := strings.Cut(word, ":")
		n := &messages.NodeSlots{Node: name}
		fmt.Sscan(slots, &n.Slots)
		o.Nodes = append(o.Nodes, n)
	}
	w.step(o)
}

// takeoverFence is that of the question which tasks there are.
func (w *world) takeoverFence(d *script.Directive) *messages.Fence {
	return &messages.Fence{Job: testJob, Epoch: uint64(d.Int("epoch", int64(w.master.epoch))), Attempt: w.store.Job(testJob).GetDeployment().GetAttempt()}
}

// listed sends what a task manager has: the tasks that are named, or all of its node.
func (w *world) listed(d *script.Directive) {
	list := &messages.AdoptableTasks{Fence: w.takeoverFence(d), Node: d.Arg("node", "n1")}
	ended := map[string]messages.TaskState{}
	for _, e := range strings.FieldsFunc(d.Arg("ended", ""), func(r rune) bool { return r == ',' }) {
		name, state, _ := strings.Cut(e, ":")
		ended[w.full(name)] = messages.TaskState(messages.TaskState_value["TASK_"+state])
	}
	for _, word := range d.Words() {
		if word == "old" {
			list.Tasks = append(list.Tasks, &messages.AdoptableTask{Task: w.forgotten[0].Task, Attempt: w.forgotten[0].Fence.Attempt})
		}
	}
	names := slices.DeleteFunc(w.tasksOf(d), func(name string) bool { return w.deployed[name] == nil || w.nodeOf[name] != list.Node })
	if d.Has("nothing") {
		names = nil
	}
	for _, name := range names {
		dep := w.deployed[name]
		list.Tasks = append(list.Tasks, &messages.AdoptableTask{Task: dep.Task, Attempt: dep.Fence.Attempt, Ended: ended[name],
			Fingerprint: uint64(d.Int("fingerprint", int64(dep.Fingerprint)))})
	}
	w.step(list)
}

// account sends the accounts of the tasks that are named, or of all.
func (w *world) account(d *script.Directive) {
	known := map[string]bool{}
	for _, name := range w.order {
		known[name] = true
	}
	for _, name := range w.tasksOf(d) {
		if !known[name] {
			continue // a flag
		}
		dep := w.deployed[name]
		fence := w.takeoverFence(d)
		fence.Attempt = dep.Fence.Attempt
		a := &messages.TaskAccount{Fence: fence, Task: dep.Task, Completed: uint64(d.Int("completed", 0)),
			State:     messages.TaskState(messages.TaskState_value["TASK_"+d.Arg("state", "RUNNING")]),
			EndOfData: d.Has("end-of-data"), ReceivedTruncated: d.Has("truncated"), DeployedFinished: d.Has("finished")}
		for _, r := range strings.FieldsFunc(d.Arg("received", ""), func(r rune) bool { return r == ',' }) {
			id, behind, _ := strings.Cut(r, "@")
			split := &messages.ReceivedSplit{Id: id}
			fmt.Sscan(behind, &split.Behind)
			a.Received = append(a.Received, split)
		}
		w.step(a)
	}
}

// gates prints to which subtasks the gates of the sources are closed. It offers
// each an event, which stays in a gate that is closed.
func (w *world) gates() {
	for _, s := range w.master.sources {
		for i := range s.held {
			if !s.gate.Offer(i, &messages.SplitAssignment{}) {
				fmt.Fprintf(&w.out, "closed to %s/%d\n", s.uid, i)
			}
		}
	}
}

// early sends what only a job with an epoch, or with tasks, can have asked for.
func (w *world) early() {
	fence, task := &messages.Fence{Job: testJob, Epoch: 1, Attempt: 1}, &messages.TaskId{Vertex: "src"}
	for _, m := range []proto.Message{
		&messages.AcknowledgeCheckpoint{Fence: fence, Task: task, Checkpoint: 1},
		&messages.DeclineCheckpoint{Fence: fence, Task: task, Checkpoint: 1},
		&messages.TaskStateChanged{Fence: fence, Task: task, State: messages.TaskState_TASK_RUNNING},
		&messages.EndOfDataReached{Fence: fence, Task: task},
		&messages.SplitRequest{Fence: fence, Task: task, Uid: "src", Number: 1},
		&messages.SplitAck{Fence: fence, Task: task, Uid: "src", Number: 1},
		&messages.Heartbeat{Node: "n1", Fence: fence, Tasks: []*messages.TaskId{task}},
		&messages.TimerFired{Key: "checkpoint/periodic", Generation: 1},
		&messages.WorkDone{Op: 4711},
	} {
		w.step(m)
	}
}

// stateOf is an operator's state in a stored checkpoint: location= uid=.
func (w *world) stateOf(d *script.Directive) *messages.OperatorState {
	for _, s := range w.files[d.Arg("location", "")].GetOperators() {
		if s.Uid == d.Arg("uid", "") {
			return s
		}
	}
	panic("no such state in " + d.Arg("location", ""))
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
		&messages.SplitAck{Fence: old.Fence, Task: now.Task, Uid: "src", Number: 1},
		&messages.SplitAck{Fence: now.Fence, Task: now.Task, Uid: "nothing", Number: 1},
		&messages.SplitAck{Fence: now.Fence, Task: other.Task, Uid: "src", Number: 1},
		&messages.SplitAck{Fence: now.Fence, Task: nobody, Uid: "src", Number: 1},
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
