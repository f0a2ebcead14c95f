package task

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"cutwater/actors/system/systemtest"
	"cutwater/actors/timer"
	"cutwater/internal/leak"
	"cutwater/messages"
	"cutwater/state"
	"cutwater/storage"
	"cutwater/storage/memstore"
	"cutwater/storage/vfs"
	"cutwater/stream/operator"
)

// Nothing that a test starts or opens outlives it.
func TestMain(m *testing.M) { leak.VerifyTestMain(m) }

const (
	testJob     = "00000000000000000000000000000001"
	self        = "n1|task/x"
	coordinator = "n2|coordinator/" + testJob
)

// reader is a source that asks for splits and writes down what it is given.
type reader struct {
	operator.Base
	ctx    *operator.Context
	splits []string
	ended  bool
	closed int
	poll   func() // called by Poll, if set
	markMs int64  // its watermark
	idle   bool
}

func (r *reader) Close() error {
	r.closed++
	return nil
}

func (r *reader) Open(c *operator.Context) error {
	r.ctx = c
	c.RequestSplit()
	return nil
}

func (r *reader) Poll() (operator.SourceStatus, error) {
	if r.poll != nil {
		r.poll()
	}
	if r.ended {
		return operator.SourceEnded, nil
	}
	return operator.SourceWaiting, nil
}

func (r *reader) CurrentWatermark() (int64, bool) { return r.markMs, r.markMs > 0 }

func (r *reader) Idle() bool { return r.idle }

func (r *reader) AddSplit(a *messages.SplitAssignment) error {
	r.splits = append(r.splits, a.Split.GetId())
	r.ended = a.NoMoreSplits
	if !r.ended {
		r.ctx.RequestSplit()
	}
	return nil
}

// writer takes records from channels.
type writer struct{ operator.Base }

func (w *writer) Process(_ int, b *messages.RecordBatch, _ int) (int, error) {
	return int(b.Count), nil
}

// program makes one chain of one operator: a reader, or a writer.
type program struct {
	reader *reader
	writer *writer
}

func (p *program) Graph() *messages.JobGraph { return &messages.JobGraph{Name: "test"} }

func (p *program) NewChain([]string, []*operator.EdgeWriter) (*operator.Chain, error) {
	if p.reader != nil {
		return &operator.Chain{Source: p.reader, Operators: []operator.Operator{p.reader}}, nil
	}
	return &operator.Chain{Input: p.writer, Operators: []operator.Operator{p.writer}}, nil
}

func (p *program) Discover(context.Context, string, vfs.FS, int) (*messages.SplitsDiscovered, error) {
	panic("a task discovers nothing")
}

// rig is a task that runs by hand; its coordinator and its neighbours stand on
// another node.
type rig struct {
	*systemtest.Rig
	program *program
}

// newRig spawns a task; it has not been given a turn yet.
func newRig(t *testing.T, p *program, change func(*messages.Deploy)) *rig {
	t.Helper()
	return newRigWith(t, p, memstore.New(memstore.Options{FS: vfs.Mem(), Job: testJob}), change)
}

// newRigWith spawns a task with this checkpoint store.
func newRigWith(t *testing.T, p *program, store storage.Store, change func(*messages.Deploy)) *rig {
	t.Helper()
	r := &rig{Rig: systemtest.New("n1"), program: p}
	if err := timer.Spawn(r.System); err != nil {
		t.Fatal(err)
	}
	env := &Env{
		Pool: &Pool{}, FS: vfs.Mem(), Random: func() uint64 { return 0 },
		Programs: func(string) (operator.Program, error) { return p, nil },
		Storage:  func(*messages.Fence, *messages.JobSettings) (storage.Store, error) { return store, nil },
	}
	d := &messages.Deploy{
		Fence: fence(), Task: taskID(), Coordinator: coordinator,
		Vertex:   &messages.Vertex{Id: "v", Operators: []string{"op"}, Parallelism: 1, MaxParallelism: 128},
		Settings: &messages.JobSettings{Checkpointing: &messages.CheckpointConfig{MaxConcurrent: 1}},
	}
	if change != nil {
		change(d)
	}
	if err := Spawn(r.System, env, "task/x", d); err != nil {
		t.Fatal(err)
	}
	return r
}

