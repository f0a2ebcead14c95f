package testkit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"cutwater/messages"
	"cutwater/state/bolt"
	"cutwater/state/heap"
	"cutwater/storage/vfs"
	"cutwater/stream"
	"cutwater/stream/operator"
)

// open builds the program and opens the operator, once.
func (h *Harness[T, U]) open() error {
	if h.opened {
		return nil
	}
	h.opened = true
	program, err := h.topology.Build()
	if err != nil {
		return err
	}
	spec, err := operatorUnderTest(program)
	if err != nil {
		return err
	}
	h.uid = spec.Uid
	for i, in := range spec.Inputs {
		edge := &messages.PlanEdge{FromUid: in.Uid, ToUid: h.uid, ToInput: uint32(i), Side: in.Side, Partitioning: in.Partitioning}
		h.edges = append(h.edges, operator.NewEdgeWriter(edge, 1, groupsOf(spec), 1<<30, func(int) {}))
	}
	if h.feed, err = program.NewChain([]string{harnessFeed}, h.edges); err != nil {
		return err
	}
	if h.chain, err = program.NewChain(append([]string{h.uid}, h.captures...), nil); err != nil {
		return err
	}
	if spec.Keyed {
		if err := h.openBackend(groupsOf(spec)); err != nil {
			return err
		}
	}
	if err := h.openChain(h.feed, groupsOf(spec)); err != nil {
		return err
	}
	return h.openChain(h.chain, groupsOf(spec))
}

func groupsOf(spec *messages.OperatorSpec) int {
	if spec.MaxParallelism > 0 {
		return int(spec.MaxParallelism)
	}
	return harnessGroups
}

// operatorUnderTest is the one operator that is not the harness's own.
func operatorUnderTest(p *stream.Program) (*messages.OperatorSpec, error) {
	var found []*messages.OperatorSpec
	var uids []string
	for _, o := range p.Graph().Operators {
		if !strings.HasPrefix(o.Uid, "harness-") {
			found, uids = append(found, o), append(uids, o.Uid)
		}
	}
	switch {
	case len(found) == 0:
		return nil, errors.New("declare adds no operator to its input")
	case len(found) > 1:
		return nil, fmt.Errorf("a harness runs one operator, and declare adds %d: %s; test each in its own, and all together with ExactlyOnce",
			len(found), strings.Join(uids, ", "))
	}
	for _, in := range found[0].Inputs {
		if in.Uid != harnessFeed {
			return nil, fmt.Errorf("operator %q reads %q, and not the stream that declare is given", uids[0], in.Uid)
		}
	}
	return found[0], nil
}

// openBackend makes the keyed state and fills it from the snapshot.
func (h *Harness[T, U]) openBackend(groups int) (err error) {
	if h.options.bolt {
		if h.scratch, err = os.MkdirTemp("", "harness-"); err != nil {
			return err
		}
		h.backend, err = bolt.New(bolt.Options{MaxParallelism: groups, LastGroup: groups - 1, FS: vfs.OS(), Dir: h.scratch})
		if err != nil {
			return err
		}
	} else {
		h.backend = heap.New(heap.Options{MaxParallelism: groups, LastGroup: groups - 1})
	}
	if s := h.options.from; s != nil && s.segment != nil {
		return h.backend.Load(context.Background(), bytes.NewReader(s.segment))
	}
	return nil
}

// openChain opens the operators, tail first.
func (h *Harness[T, U]) openChain(chain *operator.Chain, groups int) error {
	for i := len(chain.Operators) - 1; i >= 0; i-- {
		o := chain.Operators[i]
		c := h.context(o.Uid(), groups)
		if s := h.options.from; s != nil && o.Uid() == h.uid {
			if s.Uid != h.uid {
				return fmt.Errorf("the snapshot is of operator %q, and this one is %q: state belongs to a uid", s.Uid, h.uid)
			}
			c.RestoredCheckpoint = s.Checkpoint
			c.Restored = &messages.OperatorRestore{Uid: h.uid, Lists: s.lists}
			c.RestoredWatermarkMs, c.HasRestoredWatermark = s.watermarkMs, s.watermarkMs > stream.NoTimestamp
		}
		if err := o.Open(c); err != nil {
			return err
		}
	}
	return nil
}

// context is what an operator may use.
func (h *Harness[T, U]) context(uid string, groups int) *operator.Context {
	c := &operator.Context{
		Job: "00000000000000000000000000000001", JobName: "harness", Incarnation: 1, Fence: &messages.Fence{Epoch: 1, Attempt: 1},
		Vertex: uid, Parallelism: 1, MaxParallelism: groups, FS: vfs.OS(), Yield: &h.yield,
		NowMs: func() int64 { return h.nowMs }, MonotonicMs: func() int64 { return h.nowMs },
		Random: func() uint64 { return 1 },
		Async: func(work func(context.Context) error, done func(error)) {
			h.works = append(h.works, func() { done(work(context.Background())) })
		},
		At: func(unixMs int64, f func()) { h.alarms = append(h.alarms, harnessAlarm{unixMs, f}) },
		Fail: func(err error) {
			if h.failed == nil {
				h.failed = err
			}
		},
		WakeAt:       func(int64) {},
		RequestSplit: func() {},
		Progress:     func(_, _, _ uint64) {},
		Event:        func(string, string) {},
	}
	if uid == h.uid {
		c.Keyed = h.backend
	}
	return c
}
