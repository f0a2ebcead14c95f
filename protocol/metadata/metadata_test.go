package metadata

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"cutwater/internal/script"
	"cutwater/messages"
	"cutwater/messages/describe"
)

// TestStories runs testdata/*.txt: each directive is one command, and its output
// the result; every state is taken through a snapshot before the next command.
func TestStories(t *testing.T) {
	script.RunDir(t, "testdata", func(t *testing.T) script.Handler {
		m := &Machine{}
		return func(d *script.Directive) (string, error) {
			switch d.Verb {
			case "job":
				if r := m.Job(jobID(d)); r != nil {
					return describe.Text(r), nil
				}
				return "none", nil
			case "jobs":
				var b strings.Builder
				for _, r := range m.Jobs() {
					fmt.Fprintf(&b, "%s %s %s", r.Job, r.Name, r.Status)
					if r.Coordinator != "" || r.Topology != nil {
						fmt.Fprintf(&b, " coordinator=%q topology=%q", r.Coordinator, r.Topology.GetFile())
					}
					b.WriteByte('\n')
				}
				return b.String(), nil
			case "restore":
				return "", m.Restore(&messages.MetadataSnapshot{Index: 7, Jobs: []*messages.JobRecord{{Job: "b"}, {Job: "a"}}})
			case "apply":
				return describe.Text(m.Apply(uint64(d.Int("index", 0)), nil)), nil
			}
			c, err := command(d)
			if err != nil {
				return "", err
			}
			restored := &Machine{}
			if err := restored.Restore(m.Snapshot()); err != nil {
				return "", err
			}
			m = restored
			return strings.ReplaceAll(describe.Text(m.Apply(m.Index()+1, c)), "MetadataResult", ""), nil
		}
	})
}

// jobID completes a short job id.
func jobID(d *script.Directive) string {
	id := d.Arg("job", "1")
	if d.Has("raw") {
		return id
	}
	return strings.Repeat("0", idLength-len(id)) + id
}

// clusterID is one digit, 32 times.
func clusterID(d *script.Directive) string { return strings.Repeat(d.Arg("cluster", "a"), idLength) }

func command(d *script.Directive) (*messages.MetadataCommand, error) {
	job, epoch := jobID(d), uint64(d.Int("epoch", 1))
	switch d.Verb {
	case "register":
		return &messages.MetadataCommand{Command: &messages.MetadataCommand_RegisterJob{RegisterJob: &messages.RegisterJob{
			Job: job, Name: d.Arg("name", "flights"), NewIncarnation: d.Has("new-incarnation"), RestoredFrom: d.Arg("from", ""), AtMs: d.Int("at", 1),
			UniqueName: d.Has("unique"), Topology: topologyOf(d)}}}, nil
	case "start-epoch":
		return &messages.MetadataCommand{Command: &messages.MetadataCommand_StartEpoch{StartEpoch: &messages.StartEpoch{Job: job, Coordinator: d.Arg("at", "")}}}, nil
	case "allocate":
		return &messages.MetadataCommand{Command: &messages.MetadataCommand_AllocateCheckpointId{AllocateCheckpointId: &messages.AllocateCheckpointId{
			Job: job, Epoch: epoch, AtLeast: uint64(d.Int("at-least", 0))}}}, nil
	case "complete":
		return &messages.MetadataCommand{Command: &messages.MetadataCommand_RecordCompletion{RecordCompletion: &messages.RecordCompletion{
			Job: job, Epoch: epoch, Subsumed: numbers(d.Arg("subsumed", "")),
			Checkpoint: &messages.CompletedCheckpoint{Checkpoint: uint64(d.Int("checkpoint", 0)), Epoch: uint64(d.Int("taken-in", int64(epoch))),
				MetadataHash: uint64(d.Int("hash", 9))}}}}, nil
	case "forget":
		return &messages.MetadataCommand{Command: &messages.MetadataCommand_ForgetCheckpoints{ForgetCheckpoints: &messages.ForgetCheckpoints{
			Job: job, Epoch: epoch, Checkpoints: numbers(d.Arg("checkpoints", ""))}}}, nil
	case "status":
		return &messages.MetadataCommand{Command: &messages.MetadataCommand_SetJobStatus{SetJobStatus: &messages.SetJobStatus{
			Job: job, Epoch: epoch, Status: messages.JobStatus(messages.JobStatus_value[d.Arg("to", "")]), Failure: d.Arg("failure", ""), AtMs: d.Int("at", 1),
			Deployment: deploymentOf(d)}}}, nil
	case "found":
		return &messages.MetadataCommand{Command: &messages.MetadataCommand_FoundCluster{FoundCluster: &messages.FoundCluster{ClusterId: clusterID(d)}}}, nil
	case "yield":
		return &messages.MetadataCommand{Command: &messages.MetadataCommand_YieldCluster{YieldCluster: &messages.YieldCluster{ToCluster: clusterID(d)}}}, nil
	case "empty":
		return &messages.MetadataCommand{}, nil
	}
	return nil, fmt.Errorf("unknown directive %s", d.Verb)
}

