package testkit

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync"

	"cutwater/codec"
	"cutwater/messages"
	"cutwater/stream"
)

// Tapped is what a Probe watches: a Job or a Cluster.
type Tapped interface {
	tb() TB
	// watch remembers a probe that is to be told of each graph that starts.
	watch(p interface{ started(*messages.JobGraph) })
	// await waits until met holds, and reports whether it did before the job ended.
	await(what string, met func() bool, changed func() <-chan struct{}, seen func() string) bool
	state() string
}

// Probe watches a stream of a running Job, or of one in a Cluster: a test waits for
// records, watermarks and checkpoints instead of sleeping. Its methods may be called by
// any goroutine, those that wait for a Cluster by its test alone.
//
// What a probe shows is as of the present attempt: after a failure it forgets the
// records that the job will process again.
type Probe[T any] struct {
	job   Tapped
	uid   string
	codec codec.Codec[T]

	mu      sync.Mutex
	changed chan struct{}
	// log has the records in the order of their arrival, each with its subtask.
	log []arrival[T]
	// marks are the watermarks by subtask, and taps who reports them: the one of an
	// attempt that is over, and does not know, reports nothing.
	marks []int64
	taps  []*tap[T]
	// prepared is the newest checkpoint whose barrier has passed, completed the
	// newest that is complete.
	prepared, completed uint64
}

type arrival[T any] struct {
	subtask int
	record  Record[T]
}

// Tap puts a probe into a stream, as an operator of that uid that passes on what
// comes. Read the stream that it returns, or nothing.
func Tap[T any](j Tapped, s stream.Stream[T], uid string, opts ...stream.Option) (*Probe[T], stream.Stream[T]) {
	p := &Probe[T]{job: j, uid: uid, codec: s.Codec(), changed: make(chan struct{})}
	j.watch(p)
	if s.Codec() != nil {
		opts = append([]stream.Option{stream.WithCodec(s.Codec())}, opts...)
	}
	return p, stream.Transform(s, uid, func() *tap[T] { return &tap[T]{probe: p} }, opts...)
}

// started tells the probe how many subtasks it has.
func (p *Probe[T]) started(graph *messages.JobGraph) {
	for _, o := range graph.Operators {
		if o.Uid != p.uid {
			continue
		}
		n := o.Parallelism
		if n == 0 {
			n = max(graph.Parallelism, 1)
		}
		p.marks, p.taps = make([]int64, n), make([]*tap[T], n)
		for i := range p.marks {
			p.marks[i] = math.MinInt64
		}
	}
}

// Records returns what has arrived, in the order of arrival.
func (p *Probe[T]) Records() []Record[T] {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]Record[T], len(p.log))
	for i, a := range p.log {
		all[i] = a.record
	}
	return all
}

// Values is Records without timestamps.
func (p *Probe[T]) Values() []T {
	var values []T
	for _, r := range p.Records() {
		values = append(values, r.Value)
	}
	return values
}

// WaitRecords waits until at least n records have arrived and returns all.
func (p *Probe[T]) WaitRecords(n int) []Record[T] {
	p.job.tb().Helper()
	p.wait(fmt.Sprintf("%d records", n), func() bool { return len(p.log) >= n })
	return p.Records()
}

// WaitWatermark waits until event time has reached timestampMs in all subtasks of
// the probe.
func (p *Probe[T]) WaitWatermark(timestampMs int64) {
	p.job.tb().Helper()
	p.wait(fmt.Sprintf("the watermark %d ms", timestampMs), func() bool { return p.watermark() >= timestampMs })
}

// WaitCheckpoint waits until a checkpoint is complete that holds all records that
// have arrived before the call, and returns its id.
func (p *Probe[T]) WaitCheckpoint() uint64 {
	p.job.tb().Helper()
	p.mu.Lock()
	after := p.prepared
	p.mu.Unlock()
	p.wait(fmt.Sprintf("a checkpoint after %d", after), func() bool { return p.completed > after })
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.completed
}

// wait waits for a condition, which is asked with mu held.
func (p *Probe[T]) wait(what string, met func() bool) {
	p.job.tb().Helper()
	locked := func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return met()
	}
	what += fmt.Sprintf(" at %q", p.uid)
	if !p.job.await(what, locked, p.change, p.seen) {
		p.job.tb().Fatalf("testkit: waited for %s; %sthe job is %s", what, p.seen(), p.job.state())
	}
}

// change is closed at the next change.
func (p *Probe[T]) change() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changed
}

