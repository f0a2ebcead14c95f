package stream

import (
	"fmt"
	"runtime/debug"

	"cutwater/codec"
	"cutwater/codec/batch"
	"cutwater/messages"
	"cutwater/state"
	"cutwater/stream/operator"
)

// chain is one instantiation of operators for a subtask, and what they share
// while it runs.
type chain struct {
	program *Program
	edges   []*operator.EdgeWriter
	made    []made // tail first
	yield   *operator.Yield
	// at is the operator whose user code runs, for panics.
	at *node
	// err is the first failure inside an Emit, which cannot return it; whoever
	// called the first Emit looks.
	err error
}

type made struct {
	node     *node
	instance *instance
}

// consumers are the Emits of the chained operators that read an output.
func (c *chain) consumers(n *node, side string) []any {
	var found []any
	for _, m := range c.made {
		for i := range m.node.inputs {
			in := &m.node.inputs[i]
			if in.from == n && in.side == side && in.key == nil {
				found = append(found, m.instance.emit)
			}
		}
	}
	return found
}

// fail keeps the first failure of user code.
func (c *chain) fail(n *node, err error) {
	if c.err == nil {
		c.err = &operator.UserError{Uid: n.uid, Cause: err}
	}
}

// caught is deferred by every entry point of a chain: it turns a panic into the
// error of the operator that ran, and delivers what fail kept.
func (c *chain) caught(err *error) {
	if r := recover(); r != nil {
		cause, ok := r.(error)
		if !ok {
			cause = fmt.Errorf("%v", r)
		}
		uid := ""
		if c.at != nil {
			uid = c.at.uid
		}
		*err = &operator.UserError{Uid: uid, Cause: fmt.Errorf("panic: %w", cause), Stack: string(debug.Stack())}
		return
	}
	if *err == nil {
		*err = c.err
	}
}

// base is what every operator of the package embeds: it takes the chain's Yield
// and gives its user function the notifications that it asks for.
type base struct {
	operator.Base
	chain *chain
	node  *node
	ctx   *operator.Context
}

func newBase(c *chain, n *node) base {
	return base{Base: operator.Base{ID: n.uid}, chain: c, node: n}
}

func (b *base) open(ctx *operator.Context) {
	b.ctx, b.chain.yield, b.chain.at = ctx, ctx.Yield, b.node
}

// failed reports that user code returned an error for a record, or fails the task.
func (b *base) failed(err error) {
	if b.node.options.skipFailed {
		b.ctx.Event("failed", err.Error())
		return
	}
	b.chain.fail(b.node, err)
}

// Open keeps the context.
func (b *base) Open(ctx *operator.Context) error {
	b.open(ctx)
	return nil
}

// head decodes batches for the first operator of a chain.
type head[T any] struct {
	chain *chain
	node  *node
	codec codec.Codec[T]
	// inPlace says that the codec is codec.InPlace.
	inPlace bool
	emit    Emit[T]
	// keys and cursor serve keyed operators; keys has one per input, or is nil.
	keys   []func([]byte, T) []byte
	cursor *state.Cursor
	hashes [state.AheadAtOnce]uint64

	value T // where codecs decode to: a local variable would escape
	// view is of the batch whose records up to next have been handled.
	view  batch.View
	batch *messages.RecordBatch
	next  int
}

// newHead makes the head of an operator whose inputs carry T.
func newHead[T any](c *chain, n *node, cd codec.Codec[T], emit Emit[T], cursor *state.Cursor) operator.Input {
	h := &head[T]{chain: c, node: n, codec: cd, inPlace: codec.InPlace(cd), emit: emit, cursor: cursor}
	if cursor != nil {
		for i := range n.inputs {
			h.keys = append(h.keys, n.inputs[i].key.(func([]byte, T) []byte))
		}
	}
	return h
}

// ahead announces the keys of the records from i to the next multiple of
// state.AheadAtOnce.
func (h *head[T]) ahead(i int) {
	n := min(state.AheadAtOnce-i%state.AheadAtOnce, h.view.Len()-i)
	for j := range n {
		h.hashes[j] = h.view.Hash(i + j)
	}
	h.cursor.Ahead(h.hashes[:n])
}

// Process implements operator.Input.
func (h *head[T]) Process(input int, b *messages.RecordBatch, from int) (next int, err error) {
	defer h.chain.caught(&err)
	if from == 0 || from != h.next || b != h.batch {
		view, ok := batch.Open(b, h.codec.Width(), h.cursor != nil)
		if !ok {
			return from, NoRestart(fmt.Errorf("stream: input %d of operator %q: a batch of %d records of %d bytes does not fit the codec %s: sender and receiver run different programs",
				input, h.node.uid, b.Count, b.FixedWidth, h.codec.Schema()))
		}
		h.view, h.batch = view, b
	}
	y := h.chain.yield
	i, n := from, h.view.Len()
	for ; i < n && !y.Now(); i++ {
		y.Budget--
		ts, fixed := h.view.Record(i)
		var v T
		if h.inPlace {
			v = *codec.At[T](fixed)
		} else if err := h.codec.Decode(fixed, h.view.Text, &h.value); err != nil {
			return i, NoRestart(fmt.Errorf("stream: record %d of a batch for operator %q: %w", i, h.node.uid, err))
		} else {
			v = h.value
		}
		if h.cursor != nil {
			if i == from || i%state.AheadAtOnce == 0 {
				h.ahead(i)
			}
			h.cursor.Hash = h.view.Hash(i)
			h.cursor.Key = h.keys[input](h.cursor.Key[:0], v)
		}
		h.emit(v, ts)
		if h.chain.err != nil {
			return i, h.chain.err
		}
	}
	h.next = i
	if i == n {
		h.batch, h.view = nil, batch.View{}
	}
	return i, nil
}
