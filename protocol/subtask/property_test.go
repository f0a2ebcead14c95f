package subtask_test

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"cutwater/messages"
	"cutwater/protocol/barrier"
	"cutwater/protocol/subtask"
)

// Whatever comes, in whatever order, early, late or twice: barriers and cancels leave
// in ascending order and one per checkpoint, each barrier is answered at most once,
// the operators hear of completions in ascending order, a task finishes once, and a
// closed task acknowledges nothing.
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		task := subtask.New(subtask.Config{
			Source:           rapid.Bool().Draw(t, "source"),
			DeployedFinished: rapid.Bool().Draw(t, "deployedFinished"),
			FinalCheckpoint:  rapid.Bool().Draw(t, "finalCheckpoint"),
			MaxAborted:       3,
		})
		o := &observer{t: t, task: task, answered: map[uint64]bool{}, started: map[uint64]bool{}, cut: map[uint64]string{}}
		task.Running()
		var nowMs int64
		for range rapid.IntRange(0, 60).Draw(t, "events") {
			if o.failed {
				break
			}
			nowMs++
			id := uint64(rapid.IntRange(1, 8).Draw(t, "id"))
			switch event := rapid.IntRange(0, 12).Draw(t, "event"); event {
			case 0, 1, 2:
				kind := rapid.SampledFrom([]messages.CheckpointType{
					messages.CheckpointType_CHECKPOINT, messages.CheckpointType_CHECKPOINT, messages.CheckpointType_CHECKPOINT,
					messages.CheckpointType_SAVEPOINT_TERMINATE,
				}).Draw(t, "type")
				o.run(nowMs, task.CheckpointState(nowMs, &barrier.Trigger{
					Checkpoint: id, Options: &messages.CheckpointOptions{Type: kind},
				}))
			case 3, 4:
				o.run(nowMs, task.AsyncDone(nowMs, id, &messages.TaskSnapshot{}, subtask.Sizes{}))
			case 5:
				o.run(nowMs, task.AsyncFailed(id, messages.FailureReason_CHECKPOINT_ASYNC_EXCEPTION, ""))
			case 6, 7:
				o.run(nowMs, task.NotifyComplete(&messages.NotifyCheckpointComplete{Checkpoint: id}))
			case 8:
				o.run(nowMs, task.NotifyAborted(&messages.NotifyCheckpointAborted{
					Checkpoint: id, LatestCompleted: uint64(rapid.IntRange(0, 8).Draw(t, "latest")),
				}))
			case 9:
				o.run(nowMs, task.EndOfData(nowMs, rapid.Bool().Draw(t, "drain")))
			case 10:
				o.run(nowMs, task.EndOfInput())
				o.run(nowMs, task.OutputsConsumed())
				o.run(nowMs, task.OperatorsQuiescent(rapid.Bool().Draw(t, "quiescent")))
			case 11:
				last := uint64(rapid.IntRange(0, 8).Draw(t, "last"))
				o.run(nowMs, task.TakenOver(&messages.Fence{Epoch: 2}, id, last))
				for _, pending := range task.InProgress() {
					if pending <= last && !o.failed {
						t.Fatalf("checkpoint %d is in progress, and a new coordinator gave up all to %d", pending, last)
					}
				}
			case 12:
				if rapid.IntRange(0, 9).Draw(t, "close") == 0 {
					o.run(nowMs, task.Close())
					o.closed = true
				}
			}
		}
	})
}

// observer carries steps out and checks them.
type observer struct {
	t    *rapid.T
	task *subtask.Subtask
	// cut is what was sent downstream for a checkpoint; lastCut the newest one.
	cut     map[uint64]string
	lastCut uint64
	// started and answered: the asynchronous part of the checkpoint.
	started, answered        map[uint64]bool
	completed                uint64
	finished, closed, failed bool
}

func (o *observer) run(nowMs int64, a *subtask.Actions) {
	for i, s := range a.Steps {
		if o.failed {
			o.t.Fatalf("%v after the task has failed", s)
		}
		switch s := s.(type) {
		case subtask.BroadcastBarrier:
			o.send(s.Checkpoint, "barrier")
		case subtask.BroadcastCancel:
			o.send(s.Checkpoint, "cancel")
		case subtask.SyncSnapshot:
			if o.cut[s.Checkpoint] != "barrier" {
				o.t.Fatalf("snapshot %d before its barrier", s.Checkpoint)
			}
			if rapid.IntRange(0, 19).Draw(o.t, "sync fails") == 0 {
				o.run(nowMs, o.task.SyncFailed(s.Checkpoint, errors.New("no")))
				return
			}
			o.run(nowMs, o.task.SyncDone(nowMs, s.Checkpoint))
		case subtask.StartAsync:
			o.started[s.Checkpoint] = true
		case subtask.CompleteOperators:
			if s.Checkpoint <= o.completed {
				o.t.Fatalf("completion of %d after that of %d", s.Checkpoint, o.completed)
			}
			o.completed = s.Checkpoint
		case subtask.Finish:
			if o.finished || len(o.task.InProgress()) > 0 {
				o.t.Fatalf("finish, with %v in progress, finished before: %v", o.task.InProgress(), o.finished)
			}
			o.finished = true
		case subtask.Fail:
			if i != len(a.Steps)-1 && s.Err == nil {
				o.t.Fatal("a failure without an error")
			}
			o.failed = true
			return
		case subtask.Send:
			o.answer(s)
		}
	}
}

func (o *observer) send(checkpoint uint64, what string) {
	if o.closed {
		o.t.Fatalf("%s %d of a closed task", what, checkpoint)
	}
	if checkpoint < o.lastCut || o.cut[checkpoint] == "barrier" {
		o.t.Fatalf("%s %d after %s %d", what, checkpoint, o.cut[o.lastCut], o.lastCut)
	}
	o.cut[checkpoint], o.lastCut = what, checkpoint
}

func (o *observer) answer(s subtask.Send) {
	var checkpoint uint64
	switch m := s.Message.(type) {
	case *messages.AcknowledgeCheckpoint:
		checkpoint = m.Checkpoint
		if o.closed || o.cut[checkpoint] != "barrier" {
			o.t.Fatalf("%v of a checkpoint without a barrier, or of a closed task", s)
		}
	case *messages.DeclineCheckpoint:
		checkpoint = m.Checkpoint
		if !o.started[checkpoint] {
			return // it was never taken; that may be said again
		}
	default:
		return
	}
	if o.answered[checkpoint] {
		o.t.Fatalf("%v, which was answered before", s)
	}
	o.answered[checkpoint] = true
}
