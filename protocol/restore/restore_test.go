package restore_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"cutwater/internal/script"
	"cutwater/messages"
	"cutwater/protocol/job"
	"cutwater/protocol/keygroup"
	"cutwater/protocol/restore"
)

// TestStories runs testdata/*.txt. The body of a directive is a graph, then the
// line "checkpoint", then what the checkpoint holds:
//
//	uid parallelism=2 max=128 [schema=s] [finished] [coordinator=bytes]
//	uid/0 [keyed=0-63] [watermark=7] [list=name:MODE:a,b] [finished]
func TestStories(t *testing.T) {
	script.RunDir(t, "testdata", func(*testing.T) script.Handler {
		return func(d *script.Directive) (string, error) {
			graph, loaded := parse(d)
			adopted, err := restore.Adopt(graph, loaded.Metadata)
			if err != nil {
				return refused(err)
			}
			plan, err := job.Plan(adopted)
			if err != nil {
				return "", err
			}
			in := restore.Input{Loaded: loaded, Graph: adopted, Plan: plan}
			if s := d.Arg("drop", ""); s != "" {
				in.Dropped = strings.Split(s, ",")
			}
			before := proto.CloneOf(loaded)
			out, err := restore.Assign(in)
			if !proto.Equal(before, loaded) {
				return "", errors.New("the input was changed")
			}
			if err != nil {
				return refused(err)
			}
			return describeAssignment(plan, out), nil
		}
	})
}

func refused(err error) (string, error) {
	var r *restore.RefusedError
	if errors.As(err, &r) {
		return err.Error() + "\n", nil
	}
	return "", err
}

func describeAssignment(plan *messages.ExecutionPlan, out *restore.Assignment) string {
	var b strings.Builder
	for i, v := range out.Vertices {
		for subtask, task := range v.Tasks {
			fmt.Fprintf(&b, "%s/%d", plan.Vertices[i].Operators[0], subtask)
			if v.Finished {
				b.WriteString(" finished")
			}
			for _, op := range task.Operators {
				fmt.Fprintf(&b, " %s{", op.Uid)
				var parts []string
				for _, k := range op.Keyed {
					s := fmt.Sprintf("%d-%d of %s", k.KeyGroups.First, k.KeyGroups.Last, k.Segments[0].Handle.GetFile().GetPath())
					if k.HasWatermark {
						s += fmt.Sprintf(" at %d", k.WatermarkMs)
					}
					parts = append(parts, s)
				}
				for _, l := range op.Lists {
					parts = append(parts, fmt.Sprintf("%s:%s:%s", l.Name, l.Mode, items(l.Items)))
				}
				b.WriteString(strings.Join(parts, "; ") + "}")
			}
			b.WriteByte('\n')
		}
	}
	for _, c := range out.Coordinators {
		fmt.Fprintf(&b, "coordinator %s %s\n", c.Uid, c.State)
	}
	if len(out.Dropped) > 0 {
		fmt.Fprintf(&b, "dropped %v\n", out.Dropped)
	}
	return b.String()
}

func items(list [][]byte) string {
	var all []string
	for _, item := range list {
		all = append(all, string(item))
	}
	return strings.Join(all, ",")
}

func parse(d *script.Directive) (*messages.JobGraph, *messages.CheckpointLoaded) {
	graph := &messages.JobGraph{Parallelism: uint32(d.Int("parallelism", 1)), MaxParallelism: uint32(d.Int("max", 0))}
	loaded := &messages.CheckpointLoaded{Metadata: &messages.CheckpointMetadata{Checkpoint: 7}}
	before, after, _ := strings.Cut(d.Body, "\ncheckpoint\n")
	for _, line := range strings.Split(before, "\n") {
		words := strings.Fields(line)
		op := &messages.OperatorSpec{Uid: words[0]}
		for _, w := range words[1:] {
			key, value, _ := strings.Cut(w, "=")
			switch key {
			case "source":
				op.Source = true
			case "keyed":
				op.Keyed = true
			case "parallelism":
				op.Parallelism = number(value)
			case "max":
				op.MaxParallelism = number(value)
			case "schema":
				op.StateSchema = value
			case "in":
				uid, how, _ := strings.Cut(value, ":")
				op.Inputs = append(op.Inputs, &messages.OperatorInput{Uid: uid, Partitioning: messages.Partitioning(messages.Partitioning_value[how])})
			default:
				panic("unknown word " + w)
			}
		}
		graph.Operators = append(graph.Operators, op)
	}
	for _, line := range strings.Split(after, "\n") {
		if words := strings.Fields(line); len(words) > 0 {
			uid, subtask, isSubtask := strings.Cut(words[0], "/")
			if isSubtask {
				parseSubtask(loaded, uid, number(subtask), words[1:])
			} else {
				parseOperator(loaded, uid, words[1:])
			}
		}
	}
	return graph, loaded
}

