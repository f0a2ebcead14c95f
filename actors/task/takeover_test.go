package task

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"cutwater/actors/system/systemtest"
	"cutwater/messages"
	"cutwater/messages/describe"
	"cutwater/protocol"
	"cutwater/stream/operator"
)

const successor = "n3|coordinator/" + testJob

func taken(epoch uint64, completed, last uint64) *messages.NewCoordinator {
	f := fence()
	f.Epoch = epoch
	return &messages.NewCoordinator{Fence: f, Coordinator: successor, Completed: completed, Last: last}
}

// account is the one that the successor was given since the last call, or nothing.
func (r *rig) account() string {
	for i, sent := range r.Sent {
		if a, ok := sent.Message.(*messages.TaskAccount); ok && sent.To == successor {
			r.Sent = append(r.Sent[:i], r.Sent[i+1:]...)
			return strings.TrimPrefix(describe.Text(a), "TaskAccount")
		}
	}
	return ""
}

// sentTo is the newest message of its type, if it went to that address.
func sentTo[M proto.Message](r *rig, to protocol.Address) (m M, ok bool) {
	for i := len(r.Sent) - 1; i >= 0; i-- {
		if m, is := r.Sent[i].Message.(M); is {
			return m, r.Sent[i].To == to
		}
	}
	return m, false
}

// A reader that has a new coordinator tells it which splits it has got, takes none from
// the one before any more, and repeats its request to the new one; an older coordinator,
// or one of another attempt, is not followed.
func TestReaderIsTakenOver(t *testing.T) {
	r := newRig(t, &program{reader: &reader{Base: operator.Base{ID: "op"}}}, nil)
	r.Settle()
	r.tell(assignment(1, "a"))
	r.tell(taken(2, 0, 0))
	const want = "{fence:{job:" + testJob + " epoch:2 attempt:3} task:{vertex:v} state:TASK_RUNNING received:[{id:a}] waits_for_split:true}"
	if got := r.account(); got != want {
		t.Fatalf("the account is %s, want %s", got, want)
	}
	r.acks()
	r.tell(assignment(2, "b"))
	if got := r.acks(); got != nil || len(r.program.reader.splits) != 1 {
		t.Fatalf("acknowledged %v of the old coordinator, the reader has %v", got, r.program.reader.splits)
	}
	other := taken(3, 0, 0)
	other.Fence.Attempt++
	for _, m := range []*messages.NewCoordinator{taken(1, 0, 0), other} {
		if r.tell(m); r.account() != "" {
			t.Fatalf("followed %v", m)
		}
	}
	if r.tell(taken(2, 0, 0)); r.account() != want {
		t.Fatal("the repeated question was not answered")
	}
	r.Advance(repeatMs)
	if q, ok := sentTo[*messages.SplitRequest](r, successor); !ok || q.Number != 2 || q.Fence.Epoch != 2 {
		t.Fatalf("asked %v, the new coordinator: %v", q, ok)
	}
	if s, ok := sentTo[*messages.TaskStateChanged](r, successor); !ok || s.State != messages.TaskState_TASK_RUNNING || s.Fence.Epoch != 2 {
		t.Fatalf("reported %v, to the new coordinator: %v", s, ok)
	}
	next := assignment(2, "c")
	next.Fence.Epoch = 2
	if r.tell(next); len(r.acks()) != 1 || strings.Join(r.program.reader.splits, " ") != "a c" {
		t.Fatalf("the reader has %v", r.program.reader.splits)
	}
}

// A reader's account shrinks with the checkpoint that completed, whoever tells it.
func TestAccountBehindACheckpoint(t *testing.T) {
	r := newRig(t, &program{reader: &reader{Base: operator.Base{ID: "op"}}}, nil)
	r.Settle()
	r.tell(assignment(1, "a"))
	r.tell(&messages.TriggerCheckpoint{Fence: fence(), Task: taskID(), Checkpoint: 5, Options: &messages.CheckpointOptions{Type: messages.CheckpointType_CHECKPOINT}})
	r.tell(assignment(2, "b"))
	if _, acknowledged := systemtest.Last[*messages.AcknowledgeCheckpoint](r.Rig); !acknowledged {
		t.Fatal("the checkpoint was not acknowledged")
	}
	r.tell(taken(2, 5, 6))
	if got := r.account(); !strings.Contains(got, "completed:5 received:[{id:b behind:5}]") {
		t.Fatalf("the account is %s", got)
	}
}

// What the coordinator before had begun is given up at once: channels that wait for its
// barriers go on, and the receivers hear that theirs will not come.
func TestAlignmentIsGivenUp(t *testing.T) {
	r := newRig(t, &program{writer: &writer{Base: operator.Base{ID: "op"}}}, func(d *messages.Deploy) {
		withInputs(d)
		d.Edges = []*messages.PlanEdge{{Partitioning: messages.Partitioning_FORWARD}}
		d.Outputs = []*messages.OutputChannel{{Receiver: "n2|receiver"}}
	})
	r.Settle()
	r.tell(&messages.Credit{Attempt: 3, Open: true})
	r.tell(&messages.Barrier{Attempt: 3, Seq: 1, Checkpoint: 7, Options: &messages.CheckpointOptions{}})
	r.tell(&messages.Watermark{Attempt: 3, Seq: 2, TimestampMs: 9})
	r.tell(&messages.Watermark{Attempt: 3, Seq: 1, Channel: 1, TimestampMs: 8})
	if got := systemtest.Take[*messages.Watermark](r.Rig); len(got) != 0 {
		t.Fatalf("a channel behind its barrier was read: %v", got)
	}
	r.tell(taken(2, 0, 7))
	if m, ok := sentTo[*messages.CancelBarrier](r, "n2|receiver"); !ok || m.Checkpoint != 7 {
		t.Fatalf("told the receiver %v", m)
	}
	if m, ok := sentTo[*messages.Watermark](r, "n2|receiver"); !ok || m.TimestampMs != 8 {
		t.Fatalf("the channel did not go on: %v", m)
	}
	if r.account() == "" {
		t.Fatal("no account was given")
	}
}

// A task that has ended reports its end to the new coordinator.
func TestEndedTaskIsTakenOver(t *testing.T) {
	r := newRig(t, &program{reader: &reader{Base: operator.Base{ID: "op"}, poll: func() { panic("boom") }}}, nil)
	r.Settle()
	r.tell(taken(2, 0, 0))
	if s, ok := sentTo[*messages.TaskStateChanged](r, successor); !ok || s.State != messages.TaskState_TASK_FAILED || s.Fence.Epoch != 2 || r.account() != "" {
		t.Fatalf("reported %v, to the new coordinator: %v", s, ok)
	}
}
