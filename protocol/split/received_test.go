package split_test

import (
	"fmt"
	"testing"

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
// exactly what the old one had left, and what was on its way. Nobody gets a split of that
// who has had a later one.
func TestRebuilt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const readers = 3
		e := split.New("s", readers)
		d := &messages.SplitsDiscovered{}
		for i := range rapid.IntRange(0, 20).Draw(t, "splits") {
			d.Splits = append(d.Splits, &messages.Split{Id: fmt.Sprintf("%02d", i)})
		}
		e.Discovered(d)
		var received [readers]split.Received
		var passed, told, number [readers]uint64
		var waits [readers]bool
		var onItsWay [readers]*messages.Split
		var newestOf [readers]string // the last split that it has had
		taken := map[uint64]*messages.EnumeratorState{}
		var newest, completed uint64
		ask := func(e *split.Enumerator, i int) *messages.Split {
			return e.Request(&messages.SplitRequest{Fence: &messages.Fence{}, Task: &messages.TaskId{Subtask: uint32(i)}, Uid: "s", Number: number[i]})[0].Split
		}
		for range rapid.IntRange(0, 60).Draw(t, "events") {
			i := rapid.IntRange(0, readers-1).Draw(t, "reader")
			switch rapid.IntRange(0, 5).Draw(t, "event") {
			case 0, 1:
				if !waits[i] {
					number[i]++
					waits[i], onItsWay[i] = true, ask(e, i)
				}
			case 2: // held back behind an enumerator's snapshot until the reader's
				if s := onItsWay[i]; s != nil && passed[i] == newest {
					received[i].Add(s.Id, passed[i])
					waits[i], onItsWay[i], newestOf[i] = false, nil, s.Id
				}
			case 3: // it waits for what is on its way
				if onItsWay == [readers]*messages.Split{} {
					newest++
					taken[newest] = e.Snapshot()
				}
			case 4:
				passed[i] = newest
			case 5:
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
		accounts := make([]*messages.TaskAccount, readers)
		for i := range received {
			accounts[i] = &messages.TaskAccount{WaitsForSplit: waits[i]}
			received[i].Completed(completed) // the new coordinator tells it
			received[i].Report(accounts[i])
		}
		if err := next.TakeOut(accounts); err != nil {
			t.Fatal(err)
		}
		want := map[string]bool{}
		for _, s := range e.Snapshot().Unassigned {
			want[s.Id] = true
		}
		for _, s := range onItsWay {
			if s != nil {
				want[s.Id] = true
			}
		}
		ended := [readers]bool{}
		for ended != [readers]bool{true, true, true} {
			i := rapid.IntRange(0, readers-1).Draw(t, "asks")
			if ended[i] {
				continue
			}
			if !waits[i] {
				number[i]++
			}
			waits[i] = false
			s := ask(next, i)
			if ended[i] = s == nil; ended[i] {
				continue
			}
			if !want[s.Id] || s.Id < newestOf[i] {
				t.Fatalf("reader %d, which has had %s, got %s; to be given were %v", i, newestOf[i], s.Id, want)
			}
			delete(want, s.Id)
			newestOf[i] = s.Id
		}
		if len(want) > 0 {
			t.Fatalf("nobody got %v", want)
		}
	})
}