func fence() *messages.Fence   { return &messages.Fence{Job: testJob, Epoch: 1, Attempt: 3} }
func taskID() *messages.TaskId { return &messages.TaskId{Vertex: "v"} }

func (r *rig) tell(m proto.Message) { r.Deliver(self, m) }

// states returns the states that the task reported since the last call.
func (r *rig) states() string {
	var all []string
	for _, m := range systemtest.Take[*messages.TaskStateChanged](r.Rig) {
		all = append(all, strings.TrimPrefix(m.State.String(), "TASK_"))
	}
	return strings.Join(all, " ")
}

func assignment(number uint64, split string) *messages.SplitAssignment {
	return &messages.SplitAssignment{Fence: fence(), Task: taskID(), Uid: "op", Number: number, Split: &messages.Split{Id: split}}
}

// acks lists the numbers of the assignments that were acknowledged since the last
// call.
func (r *rig) acks() (numbers []uint64) {
	for _, m := range systemtest.Take[*messages.SplitAck](r.Rig) {
		numbers = append(numbers, m.Number)
	}
	return numbers
}

// A reader takes an assignment in once, and acknowledges it each time that it
// comes: the first acknowledgement may have been lost.
func TestSplitAck(t *testing.T) {
	r := newRig(t, &program{reader: &reader{Base: operator.Base{ID: "op"}}}, nil)
	r.Settle()
	if got := systemtest.Take[*messages.SplitRequest](r.Rig); len(got) != 1 || got[0].Number != 1 || got[0].Uid != "op" {
		t.Fatalf("asked %v", got)
	}
	r.tell(assignment(1, "a"))
	if got := r.acks(); len(got) != 1 || got[0] != 1 {
		t.Fatalf("acknowledged %v", got)
	}
	r.tell(assignment(1, "a")) // by now the reader has asked for the next one
	r.tell(assignment(1, "a"))
	if got := r.acks(); len(got) != 2 || got[0] != 1 || got[1] != 1 {
		t.Fatalf("the repetitions were acknowledged as %v", got)
	}
	r.tell(assignment(2, "b"))
	if got := strings.Join(r.program.reader.splits, " "); got != "a b" {
		t.Fatalf("the reader has the splits %q", got)
	}
}

// An assignment that nobody asked for, or that belongs to another attempt or an
// older coordinator, is neither taken in nor acknowledged.
func TestStraySplitAssignment(t *testing.T) {
	r := newRig(t, &program{reader: &reader{Base: operator.Base{ID: "op"}}}, nil)
	r.Settle()
	systemtest.Take[proto.Message](r.Rig)
	for _, change := range []func(*messages.SplitAssignment){
		func(a *messages.SplitAssignment) { a.Number = 2 },
		func(a *messages.SplitAssignment) { a.Fence.Attempt = 2 },
		func(a *messages.SplitAssignment) { a.Fence.Epoch = 0 },
		func(a *messages.SplitAssignment) { a.Fence.Job = "other" },
	} {
		a := assignment(1, "a")
		change(a)
		r.tell(a)
		if got := r.acks(); len(got) != 0 || len(r.program.reader.splits) != 0 {
			t.Fatalf("%v: acknowledged %v, the reader has %v", a, got, r.program.reader.splits)
		}
	}
}

// A split request is repeated, with its number, until its answer comes.
func TestSplitRequestIsRepeated(t *testing.T) {
	r := newRig(t, &program{reader: &reader{Base: operator.Base{ID: "op"}}}, nil)
	r.Settle()
	systemtest.Take[proto.Message](r.Rig)
	r.Advance(repeatMs)
	r.Advance(repeatMs)
	if got := systemtest.Take[*messages.SplitRequest](r.Rig); len(got) != 2 || got[0].Number != 1 || got[1].Number != 1 {
		t.Fatalf("asked %v", got)
	}
	last := assignment(1, "a")
	last.NoMoreSplits = true
	r.tell(last)
	systemtest.Take[proto.Message](r.Rig)
	r.Advance(repeatMs)
	if got := systemtest.Take[*messages.SplitRequest](r.Rig); len(got) != 0 {
		t.Fatalf("asked %v after the answer", got)
	}
}

