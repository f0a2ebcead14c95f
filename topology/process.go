package topology

import (
	"errors"
	"slices"

	"cutwater/stream"
	"cutwater/stream/row"
)

// process resolves the Go operator that an operator names: it must be registered,
// agree with key-by and take the fields of its input.
func (r *resolver) process(op *Operator, in *row.Schema) {
	n := op.block.value("process").node
	keysFit := r.keys(op, in)
	var given *row.Schema
	if op.block.node.get("schema") != nil {
		if given = r.schema(op.block.value("schema").node); given == nil {
			return
		}
	}
	if n == nil || !keysFit {
		return // was reported
	}
	op.Process = n.text
	registered, ok := r.registered(n)
	if !ok {
		return
	}
	out, err := outputOf(registered, in, op.keySchema(), given)
	if err == nil {
		op.Output = out
		err = tryProcess(registered, op)
	}
	if err != nil {
		op.Output = nil
		r.add(ruleProcess, n.at, "%s does not fit the process %q: %v", operatorName(op), op.Process, err)
	}
}

// registered looks the operator up that the node names.
func (r *resolver) registered(n *node) (stream.RowProcess, bool) {
	names := stream.RegisteredProcesses()
	switch {
	case len(names) == 0:
		r.add(ruleProcess, n.at, "this program has no process %q, nor any other; write a program that registers it with stream.RegisterProcess, and use that one instead", n.text)
		return stream.RowProcess{}, false
	case !slices.Contains(names, n.text):
		r.add(ruleProcess, n.at, "this program has no process %q; it has %s%s", n.text, list(names, "and"), suggest(n.text, names))
		return stream.RowProcess{}, false
	}
	p, err := stream.LookupProcess(n.text)
	if err != nil {
		r.add(ruleProcess, n.at, "%v", err)
	}
	return p, err == nil
}

// keySchema has the fields of the operator's key; nil without key-by.
func (op *Operator) keySchema() *row.Schema {
	if len(op.Keys) == 0 {
		return nil
	}
	key := &row.Schema{}
	for _, i := range op.Keys {
		key.Fields = append(key.Fields, op.Inputs[0].Schema().Fields[i])
	}
	return key
}

// outputOf is what the operator emits: as it declares, or as the topology says.
func outputOf(p stream.RowProcess, in, key, given *row.Schema) (*row.Schema, error) {
	switch {
	case key != nil && p.Keyed == nil:
		return nil, errors.New("it works without a key; remove key-by")
	case key == nil && p.Keyed != nil:
		return nil, errors.New("it works by key; add key-by with the fields of the key")
	case p.Output != nil:
		out, err := p.Output(in, key)
		switch {
		case err != nil:
			return nil, err
		case out == nil || len(out.Fields) == 0:
			return nil, errors.New("it declares an output without fields; that is a mistake in its Output function")
		case given != nil:
			return nil, errors.New("it declares what it emits, " + columns(out) + "; remove schema")
		}
		return out, nil
	case given != nil:
		return given, nil
	}
	return in, nil
}

// tryProcess makes the processor once, so that what it lacks is known before the
// job runs.
func tryProcess(p stream.RowProcess, op *Operator) (err error) {
	in, made := op.Inputs[0].Schema(), false
	if p.Keyed != nil {
		var keyed stream.Processor[row.Row, row.Row, row.Row]
		keyed, err = p.Keyed(in, op.keySchema(), op.Output)
		made = keyed != nil
	} else {
		var each stream.Processor[stream.NoKey, row.Row, row.Row]
		each, err = p.Each(in, op.Output)
		made = each != nil
	}
	if err == nil && !made {
		return errors.New("it makes no processor; that is a mistake in its registration")
	}
	return err
}

// process declares the Go operator that is registered under the name.
func (b *builder) process(op *Operator) error {
	registered, err := stream.LookupProcess(op.Process)
	if err != nil {
		return err
	}
	in, key := op.Inputs[0].Schema(), op.keySchema()
	if key == nil {
		b.outputs[op] = stream.Transform(b.input(op.Inputs[0]), op.Uid, orRefused(func() (stream.Processor[stream.NoKey, row.Row, row.Row], error) {
			return registered.Each(in, op.Output)
		}), b.options(op)...)
		return nil
	}
	b.outputs[op] = stream.Process(b.keyed(op), op.Uid, orRefused(func() (stream.Processor[row.Row, row.Row, row.Row], error) {
		return registered.Keyed(in, key, op.Output)
	}), b.options(op)...)
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
