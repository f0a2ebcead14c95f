package topology

import (
	"fmt"

	"cutwater/stream"
	"cutwater/stream/row"
)

// process uses the Go operator that is registered under the name. With key-by it
// must be a keyed one.
func (b *builder) process(op *Operator) error {
	registered, err := stream.LookupProcess(op.Process)
	if err != nil {
		return err
	}
	in := op.Inputs[0].Schema()
	isKeyed := len(op.Keys) > 0
	switch {
	case isKeyed && registered.Keyed == nil:
		return fmt.Errorf("the process %q works without keys; remove key-by", op.Process)
	case !isKeyed && registered.Keyed != nil:
		return fmt.Errorf("the process %q works by key; add key-by with the fields of the key", op.Process)
	case !isKeyed:
		newProcessor := func() (stream.Processor[stream.NoKey, row.Row, row.Row], error) {
			return registered.Each(in, op.Output)
		}
		if _, err := newProcessor(); err != nil {
			return err
		}
		b.outputs[op] = stream.Transform(b.input(op.Inputs[0]), op.Uid, orRefused(newProcessor), b.options(op)...)
		return nil
	}
	key := &row.Schema{}
	for _, i := range op.Keys {
		key.Fields = append(key.Fields, in.Fields[i])
	}
	newProcessor := func() (stream.Processor[row.Row, row.Row, row.Row], error) {
		return registered.Keyed(in, key, op.Output)
	}
	if _, err := newProcessor(); err != nil {
		return err
	}
	b.outputs[op] = stream.Process(b.keyed(op), op.Uid, orRefused(newProcessor), b.options(op)...)
	return nil
}

// orRefused is for processors that were made once with the same schemas: should
// one be refused later all the same, its records fail with that error.
func orRefused[K any](newProcessor func() (stream.Processor[K, row.Row, row.Row], error)) func() stream.Processor[K, row.Row, row.Row] {
	return func() stream.Processor[K, row.Row, row.Row] {
		p, err := newProcessor()
		if err != nil {
			return refused[K]{err}
		}
		return p
	}
}

type refused[K any] struct{ err error }

// Process fails the row.
func (r refused[K]) Process(*stream.Context[K, row.Row], row.Row) error { return r.err }
