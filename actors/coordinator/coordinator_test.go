package coordinator

import (
	"context"
	"errors"
	"strings"
	"testing"

	"cutwater/actors/system/systemtest"
	"cutwater/messages"
	"cutwater/protocol/job"
)

// The actor leads a job from its epoch to its recorded end, and then it is gone.
func TestLife(t *testing.T) {
	r := newRig(t)
	r.Settle()
	d := last[*messages.Deploy](r)
	if d.Fence.Epoch != 1 || d.Coordinator != "n1|coordinator/"+testJob || r.record().Epoch != 1 {
		t.Fatalf("deployed %v, on record %v", d, r.record())
	}
	r.report(messages.TaskState_TASK_RUNNING)
	if r.status != messages.JobStatus_RUNNING || r.record().Status != messages.JobStatus_RUNNING {
		t.Fatalf("status %v, on record %v", r.status, r.record().Status)
	}
	r.report(messages.TaskState_TASK_FINISHED)
	if len(r.ends) != 1 || r.ends[0] != nil || r.record().Status != messages.JobStatus_FINISHED {
		t.Fatalf("ended %v, on record %v", r.ends, r.record().Status)
	}
	before := r.System.Undelivered()
	r.deliver(&messages.CancelJob{})
	if r.System.Undelivered() == before {
		t.Error("the actor is still there")
	}
}

// CancelJob cancels the tasks, again and again until they have ended.
func TestCancel(t *testing.T) {
	r := newRig(t)
	r.Settle()
	r.report(messages.TaskState_TASK_RUNNING)
	d := last[*messages.Deploy](r)
	r.deliver(&messages.CancelJob{Job: testJob})
	r.Advance(1000)
	if got := systemtest.Take[*messages.CancelTask](r.Rig); len(got) != 2 || got[1].Fence.Attempt != d.Fence.Attempt {
		t.Fatalf("cancelled %v", got)
	}
	r.deliver(&messages.TaskStateChanged{Fence: d.Fence, Task: d.Task, State: messages.TaskState_TASK_CANCELED})
	if r.record().Status != messages.JobStatus_CANCELED || len(r.ends) != 1 || r.ends[0] != nil {
		t.Fatalf("on record %v, ended %v", r.record().Status, r.ends)
	}
}

// SuspendJob takes a last checkpoint, which stays, and stops the tasks.
func TestSuspend(t *testing.T) {
	r := newRig(t)
	r.Settle()
	r.report(messages.TaskState_TASK_RUNNING)
	r.deliver(&messages.SuspendJob{Job: testJob})
	trigger := last[*messages.TriggerCheckpoint](r)
	r.deliver(&messages.AcknowledgeCheckpoint{Fence: trigger.Fence, Task: trigger.Task, Checkpoint: trigger.Checkpoint, Metrics: &messages.CheckpointMetrics{}})
	r.report(messages.TaskState_TASK_CANCELED)
	if rec := r.record(); rec.Status != messages.JobStatus_SUSPENDED || len(rec.Completed) != 1 {
		t.Fatalf("on record %v", rec)
	}
}

// A coordinator that another one has overtaken ends with ErrFenced and tells its
// tasks nothing.
func TestFenced(t *testing.T) {
	r := newRig(t)
	r.Settle()
	r.report(messages.TaskState_TASK_RUNNING)
	if _, err := r.metadata.Propose(context.Background(), &messages.MetadataCommand{Command: &messages.MetadataCommand_StartEpoch{
		StartEpoch: &messages.StartEpoch{Job: testJob}}}); err != nil {
		t.Fatal(err)
	}
	r.Sent = nil
	r.Advance(100) // a checkpoint is due
	if len(r.ends) != 1 || !errors.Is(r.ends[0], job.ErrFenced) {
		t.Fatalf("ended %v", r.ends)
	}
	if got := systemtest.Take[*messages.CancelTask](r.Rig); len(got) != 0 {
		t.Fatalf("cancelled %v", got)
	}
}

// A user's request is answered, whether it succeeds or not.
func TestOutcome(t *testing.T) {
	r := newRig(t)
	r.Settle()
	r.deliver(&messages.RequestCheckpoint{Job: testJob, Request: 1, Type: messages.CheckpointType_CHECKPOINT})
	r.report(messages.TaskState_TASK_RUNNING)
	r.deliver(&messages.RequestCheckpoint{Job: testJob, Request: 2, Type: messages.CheckpointType_CHECKPOINT})
	trigger := last[*messages.TriggerCheckpoint](r)
	r.deliver(&messages.AcknowledgeCheckpoint{Fence: trigger.Fence, Task: trigger.Task, Checkpoint: trigger.Checkpoint, Metrics: &messages.CheckpointMetrics{}})
	if len(r.outcomes) != 2 || r.outcomes[0].Reason != messages.FailureReason_NOT_ALL_REQUIRED_TASKS_RUNNING ||
		r.outcomes[1].Request != 2 || r.outcomes[1].Checkpoint != trigger.Checkpoint || r.outcomes[1].Location == "" {
		t.Fatalf("answered %v", r.outcomes)
	}
}

// What sources have read is passed on, and nothing else happens.
func TestProgress(t *testing.T) {
	r := newRig(t)
	r.Settle()
	fence := last[*messages.Deploy](r).Fence
	r.Sent = nil
	p := &messages.SourceProgress{Fence: fence, Uid: "src", Records: 7}
	r.deliver(p)
	if len(r.progress) != 1 || r.progress[0] != p || len(r.Sent) != 0 {
		t.Fatalf("passed on %v, sent %v", r.progress, r.Sent)
	}
}

// A job has one coordinator on a node.
func TestOneCoordinator(t *testing.T) {
	r := newRig(t)
	r.Settle()
	if err := Spawn(r.System, r.config); err == nil || !strings.Contains(err.Error(), "running already") {
		t.Fatalf("a second one was started: %v", err)
	}
}

// Where the checkpoint store cannot be opened the work fails, and the job says why.
func TestStorageCannotBeOpened(t *testing.T) {
	r := newRig(t)
	r.storage = errors.New("no such bucket")
	r.Settle()
	r.Advance(500) // the metadata store is asked through the same work, and again
	if _, deployed := systemtest.Last[*messages.Deploy](r.Rig); deployed {
		t.Fatal("tasks were deployed")
	}
	var said string
	for _, e := range r.events {
		said += e.String() + "\n"
	}
	if !strings.Contains(said, "no such bucket") {
		t.Errorf("events:\n%s", said)
	}
	r.storage = nil
	r.Advance(500)
	if _, ok := systemtest.Last[*messages.Deploy](r.Rig); !ok {
		t.Error("the job did not go on when it could")
	}
}
