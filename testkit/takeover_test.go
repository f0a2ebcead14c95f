package testkit

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"cutwater/messages"
	"cutwater/protocol"
)

// steady is a job of two seconds whose readers have work for long. Its tasks run on n2
// and n3.
func steady() *Scenario {
	s := apart(scenario(shuffle, 2, small, 3, 600))
	s.Topology = strings.Replace(s.Topology, "format: csv, split-size: 1KiB", "format: csv, rate: 300, split-size: 8KiB", 1)
	return s
}

// gap watches the time between the loss of a coordinator and its successor's question.
type gap struct {
	batches  int             // of records that arrived in it
	attempts map[uint32]bool // that were deployed
}

// loseLater loses the coordinator by lose, some time after the first checkpoint began.
func loseLater(w *World, lose func()) *gap {
	g := &gap{attempts: map[uint32]bool{}}
	triggered, lost, asked := false, false, false
	w.Watch(func(_ protocol.Address, m proto.Message) {
		switch m := m.(type) {
		case *messages.Deploy:
			if m.Fence.Job == jobID {
				g.attempts[m.Fence.Attempt] = true
			}
		case *messages.TriggerCheckpoint:
			if !triggered && m.Fence.Job == jobID {
				triggered = true
				w.After(int64(w.Random(1000)), func() {
					lost = true
					lose()
				})
			}
		case *messages.AdoptTasks:
			asked = true
		case *messages.RecordBatch:
			if lost && !asked {
				g.batches++
			}
		}
	})
	return g
}

// undisturbed: the one attempt went on, records flowed all the time, and the rows are
// exact.
func undisturbed(t *testing.T, seed uint64, r *Run, err error, g *gap, want []string) {
	t.Helper()
	if err != nil || r.Status != messages.JobStatus_FINISHED {
		t.Fatalf("seed %d: %v, the job ended %v: %s\n%s", seed, err, r.Status, r.Failure, ending(r))
	}
	if diff := Diff(r.Rows, want); diff != "" {
		t.Fatalf("seed %d: the committed rows differ:\n%s", seed, diff)
	}
	if r.Restarts > 0 || r.Noticed[adopted] != 1 || r.Noticed[restored] > 0 || len(g.attempts) != 1 || g.batches == 0 {
		t.Fatalf("seed %d: %d restarts, %d takeovers, %d restores, the attempts %v, %d batches in the gap",
			seed, r.Restarts, r.Noticed[adopted], r.Noticed[restored], g.attempts, g.batches)
	}
}

// A coordinator that is lost alone, in whatever it is doing, stops no task and no
// record: the attempt goes on, whichever node takes the job over.
func TestLostCoordinatorStopsNothing(t *testing.T) {
	s := steady()
	want, err := s.Run(0, Faults{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for seed := uint64(1); seed <= 12; seed++ {
		var g *gap
		r, err := s.Run(seed, Faults{}, func(w *World) { g = loseLater(w, w.LoseCoordinator) })
		undisturbed(t, seed, r, err, g, want.Rows)
	}
}

// The same with the whole node that coordinates, and control messages that are lost,
// late and doubled.
func TestLostCoordinatorNodeStopsNothing(t *testing.T) {
	s := steady()
	want, err := s.Run(0, Faults{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for seed := uint64(1); seed <= 12; seed++ {
		var g *gap
		r, err := s.Run(seed, Faults{DropControl: 0.01, DuplicateControl: 0.02, DelayControl: 0.02}, func(w *World) {
			g = loseLater(w, func() { w.Nodes()[0].CrashFor(int64(20 + w.Random(400))) })
		})
		undisturbed(t, seed, r, err, g, want.Rows)
	}
}

// H05 (FLINK-6174, 10052): a short absence of the one who leads cancelled all tasks. Here
// the same holds in a cluster, where the production dispatcher finds out that the node is
// gone and orders another coordinator: no task is deployed again.
func TestBugLog_H05_LostCoordinatorStopsNothing(t *testing.T) {
	s := steady()
	s.Cluster, s.Slots = true, 2
	want, err := s.Run(0, Faults{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	apart := 0
	for seed := uint64(1); seed <= 16; seed++ {
		var g *gap
		tasks := false // of the job run on the coordinator's node, and die with it
		r, err := s.Run(seed, Faults{}, func(w *World) {
			g = loseLater(w, func() {
				if tasks = w.plane.coordinator() != w.Nodes()[0]; !tasks {
					w.plane.coordinator().CrashFor(30_000)
				}
			})
		})
		if !tasks {
			apart++
			undisturbed(t, seed, r, err, g, want.Rows)
		}
	}
	if apart < 4 {
		t.Fatalf("in %d of 16 seeds the coordinator was apart from the tasks", apart)
	}
}

// A leader that dies with the coordinator of a job, and with half of its tasks, costs
// little more than the election and the time until it is noticed: the next dispatcher
// asks who uses which slots, and does not wait until it has heard it.
func TestClusterLosesLeaderAndCoordinator(t *testing.T) {
	s := steady()
	s.Cluster, s.Slots = true, 4
	together := 0
	for seed := uint64(1); seed <= 16; seed++ {
		var leads protocol.Address // the dispatcher that leads
		var knownMs, deployedMs int64
		lost := "" // the node
		_, err := s.Run(seed, Faults{}, func(w *World) {
			loseLater(w, func() {
				if c := w.plane.coordinator(); c.ID == w.plane.group.Leader() && c != w.Nodes()[0] {
					lost = c.Name
					c.CrashFor(60_000)
				}
			})
			w.Watch(func(to protocol.Address, m proto.Message) {
				switch m := m.(type) {
				case *messages.LeadershipChanged:
					if m.Leading {
						leads = to
					}
				case *messages.NodeLost:
					if m.Node == lost && to == leads && knownMs == 0 {
						knownMs = w.ElapsedMs()
					}
				case *messages.Deploy:
					if lost != "" && m.Fence.Job == jobID && m.Fence.Epoch > 1 && deployedMs == 0 {
						deployedMs = w.ElapsedMs()
					}
				}
			})
		})
		if lost == "" {
			continue
		}
		together++
		if err != nil || knownMs == 0 || deployedMs == 0 {
			t.Fatalf("seed %d: %v; the next leader knew of the loss at %d ms, and tasks were deployed at %d ms", seed, err, knownMs, deployedMs)
		}
		if waited := deployedMs - knownMs; waited > 500 {
			t.Errorf("seed %d: the next leader knew of the loss at %d ms, and tasks were deployed %d ms later", seed, knownMs, waited)
		}
	}
	if together < 3 {
		t.Fatalf("in %d of 16 seeds the leader coordinated the job, beside tasks of it", together)
	}
}
