package split_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"cutwater/internal/script"
	"cutwater/messages"
	"cutwater/messages/describe"
	"cutwater/protocol/split"
)

// The stories of testdata.
//
//	discovered         the body lists splits, one a line: id [group ordinal] [max=N]
//	request            subtask, number and attempt of a request
//	add-back           splits, as above
//	take-out           the accounts of the readers, see below
//	reset              a subtask restarts alone: subtask restored=checkpoint
//	completed          checkpoint
//	snapshot, restore  [checkpoint] to a state that is printed, and back from the last one
func TestScripts(t *testing.T) {
	script.RunDir(t, "testdata", func(t *testing.T) script.Handler {
		var e *split.Enumerator
		var saved *messages.EnumeratorState
		return func(d *script.Directive) (string, error) {
			var answers []*messages.SplitAssignment
			switch d.Verb {
			case "enumerator":
				e = split.New("flights", int(d.Int("parallelism", 2)))
			case "discovered":
				answers = e.Discovered(&messages.SplitsDiscovered{Splits: splits(t, d.Body), TotalBytes: 1000})
			case "request":
				answers = e.Request(&messages.SplitRequest{
					Fence:  &messages.Fence{Job: "j", Epoch: 1, Attempt: uint32(d.Int("attempt", 1))},
					Task:   &messages.TaskId{Vertex: "v", Subtask: uint32(d.Int("subtask", 0))},
					Uid:    d.Arg("uid", "flights"),
					Number: uint64(d.Int("number", 1)),
				})
			case "add-back":
				e.AddBack(splits(t, d.Body))
			case "take-out":
				// by subtask: id,id... or -, and ! behind it if it waits for a split
				var accounts []*messages.TaskAccount
				for _, word := range d.Words() {
					ids, waits := strings.CutSuffix(word, "!")
					account := &messages.TaskAccount{WaitsForSplit: waits}
					for _, id := range strings.FieldsFunc(ids, func(r rune) bool { return r == ',' || r == '-' }) {
						account.Received = append(account.Received, &messages.ReceivedSplit{Id: id})
					}
					accounts = append(accounts, account)
				}
				if err := e.TakeOut(accounts); err != nil {
					return err.Error(), nil
				}
			case "reset":
				e.Reset(int(d.Int("subtask", 0)), uint64(d.Int("restored", 0)))
			case "completed":
				e.Completed(uint64(d.Int("checkpoint", 0)))
			case "snapshot":
				saved = e.Snapshot()
				e.Behind(uint64(d.Int("checkpoint", 0)))
				return describe.Text(saved), nil
			case "restore":
				e.Restore(saved)
				return fmt.Sprintf("%v needs-discovery=%v bytes=%d", e, e.NeedsDiscovery(), e.TotalBytes()), nil
			default:
				return "", fmt.Errorf("unknown directive %q", d.Verb)
			}
			var out strings.Builder
			for _, a := range answers {
				fmt.Fprintln(&out, describe.Text(a))
				// A reader works on its split; that must not show in a repetition.
				if a.Split != nil {
					a.Split.Position = []byte("touched")
				}
			}
			out.WriteString(e.String())
			return out.String(), nil
		}
	})
}

func splits(t *testing.T, body string) []*messages.Split {
	var list []*messages.Split
	for line := range strings.Lines(body) {
		words := strings.Fields(line)
		s := &messages.Split{Id: words[0]}
		for i, w := range words[1:] {
			switch value, isMax := strings.CutPrefix(w, "max="); {
			case isMax:
				s.HasMaxTimestamp = true
				if _, err := fmt.Sscan(value, &s.MaxTimestampMs); err != nil {
					t.Fatal(err)
				}
			case i == 0:
				s.Group = w
			default:
				if _, err := fmt.Sscan(w, &s.Ordinal); err != nil {
					t.Fatal(err)
				}
			}
		}
		list = append(list, s)
	}
	return list
}

// However requests are repeated and delayed, and with a restore in between: each
// split goes to one request, the splits of a group in ascending ordinal, and in the
// end every request is answered with no more splits.
func TestEverySplitOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parallelism := rapid.IntRange(1, 4).Draw(t, "parallelism")
		e := split.New("s", parallelism)
		var all []*messages.Split
		for i := range rapid.IntRange(0, 12).Draw(t, "splits") {
			all = append(all, &messages.Split{
				Id:      fmt.Sprint(i),
				Group:   rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "group"),
				Ordinal: uint64(rapid.IntRange(0, 20).Draw(t, "ordinal")),
			})
		}
		total := len(all)
		given := map[string]bool{}
		last := map[string]uint64{}
		numbers := make([]uint64, parallelism)
		answered := make([]*messages.SplitAssignment, parallelism)
		done := 0
		attempt := uint32(1)
		take := func(answers []*messages.SplitAssignment) {
			for _, a := range answers {
				subtask := a.Task.Subtask
				if a.Number != numbers[subtask] || a.Fence.Attempt != attempt {
					t.Fatalf("an answer to request %d of attempt %d, the last was %d of %d", a.Number, a.Fence.Attempt, numbers[subtask], attempt)
				}
				if was := answered[subtask]; was != nil {
					if !proto.Equal(a, was) {
						t.Fatalf("request %d was answered with %v and then with %v", a.Number, describe.Text(was), describe.Text(a))
					}
					continue
				}
				answered[subtask] = a
				if a.NoMoreSplits != (a.Split == nil) {
					t.Fatalf("neither a split nor the end: %v", describe.Text(a))
				}
				if a.NoMoreSplits {
					done++
					if len(given) != total {
						t.Fatalf("no more splits after %d of %d", len(given), total)
					}
					continue
				}
				if s := a.Split; given[s.Id] {
					t.Fatalf("split %s is given twice", s.Id)
				} else if s.Group != "" {
					if s.Ordinal < last[s.Group] {
						t.Fatalf("split %d of group %s comes after %d", s.Ordinal, s.Group, last[s.Group])
					}
					last[s.Group] = s.Ordinal
				}
				given[a.Split.Id] = true
			}
		}
		discovered := false
		for step := 0; done < parallelism; step++ {
			if step > 2000 {
				t.Fatalf("no end: %v", e)
			}
			subtask := rapid.IntRange(0, parallelism-1).Draw(t, "subtask")
			action := rapid.IntRange(0, 9).Draw(t, "action")
			switch {
			case action == 0 || step == 50:
				discovered = true
				take(e.Discovered(&messages.SplitsDiscovered{Splits: all}))
			case action == 1 && discovered && attempt == 1:
				// A failover to a checkpoint taken now: readers keep what they have.
				restored := split.New("s", parallelism)
				restored.Restore(e.Snapshot())
				e, attempt, done = restored, 2, 0
				clear(numbers)
				clear(answered)
			default:
				if answered[subtask] != nil && action > 4 {
					if answered[subtask].NoMoreSplits {
						continue
					}
					numbers[subtask]++
					answered[subtask] = nil
				}
				number := numbers[subtask]
				if action == 2 && number > 0 {
					number-- // a late repetition of an older request
				}
				take(e.Request(&messages.SplitRequest{
					Fence: &messages.Fence{Attempt: attempt}, Task: &messages.TaskId{Subtask: uint32(subtask)},
					Uid: "s", Number: number,
				}))
			}
		}
		if e.Unassigned() != 0 {
			t.Fatalf("left over: %v", e)
		}
	})
}
