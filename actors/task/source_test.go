package task

import (
	"fmt"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"cutwater/actors/system/systemtest"
	"cutwater/messages"
	"cutwater/stream/operator"
)

// What a source has read is told at once, then no more often than every 100 ms,
// and in full before the task says that it has ended.
func TestProgress(t *testing.T) {
	read := uint64(0)
	source := &reader{Base: operator.Base{ID: "op"}}
	source.poll = func() {
		read++
		source.ctx.Progress(read, 10*read, 0)
	}
	r := newRig(t, &program{reader: source}, nil)
	r.Settle()
	told := func() (records []uint64) {
		for _, m := range systemtest.Take[*messages.SourceProgress](r.Rig) {
			if m.Uid != "op" || m.Bytes != 10*m.Records {
				t.Fatalf("told %v", m)
			}
			records = append(records, m.Records)
		}
		return records
	}
	if got := told(); !slices.Equal(got, []uint64{1}) {
		t.Fatalf("at the start: told %v", got)
	}
	again := func() {
		source.ctx.WakeAt(0)
		r.Settle()
		r.Advance(0)
		r.Settle()
	}
	for range 5 {
		again()
	}
	if got := told(); got != nil || read < 6 {
		t.Fatalf("after %d turns at the same time: told %v", read, got)
	}
	before := read
	r.Advance(100)
	r.Settle()
	if got := told(); len(got) != 1 || got[0] < before {
		t.Fatalf("after 100 ms and %d turns: told %v", before, got)
	}
	again()
	r.tell(&messages.CancelTask{Fence: fence(), Task: taskID()})
	r.Settle()
	last := uint64(0)
	for i, sent := range r.Sent {
		switch m := sent.Message.(type) {
		case *messages.SourceProgress:
			last = m.Records
		case *messages.TaskStateChanged:
			if m.State == messages.TaskState_TASK_CANCELED && last != read {
				t.Fatalf("message %d says CANCELED after %d of %d records", i, last, read)
			}
		}
	}
	if last != read {
		t.Fatalf("the last figures are %d, want %d", last, read)
	}
}

// A source that is idle says so after its watermark, once; that it is active
// again, before it.
func TestIdleSource(t *testing.T) {
	source := &reader{Base: operator.Base{ID: "op"}, markMs: 5}
	r := newRig(t, &program{reader: source}, func(d *messages.Deploy) {
		d.Edges = []*messages.PlanEdge{{Partitioning: messages.Partitioning_FORWARD}}
		d.Outputs = []*messages.OutputChannel{{Receiver: "n2|receiver"}}
	})
	r.Settle()
	r.tell(&messages.Credit{Attempt: 3, Open: true})
	r.Settle()
	check := func(want string) {
		t.Helper()
		source.ctx.WakeAt(0)
		r.Settle()
		r.Advance(0)
		r.Settle()
		got := ""
		for _, m := range systemtest.Take[proto.Message](r.Rig) {
			switch m := m.(type) {
			case *messages.Watermark:
				got += fmt.Sprintf(" %d", m.TimestampMs)
			case *messages.WatermarkIdle:
				got += fmt.Sprintf(" idle=%t", m.Idle)
			}
		}
		if got != want {
			t.Fatalf("told%s, want%s", got, want)
		}
	}
	check(" 5")
	source.markMs, source.idle = 7, true
	check(" 7 idle=true")
	source.markMs = 8
	check(" 8")
	source.markMs, source.idle = 9, false
	check(" idle=false 9")
	check("")
}
