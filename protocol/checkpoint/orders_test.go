package checkpoint_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"cutwater/messages"
)

// TestEveryOrder proves for every order of the steps of a checkpoint, of a sweep, of
// a task that does not know that its attempt is over, and of the coordinator's death,
// that no checkpoint on record loses a file: whether the metadata store heard the
// dying coordinator or not, and whether the older checkpoints could be read before
// or not. At the end nothing is left behind.
func TestEveryOrder(t *testing.T) {
	threads := [][]string{{"begin", "publish", "record"}, {"list", "read", "delete"}, {"late"}, {"die"}}
	orders := 0
	interleave(threads, nil, func(order []string) {
		orders++
		for _, heard := range []bool{false, true} {
			for _, v := range []variant{{1, 0}, {3, 0}, {3, 2}} {
				m := threeCheckpoints(teller{t, fmt.Sprintf("%+v, heard %t, %v", v, heard, order)}, v)
				for _, step := range order {
					m.take(step, heard)
				}
				m.settle()
			}
		}
	})
	if want := 8 * 7 * 6 * 5 * 4 / 6; orders != want {
		t.Errorf("%d orders, want %d", orders, want)
	}
}

// variant is how many checkpoints are retained, and which of them the second
// coordinator cannot read, 0 for none.
type variant struct {
	retained uint32
	unread   uint64
}

// interleave calls do with every order that keeps the order of each thread.
func interleave(threads [][]string, order []string, do func([]string)) {
	done := true
	for i, steps := range threads {
		if len(steps) > 0 {
			done = false
			threads[i] = steps[1:]
			interleave(threads, append(order, steps[0]), do)
			threads[i] = steps
		}
	}
	if done {
		do(order)
	}
}

// teller names the story that failed.
type teller struct {
	t     *testing.T
	story string
}

func (t teller) Fatalf(format string, args ...any) {
	t.t.Fatalf("%s: %s", t.story, fmt.Sprintf(format, args...))
}

// threeCheckpoints is a second coordinator after three checkpoints of the first, of
// which the second builds on the first and the third, for one task, on nothing. It
// has completed one of its own, and the sweep behind that has been asked for.
func threeCheckpoints(t teller, v variant) *model {
	m := newModel(t, nil, &messages.CheckpointConfig{TimeoutMs: 50, NumRetained: 3, MaxConcurrent: 1, AfterTasksFinish: true})
	m.files = 11 // so that the full snapshots come as said
	for range 3 {
		m.whole()
	}
	m.disk.sweeps = nil
	m.unread = func(id uint64) bool { return id == v.unread }
	m.settings.NumRetained = v.retained
	m.die(func() bool { return false })
	m.whole()
	return m
}

// whole is a checkpoint from its request to its completion.
func (m *model) whole() {
	for _, step := range []string{"begin", "publish", "record"} {
		m.take(step, false)
	}
}

func (m *model) take(step string, heard bool) {
	switch step {
	case "begin":
		m.requests++
		m.do(m.c.Step(m.nowMs, &messages.RequestCheckpoint{Job: "j", Request: m.requests, Type: messages.CheckpointType_CHECKPOINT}))
		m.answerAll(func(w proto.Message) bool { return !publishes(w) && !records(w) })
		for _, task := range m.tasks {
			m.acknowledge(task, m.lastID)
		}
	case "publish":
		m.answerAll(publishes)
	case "record":
		m.answerAll(records)
	case "late":
		m.acknowledge(m.ghosts[0], m.lastID)
	case "die":
		m.die(func() bool { return heard })
	case "list", "read", "delete":
		m.sweepStep(0, false) // the first, which was asked for first
	}
}

func publishes(w proto.Message) bool { _, is := w.(*messages.WriteMetadata); return is }

func records(w proto.Message) bool {
	p, is := w.(*messages.Propose)
	return is && p.Command.GetRecordCompletion() != nil
}

// answerAll answers what is asked for, and what is asked for then.
func (m *model) answerAll(which func(proto.Message) bool) {
	for again := true; again; {
		again = false
		for _, op := range slices.Sorted(maps.Keys(m.work)) {
			if which(m.work[op]) {
				m.answer(op, 5)
				again = true
			}
		}
	}
}