// However many splits were read within the last second, only the newest request
// is repeated, once a second, and also when the wall clock is set back.
func TestOnlyTheNewestSplitRequestIsRepeated(t *testing.T) {
	r := newRig(t, &program{reader: &reader{Base: operator.Base{ID: "op"}}}, nil)
	r.Settle()
	for n := range uint64(50) {
		r.tell(assignment(n+1, "a"))
	}
	systemtest.Take[proto.Message](r.Rig)
	r.SetWall(-3_600_000)
	for range 3 {
		r.Advance(repeatMs)
		if got := systemtest.Take[*messages.SplitRequest](r.Rig); len(got) != 1 || got[0].Number != 51 {
			t.Fatalf("asked %d times: %v", len(got), got)
		}
	}
}

func withInputs(d *messages.Deploy) {
	d.Inputs = []*messages.InputChannel{{Sender: "n2|task/a", SenderOutput: 4}, {Sender: "n2|task/b", SenderOutput: 5}}
}

// opened lists the sender's numbers of the channels that were opened.
func (r *rig) opened() (outputs []uint32) {
	for _, m := range systemtest.Take[*messages.Credit](r.Rig) {
		if m.Open {
			outputs = append(outputs, m.Output)
		}
	}
	return outputs
}

// A receiver opens all its channels when it starts, while it still restores, and
// answers each ChannelRequest again: the first answer may have found no sender.
func TestChannelRequest(t *testing.T) {
	r := newRig(t, &program{writer: &writer{Base: operator.Base{ID: "op"}}}, withInputs)
	r.Turns() // work is outstanding: it initializes
	if got := r.opened(); len(got) != 2 || got[0] != 4 || got[1] != 5 {
		t.Fatalf("opened %v", got)
	}
	r.System.Deliver(self, &messages.ChannelRequest{Attempt: 3, Input: 1})
	r.Turns()
	if got := r.opened(); len(got) != 1 || got[0] != 5 {
		t.Fatalf("while it initialized it answered %v", got)
	}
	r.Settle()
	r.tell(&messages.ChannelRequest{Attempt: 3, Input: 0})
	if got := r.opened(); len(got) != 1 || got[0] != 4 {
		t.Fatalf("answered %v", got)
	}
	r.tell(&messages.ChannelRequest{Attempt: 2, Input: 0})
	r.tell(&messages.ChannelRequest{Attempt: 3, Input: 2})
	if got := r.opened(); len(got) != 0 {
		t.Fatalf("requests of another attempt, or for no channel, were answered %v", got)
	}
}

// A sender asks every receiver when it starts.
func TestSenderAsks(t *testing.T) {
	r := newRig(t, &program{reader: &reader{Base: operator.Base{ID: "op"}}}, func(d *messages.Deploy) {
		d.Edges = []*messages.PlanEdge{{Partitioning: messages.Partitioning_REBALANCE}}
		d.Outputs = []*messages.OutputChannel{{Receiver: "n2|task/a", ReceiverChannel: 7}, {Receiver: "n2|task/b", ReceiverChannel: 7}}
	})
	r.Settle()
	got := systemtest.Take[*messages.ChannelRequest](r.Rig)
	if len(got) != 2 || got[0].Attempt != 3 || got[0].Input != 7 || got[1].Input != 7 {
		t.Fatalf("asked %v", got)
	}
}

