package topology

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"cutwater/messages"
	"cutwater/protocol/job"
	"cutwater/stream"
	"cutwater/stream/catalog"
	"cutwater/stream/row"
	"cutwater/topology/aggregate"
)

// Build makes the program of a topology that was loaded with the same catalog,
// and the job's settings, a copy. The error is an Errors with what connectors say,
// which see their options for the first time, or that of stream's Build.
func Build(t *Topology, cat *catalog.Catalog) (*stream.Program, *messages.JobSettings, error) {
	b := &builder{
		topology: t, catalog: cat,
		stream:    stream.New(t.Name).Parallelism(t.Parallelism).MaxParallelism(t.MaxParallelism),
		outputs:   map[*Operator]stream.Stream[row.Row]{},
		malformed: map[*Operator]stream.Stream[row.Row]{},
	}
	var refused Errors
	for _, op := range t.order {
		if err := b.build(op); err != nil {
			refused = append(refused, refusal(t, op, err))
		}
	}
	if len(refused) > 0 {
		return nil, nil, refused
	}
	program, err := b.stream.Build()
	if err != nil {
		return nil, nil, err
	}
	var large *job.TooLargeError
	if _, err := job.Plan(program.Graph()); errors.As(err, &large) {
		return nil, nil, tooLarge(t, large)
	}
	return program, proto.Clone(t.Settings).(*messages.JobSettings), nil
}

// refusal is the finding that a connector or process refuses what it was given.
func refusal(t *Topology, op *Operator, err error) Diagnostic {
	rule := ruleConnector
	if op.Kind == Process {
		rule = ruleProcess
	}
	return Diagnostic{Rule: rule, Severity: Error, File: t.File, Position: op.Position,
		Message: fmt.Sprintf("operator %q: %v", op.Uid, err), Source: lineAt(t.lines, op.Position)}
}

// tooLarge is the finding that there are too many channels, at the receiver of the
// widest edge, or too many tasks.
func tooLarge(t *Topology, large *job.TooLargeError) Errors {
	d := Diagnostic{Rule: ruleSize, Severity: Error, File: t.File, Position: Position{1, 1}, Message: large.Error()}
	for _, op := range t.Operators {
		if op.Uid == large.To {
			d.Position = op.Position
		}
	}
	d.Source = lineAt(t.lines, d.Position)
	return Errors{d}
}

type builder struct {
	topology *Topology
	catalog  *catalog.Catalog
	stream   *stream.Topology
	outputs  map[*Operator]stream.Stream[row.Row]
	// malformed are the side outputs of sources, turned into rows.
	malformed map[*Operator]stream.Stream[row.Row]
}

// options are those that every operator has.
func (b *builder) options(op *Operator, more ...stream.Option) []stream.Option {
	opts := []stream.Option{stream.DeclaredAt(b.where(op))}
	if op.Output != nil {
		opts = append(opts, stream.WithCodec(row.Codec(op.Output)))
	}
	if op.Parallelism > 0 {
		opts = append(opts, stream.Parallelism(op.Parallelism))
	}
	if op.SkipFailed {
		opts = append(opts, stream.SkipFailed())
	}
	return append(opts, more...)
}

func (b *builder) where(op *Operator) string {
	return fmt.Sprintf("%s:%d", b.topology.File, op.Line)
}

// build adds an operator. One that reads what was refused is left out, after its
// connector was asked.
func (b *builder) build(op *Operator) error {
	if op.Kind != Sink && !b.readable(op) {
		return nil
	}
	switch op.Kind {
	case Source:
		return b.source(op)
	case Sink:
		return b.sink(op)
	case Union:
		first, rest := b.input(op.Inputs[0]), make([]stream.Stream[row.Row], len(op.Inputs)-1)
		for i, in := range op.Inputs[1:] {
			rest[i] = b.input(in)
		}
		b.outputs[op] = stream.Union(first, rest...)
	case Filter:
		b.outputs[op] = stream.TryMap(b.input(op.Inputs[0]), op.Uid, filterOf(op, b.where(op)), b.options(op)...)
	case Map:
		b.outputs[op] = stream.TryMap(b.input(op.Inputs[0]), op.Uid, mapOf(op, b.where(op)), b.options(op)...)
	case Aggregate:
		b.aggregate(op)
	case Process:
		return b.process(op)
	}
	return nil
}

