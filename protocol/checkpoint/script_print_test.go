package checkpoint_test

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	"cutwater/internal/script"
	"cutwater/messages"
	"cutwater/messages/describe"
	"cutwater/protocol"
	"cutwater/protocol/checkpoint"
)

// log prints effects and takes note of work and timers.
func (w *world) log(fx *protocol.Effects) string {
	var b strings.Builder
	for _, k := range fx.Work {
		w.work[k.Op] = k.Task
		fmt.Fprintf(&b, "work %d %s\n", k.Op, short(k.Task))
	}
	for _, s := range fx.Send {
		fmt.Fprintf(&b, "send %s %s\n", s.To, short(s.Message))
	}
	for _, t := range fx.Timers {
		if t.Cancel {
			delete(w.timers, t.Key)
			fmt.Fprintf(&b, "timer %s cancelled\n", t.Key)
			continue
		}
		w.timers[t.Key] = armed{t.Generation, w.nowMs + t.DelayMs}
		fmt.Fprintf(&b, "timer %s #%d in %d ms\n", t.Key, t.Generation, t.DelayMs)
	}
	for _, e := range fx.Events {
		fmt.Fprintf(&b, "event %s\n", e)
	}
	if fx.Fail != nil {
		fmt.Fprintf(&b, "fail %s\n", fx.Fail)
	}
	return b.String()
}

// short leaves out what is the same in every line.
func short(m proto.Message) string {
	return strings.NewReplacer(
		"fence:{job:j epoch:1 attempt:1} ", "", "job:j ", "", "epoch:1 ", "", "incarnation:1 ", "", " binary:test", "", " max_parallelism:128", "",
		"handle:{file:", "{file:", "Propose{command:", "Propose{",
	).Replace(describe.Text(m))
}

func printStats(s checkpoint.Statistics) string {
	var b strings.Builder
	fmt.Fprintf(&b, "counts %+v\n", s.Counts)
	series := func(name string, v checkpoint.Series) {
		if v.Count > 0 {
			fmt.Fprintf(&b, "%s min=%d max=%d avg=%d p50=%v\n", name, v.Min, v.Max, v.Avg(), v.Percentile(50))
		}
	}
	series("duration", s.Summary.DurationMs)
	series("checkpoint bytes", s.Summary.CheckpointBytes)
	series("state bytes", s.Summary.StateBytes)
	series("processed bytes", s.Summary.ProcessedBytes)
	series("persisted bytes", s.Summary.PersistedBytes)
	one := func(name string, c *checkpoint.CheckpointStats) {
		if c == nil {
			return
		}
		fmt.Fprintf(&b, "%s %d %s %s at=%d ack=%d took=%d acked=%d/%d bytes=%d full=%d processed=%d persisted=%d",
			name, c.Checkpoint, c.Type, c.Status, c.TriggeredMs, c.LatestAckMs, c.DurationMs(), c.Acknowledged, len(c.Subtasks),
			c.CheckpointBytes, c.StateBytes, c.ProcessedBytes, c.PersistedBytes)
		for _, extra := range []struct {
			show bool
			text string
		}{{c.Location != "", c.Location}, {c.Discarded, "discarded"}, {c.Unaligned, "unaligned"}, {c.Reason != 0, c.Reason.String()}} {
			if extra.show {
				b.WriteString(" " + extra.text)
			}
		}
		b.WriteByte('\n')
		for _, t := range c.Subtasks {
			if name == "history" {
				fmt.Fprintf(&b, "  %s/%d acked=%t finished=%t at=%d bytes=%d\n", t.Task.Vertex, t.Task.Subtask, t.Acknowledged, t.Finished, t.AckMs, t.Metrics.GetCheckpointBytes())
			}
		}
	}
	one("completed", s.LatestCompleted)
	one("failed", s.LatestFailed)
	one("savepoint", s.LatestSavepoint)
	if r := s.LatestRestored; r != nil {
		fmt.Fprintf(&b, "restored %+v\n", *r)
	}
	for i := range s.History {
		one("history", &s.History[i])
	}
	return b.String()
}

func (w *world) snapshot(d *script.Directive, vertex string, id uint64) *messages.TaskSnapshot {
	s := &messages.OperatorSubtaskState{Uid: d.Arg("uid", vertex), HasUnionList: d.Has("union"), Keyed: segments(d, id)}
	if f := d.Arg("lists", ""); f != "" {
		s.Lists = handle(f)
	}
	if s.Keyed == nil && s.Lists == nil && !s.HasUnionList {
		return nil
	}
	return &messages.TaskSnapshot{Operators: []*messages.OperatorSubtaskState{s}}
}

func segments(d *script.Directive, id uint64) *messages.KeyedState {
	k := &messages.KeyedState{}
	for _, f := range list(d.Arg("old", "")) {
		name, created, _ := strings.Cut(f, "@")
		k.Segments = append(k.Segments, &messages.Segment{Handle: handle(name), Scope: messages.SegmentScope_SHARED, Created: uint64(number(created))})
	}
	for _, f := range list(d.Arg("new", "")) {
		k.Segments = append(k.Segments, &messages.Segment{Handle: handle(f), Scope: messages.SegmentScope_SHARED, Created: id})
	}
	for _, f := range list(d.Arg("own", "")) {
		k.Segments = append(k.Segments, &messages.Segment{Handle: handle(f), Scope: messages.SegmentScope_EXCLUSIVE, Created: id})
	}
	if d.Has("inline") {
		k.Segments = append(k.Segments, &messages.Segment{Handle: &messages.StateHandle{Where: &messages.StateHandle_Inline{Inline: []byte("x")}}, Scope: messages.SegmentScope_SHARED})
	}
	if len(k.Segments) == 0 {
		return nil
	}
	return k
}

func handle(path string) *messages.StateHandle {
	return &messages.StateHandle{Where: &messages.StateHandle_File{File: &messages.StateFile{Path: path}}}
}
