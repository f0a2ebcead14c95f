package stream

import (
	"cutwater/codec"
	"cutwater/state"
	"cutwater/stream/operator"
)

// Aggregator computes a result R from many records T of one key K by way of an
// accumulator A, which is what state keeps (after Flink's AggregateFunction).
// One instance serves one subtask and may keep scratch memory.
type Aggregator[K, T, A, R any] interface {
	// Init makes *acc the accumulator of no records. It must overwrite all of it.
	Init(acc *A)
	// Add adds a record.
	Add(acc *A, v T) error
	// Merge adds what another accumulator holds; panes of sliding windows are
	// merged in the order of time.
	Merge(acc *A, other *A) error
	// Result is the output. Window is zero for a running aggregate.
	Result(key K, window Interval, acc *A) (R, error)
}

// Aggregate keeps an aggregate per key and emits its result after every record,
// with the record's timestamp.
func Aggregate[K, T, A, R any, G Aggregator[K, T, A, R]](s KeyedStream[K, T], uid string, newAggregator func() G, opts ...Option) Stream[R] {
	n := declareKeyed(s, "aggregate", uid, opts)
	t := s.stream.t
	t.takes(n, "WithState", "SkipFailed")
	acc := stateCodec[A](t, n)
	n.schema = stateSchema(s.key, acc)
	result := output[R](t, n, nil)
	n.build = func(c *chain, n *node) (*instance, error) {
		out, err := emitter(c, n, "", result.codec)
		if err != nil {
			return nil, err
		}
		o := &aggregateOperator[K, T, A, R]{keyedBase: newKeyedBase(c, n, s.key), codec: acc, out: out, f: newAggregator()}
		return keyedInstance(o, s, &o.cursor, o.add), nil
	}
	return result
}

// Reduce keeps one record per key, combines each new one into it by f and emits
// the result.
func Reduce[K, T any](s KeyedStream[K, T], uid string, f func(sofar, v T) T, opts ...Option) Stream[T] {
	if s.stream.codec != nil {
		opts = append([]Option{WithCodec(s.stream.codec)}, opts...)
	}
	n := declareKeyed(s, "reduce", uid, opts)
	t := s.stream.t
	t.takes(n)
	result := output[T](t, n, nil)
	n.schema = stateSchema(s.key, result.codec)
	n.build = func(c *chain, n *node) (*instance, error) {
		out, err := emitter(c, n, "", result.codec)
		if err != nil {
			return nil, err
		}
		o := &reduceOperator[K, T]{keyedBase: newKeyedBase(c, n, s.key), codec: result.codec, out: out, f: f}
		return keyedInstance(o, s, &o.cursor, o.add), nil
	}
	return result
}

// keyedBase is what keyed operators share: the current key, and the key type.
type keyedBase[K any] struct {
	base
	keys   codec.Key[K]
	cursor state.Cursor
	key    K
}

func newKeyedBase[K any](c *chain, n *node, keys codec.Key[K]) keyedBase[K] {
	return keyedBase[K]{base: newBase(c, n), keys: keys}
}

func (b *keyedBase[K]) scope(namespaced bool) state.Scope {
	return state.Scope{
		Backend: b.ctx.Keyed, Cursor: &b.cursor, KeyWidth: b.keys.Width(), KeySchema: b.keys.Schema(), Namespaced: namespaced,
	}
}

// currentKey decodes the cursor's key.
func (b *keyedBase[K]) currentKey() (*K, error) {
	if err := b.keys.DecodeKey(b.cursor.Key, &b.key); err != nil {
		return nil, keyDecodeError(b.ID, err)
	}
	return &b.key, nil
}

// keyedInstance makes the instance of a keyed operator, always the head.
func keyedInstance[K, T any](o operator.Operator, s KeyedStream[K, T], cursor *state.Cursor, add Emit[T]) *instance {
	return &instance{operator: o, emit: add, head: func(c *chain) operator.Input {
		return newHead(c, c.program.nodes[o.Uid()], s.stream.codec, add, cursor)
	}}
}

// stateCodec is the codec of an accumulator.
func stateCodec[A any](t *Topology, n *node) codec.Codec[A] {
	if n.options.state != nil {
		c, ok := n.options.state.(codec.Codec[A])
		if !ok {
			var zero A
			t.failf(n, "WithState has a %T, but the operator keeps %T", n.options.state, zero)
		}
		return c
	}
	c, err := codec.Of[A]()
	if err != nil {
		t.failf(n, "what it keeps has no codec: %v; give one by WithState", err)
	}
	return c
}

// stateSchema describes keyed state to people and to the check at restore.
func stateSchema[K, A any](k codec.Key[K], a codec.Codec[A]) string {
	if k == nil || a == nil {
		return ""
	}
	return k.Schema() + " -> " + a.Schema()
}

// aggregateOperator is a running aggregate.
type aggregateOperator[K, T, A, R any] struct {
	keyedBase[K]
	codec codec.Codec[A]
	out   Emit[R]
	f     Aggregator[K, T, A, R]
	acc   *state.Value[A]

	// the record that update adds; update is made once, so that no record
	// allocates a closure
	record  T
	update  func(acc *A, existed bool)
	created bool // update made the accumulator
	result  R
	err     error
}

// Open declares the state.
func (o *aggregateOperator[K, T, A, R]) Open(ctx *operator.Context) (err error) {
	o.open(ctx)
	o.update = func(acc *A, existed bool) {
		if o.created = !existed; o.created {
			o.f.Init(acc)
		}
		if o.err = o.f.Add(acc, o.record); o.err == nil {
			o.result, o.err = o.f.Result(o.key, Interval{}, acc)
		}
	}
	o.acc, err = state.NewValue(o.scope(false), "aggregate", o.codec)
	return err
}

func (o *aggregateOperator[K, T, A, R]) add(v T, ts int64) {
	o.chain.at = o.node
	if _, o.err = o.currentKey(); o.err != nil {
		o.chain.fail(o.node, o.err)
		return
	}
	o.record = v
	o.acc.Modify(o.update)
	if o.err != nil {
		if o.created {
			o.acc.Clear()
		}
		o.failed(o.err)
		return
	}
	o.out(o.result, ts)
}

// reduceOperator keeps the combination of all records of a key.
type reduceOperator[K, T any] struct {
	keyedBase[K]
	codec codec.Codec[T]
	out   Emit[T]
	f     func(sofar, v T) T
	acc   *state.Value[T]
}

// Open declares the state.
func (o *reduceOperator[K, T]) Open(ctx *operator.Context) (err error) {
	o.open(ctx)
	o.acc, err = state.NewValue(o.scope(false), "reduce", o.codec)
	return err
}

// add reads and writes in two steps: v may refer to memory of its batch, which
// must not become memory of the state handle.
func (o *reduceOperator[K, T]) add(v T, ts int64) {
	o.chain.at = o.node
	if sofar, ok := o.acc.Get(); ok {
		v = o.f(sofar, v)
	}
	o.acc.Set(v)
	o.out(v, ts)
}