func parseOperator(loaded *messages.CheckpointLoaded, uid string, words []string) {
	s := &messages.OperatorState{Uid: uid}
	loaded.Metadata.Operators = append(loaded.Metadata.Operators, s)
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		switch key {
		case "parallelism":
			s.Parallelism = number(value)
		case "max":
			s.MaxParallelism = number(value)
		case "schema":
			s.StateSchema = value
		case "finished":
			s.FullyFinished = true
		case "coordinator":
			s.HasCoordinator = true
			if value != "" {
				loaded.Coordinators = append(loaded.Coordinators, &messages.LoadedCoordinator{Uid: uid, State: []byte(value)})
			}
		default:
			panic("unknown word " + w)
		}
	}
}

func parseSubtask(loaded *messages.CheckpointLoaded, uid string, subtask uint32, words []string) {
	i := slices.IndexFunc(loaded.Metadata.Operators, func(s *messages.OperatorState) bool { return s.Uid == uid })
	e := &messages.SubtaskEntry{Subtask: subtask, State: &messages.OperatorSubtaskState{Uid: uid}}
	loaded.Metadata.Operators[i].Subtasks = append(loaded.Metadata.Operators[i].Subtasks, e)
	lists := &messages.OperatorLists{}
	read := true
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		switch key {
		case "keyed":
			first, last, _ := strings.Cut(value, "-")
			e.State.Keyed = &messages.KeyedState{KeyGroups: &messages.KeyGroupRange{First: number(first), Last: number(last)},
				Segments: []*messages.Segment{{Handle: &messages.StateHandle{Where: &messages.StateHandle_File{
					File: &messages.StateFile{Path: fmt.Sprintf("%s-%d", uid, subtask)}}}}}}
		case "watermark":
			e.State.Keyed.WatermarkMs, e.State.Keyed.HasWatermark = int64(number(value)), true
		case "list":
			parts := strings.SplitN(value, ":", 3)
			l := &messages.OperatorList{Name: parts[0], Mode: messages.RedistributionMode(messages.RedistributionMode_value[parts[1]])}
			if parts[2] != "" {
				for _, item := range strings.Split(parts[2], ",") {
					l.Items = append(l.Items, []byte(item))
				}
			}
			lists.Lists = append(lists.Lists, l)
		case "unread":
			read = false
			e.State.Lists = &messages.StateHandle{}
		case "finished":
			e.Finished = true
		default:
			panic("unknown word " + w)
		}
	}
	if len(lists.Lists) > 0 && read {
		e.State.Lists = &messages.StateHandle{}
		loaded.Lists = append(loaded.Lists, &messages.LoadedLists{Uid: uid, Subtask: subtask, Lists: lists})
	}
}

func number(s string) uint32 {
	var n uint32
	if _, err := fmt.Sscan(s, &n); err != nil {
		panic(s + " is not a number")
	}
	return n
}