// Initializing: a checkpoint is declined. Running: it is taken.
func TestTriggerByPhase(t *testing.T) {
	r := newRig(t, &program{reader: &reader{Base: operator.Base{ID: "op"}}}, nil)
	trigger := func(id uint64) *messages.TriggerCheckpoint {
		return &messages.TriggerCheckpoint{Fence: fence(), Task: taskID(), Checkpoint: id, Options: &messages.CheckpointOptions{Type: messages.CheckpointType_CHECKPOINT}}
	}
	r.Turns()
	r.System.Deliver(self, trigger(1))
	r.Turns()
	if got := systemtest.Take[*messages.DeclineCheckpoint](r.Rig); len(got) != 1 || got[0].Checkpoint != 1 ||
		got[0].Reason != messages.FailureReason_CHECKPOINT_DECLINED_TASK_NOT_READY {
		t.Fatalf("declined %v", got)
	}
	r.Settle()
	r.tell(trigger(2))
	if got := systemtest.Take[*messages.AcknowledgeCheckpoint](r.Rig); len(got) != 1 || got[0].Checkpoint != 2 {
		t.Fatalf("acknowledged %v", got)
	}
}

// A task reports each state until it is acknowledged, and not longer.
func TestStatesAreRepeated(t *testing.T) {
	r := newRig(t, &program{reader: &reader{Base: operator.Base{ID: "op"}}}, nil)
	r.Settle()
	if got := r.states(); got != "INITIALIZING RUNNING" {
		t.Fatalf("reported %q", got)
	}
	r.Advance(repeatMs)
	if got := r.states(); got != "RUNNING" {
		t.Fatalf("repeated %q", got)
	}
	r.tell(&messages.TaskStateAck{Fence: fence(), Task: taskID(), State: messages.TaskState_TASK_INITIALIZING}) // a late one
	r.Advance(repeatMs)
	if got := r.states(); got != "RUNNING" {
		t.Fatalf("repeated %q", got)
	}
	r.tell(&messages.TaskStateAck{Fence: fence(), Task: taskID(), State: messages.TaskState_TASK_RUNNING})
	r.Advance(repeatMs)
	if got := r.states(); got != "" {
		t.Fatalf("reported %q after the acknowledgement", got)
	}
}

// gone reports whether the actor has stopped.
func (r *rig) gone() bool {
	before := r.System.Undelivered()
	r.tell(&messages.TaskStateAck{})
	return r.System.Undelivered() > before
}

// Closed: the end is repeated, and told to whoever cancels; all else is dropped.
// With the acknowledgement the actor stops.
func TestClosed(t *testing.T) {
	r := newRig(t, &program{writer: &writer{Base: operator.Base{ID: "op"}}}, withInputs)
	r.Settle()
	cancel := &messages.CancelTask{Fence: fence(), Task: taskID(), Coordinator: coordinator}
	r.tell(cancel)
	r.tell(cancel)
	r.Advance(repeatMs)
	if got := r.states(); got != "INITIALIZING RUNNING CANCELED CANCELED CANCELED" {
		t.Fatalf("reported %q", got)
	}
	r.tell(&messages.ChannelRequest{Attempt: 3})
	r.tell(&messages.RecordBatch{Attempt: 3, Seq: 9})
	if len(r.Sent) != 0 || r.gone() {
		t.Fatalf("sent %v, gone %t", r.Sent, r.gone())
	}
	r.tell(&messages.TaskStateAck{Fence: fence(), Task: taskID(), State: messages.TaskState_TASK_CANCELED})
	if !r.gone() {
		t.Fatal("the actor is still there")
	}
}

// A closed task that nobody acknowledges stops after a bounded number of reports.
func TestUnacknowledgedEnd(t *testing.T) {
	r := newRig(t, &program{writer: &writer{Base: operator.Base{ID: "op"}}}, withInputs)
	r.Settle()
	r.tell(&messages.CancelTask{Fence: fence(), Task: taskID(), Coordinator: coordinator})
	r.states()
	for range maxRepeats {
		r.Advance(repeatMs)
	}
	if got := strings.Count(r.states(), "CANCELED"); got != maxRepeats || r.gone() {
		t.Fatalf("reported %d times, gone %t", got, r.gone())
	}
	r.Advance(repeatMs)
	if !r.gone() {
		t.Fatal("the actor is still there")
	}
}

