package topology

import (
	"path/filepath"

	"cutwater/messages"
	"cutwater/stream/catalog"
	"cutwater/stream/row"
	"cutwater/topology/aggregate"
	"cutwater/topology/expression"
)

// Topology is a file that was read and checked.
type Topology struct {
	Name string
	// File is the path it was read from, Dir the folder to which its relative
	// paths refer.
	File, Dir string
	// Parallelism is the job's, MaxParallelism 0 if it is to be derived.
	Parallelism, MaxParallelism int
	Settings                    *messages.JobSettings
	// Operators are in the order of the file.
	Operators []*Operator
	// Warnings are the findings that do not keep it from running.
	Warnings []Diagnostic

	order []*Operator // inputs first
	lines []string    // of the file
}

// OperatorKind is what an operator does: the name of its key, or "union".
type OperatorKind string

// Kinds of operators.
const (
	Source    OperatorKind = "source"
	Filter    OperatorKind = "filter"
	Map       OperatorKind = "map"
	Aggregate OperatorKind = "aggregate"
	Process   OperatorKind = "process"
	Sink      OperatorKind = "sink"
	Union     OperatorKind = "union"
)

// Operator is one operator with everything resolved.
type Operator struct {
	Uid  string
	Kind OperatorKind
	// Position is where it stands in the file.
	Position
	Inputs []Input
	// Parallelism is 0 for the job's.
	Parallelism int
	// Output has the columns of what it emits; nil for a sink.
	Output *row.Schema
	// Timed is true if its output has event time and watermarks.
	Timed bool

	// Connector is what a source or sink uses.
	Connector *ConnectorUse
	// EventTime, Rate and Malformed belong to a source.
	EventTime *EventTime
	// Rate is the number of records per second of the whole job, or 0.
	Rate float64
	// Malformed is "fail", "skip" or "side".
	Malformed string
	// SkipFailed leaves out the records for which an expression fails.
	SkipFailed bool
	// Condition belongs to a filter.
	Condition *expression.Expr
	// Fields are the values of a map, in the order of Output.
	Fields []*expression.Expr
	// Keys are the indexes of the fields that group an aggregate or process.
	Keys []int
	// Window is nil for a running aggregate.
	Window     *Window
	Aggregates *aggregate.Set
	// Process is the name under which a Go operator is registered.
	Process string

	block *block
}

// Input is an edge: an operator and, if it is not the main one, its output.
type Input struct {
	Operator *Operator
	// Side is "late", "malformed" or empty.
	Side string
}

// Schema is what comes by this edge.
func (in Input) Schema() *row.Schema {
	switch in.Side {
	case lateSide:
		if len(in.Operator.Inputs) == 0 {
			return nil
		}
		return in.Operator.Inputs[0].Schema()
	case malformedSide:
		return MalformedSchema
	}
	return in.Operator.Output
}

// timed tells whether what comes by this edge has event time.
func (in Input) timed() bool {
	if in.Side == malformedSide {
		return false
	}
	return in.Operator.Timed
}

const (
	lateSide      = "late"
	malformedSide = "malformed"
)

// MalformedSchema has the columns of the side output `uid.malformed`.
var MalformedSchema = &row.Schema{Fields: []row.Field{
	{Name: "location", Kind: row.String}, {Name: "offset", Kind: row.Int}, {Name: "line", Kind: row.Int},
	{Name: "problem", Kind: row.String}, {Name: "raw", Kind: row.String},
}}

// ConnectorUse is a connector with its options.
type ConnectorUse struct {
	Name   string
	Values catalog.Values
}

// EventTime says where a source's event time comes from.
type EventTime struct {
	// Field is the index of the timestamp.
	Field               int
	MaxOutOfOrdernessMs int64
	// IdlenessMs is after how long without a record a split does not hold event
	// time; 0 is never.
	IdlenessMs int64
}

// Window divides event time; a tumbling one has SlideMs == SizeMs.
type Window struct {
	SizeMs, SlideMs, OffsetMs, AllowedLatenessMs int64
}

// Load reads and checks a topology. Path is for messages and for its relative
// paths, env looks a variable up. The error is an Errors with everything that is
// wrong.
func Load(path string, src []byte, cat *catalog.Catalog, env func(string) (string, bool)) (*Topology, error) {
	t, findings := Lint(path, src, cat, env)
	if t != nil {
		return t, nil
	}
	var errs Errors
	for _, d := range findings {
		if d.Severity == Error {
			errs = append(errs, d)
		}
	}
	return nil, errs
}

// Lint reads and checks a topology and returns everything that was found, the
// errors first. The topology is nil if there is an error among it.
func Lint(path string, src []byte, cat *catalog.Catalog, env func(string) (string, bool)) (*Topology, []Diagnostic) {
	r := newReporter(path, src)
	t := &Topology{File: path, Dir: filepath.Dir(path), lines: r.lines}
	if root := treeOf(src, env, r); root != nil {
		d := &decoder{reporter: r, dir: t.Dir}
		top := d.block(root, topologySection)
		t.Name = top.value("name").text
		t.Parallelism = int(top.value("parallelism").int)
		t.MaxParallelism = int(top.value("max-parallelism").int)
		t.Settings = d.settings(top)
		(&resolver{decoder: d, topology: t, catalog: cat}).resolve(top)
		if len(r.sorted(Error)) == 0 {
			d.warn(t, top)
		}
	}
	if errs := r.sorted(Error); len(errs) > 0 {
		return nil, append(errs, r.sorted(Warning)...)
	}
	t.Warnings = r.sorted(Warning)
	return t, t.Warnings
}