// seen says what is there, for people.
func (p *Probe[T]) seen() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := fmt.Sprintf("%d records have arrived", len(p.log))
	if n := len(p.log); n > 0 {
		text += fmt.Sprintf(", the last is %+v", p.log[n-1].record.Value)
	}
	if m := p.watermark(); m > math.MinInt64 {
		text += fmt.Sprintf(", the watermark is %d ms", m)
	}
	return text + fmt.Sprintf(", the newest checkpoint is %d, ", p.completed)
}

// watermark is the lowest of the subtasks.
func (p *Probe[T]) watermark() int64 {
	low := int64(math.MaxInt64)
	for _, m := range p.marks {
		low = min(low, m)
	}
	return low
}

// update changes the probe and wakes those that wait.
func (p *Probe[T]) update(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	close(p.changed)
	p.changed = make(chan struct{})
}

// rewind keeps the first n records of a subtask, and no watermark: the tap begins anew
// from there.
func (p *Probe[T]) rewind(t *tap[T], subtask int, n uint64) {
	p.update(func() {
		p.taps[subtask] = t
		kept := p.log[:0]
		for _, a := range p.log {
			if a.subtask == subtask {
				if n == 0 {
					continue
				}
				n--
			}
			kept = append(kept, a)
		}
		clear(p.log[len(kept):])
		p.log, p.marks[subtask] = kept, math.MinInt64
	})
}

// tap is one subtask of a probe in one attempt.
type tap[T any] struct {
	probe *Probe[T]
	// counts are the restored numbers of records, by subtask; own is this one's.
	counts map[int]uint64
	begun  bool
	own    int
}

// begin is called with the first record or watermark: only then the subtask is
// known.
func (p *tap[T]) begin(c *stream.Context[stream.NoKey, T]) {
	if p.begun {
		return
	}
	p.begun, p.own = true, c.Subtask()
	p.probe.rewind(p, p.own, p.counts[p.own])
}

// Process notes the record and passes it on.
func (p *tap[T]) Process(c *stream.Context[stream.NoKey, T], v T) error {
	p.begin(c)
	own, err := cloned(p.probe.codec, v)
	if err != nil {
		return err
	}
	if p.counts == nil {
		p.counts = map[int]uint64{}
	}
	p.counts[p.own]++
	p.report(func() {
		p.probe.log = append(p.probe.log, arrival[T]{p.own, Record[T]{c.TimestampMs(), own}})
	})
	c.Emit(v)
	return nil
}

// OnWatermark notes the watermark.
func (p *tap[T]) OnWatermark(c *stream.Context[stream.NoKey, T], timestampMs int64) error {
	p.begin(c)
	p.report(func() { p.probe.marks[p.own] = timestampMs })
	return nil
}

// report changes the probe, unless a later attempt has its place.
func (p *tap[T]) report(f func()) {
	p.probe.update(func() {
		if p.probe.taps[p.own] == p {
			f()
		}
	})
}

const countsName = "records"

// SnapshotState stores how many records the subtask had. One that has seen
// nothing yet does not know which it is, and stores all that it knows: the largest
// number counts.
func (p *tap[T]) SnapshotState(checkpoint uint64, s *stream.OperatorState) error {
	var items [][]byte
	for subtask := range p.probe.marks {
		if n := p.counts[subtask]; n > 0 && (!p.begun || subtask == p.own) {
			item := binary.LittleEndian.AppendUint64(nil, uint64(subtask))
			items = append(items, binary.LittleEndian.AppendUint64(item, n))
		}
	}
	s.Union(countsName, items...)
	p.probe.update(func() { p.probe.prepared = max(p.probe.prepared, checkpoint) })
	return nil
}

// RestoreState reads the numbers of all subtasks.
func (p *tap[T]) RestoreState(s *stream.OperatorState) error {
	p.counts = map[int]uint64{}
	for _, item := range s.Items(countsName) {
		subtask := int(binary.LittleEndian.Uint64(item))
		p.counts[subtask] = max(p.counts[subtask], binary.LittleEndian.Uint64(item[8:]))
	}
	return nil
}

// CheckpointComplete notes the checkpoint.
func (p *tap[T]) CheckpointComplete(checkpoint uint64) error {
	p.probe.update(func() { p.probe.completed = max(p.probe.completed, checkpoint) })
	return nil
}

// CheckpointAborted is for the next one to make up for.
func (p *tap[T]) CheckpointAborted(uint64) error { return nil }
