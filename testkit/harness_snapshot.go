package testkit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"google.golang.org/protobuf/proto"

	"cutwater/messages"
	"cutwater/state"
	"cutwater/state/segment"
	"cutwater/stream/operator"
)

// HarnessSnapshot is the state of an operator at one checkpoint, as a job would
// store it. It does not change and may be restored several times.
type HarnessSnapshot struct {
	// Uid is the operator's.
	Uid string
	// Checkpoint is the checkpoint's id. Ids grow, from that of the snapshot that
	// the harness was restored from on.
	Checkpoint uint64

	nowMs, watermarkMs int64
	lists              []*messages.OperatorList
	segment            []byte // keyed state; nil if the operator is not keyed
}

// Snapshot takes a checkpoint of the operator, all of it. What becomes of the
// checkpoint is told by Complete or Abort.
func (h *Harness[T, U]) Snapshot() *HarnessSnapshot {
	h.t.Helper()
	var s *HarnessSnapshot
	h.must(h.do(func() (err error) {
		s, err = h.snapshot(state.SealOptions{})
		return err
	}), "a snapshot")
	return s
}

// Complete says that the snapshot's checkpoint is complete.
func (h *Harness[T, U]) Complete(s *HarnessSnapshot) {
	h.t.Helper()
	h.must(h.do(func() error {
		if h.backend != nil {
			h.backend.Confirm(s.Checkpoint)
		}
		return h.each(func(o operator.Operator) error { return o.Complete(s.Checkpoint) })
	}), "the completion of checkpoint %d", s.Checkpoint)
}

// Abort says that the snapshot's checkpoint will not complete.
func (h *Harness[T, U]) Abort(s *HarnessSnapshot) {
	h.t.Helper()
	h.must(h.do(func() error {
		if h.backend != nil {
			h.backend.Abort(s.Checkpoint)
		}
		return h.each(func(o operator.Operator) error { return o.Aborted(s.Checkpoint) })
	}), "the abort of checkpoint %d", s.Checkpoint)
}

// NoState fails the test unless the operator has forgotten everything: no key has
// state, and no timer is set. Call it where a key's life should be over, for
// example after a watermark beyond all windows.
func (h *Harness[T, U]) NoState() {
	h.t.Helper()
	h.must(h.do(func() error {
		if h.backend == nil {
			return nil
		}
		file, err := h.sealed(state.SealOptions{Savepoint: true})
		if err != nil {
			return err
		}
		h.backend.Abort(h.checkpoint)
		return leftIn(file, h.uid)
	}), "NoState")
}

func (h *Harness[T, U]) each(call func(operator.Operator) error) error {
	for _, o := range h.chain.Operators {
		if err := call(o); err != nil {
			return err
		}
	}
	return nil
}

// snapshot does what a task does at a barrier.
func (h *Harness[T, U]) snapshot(o state.SealOptions) (*HarnessSnapshot, error) {
	h.checkpoint++
	s := &HarnessSnapshot{Uid: h.uid, Checkpoint: h.checkpoint, nowMs: h.nowMs, watermarkMs: h.watermarkMs}
	err := h.each(func(op operator.Operator) error {
		if err := op.PrepareBarrier(s.Checkpoint); err != nil {
			return err
		}
		part, err := op.Snapshot(operator.SnapshotRequest{Checkpoint: s.Checkpoint, Options: &messages.CheckpointOptions{}})
		if err != nil {
			return err
		}
		if part.Work != nil {
			var more []*messages.OperatorList
			more, err = part.Work(context.Background())
			part.Lists = append(part.Lists, more...)
		}
		if part.Done != nil {
			part.Done(err)
		}
		for _, l := range part.Lists {
			s.lists = append(s.lists, proto.Clone(l).(*messages.OperatorList))
		}
		return err
	})
	if err == nil && h.backend != nil {
		s.segment, err = h.sealed(o)
	}
	return s, err
}

// sealed is the keyed state as a file.
func (h *Harness[T, U]) sealed(o state.SealOptions) ([]byte, error) {
	if o.Savepoint {
		h.checkpoint++
	}
	sealed, err := h.backend.Seal(h.checkpoint, o)
	if err != nil {
		return nil, err
	}
	var file bytes.Buffer
	_, err = sealed.Write(context.Background(), &file)
	return file.Bytes(), err
}

// leftIn is an error that says which states have entries.
func leftIn(file []byte, uid string) error {
	r, err := segment.NewReader(bytes.NewReader(file))
	if err != nil {
		return err
	}
	count := make([]int, len(r.Header.States))
	example := make([]string, len(count))
	for {
		var e segment.Entry
		if err := r.Next(&e); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		if count[e.State]++; count[e.State] == 1 {
			example[e.State] = entryName(&r.Header.States[e.State], &e)
		}
	}
	var left []string
	for i, n := range count {
		if n > 0 {
			left = append(left, fmt.Sprintf("%s: %d, such as %s", r.Header.States[i].Name, n, example[i]))
		}
	}
	if len(left) == 0 {
		return nil
	}
	return fmt.Errorf("operator %q keeps entries: %s; clear what no later record needs", uid, strings.Join(left, "; "))
}

// entryName is the key of an entry for people; a timer's ends with its namespace.
func entryName(s *segment.State, e *segment.Entry) string {
	if state.Kind(s.Kind) == state.TimerKind {
		return fmt.Sprintf("that of key %q for %d ms", e.Key[:len(e.Key)-8], e.Namespace)
	}
	if s.Namespaced {
		return fmt.Sprintf("that of key %q at %d", e.Key, e.Namespace)
	}
	return fmt.Sprintf("that of key %q", e.Key)
}
