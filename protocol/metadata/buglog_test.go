package metadata

import (
	"math/rand/v2"
	"testing"

	"cutwater/messages"
)

const buglogJob = "00000000000000000000000000000001"

// started is a job in its first epoch.
func started(t *testing.T) (m *Machine, apply func(*messages.MetadataCommand) *messages.MetadataResult) {
	t.Helper()
	m = &Machine{}
	apply = func(c *messages.MetadataCommand) *messages.MetadataResult { return m.Apply(m.Index()+1, c) }
	r := apply(&messages.MetadataCommand{Command: &messages.MetadataCommand_RegisterJob{RegisterJob: &messages.RegisterJob{Job: buglogJob, Name: "test"}}})
	if r.Outcome != messages.MetadataOutcome_APPLIED {
		t.Fatal(r)
	}
	return m, apply
}

func startEpoch(coordinator string) *messages.MetadataCommand {
	return &messages.MetadataCommand{Command: &messages.MetadataCommand_StartEpoch{StartEpoch: &messages.StartEpoch{Job: buglogJob, Coordinator: coordinator}}}
}

func allocate(epoch uint64) *messages.MetadataCommand {
	return &messages.MetadataCommand{Command: &messages.MetadataCommand_AllocateCheckpointId{AllocateCheckpointId: &messages.AllocateCheckpointId{Job: buglogJob, Epoch: epoch}}}
}

func complete(epoch, checkpoint uint64) *messages.MetadataCommand {
	return &messages.MetadataCommand{Command: &messages.MetadataCommand_RecordCompletion{RecordCompletion: &messages.RecordCompletion{Job: buglogJob, Epoch: epoch,
		Checkpoint: &messages.CompletedCheckpoint{Checkpoint: checkpoint, Epoch: epoch}}}}
}

// H06 (akka #28093, #17955, akka.net #3455): two coordinators wrote one journal, which
// nobody could read afterwards. Here whatever the older one writes is refused as of a
// stale epoch, in every kind of command, and the record stays as the newer one left it.
func TestBugLog_H06_TwoCoordinators(t *testing.T) {
	m, apply := started(t)
	older := apply(startEpoch("n1|c")).Epoch
	first := apply(allocate(older)).Checkpoint
	newer := apply(startEpoch("n2|c")).Epoch
	second := apply(allocate(newer)).Checkpoint
	if r := apply(complete(newer, second)); r.Outcome != messages.MetadataOutcome_APPLIED {
		t.Fatal(r)
	}
	before := m.Job(buglogJob).String()
	for _, c := range []*messages.MetadataCommand{
		allocate(older), complete(older, first), complete(older, second),
		{Command: &messages.MetadataCommand_SetJobStatus{SetJobStatus: &messages.SetJobStatus{Job: buglogJob, Epoch: older, Status: messages.JobStatus_FAILED}}},
		{Command: &messages.MetadataCommand_ForgetCheckpoints{ForgetCheckpoints: &messages.ForgetCheckpoints{Job: buglogJob, Epoch: older, Checkpoints: []uint64{second}}}},
	} {
		if r := apply(c); r.Outcome != messages.MetadataOutcome_STALE_EPOCH {
			t.Errorf("%v by the older coordinator: %v", c, r.Outcome)
		}
	}
	if after := m.Job(buglogJob).String(); after != before {
		t.Errorf("the record was\n%s\nand is\n%s", before, after)
	}
}

// H07 (orleans #9855, #5112, #8242, #9074): one owner was active twice, and the stale one
// overwrote newer state. Here, whoever coordinates while nodes come and go, in any order
// of what they write, a checkpoint is accepted once, and of the newest epoch alone.
func TestBugLog_H07_OwnersOverlap(t *testing.T) {
	refused := 0
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 7))
		m, apply := started(t)
		var newest uint64
		var pending [][2]uint64 // epoch, checkpoint
		accepted := map[uint64]uint64{}
		for range 100 {
			switch rng.IntN(4) {
			case 0:
				newest = apply(startEpoch("n|c")).Epoch
			case 1:
				if epoch := uint64(rng.IntN(int(newest) + 1)); epoch > 0 {
					if r := apply(allocate(epoch)); r.Outcome == messages.MetadataOutcome_APPLIED {
						pending = append(pending, [2]uint64{epoch, r.Checkpoint})
					}
				}
			default:
				if len(pending) == 0 {
					continue
				}
				p := pending[rng.IntN(len(pending))] // again and again
				_, before := accepted[p[1]]
				r := apply(complete(p[0], p[1]))
				switch {
				case r.Outcome == messages.MetadataOutcome_STALE_EPOCH:
					refused++
				case r.Outcome == messages.MetadataOutcome_APPLIED && p[0] != newest:
					t.Fatalf("seed %d: checkpoint %d of epoch %d is accepted in epoch %d", seed, p[1], p[0], newest)
				case r.Outcome == messages.MetadataOutcome_APPLIED && !before:
					accepted[p[1]] = p[0]
				}
			}
		}
		for _, c := range m.Job(buglogJob).Completed {
			if accepted[c.Checkpoint] != c.Epoch {
				t.Fatalf("seed %d: checkpoint %d of epoch %d is on record, accepted was that of epoch %d", seed, c.Checkpoint, c.Epoch, accepted[c.Checkpoint])
			}
		}
	}
	if refused == 0 {
		t.Error("no stale owner wrote anything")
	}
}
