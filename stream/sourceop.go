package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"

	"cutwater/messages"
	"cutwater/stream/operator"
)

// splitsList is the name of the list state of a source: its splits.
const splitsList = "splits"

// idlePollMs is how soon a split that had nothing is asked again.
const idlePollMs = 10

type sourceConfig[T any] struct {
	source       Source[T]
	eventTime    func(T) int64
	outOfOrderMs int64
	idlenessMs   int64 // 0: no split is ever idle
	rate         float64
	malformed    MalformedPolicy
}

// sourceOperator reads splits. A bounded source reads one after another, in the
// order of group and ordinal, and asks for the next when it has none; an
// unbounded one reads all that it can get, in turn.
//
// Its state is the list of its splits with their positions and largest
// timestamps. A split that is finished leaves it.
type sourceOperator[T any] struct {
	base
	config sourceConfig[T]
	out    Emit[T]
	bad    Emit[MalformedRecord]

	splits    []*openSplit[T]
	turn      int // of an unbounded source, whose splits take turns
	requested bool
	noMore    bool
	opening   int
	value     T

	watermark    int64
	hasWatermark bool
	idle         bool // all splits are idle

	wakeMs int64 // when this turn wants the next one, if wakes
	wakes  bool

	records, bytes uint64 // read by this instance; bytes of closed splits

	rateFromMs int64 // since when, by the monotonic clock, rateCount records were read
	rateCount  float64
}

// openSplit is a split that the subtask has.
type openSplit[T any] struct {
	split  *messages.Split
	handle *readerHandle[T]
	reader SplitReader[T] // nil until it is open
	// quiet: since quietFromMs, of the monotonic clock, it has had no record each
	// time that it was asked.
	quiet       bool
	quietFromMs int64
}

// readerHandle passes a reader from the Executor to the task, and closes it if
// the task has gone meanwhile.
type readerHandle[T any] struct {
	mu        sync.Mutex
	reader    SplitReader[T]
	abandoned bool
}

func newSourceOperator[T any](b base, c sourceConfig[T], out Emit[T], bad Emit[MalformedRecord]) *sourceOperator[T] {
	return &sourceOperator[T]{base: b, config: c, out: out, bad: bad}
}

// Open takes the restored splits.
func (o *sourceOperator[T]) Open(ctx *operator.Context) error {
	o.open(ctx)
	for _, l := range ctx.Restored.GetLists() {
		if l.Name != splitsList {
			continue
		}
		for _, item := range l.Items {
			s := &messages.Split{}
			if err := proto.Unmarshal(item, s); err != nil {
				return NoRestart(fmt.Errorf("stream: the checkpoint holds a split of source %q that cannot be read: %w", o.ID, err))
			}
			o.splits = append(o.splits, &openSplit[T]{split: s})
		}
	}
	o.sort()
	o.rateFromMs = ctx.MonotonicMs()
	return nil
}

func (o *sourceOperator[T]) sort() {
	slices.SortStableFunc(o.splits, func(a, b *openSplit[T]) int {
		return cmp.Or(cmp.Compare(a.split.Group, b.split.Group), cmp.Compare(a.split.Ordinal, b.split.Ordinal), cmp.Compare(a.split.Id, b.split.Id))
	})
}

// AddSplit implements operator.Source.
func (o *sourceOperator[T]) AddSplit(a *messages.SplitAssignment) error {
	o.requested = false
	if a.NoMoreSplits {
		o.noMore = true
		return nil
	}
	if a.Split == nil {
		return fmt.Errorf("stream: source %q was assigned a split without a description", o.ID)
	}
	o.splits = append(o.splits, &openSplit[T]{split: a.Split})
	if o.config.source.Bounded() {
		o.sort()
	}
	o.report()
	return nil
}

// prepare opens what is to be read next and asks for a split if there is room.
func (o *sourceOperator[T]) prepare() {
	bounded := o.config.source.Bounded()
	for i, s := range o.splits {
		if s.handle == nil && (i == 0 || !bounded) {
			o.openSplit(s)
		}
	}
	if !o.noMore && !o.requested && (len(o.splits) == 0 || !bounded) {
		o.requested = true
		o.ctx.RequestSplit()
	}
}

