package split_test

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"cutwater/messages"
	"cutwater/messages/describe"
	"cutwater/protocol/split"
)

// A reader's account has what came behind the newest checkpoint that completed, and
// what came before the reader passed any.
func TestReceived(t *testing.T) {
	var r split.Received
	check := func(want string) {
		t.Helper()
		a := &messages.TaskAccount{}
		if r.Report(a); describe.Text(a) != "TaskAccount{"+want+"}" {
			t.Errorf("%s, want %s", describe.Text(a), want)
		}
	}
	check("")
	r.Add("a", 0)
	r.Add("b", 3)
	r.Add("c", 3)
	r.Add("d", 4)
	check("received:[{id:a} {id:b behind:3} {id:c behind:3} {id:d behind:4}]")
	r.Completed(3)
	check("received:[{id:b behind:3} {id:c behind:3} {id:d behind:4}]")
	r.Completed(2)
	r.Completed(5)
	check("")
}

// The account is bounded, and says so until what it dropped is in a checkpoint.
func TestReceivedTruncated(t *testing.T) {
	var r split.Received
	for i := range 10_001 {
		r.Add(fmt.Sprint(i), uint64(i/5000))
	}
	for checkpoint, want := range []bool{true, false, false} {
		r.Completed(uint64(checkpoint))
		a := &messages.TaskAccount{}
		if r.Report(a); a.ReceivedTruncated != want || len(a.Received) > 10_000 {
			t.Errorf("checkpoint %d: truncated %v with %d splits", checkpoint, a.ReceivedTruncated, len(a.Received))
		}
	}
}

// However splits are given out and checkpoints taken: from the newest completed one and
// the accounts of the readers, whoever of them has heard of it, a new enumerator knows
// exactly what the old one had left.
func TestRebuilt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const readers = 3
		e := split.New("s", readers)
		d := &messages.SplitsDiscovered{}
		for i := range rapid.IntRange(0, 20).Draw(t, "splits") {
			d.Splits = append(d.Splits, &messages.Split{Id: fmt.Sprint(i)})
		}
		e.Discovered(d)
		var received [readers]split.Received
		var passed, told [readers]uint64
		var number [readers]uint64
		taken := map[uint64]*messages.EnumeratorState{}
		var newest, completed uint64
		for range rapid.IntRange(0, 60).Draw(t, "events") {
			i := rapid.IntRange(0, readers-1).Draw(t, "reader")
			switch rapid.IntRange(0, 4).Draw(t, "event") {
			case 0, 1: // held back behind an enumerator's snapshot until the reader's
				if passed[i] != newest {
					continue
				}
				number[i]++
				for _, a := range e.Request(&messages.SplitRequest{Fence: &messages.Fence{}, Task: &messages.TaskId{Subtask: uint32(i)}, Uid: "s", Number: number[i]}) {
					if a.Split != nil {
						received[i].Add(a.Split.Id, passed[i])
					}
				}
			case 2:
				newest++
				taken[newest] = e.Snapshot()
			case 3:
				passed[i] = newest
			case 4:
				if c := min(passed[0], passed[1], passed[2]); taken[c] != nil && rapid.Bool().Draw(t, "completes") {
					completed = c
				}
				if told[i] < completed && rapid.Bool().Draw(t, "told") {
					told[i] = completed
					received[i].Completed(completed)
				}
			}
		}
		next := split.New("s", readers)
		if completed == 0 {
			next.Discovered(d)
		} else {
			next.Restore(taken[completed])
		}
		all := make([][]*messages.ReceivedSplit, readers)
		for i := range received {
			a := &messages.TaskAccount{}
			received[i].Completed(completed) // the new coordinator tells it
			received[i].Report(a)
			all[i] = a.Received
		}
		if err := next.TakeOut(all); err != nil {
			t.Fatal(err)
		}
		if got, want := next.Snapshot(), e.Snapshot(); !proto.Equal(got, want) {
			t.Fatalf("left %s, want %s", describe.Text(got), describe.Text(want))
		}
	})
}
