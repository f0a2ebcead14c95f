package stream_test

import (
	"bytes"
	"context"
	"math"

	"google.golang.org/protobuf/proto"

	"cutwater/messages"
	"cutwater/state"
	"cutwater/stream/operator"
)

// checkpoint drains what is between tasks, takes a snapshot of all and, if
// complete, tells them.
func (d *driver) checkpoint(id uint64, complete bool) (*snapshot, error) {
	d.drain()
	s := &snapshot{checkpoint: id, lists: map[string][]*messages.OperatorList{}, keyed: map[string][]byte{},
		marks: map[string]int64{}, unassigned: map[string][]*messages.Split{}, ended: map[string]bool{}}
	var dones []func(error)
	for _, task := range d.tasks {
		for _, o := range task.chain.Operators {
			if err := o.PrepareBarrier(id); err != nil {
				return nil, err
			}
			part, err := o.Snapshot(operator.SnapshotRequest{Checkpoint: id})
			if err != nil {
				return nil, err
			}
			lists := part.Lists
			if part.Work != nil {
				more, err := part.Work(context.Background())
				if part.Done != nil {
					part.Done(err)
				}
				if err != nil {
					return nil, err
				}
				lists = append(lists, more...)
			} else if part.Done != nil {
				dones = append(dones, part.Done)
			}
			s.lists[o.Uid()] = lists
			if b := task.keyed[o.Uid()]; b != nil {
				sealed, err := b.Seal(id, state.SealOptions{})
				if err != nil {
					return nil, err
				}
				var file bytes.Buffer
				entries, err := sealed.Write(context.Background(), &file)
				if err != nil {
					return nil, err
				}
				s.entries += entries
				s.keyed[o.Uid()] = file.Bytes()
			}
			if task.mark > math.MinInt64 {
				s.marks[o.Uid()] = task.mark
			}
			s.ended[o.Uid()] = task.ended
			if task.chain.Source != nil {
				for _, x := range task.splits {
					s.unassigned[o.Uid()] = append(s.unassigned[o.Uid()], proto.Clone(x).(*messages.Split))
				}
			}
		}
	}
	for _, done := range dones {
		done(nil)
	}
	if complete {
		return s, d.complete(id)
	}
	return s, nil
}

// drain handles what is between the tasks, without reading sources.
func (d *driver) drain() {
	for again := true; again; {
		again = false
		for _, task := range d.tasks {
			for task.chain.Source == nil && len(task.in) > 0 {
				again = true
				d.settle()
				task.yield.Budget = d.budget
				if _, err := d.step(task); err != nil {
					d.t.Fatal(err)
				}
			}
		}
	}
}

func (d *driver) complete(id uint64) error {
	for _, task := range d.tasks {
		for _, o := range task.chain.Operators {
			if err := o.Complete(id); err != nil {
				return err
			}
		}
	}
	d.settle()
	return d.failed
}

func (d *driver) quiescent() bool {
	for _, task := range d.tasks {
		for _, o := range task.chain.Operators {
			if !o.Quiescent() {
				return false
			}
		}
	}
	return true
}

func (d *driver) close() {
	for _, task := range d.tasks {
		for _, o := range task.chain.Operators {
			if err := o.Close(); err != nil {
				d.t.Error(err)
			}
		}
	}
	d.settle()
}
