package topology

import (
	"fmt"
	"unsafe"

	"cutwater/stream"
	"cutwater/stream/row"
	"cutwater/topology/aggregate"
	"cutwater/topology/expression"
)

// failure names the operator's place and the expression that failed a row, as it
// would again, and what can be done, unless skip says that it was done.
func failure(where, what string, skip bool, err error) error {
	if skip {
		return fmt.Errorf("%s: %s: %w", where, what, err)
	}
	return stream.NoRestart(fmt.Errorf("%s: %s: %w; correct the expression or its input, or leave such records out with `on-error: skip`", where, what, err))
}

// filterOf makes the functions of a filter, one per subtask.
func filterOf(op *Operator, where string) func() func(row.Row) (row.Row, bool, error) {
	return func() func(row.Row) (row.Row, bool, error) {
		var frame expression.Frame
		var in row.Row
		return func(v row.Row) (row.Row, bool, error) {
			in = v
			frame.Begin(&in)
			keep := op.Condition.True(&frame)
			if err := frame.Err(); err != nil {
				return row.Row{}, false, failure(where, "filter "+op.Condition.Source, op.SkipFailed, err)
			}
			return v, keep, nil
		}
	}
}

// mapOf makes the functions of a map, one per subtask.
func mapOf(op *Operator, where string) func() func(row.Row) (row.Row, bool, error) {
	return func() func(row.Row) (row.Row, bool, error) {
		m := &mapper{fields: op.Fields, where: where, skip: op.SkipFailed, schema: op.Output, cells: make([]uint64, len(op.Fields))}
		for _, x := range op.Fields {
			m.computesText = m.computesText || expression.IsText(x.Kind) && x.Field < 0
		}
		return m.apply
	}
}

// mapper computes the fields of one output row. Where every text is a field of
// the input, the output shares the input's text.
type mapper struct {
	fields       []*expression.Expr
	schema       *row.Schema
	where        string
	skip         bool
	computesText bool

	frame expression.Frame
	in    row.Row
	cells []uint64
	texts arena
}

func (m *mapper) apply(v row.Row) (row.Row, bool, error) {
	m.in = v
	m.frame.Begin(&m.in)
	out := row.Row{Cells: m.cells, Text: v.Text}
	if m.computesText {
		m.texts.begin()
	}
	for i, x := range m.fields {
		ok := true
		switch {
		case !expression.IsText(x.Kind):
			m.cells[i], ok = x.Cell(&m.frame)
		case m.computesText:
			var text string
			if text, ok = x.Text(&m.frame); ok {
				m.cells[i] = m.texts.add(text)
			}
		case v.Nulls&(1<<x.Field) != 0:
			ok = false
		default:
			m.cells[i] = v.Cells[x.Field]
		}
		if !ok {
			out.Nulls |= 1 << i
			m.cells[i] = 0
		}
		if err := m.frame.Err(); err != nil {
			return row.Row{}, false, failure(m.where, m.schema.Fields[i].Name+": "+x.Source, m.skip, err)
		}
	}
	if m.computesText {
		out.Text = m.texts.text()
	}
	return out, true, nil
}

// arena makes the texts of rows. They are never overwritten, so that strings of
// a row may be kept; memory is taken in blocks.
type arena struct {
	block []byte
	start int
}

const arenaBlock = 16 << 10

// begin starts the text of a row.
func (a *arena) begin() { a.start = len(a.block) }

// add appends a string and returns its cell.
func (a *arena) add(s string) uint64 {
	if len(a.block)+len(s) > cap(a.block) {
		sofar := a.block[a.start:]
		a.block = append(make([]byte, 0, max(arenaBlock, 2*(len(sofar)+len(s)))), sofar...)
		a.start = 0
	}
	at := len(a.block) - a.start
	a.block = append(a.block, s...)
	return uint64(at)<<32 | uint64(len(s))
}

// text returns what was added since begin.
func (a *arena) text() string {
	if a.start == len(a.block) {
		return ""
	}
	return unsafe.String(&a.block[a.start], len(a.block)-a.start)
}

