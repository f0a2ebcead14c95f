package stream

import (
	"fmt"
	"math"
	"reflect"

	"cutwater/state"
	"cutwater/stream/operator"
)

// Processor is a user function with state (after Flink's KeyedProcessFunction).
// One instance serves one subtask. Besides Process it may have these methods,
// which Build looks for; one of such a name with another signature is an error:
//
//	Open(*States)                              declares state and side outputs
//	OnTimer(*Context[K, U], Timer) error       takes timers
//	OnWatermark(*Context[K, U], int64) error   see WatermarkProcessor
//	CheckpointComplete(checkpoint uint64) error    see CheckpointListener
//	CheckpointAborted(checkpoint uint64) error
//	SnapshotState(checkpoint uint64, s *OperatorState) error    see CheckpointedFunction
//	RestoreState(s *OperatorState) error
type Processor[K, T, U any] interface {
	// Process takes one record.
	Process(c *Context[K, U], v T) error
}

// TimerProcessor is the optional method that takes timers.
type TimerProcessor[K, U any] interface {
	OnTimer(c *Context[K, U], t Timer) error
}

// WatermarkProcessor is the optional method of a Transform that is told each new
// watermark, behind the records that came before it; the last one of a bounded
// input is the highest int64. What it emits has the watermark as timestamp. A
// keyed processor sets timers instead.
type WatermarkProcessor[K, U any] interface {
	OnWatermark(c *Context[K, U], timestampMs int64) error
}

// Opener is the optional method that declares state and side outputs. It is
// also called by Build, to see what is declared, so it must do nothing else.
type Opener interface {
	Open(s *States)
}

// CheckpointListener is told how the checkpoints end that it was part of. A
// notification can be lost; the next one makes up for it.
type CheckpointListener interface {
	CheckpointComplete(checkpoint uint64) error
	CheckpointAborted(checkpoint uint64) error
}

// CheckpointedFunction keeps operator state, which belongs to a subtask and not
// to a key. SnapshotState runs at the barrier and stores everything anew;
// RestoreState runs before the first record, if there is a checkpoint.
type CheckpointedFunction interface {
	SnapshotState(checkpoint uint64, s *OperatorState) error
	RestoreState(s *OperatorState) error
}

// NoKey is the key of processors that read a stream without keys.
type NoKey struct{}

// Timer is a timer that is due.
type Timer struct {
	TimestampMs int64
	// ProcessingTime tells timers of the clock from those of event time.
	ProcessingTime bool
}

// Process runs a processor over a keyed stream.
func Process[K, T, U any, P Processor[K, T, U]](s KeyedStream[K, T], uid string, newProcessor func() P, opts ...Option) Stream[U] {
	n := declareKeyed(s, "process", uid, opts)
	return process[K, T, U](s.stream, s, n, func() Processor[K, T, U] { return newProcessor() })
}

// Transform runs a processor over a stream without keys: it has operator state
// and no timers.
func Transform[T, U any, P Processor[NoKey, T, U]](s Stream[T], uid string, newProcessor func() P, opts ...Option) Stream[U] {
	n := s.t.declare("transform", uid, opts)
	connect(n, s, nil)
	return process[NoKey, T, U](s, KeyedStream[NoKey, T]{}, n, func() Processor[NoKey, T, U] { return newProcessor() })
}

func process[K, T, U any](s Stream[T], keyed KeyedStream[K, T], n *node, newProcessor func() Processor[K, T, U]) Stream[U] {
	t := s.t
	t.takes(n)
	sample := newProcessor()
	if sample == nil {
		t.failf(n, "its factory returns nil, and a processor is wanted")
		return output[U](t, n, nil)
	}
	checkMethods[K, U](t, n, sample)
	if keyed.key != nil && implements[WatermarkProcessor[K, U]](sample) {
		t.failf(n, "%T has OnWatermark, which is for a Transform: with a key, set timers", sample)
	}
	declared := &States{node: n, declaring: true}
	if keyed.key != nil {
		declared.declare(keyed.key)
	}
	if o, ok := sample.(Opener); ok {
		o.Open(declared)
		for _, err := range declared.errs {
			t.failf(n, "%v", err)
		}
	}
	n.schema = declared.schema()
	result := output[U](t, n, nil)
	n.build = func(c *chain, n *node) (*instance, error) {
		out, err := emitter(c, n, "", result.codec)
		if err != nil {
			return nil, err
		}
		o := &processOperator[K, T, U]{keyedBase: newKeyedBase(c, n, keyed.key), f: newProcessor()}
		o.context = Context[K, U]{operator: o, out: out, base: &o.keyedBase, watermark: math.MinInt64}
		o.timer, _ = o.f.(TimerProcessor[K, U])
		o.watermarks, _ = o.f.(WatermarkProcessor[K, U])
		o.listener, _ = o.f.(CheckpointListener)
		o.function, _ = o.f.(CheckpointedFunction)
		if keyed.key != nil {
			return keyedInstance(o, keyed, &o.cursor, o.process), nil
		}
		emit := Emit[T](o.process)
		return &instance{operator: o, emit: emit, head: func(c *chain) operator.Input {
			return newHead(c, n, s.codec, emit, nil)
		}}, nil
	}
	return result
}

