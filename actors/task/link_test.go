package task

import (
	"strings"
	"testing"

	"cutwater/actors/system/systemtest"
	"cutwater/messages"
	"cutwater/stream/operator"
)

// A lost link to a node fails the task that reads from it or writes to it, with one
// sentence, and no other; a channel over which all has come does not count.
func TestLinkLost(t *testing.T) {
	reads := &program{writer: &writer{Base: operator.Base{ID: "op"}}}
	writes := &program{reader: &reader{Base: operator.Base{ID: "op"}}}
	receiver := func(d *messages.Deploy) {
		d.Inputs = []*messages.InputChannel{{Sender: "n2|task/a"}, {Sender: "n3|task/b"}}
	}
	sender := func(d *messages.Deploy) {
		d.Edges = []*messages.PlanEdge{{Partitioning: messages.Partitioning_REBALANCE}}
		d.Outputs = []*messages.OutputChannel{{Receiver: "n4|task/c"}}
	}
	end := func(r *rig) {
		r.tell(&messages.EndOfData{Attempt: 3, Channel: 1, Seq: 1})
		r.tell(&messages.EndOfPartition{Attempt: 3, Channel: 1, Seq: 2})
	}
	for _, c := range []struct {
		name, node string
		program    *program
		deploy     func(*messages.Deploy)
		before     func(*rig)
		want       string
	}{
		{"input", "n3", reads, receiver, nil, "records from n3|task/b may be lost: the connection broke"},
		{"output", "n4", writes, sender, nil, "records to n4|task/c may be lost: the connection broke"},
		{"elsewhere", "n4", reads, receiver, nil, ""},
		{"an input that has ended", "n3", reads, receiver, end, ""},
		{"the other input", "n2", reads, receiver, end, "records from n2|task/a may be lost: the connection broke"},
		{"a task that was cancelled", "n3", reads, receiver, func(r *rig) {
			r.tell(&messages.CancelTask{Fence: fence(), Task: taskID()})
		}, ""},
	} {
		r := newRig(t, c.program, c.deploy)
		r.Settle()
		if c.before != nil {
			c.before(r)
		}
		r.states()
		r.tell(&messages.LinkLost{Node: c.node, Reason: "the connection broke"})
		var said []string
		for _, m := range systemtest.Take[*messages.TaskStateChanged](r.Rig) {
			said = append(said, m.State.String()+" "+m.Failure.GetMessage())
		}
		want := ""
		if c.want != "" {
			want = "TASK_FAILED " + c.want
		}
		if got := strings.Join(said, "; "); got != want {
			t.Errorf("%s: reported %q, want %q", c.name, got, want)
		}
	}
}