// malformedRows makes the functions that turn what a source could not read into
// rows of MalformedSchema.
func malformedRows() func(stream.MalformedRecord) (row.Row, bool, error) {
	cells := make([]uint64, len(MalformedSchema.Fields))
	var texts arena
	return func(v stream.MalformedRecord) (row.Row, bool, error) {
		texts.begin()
		cells[0], cells[1], cells[2] = texts.add(v.Where), uint64(v.Offset), uint64(v.Line)
		cells[3], cells[4] = texts.add(v.Problem), texts.add(v.Raw)
		return row.Row{Cells: cells, Text: texts.text()}, true, nil
	}
}

// aggregator is a stream.Aggregator over rows: keys, then window_start and
// window_end if there is a window, then the aggregates.
type aggregator struct {
	set      *aggregate.Set
	where    string
	keys     []row.Field
	windowed bool
	output   *row.Schema

	frame expression.Frame
	in    row.Row
	cells []uint64
	texts arena

	skip  bool                  // failed rows are left out
	saved aggregate.Accumulator // what it was before the row, if skip
}

var _ stream.Aggregator[row.Row, row.Row, aggregate.Accumulator, row.Row] = (*aggregator)(nil)

func newAggregatorOf(op *Operator, where string) *aggregator {
	return &aggregator{
		set: op.Aggregates, where: where, keys: op.Output.Fields[:len(op.Keys)], windowed: op.Window != nil,
		output: op.Output, cells: make([]uint64, len(op.Output.Fields)), skip: op.SkipFailed, saved: op.Aggregates.New(),
	}
}

// Init makes an accumulator of its own memory: the old one may be shared.
func (a *aggregator) Init(acc *aggregate.Accumulator) { *acc = a.set.New() }

// Add adds a row, or, where failed rows are left out, fails and adds nothing.
func (a *aggregator) Add(acc *aggregate.Accumulator, v row.Row) error {
	if a.skip {
		copy(a.saved.Cells, acc.Cells)
		copy(a.saved.Texts, acc.Texts)
	}
	a.in = v
	a.frame.Begin(&a.in)
	err := a.set.Update(&a.frame, acc)
	if err == nil {
		return nil
	}
	if a.skip {
		copy(acc.Cells, a.saved.Cells)
		copy(acc.Texts, a.saved.Texts)
	}
	what := "aggregate"
	if i := a.set.Failing(&a.frame, &a.in); i >= 0 {
		what = a.output.Fields[len(a.output.Fields)-a.set.Len()+i].Name
	}
	return failure(a.where, what, a.skip, err)
}

// Merge adds the rows of another accumulator.
func (a *aggregator) Merge(acc, other *aggregate.Accumulator) error {
	if err := a.set.Merge(acc, *other); err != nil {
		return failure(a.where, "aggregate", a.skip, err)
	}
	return nil
}

// Result makes the output row.
func (a *aggregator) Result(key row.Row, window stream.Interval, acc *aggregate.Accumulator) (row.Row, error) {
	out := row.Row{Cells: a.cells, Nulls: key.Nulls}
	a.texts.begin()
	for i, f := range a.keys {
		c := key.Cells[i]
		if expression.IsText(f.Kind) {
			c = a.texts.add(key.Text[c>>32 : c>>32+c&0xffffffff])
		}
		a.cells[i] = c
	}
	at := len(a.keys)
	if a.windowed {
		if !row.ValidMs(window.StartMs) || !row.ValidMs(window.EndMs) {
			return row.Row{}, stream.NoRestart(fmt.Errorf("%s: a window from %d to %d ms since 1970 is not in the years 1 to 9999, which timestamps are in; leave such records out with a filter", a.where, window.StartMs, window.EndMs))
		}
		a.cells[at], a.cells[at+1] = uint64(window.StartMs), uint64(window.EndMs)
		at += 2
	}
	for i := range a.set.Len() {
		bits, text, ok := a.set.Result(i, *acc)
		switch {
		case !ok:
			out.Nulls |= 1 << (at + i)
		case a.output.Fields[at+i].Kind == row.String:
			bits = a.texts.add(text)
		}
		a.cells[at+i] = bits
	}
	out.Text = a.texts.text()
	return out, nil
}