// TestLosslessRescale proves for any old and new parallelism: every item of a
// split list goes to one subtask, no subtask gets more than one above its share,
// union and broadcast lists are whole everywhere, and every key group is read by
// its owner, once, and by nobody else.
func TestLosslessRescale(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		oldP := rapid.IntRange(1, 9).Draw(t, "old")
		newP := rapid.IntRange(1, 9).Draw(t, "new")
		maxP := rapid.IntRange(9, 200).Draw(t, "max")
		loaded := &messages.CheckpointLoaded{Metadata: &messages.CheckpointMetadata{Checkpoint: 1}}
		s := &messages.OperatorState{Uid: "op", Parallelism: uint32(oldP), MaxParallelism: uint32(maxP)}
		loaded.Metadata.Operators = append(loaded.Metadata.Operators, s)
		names := rapid.IntRange(1, 3).Draw(t, "lists")
		total := make([]int, names)
		for i := range oldP {
			first, last := keygroup.Range(i, oldP, maxP)
			lists := &messages.OperatorLists{Lists: []*messages.OperatorList{
				{Name: "union", Mode: messages.RedistributionMode_UNION, Items: [][]byte{fmt.Append(nil, "u", i)}},
				{Name: "broadcast", Mode: messages.RedistributionMode_BROADCAST, Items: [][]byte{[]byte("b")}},
			}}
			for n := range names {
				l := &messages.OperatorList{Name: fmt.Sprint("split", n), Mode: messages.RedistributionMode_SPLIT}
				for range rapid.IntRange(0, 5).Draw(t, "items") {
					l.Items = append(l.Items, fmt.Append(nil, total[n]))
					total[n]++
				}
				lists.Lists = append(lists.Lists, l)
			}
			s.Subtasks = append(s.Subtasks, &messages.SubtaskEntry{Subtask: uint32(i), State: &messages.OperatorSubtaskState{
				Uid: "op", Lists: &messages.StateHandle{},
				Keyed: &messages.KeyedState{KeyGroups: &messages.KeyGroupRange{First: uint32(first), Last: uint32(last)}},
			}})
			loaded.Lists = append(loaded.Lists, &messages.LoadedLists{Uid: "op", Subtask: uint32(i), Lists: lists})
		}
		graph := &messages.JobGraph{Operators: []*messages.OperatorSpec{{Uid: "op", Source: true, Keyed: true, Parallelism: uint32(newP)}}}
		graph, err := restore.Adopt(graph, loaded.Metadata)
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
		readers := make([]int, maxP)
		split := make([]map[string]int, names)
		for n := range split {
			split[n] = map[string]int{}
		}
		for i, task := range out.Vertices[0].Tasks {
			op := task.Operators[0]
			for _, k := range op.Keyed {
				for group := k.KeyGroups.First; group <= k.KeyGroups.Last; group++ {
					readers[group]++
					if keygroup.Owner(int(group), newP, maxP) != i {
						t.Fatalf("key group %d is read by subtask %d", group, i)
					}
				}
			}
			for n := range names {
				count := 0
				for _, l := range op.Lists {
					if l.Name == fmt.Sprint("split", n) {
						count = len(l.Items)
						for _, item := range l.Items {
							split[n][string(item)]++
						}
					}
				}
				if oldP != newP && count > total[n]/newP+1 {
					t.Fatalf("subtask %d of %d got %d of %d items", i, newP, count, total[n])
				}
			}
			union := op.Lists[slices.IndexFunc(op.Lists, func(l *messages.OperatorList) bool { return l.Name == "union" })]
			broadcast := op.Lists[slices.IndexFunc(op.Lists, func(l *messages.OperatorList) bool { return l.Name == "broadcast" })]
			if len(union.Items) != oldP || len(broadcast.Items) != 1 {
				t.Fatalf("subtask %d got %d items of the union and %d of the broadcast", i, len(union.Items), len(broadcast.Items))
			}
		}
		for group, n := range readers {
			if n != 1 {
				t.Fatalf("key group %d is read %d times", group, n)
			}
		}
		for n := range names {
			if len(split[n]) != total[n] {
				t.Fatalf("%d of %d items of list %d arrived", len(split[n]), total[n], n)
			}
			for item, count := range split[n] {
				if count != 1 {
					t.Fatalf("item %s arrived %d times", item, count)
				}
			}
		}
	})
}