// When the node stops, and when the task fails, its operators are closed, once.
func TestOperatorsAreClosed(t *testing.T) {
	p := &program{reader: &reader{Base: operator.Base{ID: "op"}}}
	r := newRig(t, p, nil)
	r.Settle()
	r.System.StopAll()
	r.Settle()
	if p.reader.closed != 1 {
		t.Errorf("closed %d times as the node stopped", p.reader.closed)
	}
	p = &program{reader: &reader{Base: operator.Base{ID: "op"}, poll: func() { panic("boom") }}}
	r = newRig(t, p, nil)
	r.Settle()
	r.System.StopAll()
	r.Settle()
	if p.reader.closed != 1 {
		t.Errorf("closed %d times after a failure", p.reader.closed)
	}
}

// A cancellation by an older coordinator, or of another attempt, is not obeyed. That of a
// later one is, though it did not take the task over.
func TestStaleCancel(t *testing.T) {
	r := newRig(t, &program{writer: &writer{Base: operator.Base{ID: "op"}}}, withInputs)
	r.Settle()
	r.states()
	for _, f := range []*messages.Fence{{Job: testJob, Epoch: 0, Attempt: 3}, {Job: testJob, Epoch: 1, Attempt: 2}, {Job: "other", Epoch: 1, Attempt: 3}} {
		r.tell(&messages.CancelTask{Fence: f, Task: taskID(), Coordinator: coordinator})
	}
	if got := r.states(); got != "" {
		t.Fatalf("reported %q", got)
	}
	r.tell(&messages.CancelTask{Fence: &messages.Fence{Job: testJob, Epoch: 2, Attempt: 3}, Task: taskID(), Coordinator: successor})
	if got := r.states(); got != "CANCELED" {
		t.Fatalf("reported %q", got)
	}
}

// A panic in user code fails the task, with its stack, and the node lives.
func TestPanicFailsTheTask(t *testing.T) {
	p := &program{reader: &reader{Base: operator.Base{ID: "op"}, poll: func() { panic("boom") }}}
	r := newRig(t, p, nil)
	r.Settle()
	got, _ := systemtest.Last[*messages.TaskStateChanged](r.Rig)
	if got.GetState() != messages.TaskState_TASK_FAILED || got.Failure.Message != "boom" || !strings.Contains(got.Failure.Stack, "(*reader).Poll") {
		t.Fatalf("reported %v", got)
	}
}

// What an error says of itself reaches the coordinator: that no restart can mend it.
// It does so through whatever it is wrapped in; state of another codec is so, too.
func TestNoRestart(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{errors.New("no connection"), false},
		{fmt.Errorf("source: %w", operator.NoRestart(errors.New("not an int"))), true},
		{&operator.UserError{Uid: "op", Cause: operator.NoRestart(errors.New("not an int"))}, true},
		{&state.DecodeError{State: "sum", Err: errors.New("1 byte")}, true},
	} {
		p := &program{reader: &reader{Base: operator.Base{ID: "op"}}}
		p.reader.poll = func() { p.reader.ctx.Fail(c.err) }
		r := newRig(t, p, nil)
		r.Settle()
		got, _ := systemtest.Last[*messages.TaskStateChanged](r.Rig)
		if got.GetState() != messages.TaskState_TASK_FAILED || got.Failure.NoRestart != c.want || strings.Contains(got.Failure.Message, "restart") {
			t.Errorf("%v: reported %v", c.err, got)
		}
	}
}

// A gap in the numbers of a channel fails the task: records were lost on the way.
func TestGapFailsTheTask(t *testing.T) {
	r := newRig(t, &program{writer: &writer{Base: operator.Base{ID: "op"}}}, withInputs)
	r.Settle()
	r.tell(&messages.RecordBatch{Attempt: 3, Channel: 1, Seq: 2})
	got, _ := systemtest.Last[*messages.TaskStateChanged](r.Rig)
	if got.GetState() != messages.TaskState_TASK_FAILED || !strings.Contains(got.Failure.Message, "expected message 1, got 2") {
		t.Fatalf("reported %v", got)
	}
}