// readable reports whether all that the operator reads is there.
func (b *builder) readable(op *Operator) bool {
	return !slices.ContainsFunc(op.Inputs, func(in Input) bool {
		_, there := b.outputs[in.Operator]
		return !there
	})
}

// input is the stream of an edge.
func (b *builder) input(in Input) stream.Stream[row.Row] {
	main := b.outputs[in.Operator]
	switch in.Side {
	case lateSide:
		return stream.SideOf(main, stream.Late[row.Row]())
	case malformedSide:
		op := in.Operator
		if s, ok := b.malformed[op]; ok {
			return s
		}
		s := stream.TryMap(stream.SideOf(main, stream.Malformed()), op.Uid+"-malformed", malformedRows,
			stream.DeclaredAt(b.where(op)), stream.WithCodec(row.Codec(MalformedSchema)))
		b.malformed[op] = s
		return s
	}
	return main
}

var policies = map[string]stream.MalformedPolicy{"fail": stream.Fail, "skip": stream.Skip, "side": stream.SideOutput}

func (b *builder) source(op *Operator) error {
	for _, spec := range b.catalog.Sources {
		if spec.Name != op.Connector.Name {
			continue
		}
		src, err := spec.New(op.Connector.Values)
		if err != nil {
			return err
		}
		opts := b.options(op, stream.OnMalformed(policies[op.Malformed]))
		if op.Rate > 0 {
			opts = append(opts, stream.Rate(op.Rate))
		}
		if e := op.EventTime; e != nil {
			field, null := e.Field, uint64(1)<<e.Field
			opts = append(opts, stream.EventTime(func(r row.Row) int64 {
				if r.Nulls&null != 0 {
					return stream.NoTimestamp
				}
				return int64(r.Cells[field])
			}, ms(e.MaxOutOfOrdernessMs)))
			if e.IdlenessMs > 0 {
				opts = append(opts, stream.Idleness(ms(e.IdlenessMs)))
			}
		}
		b.outputs[op] = stream.From(b.stream, op.Uid, src, opts...)
		return nil
	}
	return fmt.Errorf("this program has no source %q; build with the catalog that the topology was loaded with", op.Connector.Name)
}

func (b *builder) sink(op *Operator) error {
	for _, spec := range b.catalog.Sinks {
		if spec.Name != op.Connector.Name {
			continue
		}
		sink, err := spec.New(op.Connector.Values)
		if err != nil {
			return err
		}
		if b.readable(op) {
			stream.To(b.input(op.Inputs[0]), op.Uid, sink, b.options(op)...)
		}
		return nil
	}
	return fmt.Errorf("this program has no sink %q; build with the catalog that the topology was loaded with", op.Connector.Name)
}

func (b *builder) keyed(op *Operator) stream.KeyedStream[row.Row, row.Row] {
	key := row.KeyAt(op.Inputs[0].Schema(), op.Keys)
	return stream.KeyByFunc(b.input(op.Inputs[0]), key, key.AppendFrom)
}

func (b *builder) aggregate(op *Operator) {
	keyed, where := b.keyed(op), b.where(op)
	newAggregator := func() *aggregator { return newAggregatorOf(op, where) }
	opts := b.options(op, stream.WithState[aggregate.Accumulator](op.Aggregates.Codec()))
	if op.Window == nil {
		b.outputs[op] = stream.Aggregate(keyed, op.Uid, newAggregator, opts...)
		return
	}
	windows := stream.Tumbling(ms(op.Window.SizeMs))
	if op.Window.SlideMs != op.Window.SizeMs {
		windows = stream.Sliding(ms(op.Window.SizeMs), ms(op.Window.SlideMs))
	}
	windows = windows.Offset(ms(op.Window.OffsetMs))
	opts = append(opts, stream.AllowedLateness(ms(op.Window.AllowedLatenessMs)))
	b.outputs[op] = stream.Window(keyed, op.Uid, windows, newAggregator, opts...)
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
