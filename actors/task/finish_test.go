package task

import (
	"testing"

	"cutwater/actors/system/systemtest"
	"cutwater/messages"
	"cutwater/stream/operator"
)

// A task has finished when its receivers have its last message and not before: it is
// sent again until then, and what comes for a checkpoint meanwhile is too late.
func TestFinishedWhenTheEndsHaveArrived(t *testing.T) {
	r := newRig(t, &program{writer: &writer{Base: operator.Base{ID: "op"}}}, func(d *messages.Deploy) {
		withInputs(d)
		d.Edges = []*messages.PlanEdge{{Partitioning: messages.Partitioning_REBALANCE}}
		d.Outputs = []*messages.OutputChannel{{Receiver: "n4|task/c"}, {Receiver: "n5|task/d"}}
	})
	r.Settle()
	for output := range uint32(2) {
		r.tell(&messages.Credit{Attempt: 3, Output: output, Open: true})
	}
	inputs := &messages.Deploy{}
	withInputs(inputs)
	for channel := range uint32(len(inputs.Inputs)) {
		r.tell(&messages.EndOfData{Attempt: 3, Channel: channel, Seq: 1, Drain: true})
		r.tell(&messages.EndOfPartition{Attempt: 3, Channel: channel, Seq: 2})
	}
	r.states()
	ends := func() int { return len(systemtest.Take[*messages.EndOfPartition](r.Rig)) }
	r.tell(&messages.TriggerCheckpoint{Fence: fence(), Task: taskID(), Checkpoint: 9, Options: &messages.CheckpointOptions{}})
	r.Advance(repeatMs)
	if n, got := ends(), r.states(); n != 2 || got != "" {
		t.Fatalf("unconfirmed: %d ends sent again, reported %q", n, got)
	}
	r.tell(&messages.Credit{Attempt: 3, Output: 1, Ended: true})
	r.Advance(repeatMs)
	if n, got := ends(), r.states(); n != 1 || got != "" {
		t.Fatalf("one confirmed: %d ends sent again, reported %q", n, got)
	}
	r.tell(&messages.Credit{Attempt: 3, Output: 0, Ended: true})
	if got := r.states(); got != "FINISHED" {
		t.Fatalf("all confirmed: reported %q", got)
	}
}
