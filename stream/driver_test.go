package stream_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"testing"

	"google.golang.org/protobuf/proto"

	"cutwater/codec"
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
			NowMs: func() int64 { return d.now },
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
		if a.at <= d.now {
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

// ev is the record of the tests.
type ev struct {
	Key   string
	Ms    int64
	Value int64
}

// listSource is a source of splits in memory; a nil error entry is a record.
type listSource struct {
	splits [][]ev
	// groups names the splits' groups; one group if nil.
	groups []string
	// bad are the values that cannot be read.
	bad     int64
	openErr error
	opened  int
}

func (s *listSource) Discover(context.Context, vfs.FS, int) (*messages.SplitsDiscovered, error) {
	d := &messages.SplitsDiscovered{}
	for i := range s.splits {
		group := "all"
		if s.groups != nil {
			group = s.groups[i]
		}
		d.Splits = append(d.Splits, &messages.Split{Id: fmt.Sprint(i), Group: group, Ordinal: uint64(i), Payload: []byte{byte(i)}})
	}
	return d, nil
}

func (s *listSource) Open(_ context.Context, _ vfs.FS, split *messages.Split) (stream.SplitReader[ev], error) {
	r := &listReader{source: s, records: s.splits[split.Payload[0]]}
	if len(split.Position) > 0 {
		r.at = int(split.Position[0])<<8 | int(split.Position[1])
	}
	if s.openErr != nil {
		return nil, s.openErr
	}
	s.opened++
	return r, nil
}

func (s *listSource) Bounded() bool          { return true }
func (s *listSource) Codec() codec.Codec[ev] { return codec.Must(codec.Struct[ev]()) }

type listReader struct {
	source  *listSource
	records []ev
	at      int
}

func (r *listReader) Next(v *ev) (stream.ReadStatus, error) {
	if r.at == len(r.records) {
		return stream.ReadEnd, nil
	}
	*v = r.records[r.at]
	r.at++
	if r.source.bad != 0 && v.Value == r.source.bad {
		return 0, &stream.MalformedError{Where: "list", Offset: int64(r.at - 1), Problem: "a bad value", Raw: v.Key}
	}
	return stream.ReadRecord, nil
}

func (r *listReader) Position() []byte  { return []byte{byte(r.at >> 8), byte(r.at)} }
func (r *listReader) BytesRead() uint64 { return uint64(r.at) }
func (r *listReader) Close() error {
	r.source.opened--
	return nil
}

// memorySink is a sink whose committed output is a list of strings.
type memorySink[T any] struct {
	log       []string
	prepared  map[string][]string
	committed []string
	failures  int // of Commit, to come
	text      func(T) string
	// batch is the size of a record, to reach the flush limit.
	recordBytes int
}

func newMemorySink[T any]() *memorySink[T] {
	return &memorySink[T]{prepared: map[string][]string{}, text: func(v T) string { return fmt.Sprint(v) }, recordBytes: 1}
}

func (s *memorySink[T]) Start(_ context.Context, _ stream.SinkContext, restored []*messages.Committable) error {
	s.log = append(s.log, fmt.Sprintf("start %d", len(restored)))
	return nil
}

func (s *memorySink[T]) NewWriter(stream.SinkContext) (stream.SinkWriter[T], error) {
	return &memoryWriter[T]{sink: s}, nil
}

func (s *memorySink[T]) Commit(_ context.Context, _ stream.SinkContext, c *messages.Committable) error {
	if s.failures > 0 {
		s.failures--
		return errors.New("target is away")
	}
	s.log = append(s.log, fmt.Sprintf("commit %d", c.Checkpoint))
	s.committed = append(s.committed, s.prepared[string(c.Payload)]...)
	delete(s.prepared, string(c.Payload)) // a second commit does nothing
	return nil
}

func (s *memorySink[T]) Abort(_ context.Context, _ stream.SinkContext, c *messages.Committable) error {
	s.log = append(s.log, fmt.Sprintf("abort %d", c.Checkpoint))
	delete(s.prepared, string(c.Payload))
	return nil
}

type memoryWriter[T any] struct {
	sink            *memorySink[T]
	buffer, flushed []string
}

func (w *memoryWriter[T]) Write(v T, _ int64) error {
	w.buffer = append(w.buffer, w.sink.text(v))
	return nil
}

func (w *memoryWriter[T]) Buffered() int { return len(w.buffer) * w.sink.recordBytes }

func (w *memoryWriter[T]) Flush() func(context.Context) error {
	b := w.buffer
	w.buffer = nil
	return func(context.Context) error {
		w.sink.log = append(w.sink.log, fmt.Sprintf("flush %d", len(b)))
		w.flushed = append(w.flushed, b...)
		return nil
	}
}

func (w *memoryWriter[T]) Prepare(checkpoint uint64) func(context.Context) ([]*messages.Committable, error) {
	b := w.buffer
	w.buffer = nil
	return func(context.Context) ([]*messages.Committable, error) {
		all := append(w.flushed, b...)
		w.flushed = nil
		if len(all) == 0 {
			return nil, nil
		}
		name := fmt.Sprintf("part-%d-%d", checkpoint, len(w.sink.log))
		w.sink.log = append(w.sink.log, fmt.Sprintf("prepare %d", checkpoint))
		w.sink.prepared[name] = all
		return []*messages.Committable{{Payload: []byte(name)}}, nil
	}
}

func (w *memoryWriter[T]) Close() error { return nil }

// total is an aggregate with key and window.
type total struct {
	Key          string
	StartMs      int64
	EndMs        int64
	Count, Value int64
}

type sums struct{ Count, Value int64 }

type summing struct{}

func newSumming() summing { return summing{} }

func (summing) Init(acc *sums) { *acc = sums{} }
func (summing) Add(acc *sums, v ev) error {
	if v.Value == -999 {
		return errors.New("value -999 is not wanted")
	}
	acc.Count++
	acc.Value += v.Value
	return nil
}
func (summing) Merge(acc, other *sums) error {
	acc.Count += other.Count
	acc.Value += other.Value
	return nil
}
func (summing) Result(key string, w stream.Interval, acc *sums) (total, error) {
	return total{key, w.StartMs, w.EndMs, acc.Count, acc.Value}, nil
}

func keyOf(v ev) string { return v.Key }
func msOf(v ev) int64   { return v.Ms }
