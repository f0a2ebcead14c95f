package topology

import (
	"errors"
	"slices"

	"cutwater/stream/catalog"
	"cutwater/stream/row"
	"cutwater/topology/aggregate"
	"cutwater/topology/expression"
)

// operator resolves what one operator does; its inputs are resolved. Where an
// input has an error of its own, nothing more is said about its readers.
func (r *resolver) operator(op *Operator) {
	var in *row.Schema
	if len(op.Inputs) > 0 {
		in = op.Inputs[0].Schema()
		op.Timed = op.Inputs[0].timed()
	}
	switch {
	case op.Kind == Source:
		r.source(op)
		return
	case op.Kind == Sink:
		r.sink(op, in)
		return
	case in == nil:
		return
	}
	op.SkipFailed = op.block.value("on-error").text == "skip"
	switch op.Kind {
	case Filter:
		r.filter(op, in)
	case Map:
		r.mapOperator(op, in)
	case Aggregate:
		r.aggregate(op, in)
	case Process:
		r.process(op, in)
	case Union:
		r.union(op, in)
	}
}

// connector reads the one connector of a source or sink.
func (r *resolver) connector(op *Operator, key string, names []string, section func(name string) *Section) *block {
	n := op.block.value(key).node
	if n == nil {
		return nil
	}
	if len(n.entries) != 1 {
		r.add(ruleConnector, n.at, "%s names exactly one connector with its options: %s", key, list(names, "or"))
		return nil
	}
	e := n.entries[0]
	s := section(e.key)
	if s == nil {
		r.add(ruleConnector, e.at, "there is no %s %q; this program has %s%s", key, e.key, list(names, "and"), suggest(e.key, names))
		return nil
	}
	before := len(r.found)
	if e.value.shape == empty && !e.value.broken {
		e.value = &node{shape: mapping, at: e.at} // all options have defaults
	}
	b := r.block(e.value, s)
	op.Connector = &ConnectorUse{Name: e.key, Values: catalog.Values{
		Uid: op.Uid, Strings: map[string]string{}, Ints: map[string]int64{}, Floats: map[string]float64{}, Bools: map[string]bool{},
	}}
	values := &op.Connector.Values
	for _, k := range s.Keys {
		v := b.value(k.Name)
		if !b.has(k.Name) && k.Default == "" {
			continue
		}
		switch k.Kind {
		case String, Path, Enum:
			values.Strings[k.Name] = v.text
		case Int, Duration, Size:
			values.Ints[k.Name] = v.int
		case Float:
			values.Floats[k.Name] = v.float
		case Bool:
			values.Bools[k.Name] = v.bool
		case Schema:
			values.Schema = r.schema(v.node)
		}
	}
	if len(r.found) > before {
		return nil
	}
	return b
}

func (r *resolver) source(op *Operator) {
	var names []string
	for _, s := range r.catalog.Sources {
		names = append(names, s.Name)
	}
	var spec catalog.SourceSpec
	b := r.connector(op, "source", names, func(name string) *Section {
		i := slices.Index(names, name)
		if i < 0 {
			return nil
		}
		spec = r.catalog.Sources[i]
		return sourceSection(spec)
	})
	if b == nil {
		return
	}
	op.Rate, op.Malformed = b.value("rate").float, b.value("malformed").text
	schema := op.Connector.Values.Schema
	if schema == nil && spec.Schema != nil {
		var err error
		if schema, err = spec.Schema(op.Connector.Values); err != nil {
			r.add(ruleConnector, b.node.at, "the source %s: %v", spec.Name, err)
			return
		}
	}
	if schema == nil {
		r.add(ruleMissingKey, b.node.at, "the source %s needs a schema: the fields and their types", spec.Name)
		return
	}
	op.Output, op.Connector.Values.Schema = schema, schema
	if !op.block.has("event-time") {
		return
	}
	e := op.block.value("event-time").block
	op.Timed = true
	field := e.value("field")
	if field.node == nil {
		return
	}
	i := fieldIndex(schema, field.text)
	switch {
	case i < 0:
		r.add(ruleValue, field.node.at, "the source has no field %q%s", field.text, suggest(field.text, fieldNames(schema)))
		return
	case schema.Fields[i].Kind != row.Timestamp:
		r.add(ruleValue, field.node.at, "event time must be a timestamp, and %q is %s; declare it as {timestamp: \"2006-01-02 15:04:05\"} in the schema",
			field.text, expression.KindName(schema.Fields[i].Kind))
		return
	}
	op.EventTime = &EventTime{Field: i, MaxOutOfOrdernessMs: e.value("max-out-of-orderness").int, IdlenessMs: e.value("idleness").int}
}

func (r *resolver) filter(op *Operator, in *row.Schema) {
	op.Output = in
	if n := op.block.value("filter").node; n != nil {
		var err error
		if op.Condition, err = expression.CompileCondition(n.text, in); err != nil {
			r.expression(n, err)
		}
	}
}

// expression reports an expression's error at its place in the file.
func (r *resolver) expression(n *node, err error) {
	var e *expression.Error
	if errors.As(err, &e) && e.Line <= 1 {
		r.add(ruleExpression, n.place(e.Column), "%s", e.Problem)
		return
	}
	r.add(ruleExpression, n.at, "%v", err)
}