func deploymentOf(d *script.Directive) *messages.Deployment {
	if !d.Has("attempt") {
		return nil
	}
	return &messages.Deployment{Attempt: uint32(d.Int("attempt", 0)), Slots: []*messages.NodeSlots{{Node: d.Arg("node", "n1"), Slots: 2}}}
}

func topologyOf(d *script.Directive) *messages.TopologySource {
	if !d.Has("topology") {
		return nil
	}
	return &messages.TopologySource{File: d.Arg("topology", "")}
}

func numbers(list string) []uint64 {
	var all []uint64
	for _, s := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' }) {
		var n uint64
		fmt.Sscan(s, &n)
		all = append(all, n)
	}
	return all
}

// TestInvariants proves over random commands of several coordinators: epochs and
// checkpoint ids never go back, only the newest epoch changes a job, the list of
// completions is ordered and names only allocated ids, and a refused command
// changes nothing.
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &Machine{}
		job := strings.Repeat("a", idLength)
		number := rapid.Uint64Range(0, 6)
		var epochs, ids []uint64
		for range rapid.IntRange(1, 60).Draw(t, "commands") {
			epoch := number.Draw(t, "epoch")
			var c *messages.MetadataCommand
			switch rapid.IntRange(0, 5).Draw(t, "kind") {
			case 0:
				c = &messages.MetadataCommand{Command: &messages.MetadataCommand_RegisterJob{RegisterJob: &messages.RegisterJob{Job: job, NewIncarnation: rapid.Bool().Draw(t, "new")}}}
			case 1:
				c = &messages.MetadataCommand{Command: &messages.MetadataCommand_StartEpoch{StartEpoch: &messages.StartEpoch{Job: job}}}
			case 2:
				c = &messages.MetadataCommand{Command: &messages.MetadataCommand_AllocateCheckpointId{AllocateCheckpointId: &messages.AllocateCheckpointId{Job: job, Epoch: epoch, AtLeast: number.Draw(t, "least")}}}
			case 3:
				c = &messages.MetadataCommand{Command: &messages.MetadataCommand_RecordCompletion{RecordCompletion: &messages.RecordCompletion{Job: job, Epoch: epoch,
					Checkpoint: &messages.CompletedCheckpoint{Checkpoint: number.Draw(t, "id"), Epoch: epoch, MetadataHash: number.Draw(t, "hash")},
					Subsumed:   rapid.SliceOfN(number, 0, 2).Draw(t, "subsumed")}}}
			case 4:
				c = &messages.MetadataCommand{Command: &messages.MetadataCommand_ForgetCheckpoints{ForgetCheckpoints: &messages.ForgetCheckpoints{Job: job, Epoch: epoch, Checkpoints: rapid.SliceOfN(number, 0, 2).Draw(t, "forgotten")}}}
			case 5:
				c = &messages.MetadataCommand{Command: &messages.MetadataCommand_SetJobStatus{SetJobStatus: &messages.SetJobStatus{Job: job, Epoch: epoch,
					Status: messages.JobStatus(rapid.IntRange(0, 9).Draw(t, "status"))}}}
			}
			before := m.Job(job)
			r := m.Apply(m.Index()+1, c)
			after := m.Job(job)
			if r.Outcome != messages.MetadataOutcome_APPLIED && !proto.Equal(before, after) {
				t.Fatalf("%s answered %s and changed %s to %s", describe.Text(c), r.Outcome, describe.Text(before), describe.Text(after))
			}
			if r.Outcome != messages.MetadataOutcome_APPLIED {
				continue
			}
			switch {
			case c.GetRegisterJob() != nil:
				if r.Epoch > 0 && (len(epochs) == 0 || r.Epoch > epochs[len(epochs)-1]) {
					epochs = append(epochs, r.Epoch)
				}
			case c.GetStartEpoch() != nil:
				epochs = append(epochs, r.Epoch)
			case epoch != r.Epoch || epoch != epochs[len(epochs)-1]:
				t.Fatalf("epoch %d changed the job in epoch %d: %s", epoch, epochs[len(epochs)-1], describe.Text(c))
			case c.GetAllocateCheckpointId() != nil:
				ids = append(ids, r.Checkpoint)
			}
			ascending(t, "epochs", epochs)
			ascending(t, "ids", ids)
			var listed []uint64
			for _, done := range after.Completed {
				listed = append(listed, done.Checkpoint)
				if done.Checkpoint > after.LastCheckpoint {
					t.Fatalf("checkpoint %d is listed, but the last id is %d", done.Checkpoint, after.LastCheckpoint)
				}
			}
			ascending(t, "completed", listed)
		}
	})
}

