package metadata

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"cutwater/messages"
)

// What a dispatcher reads twice a second is what has changed in how jobs stand, not the
// records: a completed checkpoint changes nothing, a status one job. Of an index before
// a snapshot all jobs may have changed since.
func TestStanding(t *testing.T) {
	m := &Machine{}
	apply := func(c *messages.MetadataCommand) {
		if r := m.Apply(m.Index()+1, c); r.Outcome != messages.MetadataOutcome_APPLIED {
			t.Fatalf("%v: %v", c, r)
		}
	}
	const jobs, checkpoints = 100, 100
	id := func(n int) string { return fmt.Sprintf("%032x", n) }
	complete := func(job string, n uint64) {
		apply(&messages.MetadataCommand{Command: &messages.MetadataCommand_AllocateCheckpointId{AllocateCheckpointId: &messages.AllocateCheckpointId{Job: job, Epoch: 1}}})
		apply(&messages.MetadataCommand{Command: &messages.MetadataCommand_RecordCompletion{RecordCompletion: &messages.RecordCompletion{Job: job, Epoch: 1,
			Checkpoint: &messages.CompletedCheckpoint{Checkpoint: n, Epoch: 1, Location: fmt.Sprintf("/checkpoints/%s/chk-%d", job, n)}}}})
	}
	for n := range jobs {
		apply(&messages.MetadataCommand{Command: &messages.MetadataCommand_RegisterJob{RegisterJob: &messages.RegisterJob{Job: id(n), Name: id(n), Graph: &messages.JobGraph{Name: "j"}}}})
		apply(&messages.MetadataCommand{Command: &messages.MetadataCommand_StartEpoch{StartEpoch: &messages.StartEpoch{Job: id(n), Coordinator: "n1|coordinator/" + id(n)}}})
		for c := range uint64(checkpoints) {
			complete(id(n), c+1)
		}
	}
	size := func(records []*messages.JobRecord) int { return proto.Size(&messages.JobsRead{Jobs: records}) }
	all := m.Standing(0)
	if len(all) != jobs || all[7].Job != id(7) || all[7].Epoch != 1 || all[7].Coordinator == "" || size(all) > jobs*200 {
		t.Fatalf("%d jobs stand, in %d bytes (their records have %d)", len(all), size(all), size(m.Jobs()))
	}
	t.Logf("all records: %d bytes, how all jobs stand: %d", size(m.Jobs()), size(all))
	read := m.Index()
	complete(id(3), checkpoints+1)
	if changed := m.Standing(read); len(changed) != 0 {
		t.Fatalf("a checkpoint changed how jobs stand: %v", changed)
	}
	apply(&messages.MetadataCommand{Command: &messages.MetadataCommand_SetJobStatus{SetJobStatus: &messages.SetJobStatus{Job: id(3), Epoch: 1, Status: messages.JobStatus_RUNNING,
		Deployment: &messages.Deployment{Attempt: 7}}}})
	if changed := m.Standing(read); len(changed) != 1 || changed[0].Job != id(3) || changed[0].Status != messages.JobStatus_RUNNING || changed[0].Deployment.GetAttempt() != 7 {
		t.Fatalf("changed are %v", changed)
	}
	restored := &Machine{}
	if err := restored.Restore(m.Snapshot()); err != nil {
		t.Fatal(err)
	}
	if before, since := len(restored.Standing(read)), len(restored.Standing(m.Index())); before != jobs || since != 0 {
		t.Fatalf("behind a snapshot %d jobs changed, and %d since", before, since)
	}
}
