package coordinator

import (
	"testing"

	"cutwater/actors/system/systemtest"
	"cutwater/messages"
)

// Whoever asks how the job stands is told, and a job that has ended leaves its last
// view.
func TestView(t *testing.T) {
	r := newRig(t)
	r.Settle()
	r.report(messages.TaskState_TASK_RUNNING)
	d := last[*messages.Deploy](r)
	r.deliver(&messages.SourceProgress{Fence: d.Fence, Task: d.Task, Uid: "src", Records: 7, Bytes: 70})
	r.Advance(100)
	trigger := last[*messages.TriggerCheckpoint](r)
	r.deliver(&messages.AcknowledgeCheckpoint{Fence: trigger.Fence, Task: trigger.Task, Checkpoint: 1, Metrics: &messages.CheckpointMetrics{CheckpointBytes: 3}})
	r.deliver(&messages.JobQuery{Job: testJob, Id: 9, Asker: "n2|asker", Checkpoint: 1})
	views := systemtest.Take[*messages.JobView](r.Rig)
	if len(views) != 1 {
		t.Fatalf("answered %v", views)
	}
	v := views[0]
	if v.Query != 9 || v.Job != testJob || v.Name != "test" || v.Status != messages.JobStatus_RUNNING || v.NowMs != r.NowMs() {
		t.Errorf("the view is %v", v)
	}
	if len(v.Tasks) != 1 || v.Tasks[0].Node != "n2" || v.Tasks[0].RecordsRead != 7 || v.Tasks[0].State != messages.TaskState_TASK_RUNNING {
		t.Errorf("tasks %v", v.Tasks)
	}
	if c := v.Checkpoints; c.Counts.Completed != 1 || c.LatestCompleted.GetSums().GetCheckpointBytes() != 3 || len(c.LatestCompleted.Subtasks) != 1 {
		t.Errorf("checkpoints %v", c)
	}
	if len(r.views) != 0 {
		t.Fatalf("the last view came early: %v", r.views)
	}
	r.deliver(&messages.TaskStateChanged{Fence: d.Fence, Task: d.Task, State: messages.TaskState_TASK_FINISHED})
	if len(r.views) != 1 || r.views[0].Status != messages.JobStatus_FINISHED || len(r.views[0].Checkpoints.LatestCompleted.Subtasks) != 0 {
		t.Errorf("last views %v", r.views)
	}
}
