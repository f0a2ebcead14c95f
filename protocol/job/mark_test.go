package job

import (
	"strings"
	"testing"

	"cutwater/messages"
)

// marked starts a coordinator on a node that sees these marks once it has left its own,
// or could not leave one, and answers what it asks.
func marked(t *testing.T, w *world, marks ...uint64) string {
	t.Helper()
	m, err := NewMaster(MasterConfig{Job: testJob, Node: "n1", Program: "test", Graph: w.graph, Settings: w.settings, Nodes: w.nodes})
	if err != nil {
		t.Fatal(err)
	}
	w.master, w.history, w.work, w.timers, w.remain = m, NewHistory(), nil, nil, true
	w.out.Reset()
	w.carryOut(m.Start(w.nowMs, 0))
	w.answerAll(marks...)
	return w.out.String()
}

func (w *world) answerAll(marks ...uint64) {
	for len(w.work) > 0 {
		task := w.work[0].Task
		answer := w.perform(task)
		if p, ok := task.(*messages.Propose); ok && p.Command.GetStartEpoch() != nil {
			answer.Marks = marks
		}
		_ = w.done(0, answer) // it cannot fail
	}
}

// Tasks look for the mark of the coordinator that deploys them; a coordinator takes over
// only what has seen a mark that it sees too, unless marks say nothing.
func TestMarks(t *testing.T) {
	for _, test := range []struct {
		name      string
		marks     []uint64 // that the second one sees
		elsewhere bool
	}{
		{"the same folder", []uint64{1, 2}, false},
		{"another folder", []uint64{2}, true},
		{"one that cannot be marked", nil, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld()
			w.graph = &messages.JobGraph{Name: "test", Parallelism: 1, Operators: []*messages.OperatorSpec{{Uid: "src", Source: true}}}
			w.settings = &messages.JobSettings{Checkpointing: &messages.CheckpointConfig{NumRetained: 1, MaxConcurrent: 1, TimeoutMs: 1000}}
			w.apply(&messages.MetadataCommand{Command: &messages.MetadataCommand_RegisterJob{RegisterJob: &messages.RegisterJob{Job: testJob, Name: "test"}}})

			marked(t, w, 1)
			first := w.deployed[w.order[0]]
			w.step(w.state(first, messages.TaskState_TASK_RUNNING, ""))
			w.answerAll()
			if recorded := w.store.Job(testJob).Deployment.GetMark(); first.Mark != 1 || recorded != 1 {
				t.Fatalf("the task looks for mark %d, on record is %d; want 1", first.Mark, recorded)
			}

			log := marked(t, w, test.marks...)
			if got := strings.Contains(log, "another folder"); got != test.elsewhere || got == strings.Contains(log, "AdoptTasks") {
				t.Errorf("the tasks are left because of their folder: %v, want %v\n%s", got, test.elsewhere, log)
			}
			if d := w.deployed[w.order[0]]; test.elsewhere && (d == first || d.Mark != 2) {
				t.Errorf("the new task looks for mark %d", d.Mark)
			}
		})
	}
}
