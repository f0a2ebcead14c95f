package restore_test

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"cutwater/messages"
	"cutwater/protocol/job"
	"cutwater/protocol/restore"
)

// G04 (paimon #1732, FLINK-10122): a list that every task got whole grew by the parallelism
// with each failover. Here ten failovers leave lists as large as they were, and no task is
// sent more than its share.
func TestBugLog_G04_TenFailovers(t *testing.T) {
	const items = 1000
	held := [][][]byte{nil} // by subtask
	for i := range items {
		held[0] = append(held[0], fmt.Append(nil, i))
	}
	bytes := func(lists [][][]byte) (n int) {
		for _, l := range lists {
			for _, item := range l {
				n += len(item)
			}
		}
		return n
	}
	want := bytes(held)
	for round, parallelism := range []uint32{5, 5, 5, 3, 3, 8, 8, 8, 1, 4} {
		loaded := &messages.CheckpointLoaded{Metadata: &messages.CheckpointMetadata{Checkpoint: uint64(round + 1)}}
		s := &messages.OperatorState{Uid: "op", Parallelism: uint32(len(held)), MaxParallelism: 16}
		loaded.Metadata.Operators = append(loaded.Metadata.Operators, s)
		for i, l := range held {
			s.Subtasks = append(s.Subtasks, &messages.SubtaskEntry{Subtask: uint32(i), State: &messages.OperatorSubtaskState{Uid: "op", Lists: &messages.StateHandle{}}})
			loaded.Lists = append(loaded.Lists, &messages.LoadedLists{Uid: "op", Subtask: uint32(i), Lists: &messages.OperatorLists{
				Lists: []*messages.OperatorList{{Name: "split", Mode: messages.RedistributionMode_SPLIT, Items: l}}}})
		}
		graph, err := restore.Adopt(&messages.JobGraph{Operators: []*messages.OperatorSpec{{Uid: "op", Source: true, Parallelism: parallelism}}}, loaded.Metadata)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := job.Plan(graph)
		if err != nil {
			t.Fatal(err)
		}
		out, err := restore.Assign(restore.Input{Loaded: loaded, Graph: graph, Plan: plan})
		if err != nil {
			t.Fatal(err)
		}
		share := want/int(parallelism) + want/10
		held = nil
		for i, task := range out.Vertices[0].Tasks {
			var list [][]byte
			for _, l := range task.Operators[0].Lists {
				list = append(list, l.Items...)
			}
			held = append(held, list)
			if size := proto.Size(task); size > 4*share { // an item of 3 bytes takes some more in a message
				t.Errorf("failover %d: subtask %d of %d is sent %d bytes of %d", round, i, parallelism, size, want)
			}
		}
		if got := bytes(held); got != want {
			t.Fatalf("after failover %d the lists have %d bytes, before the first %d", round, got, want)
		}
	}
}
