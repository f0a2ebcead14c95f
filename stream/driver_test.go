package stream_test

import (
	"bytes"
	"context"
	"math"
	"testing"

	"google.golang.org/protobuf/proto"

	"cutwater/messages"
	"cutwater/state"
	"cutwater/state/heap"
	"cutwater/storage/vfs"
	"cutwater/stream"
	"cutwater/stream/operator"
)

const maxParallelism = 128

// driver runs a program with one subtask per operator and no actor: every
// operator is a task of its own unless chained by name. It has what a task has,
// without threads: asynchronous work waits in a list until settle.
type driver struct {
	t       *testing.T
	program *stream.Program
	tasks   []*testTask
	byUid   map[string]*testTask
	works   []testWork
	now     int64
	setMs   int64 // by how much somebody has set the wall clock
	alarms  []alarm
	events  []string
	failed  error
	read    uint64 // records, by Progress
	// budget is how many records a turn may handle.
	budget int
}

type testWork struct {
	work func(context.Context) error
	done func(error)
}

type alarm struct {
	at int64
	f  func()
}

type testTask struct {
	chain  *operator.Chain
	yield  operator.Yield
	in     []inMessage
	marks  map[int]int64 // input -> watermark
	mark   int64
	wanted int // splits
	splits []*messages.Split
	outs   []*operator.EdgeWriter
	keyed  map[string]state.Backend
	ended  bool
}

// inMessage is a batch, or a watermark if batch is nil.
type inMessage struct {
	input int
	batch *messages.RecordBatch
	mark  int64
}

// snapshot is what a checkpoint of the driver holds.
type snapshot struct {
	checkpoint uint64
	lists      map[string][]*messages.OperatorList
	keyed      map[string][]byte
	entries    uint64 // of keyed state
	marks      map[string]int64
	unassigned map[string][]*messages.Split
	ended      map[string]bool
}

// newDriver deploys the program in the given chains, or each operator alone.
func newDriver(t *testing.T, p *stream.Program, from *snapshot, chains ...[]string) *driver {
	t.Helper()
	d := &driver{t: t, program: p, byUid: map[string]*testTask{}, budget: 100}
	graph := p.Graph()
	if len(chains) == 0 {
		for _, o := range graph.Operators {
			chains = append(chains, []string{o.Uid})
		}
	}
	specs := map[string]*messages.OperatorSpec{}
	for _, o := range graph.Operators {
		specs[o.Uid] = o
	}
	for _, uids := range chains {
		task := &testTask{mark: math.MinInt64, marks: map[int]int64{}, keyed: map[string]state.Backend{}}
		for _, uid := range uids {
			d.byUid[uid] = task
		}
		for i := range specs[uids[0]].Inputs {
			task.marks[i] = math.MinInt64
		}
		d.tasks = append(d.tasks, task)
	}
	for _, o := range graph.Operators {
		for i, in := range o.Inputs {
			sender, receiver := d.byUid[in.Uid], d.byUid[o.Uid]
			if sender == receiver {
				continue
			}
			var w *operator.EdgeWriter
			cut := func(channel int) {
				m := &messages.RecordBatch{}
				w.Builders[channel].Cut(m)
				receiver.in = append(receiver.in, inMessage{input: i, batch: m})
			}
			w = operator.NewEdgeWriter(&messages.PlanEdge{
				FromUid: in.Uid, ToUid: o.Uid, ToInput: uint32(i), Side: in.Side, Partitioning: in.Partitioning,
			}, 1, maxParallelism, 1<<10, cut)
			sender.outs = append(sender.outs, w)
		}
	}
	for i, uids := range chains {
		d.deploy(d.tasks[i], uids, from, specs)
	}
	return d
}

