package subtask_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"cutwater/internal/script"
	"cutwater/messages"
	"cutwater/protocol/barrier"
	"cutwater/protocol/subtask"
)

// The stories of testdata: what a task does, event by event. Time goes on by one
// millisecond per event.
func TestScripts(t *testing.T) {
	script.RunDir(t, "testdata", func(t *testing.T) script.Handler {
		return (&rig{}).handle
	})
}

// rig feeds the events of a script to a machine and prints the steps.
type rig struct {
	task  *subtask.Subtask
	nowMs int64
}

func (r *rig) handle(d *script.Directive) (string, error) {
	switch d.Verb {
	case "task":
		r.task = subtask.New(subtask.Config{
			Fence:            &messages.Fence{Job: "j", Epoch: 1, Attempt: 2},
			Task:             &messages.TaskId{Vertex: "v", Subtask: 3},
			Restored:         uint64(d.Int("restored", 0)),
			Source:           d.Has("source"),
			DeployedFinished: d.Has("deployed-finished"),
			FinalCheckpoint:  !d.Has("no-final-checkpoint"),
			MaxAborted:       int(d.Int("max-aborted", 0)),
		})
		if !d.Has("initializing") {
			r.task.Running()
		}
		return r.task.String(), nil
	case "play":
		var out strings.Builder
		for line := range strings.Lines(d.Body) {
			line = strings.TrimSpace(line)
			actions, err := r.play(strings.Fields(line))
			if err != nil {
				return "", fmt.Errorf("%s: %w", line, err)
			}
			fmt.Fprintln(&out, line)
			for _, step := range actions.Steps {
				fmt.Fprintf(&out, "  %v\n", step)
			}
		}
		out.WriteString(r.task.String())
		return out.String(), nil
	}
	return "", fmt.Errorf("unknown directive %q", d.Verb)
}

func (r *rig) play(words []string) (*subtask.Actions, error) {
	r.nowMs++
	var id uint64
	options := map[string]string{}
	for _, w := range words[1:] {
		if n, err := strconv.ParseUint(w, 10, 64); err == nil {
			id = n
			continue
		}
		key, value, _ := strings.Cut(w, "=")
		options[key] = value
	}
	integer := func(key string) int64 {
		n, _ := strconv.ParseInt(options[key], 10, 64)
		return n
	}
	_, stateless := options["stateless"]
	switch words[0] {
	case "running":
		return r.task.Running(), nil
	case "checkpoint":
		kind := messages.CheckpointType(messages.CheckpointType_value[strings.ToUpper(options["type"])])
		if kind == 0 {
			kind = messages.CheckpointType_CHECKPOINT
		}
		return r.task.CheckpointState(r.nowMs, &barrier.Trigger{
			Checkpoint: id, TimestampMs: 1000 + int64(id), AgeMs: integer("age"),
			Options: &messages.CheckpointOptions{Type: kind, Alignment: messages.Alignment_ALIGNED},
			Metrics: barrier.Metrics{
				AlignmentMs: integer("alignment"), StartDelayMs: integer("delay"), AlignmentBytes: uint64(integer("bytes")),
			},
		}), nil
	case "sync-done":
		r.nowMs += integer("after")
		return r.task.SyncDone(r.nowMs, id), nil
	case "sync-failed":
		return r.task.SyncFailed(id, errors.New("no more room")), nil
	case "async-done":
		r.nowMs += integer("after")
		snapshot := &messages.TaskSnapshot{Operators: []*messages.OperatorSubtaskState{
			{Uid: "stateless"}, {Uid: "count", Keyed: &messages.KeyedState{}},
		}}
		sizes := subtask.Sizes{CheckpointBytes: 10, FullStateBytes: 100}
		if stateless {
			snapshot.Operators, sizes = snapshot.Operators[:1], subtask.Sizes{}
		}
		if _, none := options["none"]; none {
			snapshot, sizes = nil, subtask.Sizes{}
		}
		return r.task.AsyncDone(r.nowMs, id, snapshot, sizes), nil
	case "async-failed":
		return r.task.AsyncFailed(id, messages.FailureReason_CHECKPOINT_ASYNC_EXCEPTION, "disk full"), nil
	case "complete":
		return r.task.NotifyComplete(&messages.NotifyCheckpointComplete{
			Checkpoint: id, Subsumed: uint64(integer("subsumed")),
		}), nil
	case "aborted":
		return r.task.NotifyAborted(&messages.NotifyCheckpointAborted{
			Checkpoint: id, LatestCompleted: uint64(integer("latest")),
		}), nil
	case "aborted-range":
		all := &subtask.Actions{}
		for n := integer("from"); n <= integer("to"); n++ {
			r.task.NotifyAborted(&messages.NotifyCheckpointAborted{Checkpoint: uint64(n)})
		}
		return all, nil
	case "barrier-abort":
		return r.task.AbortOnBarrier(barrier.Abort{
			Checkpoint: id, Reason: messages.FailureReason_CHECKPOINT_DECLINED_SUBSUMED,
		}), nil
	case "end-of-data":
		_, suspend := options["suspend"]
		return r.task.EndOfData(r.nowMs, !suspend), nil
	case "end-of-input":
		return r.task.EndOfInput(), nil
	case "consumed":
		return r.task.OutputsConsumed(), nil
	case "quiescent":
		return r.task.OperatorsQuiescent(true), nil
	case "not-quiescent":
		return r.task.OperatorsQuiescent(false), nil
	case "taken-over":
		return r.task.TakenOver(&messages.Fence{Job: "j", Epoch: 9, Attempt: 2}, uint64(integer("completed")), uint64(integer("last"))), nil
	case "close":
		return r.task.Close(), nil
	}
	return nil, fmt.Errorf("unknown event %q", words[0])
}