func (o *sourceOperator[T]) openSplit(s *openSplit[T]) {
	h := &readerHandle[T]{}
	s.handle = h
	o.opening++
	split := proto.Clone(s.split).(*messages.Split)
	o.ctx.Async(func(ctx context.Context) error {
		r, err := o.config.source.Open(ctx, o.ctx.FS, split)
		if err != nil {
			return err
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.abandoned {
			return r.Close()
		}
		h.reader = r
		return nil
	}, func(err error) {
		o.opening--
		if err != nil {
			o.ctx.Fail(&operator.UserError{Uid: o.ID, Cause: err})
			return
		}
		s.reader = h.reader
	})
}

// Poll implements operator.Source.
func (o *sourceOperator[T]) Poll() (status operator.SourceStatus, err error) {
	defer o.chain.caught(&err)
	o.chain.at = o.node
	o.prepare()
	if len(o.splits) == 0 {
		o.idle = false // it waits for a split, not for the world
		if o.noMore && o.opening == 0 {
			o.watermark, o.hasWatermark = math.MaxInt64, true
			return operator.SourceEnded, nil
		}
		return operator.SourceWaiting, nil
	}
	o.wakes = false
	for range o.splits { // those of an unbounded source that have nothing are passed over
		s := o.next()
		if s == nil {
			o.idle = false
			return operator.SourceWaiting, nil
		}
		if status, err = o.read(s); status != operator.SourceWaiting || o.config.source.Bounded() {
			break
		}
	}
	o.advance()
	o.report()
	if status == operator.SourceWaiting && o.wakes {
		o.ctx.WakeAt(o.wakeMs)
	}
	return status, err
}

// wakeAt asks for the next turn at this time, or sooner.
func (o *sourceOperator[T]) wakeAt(unixMs int64) {
	if !o.wakes || unixMs < o.wakeMs {
		o.wakeMs, o.wakes = unixMs, true
	}
}

// next is the split to read in this turn: the first, or, unbounded, the next
// open one.
func (o *sourceOperator[T]) next() *openSplit[T] {
	if o.config.source.Bounded() {
		if s := o.splits[0]; s.reader != nil {
			return s
		}
		return nil
	}
	for range o.splits {
		o.turn = (o.turn + 1) % len(o.splits)
		if s := o.splits[o.turn]; s.reader != nil {
			return s
		}
	}
	return nil
}

// read reads from a split until the turn ends.
func (o *sourceOperator[T]) read(s *openSplit[T]) (operator.SourceStatus, error) {
	y := o.ctx.Yield
	for !y.Now() {
		if o.config.rate > 0 && !o.allowed() {
			o.nothing(s)
			return operator.SourceWaiting, nil
		}
		status, err := s.reader.Next(&o.value)
		if err != nil {
			y.Budget--
			if err := o.unreadable(s, err); err != nil {
				return operator.SourceMore, err
			}
			continue
		}
		switch status {
		case ReadNothing:
			o.nothing(s)
			o.wakeAt(o.ctx.NowMs() + idlePollMs)
			return operator.SourceWaiting, nil
		case ReadEnd:
			return operator.SourceMore, o.finish(s)
		}
		y.Budget--
		o.records++
		s.split.RecordsRead++
		ts := int64(NoTimestamp)
		if o.config.eventTime != nil {
			if ts = o.config.eventTime(o.value); ts == NoTimestamp {
				if err := o.unreadable(s, s.withoutEventTime()); err != nil {
					return operator.SourceMore, err
				}
				continue
			}
			if !s.split.HasMaxTimestamp || ts > s.split.MaxTimestampMs {
				s.split.MaxTimestampMs, s.split.HasMaxTimestamp = ts, true
			}
		}
		if s.quiet = false; o.idle {
			y.Budget = 0 // the others hear at once that this one counts again
		}
		o.out(o.value, ts)
		if o.chain.err != nil {
			return operator.SourceMore, o.chain.err
		}
		o.chain.at = o.node
	}
	return operator.SourceMore, nil
}

// withoutEventTime is the error of the record that was read last.
func (s *openSplit[T]) withoutEventTime() *MalformedError {
	if d, ok := s.reader.(Describer); ok {
		return d.Describe("the record has no event time")
	}
	return &MalformedError{Where: s.split.Id, Offset: -1, Problem: fmt.Sprintf("record %d has no event time", s.split.RecordsRead)}
}

// unreadable applies the policy for malformed records, which are so each time that
// they are read; other errors fail the task.
func (o *sourceOperator[T]) unreadable(s *openSplit[T], err error) error {
	var m *MalformedError
	if !errors.As(err, &m) {
		return &operator.UserError{Uid: o.ID, Cause: err}
	}
	if o.config.malformed == Fail {
		err = fmt.Errorf("%w; let the source skip malformed records (malformed: skip) or send them to a side output (malformed: side) and go on, or correct the input and start anew", err)
		return &operator.UserError{Uid: o.ID, Cause: NoRestart(err)}
	}
	o.ctx.Event("malformed", m.Error())
	if o.config.malformed == SideOutput {
		ts := int64(NoTimestamp)
		if s.split.HasMaxTimestamp {
			ts = s.split.MaxTimestampMs
		}
		o.bad(m.record(), ts)
	}
	return o.chain.err
}

// finish drops a split that was read to its end.
func (o *sourceOperator[T]) finish(s *openSplit[T]) error {
	o.advance()
	o.bytes += s.reader.BytesRead()
	reader := s.reader
	s.reader = nil
	o.splits = slices.DeleteFunc(o.splits, func(x *openSplit[T]) bool { return x == s })
	o.turn = 0
	o.opening++
	o.ctx.Async(func(context.Context) error { return reader.Close() }, func(err error) {
		o.opening--
		if err != nil {
			o.ctx.Fail(&operator.UserError{Uid: o.ID, Cause: err})
		}
	})
	o.prepare()
	return nil
}

func (o *sourceOperator[T]) report() {
	bytes, remaining := o.bytes, uint64(0)
	for _, s := range o.splits {
		read := uint64(0)
		if s.reader != nil {
			read = s.reader.BytesRead()
		}
		bytes += read
		remaining += s.split.SizeBytes - min(read, s.split.SizeBytes)
	}
	o.ctx.Progress(o.records, bytes, remaining)
}

// Snapshot stores the splits. That one is idle is not stored: after a restore it
// holds the watermark until it has brought nothing for as long again.
func (o *sourceOperator[T]) Snapshot(operator.SnapshotRequest) (operator.Snapshot, error) {
	list := &messages.OperatorList{Name: splitsList, Mode: messages.RedistributionMode_SPLIT}
	for _, s := range o.splits {
		if s.reader != nil {
			s.split.Position = s.reader.Position()
		}
		item, err := proto.MarshalOptions{Deterministic: true}.Marshal(s.split)
		if err != nil {
			return operator.Snapshot{}, fmt.Errorf("stream: split %q of source %q: %w", s.split.Id, o.ID, err)
		}
		list.Items = append(list.Items, item)
	}
	return operator.Snapshot{Lists: []*messages.OperatorList{list}}, nil
}

// Quiescent is false while a file is being opened or closed.
func (o *sourceOperator[T]) Quiescent() bool { return o.opening == 0 }

// Close closes the readers, also one that is just being opened.
func (o *sourceOperator[T]) Close() error {
	var errs []error
	for _, s := range o.splits {
		if s.handle == nil {
			continue
		}
		s.handle.mu.Lock()
		s.handle.abandoned = true
		if s.handle.reader != nil {
			errs = append(errs, s.handle.reader.Close())
		}
		s.handle.mu.Unlock()
	}
	o.splits = nil
	return errors.Join(errs...)
}