func ascending(t *rapid.T, what string, list []uint64) {
	for i := 1; i < len(list); i++ {
		if list[i-1] >= list[i] {
			t.Fatalf("%s go back: %v", what, list)
		}
	}
}

// TestCopies proves that nobody can change the state through what was handed in
// or out.
func TestCopies(t *testing.T) {
	m := &Machine{}
	job := strings.Repeat("a", idLength)
	graph := &messages.JobGraph{Name: "before"}
	m.Apply(1, &messages.MetadataCommand{Command: &messages.MetadataCommand_RegisterJob{RegisterJob: &messages.RegisterJob{Job: job, Graph: graph}}})
	graph.Name = "after"
	m.Job(job).Graph.Name = "after"
	m.Jobs()[0].Graph.Name = "after"
	s := m.Snapshot()
	s.Jobs[0].Graph.Name = "after"
	if err := (&Machine{}).Restore(s); err != nil {
		t.Fatal(err)
	}
	if got := m.Job(job).Graph.Name; got != "before" {
		t.Fatalf("the state was changed from outside to %q", got)
	}
}

// The four ends of a job are final for its coordinator; in every other status it runs,
// or will again.
func TestEnded(t *testing.T) {
	for n := range messages.JobStatus_name {
		status, want := messages.JobStatus(n), false
		switch status {
		case messages.JobStatus_FINISHED, messages.JobStatus_FAILED, messages.JobStatus_CANCELED, messages.JobStatus_SUSPENDED:
			want = true
		}
		if Ended(status) != want {
			t.Errorf("%s: ended is %t", status, !want)
		}
	}
}

// A log that becomes that of a new cluster remembers the three before it, and keeps
// that in snapshots.
func TestSupersede(t *testing.T) {
	var m Machine
	id := func(i int) string { return fmt.Sprintf("%032x", i) }
	for i := range 6 {
		m.Supersede(id(i))
		m.Supersede(id(i)) // repeated
	}
	var copied Machine
	if err := copied.Restore(m.Snapshot()); err != nil {
		t.Fatal(err)
	}
	if want := []string{id(4), id(3), id(2)}; copied.ClusterID() != id(5) || !slices.Equal(copied.Supersedes(), want) {
		t.Errorf("it is cluster %s, made of %v, not of %v", copied.ClusterID(), copied.Supersedes(), want)
	}
}