func (r *resolver) mapOperator(op *Operator, in *row.Schema) {
	n := op.block.value("map").node
	if n == nil {
		return
	}
	out := &row.Schema{}
	ok := len(n.entries) > 0
	if !ok {
		r.add(ruleValue, n.at, "map is empty; name at least one field")
	}
	for _, e := range n.entries {
		ok = r.field(e.key, e.at, out) && ok
		if e.value.shape != scalar {
			r.notAnExpression(e)
			ok = false
			continue
		}
		x, err := expression.Compile(e.value.text, in)
		switch {
		case err != nil:
			r.expression(e.value, err)
			ok = false
			continue
		case x.Kind == row.Null:
			r.add(ruleExpression, e.value.at, "the type of nil is not known; give it one, as in `delay > 0 ? delay : nil`")
			ok = false
			continue
		}
		f := row.Field{Name: e.key, Kind: x.Kind}
		if x.Field >= 0 {
			f.Layout = in.Fields[x.Field].Layout
		}
		out.Fields = append(out.Fields, f)
		op.Fields = append(op.Fields, x)
	}
	if ok {
		op.Output = out
	}
}

func (r *resolver) notAnExpression(e entry) {
	if e.value.broken {
		return // reported where the value was cut
	}
	r.add(ruleExpression, e.at, "%q needs an expression, and this is %s", e.key, e.value.shape)
}

// keys resolves key-by against the input's fields.
func (r *resolver) keys(op *Operator, in *row.Schema) bool {
	ok := true
	for _, n := range op.block.value("key-by").names {
		i := fieldIndex(in, n.text)
		switch {
		case i < 0:
			r.add(ruleExpression, n.at, "the input has no field %q%s; key-by names fields, compute others in a map operator before", n.text, suggest(n.text, fieldNames(in)))
			ok = false
		case in.Fields[i].Kind == row.List:
			r.add(ruleExpression, n.at, "the field %q is a list and cannot be a key", n.text)
			ok = false
		}
		op.Keys = append(op.Keys, i)
	}
	return ok
}

func (r *resolver) aggregate(op *Operator, in *row.Schema) {
	out := &row.Schema{}
	ok := r.keys(op, in)
	if ok {
		for _, i := range op.Keys {
			out.Fields = append(out.Fields, in.Fields[i])
		}
	}
	if op.block.node.get("window") != nil {
		ok = r.window(op) && ok
		for _, name := range []string{"window_start", "window_end"} {
			ok = r.field(name, op.block.at("key-by"), out) && ok
			out.Fields = append(out.Fields, row.Field{Name: name, Kind: row.Timestamp})
		}
		if !op.Timed {
			r.add(ruleEventTime, op.block.at("window"), "%s has a window, and no event time comes from %q; give its source `event-time: {field: ...}`", operatorName(op), op.Inputs[0].Operator.Uid)
			ok = false
		}
	}
	n := op.block.value("aggregate").node
	if n == nil {
		return
	}
	if len(n.entries) == 0 {
		r.add(ruleValue, n.at, "aggregate is empty; name at least one, such as count()")
		return
	}
	op.Aggregates = &aggregate.Set{}
	for _, e := range n.entries {
		ok = r.field(e.key, e.at, out) && ok
		if e.value.shape != scalar {
			r.notAnExpression(e)
			ok = false
			continue
		}
		kind, err := op.Aggregates.Add(e.value.text, in)
		if err != nil {
			r.expression(e.value, err)
			ok = false
		}
		out.Fields = append(out.Fields, row.Field{Name: e.key, Kind: kind})
	}
	if ok {
		op.Output = out
	}
}

func (r *resolver) window(op *Operator) bool {
	w := op.block.value("window").block
	if w == nil || w.node == nil || w.node.shape != mapping {
		return false // was reported
	}
	tumbling, sliding := w.node.get("tumbling") != nil, w.node.get("sliding") != nil
	if tumbling == sliding {
		r.add(ruleOperator, w.node.at, "a window has exactly one of tumbling and sliding")
		return false
	}
	op.Window = &Window{SizeMs: w.value("tumbling").int, SlideMs: w.value("tumbling").int, OffsetMs: w.value("offset").int, AllowedLatenessMs: w.value("allowed-lateness").int}
	if sliding {
		s := w.value("sliding").block
		op.Window.SizeMs, op.Window.SlideMs = s.value("size").int, s.value("slide").int
		if op.Window.SlideMs > 0 && op.Window.SizeMs > 0 && op.Window.SizeMs%op.Window.SlideMs != 0 {
			r.add(ruleValue, s.at("slide"), "the slide must divide the size: %d ms is no multiple of %d ms", op.Window.SizeMs, op.Window.SlideMs)
			return false
		}
	}
	if w.has("offset") && op.Window.SlideMs > 0 && op.Window.OffsetMs >= op.Window.SlideMs {
		r.add(ruleValue, w.at("offset"), "the offset must be shorter than the time between two windows, %d ms", op.Window.SlideMs)
		return false
	}
	return true
}

func (r *resolver) union(op *Operator, in *row.Schema) {
	for i, input := range op.Inputs[1:] {
		other := input.Schema()
		if other == nil {
			return
		}
		op.Timed = op.Timed && input.timed()
		if !sameColumns(in, other) {
			r.add(ruleInput, op.block.value("input").names[min(i+1, len(op.block.value("input").names)-1)].at,
				"the inputs of a union must have the same fields: %s has %s, %s has %s; bring them together with map operators",
				op.Inputs[0].Operator.Uid, columns(in), input.Operator.Uid, columns(other))
			return
		}
	}
	op.Output = in
}

func (r *resolver) sink(op *Operator, in *row.Schema) {
	var names []string
	for _, s := range r.catalog.Sinks {
		names = append(names, s.Name)
	}
	b := r.connector(op, "sink", names, func(name string) *Section {
		i := slices.Index(names, name)
		if i < 0 {
			return nil
		}
		return sinkSection(r.catalog.Sinks[i])
	})
	if b != nil {
		op.Connector.Values.Schema = in
	}
}