func (d *driver) deploy(task *testTask, uids []string, from *snapshot, specs map[string]*messages.OperatorSpec) {
	d.t.Helper()
	var err error
	if task.chain, err = d.program.NewChain(uids, task.outs); err != nil {
		d.t.Fatal(err)
	}
	task.yield.Budget = d.budget
	if src := task.chain.Source; src != nil {
		if from != nil {
			for _, s := range from.unassigned[uids[0]] {
				task.splits = append(task.splits, proto.Clone(s).(*messages.Split))
			}
		} else {
			found, err := d.program.Discover(context.Background(), uids[0], vfs.OS(), 1)
			if err != nil {
				d.t.Fatal(err)
			}
			task.splits = found.Splits
		}
	}
	for i := len(uids) - 1; i >= 0; i-- {
		uid := uids[i]
		c := &operator.Context{
			Job: "0123456789abcdef0123456789abcdef", JobName: "test", Incarnation: 1, Fence: &messages.Fence{Epoch: 1, Attempt: 1},
			Parallelism: 1, MaxParallelism: maxParallelism, Yield: &task.yield,
			FS:    vfs.OS(),
			NowMs: func() int64 { return d.now + d.setMs }, MonotonicMs: func() int64 { return d.now },
			Async: func(work func(context.Context) error, done func(error)) {
				d.works = append(d.works, testWork{work, done})
			},
			At:           func(at int64, f func()) { d.alarms = append(d.alarms, alarm{at, f}) },
			WakeAt:       func(at int64) { d.alarms = append(d.alarms, alarm{at, func() {}}) },
			Fail:         func(err error) { d.failed = err },
			RequestSplit: func() { task.wanted++ },
			Progress:     func(records, _, _ uint64) { d.read = records },
			Event:        func(kind, detail string) { d.events = append(d.events, kind+" "+detail) },
		}
		if specs[uid].Keyed {
			b := heap.New(heap.Options{MaxParallelism: maxParallelism, LastGroup: maxParallelism - 1})
			task.keyed[uid], c.Keyed = b, b
			if from != nil {
				if err := b.Load(context.Background(), bytes.NewReader(from.keyed[uid])); err != nil {
					d.t.Fatal(err)
				}
			}
		}
		if from != nil {
			c.RestoredCheckpoint = from.checkpoint
			c.Restored = &messages.OperatorRestore{Uid: uid, Lists: from.lists[uid]}
			if m, ok := from.marks[uid]; ok {
				c.RestoredWatermarkMs, c.HasRestoredWatermark = m, true
			}
			task.ended = from.ended[uid]
		}
		if err := task.chain.Operators[i].Open(c); err != nil {
			d.t.Fatal(err)
		}
	}
}

// settle runs the asynchronous work that waits, and what it starts.
func (d *driver) settle() {
	for len(d.works) > 0 {
		w := d.works[0]
		d.works = d.works[1:]
		w.done(w.work(context.Background()))
	}
}

// advance lets time pass.
func (d *driver) advance(ms int64) {
	d.now += ms
	var later, due []alarm
	for _, a := range d.alarms {
		if a.at <= d.now+d.setMs {
			due = append(due, a)
		} else {
			later = append(later, a)
		}
	}
	d.alarms = later
	for _, a := range due {
		a.f()
	}
	for _, task := range d.tasks {
		d.flush(task)
	}
}

// turn gives every task one turn and reports whether any did something.
func (d *driver) turn() (busy bool, err error) {
	for _, task := range d.tasks {
		task.yield.Budget = d.budget
		did, err := d.step(task)
		if err != nil {
			return false, err
		}
		busy = busy || did
	}
	return busy, d.failed
}

func (d *driver) step(task *testTask) (bool, error) {
	if task.yield.Held > 0 {
		return false, nil
	}
	if src := task.chain.Source; src != nil {
		if task.ended {
			return false, nil
		}
		status, err := src.Poll()
		if err != nil {
			return false, err
		}
		for ; task.wanted > 0; task.wanted-- {
			a := &messages.SplitAssignment{NoMoreSplits: len(task.splits) == 0}
			if !a.NoMoreSplits {
				a.Split, task.splits = task.splits[0], task.splits[1:]
			}
			if err := src.AddSplit(a); err != nil {
				return false, err
			}
			status = operator.SourceMore
		}
		task.ended = status == operator.SourceEnded
		if at, ok := src.CurrentWatermark(); ok && at > task.mark {
			if err := d.watermark(task, at); err != nil {
				return false, err
			}
		}
		d.flush(task)
		return status == operator.SourceMore || task.ended, nil
	}
	if len(task.in) == 0 {
		return false, nil
	}
	m := task.in[0]
	task.in = task.in[1:]
	if m.batch == nil {
		task.marks[m.input] = m.mark
		low := int64(math.MaxInt64)
		for _, at := range task.marks {
			low = min(low, at)
		}
		if low > task.mark {
			if err := d.watermark(task, low); err != nil {
				return false, err
			}
		}
		d.flush(task)
		return true, nil
	}
	for at := 0; at < int(m.batch.Count); {
		next, err := task.chain.Input.Process(m.input, m.batch, at)
		if err != nil {
			return false, err
		}
		at, task.yield.Budget = next, d.budget
		if task.yield.Held > 0 {
			d.settle()
		}
	}
	d.flush(task)
	return true, nil
}

func (d *driver) watermark(task *testTask, at int64) error {
	task.mark = at
	for _, o := range task.chain.Operators {
		for {
			done, err := o.Watermark(at)
			if err != nil {
				return err
			}
			if done {
				break
			}
			task.yield.Budget = d.budget
		}
	}
	d.flush(task)
	for _, w := range task.outs {
		to := d.byUid[w.Edge.ToUid]
		to.in = append(to.in, inMessage{input: int(w.Edge.ToInput), mark: at})
	}
	return nil
}

func (d *driver) flush(task *testTask) {
	for _, w := range task.outs {
		if w.Builders[0].Len() > 0 {
			w.Cut(0)
		}
	}
}

// run works until nothing is left to do.
func (d *driver) run() error {
	for {
		d.settle()
		busy, err := d.turn()
		if err != nil {
			return err
		}
		if !busy && len(d.works) == 0 {
			return nil
		}
	}
}