// checkMethods reports methods whose name promises an optional interface that
// their signature does not keep.
func checkMethods[K, U any](t *Topology, n *node, f any) {
	typ := reflect.TypeOf(f)
	for _, optional := range []struct {
		has     bool
		as      reflect.Type
		methods []string
	}{
		{implements[Opener](f), reflect.TypeFor[Opener](), []string{"Open"}},
		{implements[TimerProcessor[K, U]](f), reflect.TypeFor[TimerProcessor[K, U]](), []string{"OnTimer"}},
		{implements[WatermarkProcessor[K, U]](f), reflect.TypeFor[WatermarkProcessor[K, U]](), []string{"OnWatermark"}},
		{implements[CheckpointListener](f), reflect.TypeFor[CheckpointListener](), []string{"CheckpointComplete", "CheckpointAborted"}},
		{implements[CheckpointedFunction](f), reflect.TypeFor[CheckpointedFunction](), []string{"SnapshotState", "RestoreState"}},
	} {
		for _, name := range optional.methods {
			if m, ok := typ.MethodByName(name); ok && !optional.has {
				want, _ := optional.as.MethodByName(name)
				t.failf(n, "%s has a method %s, but not what %s asks for: it is %s, and %v with %s is wanted; nothing would call it",
					typ, name, optional.as.Name(), m.Type, optional.methods, want.Type)
				break
			}
		}
	}
}

func implements[I any](f any) bool {
	_, ok := f.(I)
	return ok
}

// Context is what a processor may use during a call.
type Context[K, U any] struct {
	operator  timerOwner
	base      *keyedBase[K]
	out       Emit[U]
	now       int64
	watermark int64
}

// timerOwner is the processor's operator, for its timers.
type timerOwner interface {
	timers() (event, processing *state.Timers)
	arm()
}

// Key is the current key. It panics in a Transform, and its error is that of
// the task.
func (c *Context[K, U]) Key() K {
	if c.base.keys == nil {
		panic(fmt.Errorf("operator %q reads a stream without keys", c.base.ID))
	}
	k, err := c.base.currentKey()
	if err != nil {
		panic(err)
	}
	return *k
}

// TimestampMs is the timestamp of the record or timer.
func (c *Context[K, U]) TimestampMs() int64 { return c.now }

// WatermarkMs is the current watermark, the lowest int64 if there is none.
func (c *Context[K, U]) WatermarkMs() int64 { return c.watermark }

// ProcessingTimeMs reads the clock. What depends on it differs after a restore.
func (c *Context[K, U]) ProcessingTimeMs() int64 { return c.base.ctx.NowMs() }

// Subtask is the number of this subtask, from 0.
func (c *Context[K, U]) Subtask() int { return c.base.ctx.Subtask }

// Emit emits a record with the timestamp of the current record or timer.
func (c *Context[K, U]) Emit(v U) { c.EmitAt(v, c.now) }

// EmitAt emits a record with another timestamp.
func (c *Context[K, U]) EmitAt(v U, timestampMs int64) {
	c.out(v, timestampMs)
	c.base.chain.at = c.base.node
}

// SetEventTimer calls OnTimer for the current key when the watermark reaches the
// time; setting the same time again changes nothing.
func (c *Context[K, U]) SetEventTimer(timestampMs int64) {
	event, _ := c.operator.timers()
	event.Register(c.base.cursor.Hash, c.base.cursor.Key, 0, timestampMs)
}

// DeleteEventTimer takes it back.
func (c *Context[K, U]) DeleteEventTimer(timestampMs int64) {
	event, _ := c.operator.timers()
	event.Delete(c.base.cursor.Hash, c.base.cursor.Key, 0, timestampMs)
}

// SetProcessingTimer calls OnTimer for the current key when the clock reaches
// the time.
func (c *Context[K, U]) SetProcessingTimer(unixMs int64) {
	_, processing := c.operator.timers()
	processing.Register(c.base.cursor.Hash, c.base.cursor.Key, 0, unixMs)
	c.operator.arm()
}

// DeleteProcessingTimer takes it back.
func (c *Context[K, U]) DeleteProcessingTimer(unixMs int64) {
	_, processing := c.operator.timers()
	processing.Delete(c.base.cursor.Hash, c.base.cursor.Key, 0, unixMs)
}
