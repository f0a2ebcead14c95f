package checkpoint_test

import (
	"testing"

	"cutwater/messages"
	"cutwater/protocol"
	"cutwater/protocol/checkpoint"
)

// Rows 13, 14: one request is triggered, a thousand wait, and the next one is
// told that there are too many, which is a failure.
func TestQueueOverflowIsAnswered(t *testing.T) {
	c := checkpoint.New(checkpoint.Config{Job: "j", Epoch: 1, Ops: &protocol.Ops{}, Settings: &messages.CheckpointConfig{TimeoutMs: 10, MaxConcurrent: 1, NumRetained: 1}})
	c.SetExecutions(&checkpoint.Executions{
		Plan:  &messages.ExecutionPlan{Vertices: []*messages.Vertex{{Id: "a", Parallelism: 1, Operators: []string{"a"}}}},
		Tasks: []checkpoint.Execution{{Task: taskID("a/0"), State: messages.TaskState_TASK_RUNNING, Address: "a"}},
	})
	for n := uint64(1); n <= 1001; n++ {
		if fx := c.Step(0, &messages.RequestCheckpoint{Job: "j", Request: n, Type: messages.CheckpointType_CHECKPOINT}); len(fx.Send) != 0 {
			t.Fatalf("request %d was answered with %v", n, fx.Send[0].Message)
		}
	}
	fx := c.Step(0, &messages.RequestCheckpoint{Job: "j", Request: 1002, Type: messages.CheckpointType_CHECKPOINT})
	if len(fx.Send) != 1 || fx.Send[0].To != checkpoint.Requester {
		t.Fatalf("sent %v, want one answer", fx.Send)
	}
	o := fx.Send[0].Message.(*messages.CheckpointOutcome)
	if o.Request != 1002 || o.Reason != messages.FailureReason_TOO_MANY_CHECKPOINT_REQUESTS {
		t.Errorf("answered %v", o)
	}
	if e := fx.Events[0].(checkpoint.RequestFailed); !e.Failed {
		t.Error("that there are too many is no failure")
	}
	// Those that a job leaves behind at its end are no failures.
	for _, e := range c.Shutdown(1, messages.JobStatus_FINISHED).Events {
		if e, ok := e.(checkpoint.RequestFailed); ok && e.Failed {
			t.Fatalf("the end of the job is a failure: %s", e)
		}
	}
}
