package aggregate

import (
	"fmt"
	"math"
	"strings"

	"cutwater/stream/row"
	"cutwater/topology/expression"
)

// Names are the aggregates.
var Names = []string{"avg", "count", "max", "min", "sum"}

// Set is the aggregates of one operator. It is safe for concurrent use, each
// user with a Frame of its own.
type Set struct {
	calls        []call
	cells, texts int
}

// call is one aggregate: its cells are a value and a count, in this order; count
// has only the count.
type call struct {
	name string
	kind row.Kind // of the result
	x    *expression.Expr
	cond *expression.Expr // or nil
	cell int
	text int // index of its text, or -1
}

// Add compiles an aggregate and returns the kind of its result. The error is an
// *expression.Error.
func (s *Set) Add(source string, schema *row.Schema) (row.Kind, error) {
	parsed, err := expression.CompileCall(source, schema, Names)
	if err != nil {
		return 0, err
	}
	c := call{name: parsed.Name, cell: s.cells, text: -1}
	args := parsed.Args
	if c.name == "count" {
		if len(args) > 1 {
			return 0, wrong(parsed, 1, "count takes a condition or nothing")
		}
		c.kind = row.Int
		if len(args) == 1 {
			c.x = args[0]
		}
		s.cells++
		s.calls = append(s.calls, c)
		return c.kind, nil
	}
	if len(args) == 0 || len(args) > 2 {
		return 0, wrong(parsed, 0, fmt.Sprintf("%s takes a value and, if you like, a condition", c.name))
	}
	c.x = args[0]
	c.kind = c.x.Kind
	number := c.kind == row.Int || c.kind == row.Float
	if ordered := number || c.kind == row.Timestamp || c.kind == row.String; !ordered || !number && (c.name == "sum" || c.name == "avg") {
		return 0, wrong(parsed, 0, fmt.Sprintf("%s cannot be applied to a value of type %s", c.name, expression.KindName(c.kind)))
	}
	if len(args) == 2 {
		if c.cond = args[1]; c.cond.Kind != row.Bool {
			return 0, wrong(parsed, 1, fmt.Sprintf("the second argument of %s must be a condition, and this is of type %s", c.name, expression.KindName(c.cond.Kind)))
		}
	}
	if c.name == "avg" {
		c.kind = row.Float
	}
	s.cells += 2
	if c.kind == row.String {
		c.text = s.texts
		s.texts++
	}
	s.calls = append(s.calls, c)
	return c.kind, nil
}

func wrong(parsed *expression.Call, arg int, format string) error {
	column := 0
	if arg < len(parsed.Columns) {
		column = parsed.Columns[arg]
	}
	return &expression.Error{Line: 1, Column: column, Problem: format}
}

// Len is the number of aggregates.
func (s *Set) Len() int { return len(s.calls) }

// New returns an empty accumulator.
func (s *Set) New() Accumulator {
	return Accumulator{make([]uint64, s.cells), make([]string, s.texts)}
}

// Update adds the frame's row to an accumulator. An error is an
// *expression.RowError; the accumulator may then hold a part of the row and must
// not be kept.
func (s *Set) Update(f *expression.Frame, a *Accumulator) error {
	for i := range s.calls {
		if err := s.calls[i].update(f, a); err != nil {
			return err
		}
	}
	return f.Err()
}

// Failing returns the index of the aggregate that fails on the row alone; -1 if none
// does, and the row only does not fit what was added before.
func (s *Set) Failing(f *expression.Frame, in *row.Row) int {
	for i := range s.calls {
		a := s.New()
		f.Begin(in)
		if s.calls[i].update(f, &a) != nil || f.Err() != nil {
			return i
		}
	}
	return -1
}

func (c *call) update(f *expression.Frame, a *Accumulator) error {
	if c.name == "count" {
		if c.counts(f) {
			a.Cells[c.cell]++
		}
		return nil
	}
	if c.cond != nil && !c.cond.True(f) {
		return nil
	}
	if c.text >= 0 {
		if v, ok := c.x.Text(f); ok {
			c.addText(a, v, true)
		}
		return nil
	}
	if bits, ok := c.x.Cell(f); ok {
		return c.add(a, bits, 1)
	}
	return nil
}

// counts tells whether a count takes the row.
func (c *call) counts(f *expression.Frame) bool {
	switch {
	case c.x == nil:
		return true
	case c.x.Kind == row.Bool:
		return c.x.True(f)
	}
	return !c.x.Null(f)
}

// Merge adds the accumulator b to a.
func (s *Set) Merge(a *Accumulator, b Accumulator) error {
	for i := range s.calls {
		c := &s.calls[i]
		if c.name == "count" {
			a.Cells[c.cell] += b.Cells[c.cell]
			continue
		}
		if n := b.Cells[c.cell+1]; n > 0 && c.text >= 0 {
			c.addText(a, b.Texts[c.text], false)
		} else if n > 0 {
			if err := c.add(a, b.Cells[c.cell], n); err != nil {
				return err
			}
		}
	}
	return nil
}

// addText keeps the smaller or larger text; a text of the frame is copied.
func (c *call) addText(a *Accumulator, v string, copied bool) {
	count := &a.Cells[c.cell+1]
	if *count == 0 || c.name == "min" && v < a.Texts[c.text] || c.name == "max" && v > a.Texts[c.text] {
		if copied {
			v = strings.Clone(v)
		}
		a.Texts[c.text] = v
	}
	*count++
}

// add takes a value, or the result of n values, into the accumulator.
func (c *call) add(a *Accumulator, bits, n uint64) error {
	cell, count := &a.Cells[c.cell], &a.Cells[c.cell+1]
	first := *count == 0
	*count += n
	if first {
		*cell = bits
		return nil
	}
	isFloat := c.x.Kind == row.Float
	switch {
	case isFloat && (c.name == "sum" || c.name == "avg"):
		*cell = math.Float64bits(math.Float64frombits(*cell) + math.Float64frombits(bits))
	case isFloat:
		*cell = math.Float64bits(extremeFloat(c.name == "min", math.Float64frombits(*cell), math.Float64frombits(bits)))
	case c.name == "min":
		*cell = uint64(min(int64(*cell), int64(bits)))
	case c.name == "max":
		*cell = uint64(max(int64(*cell), int64(bits)))
	default:
		p, q := int64(*cell), int64(bits)
		sum := p + q
		if (sum^p)&(sum^q) < 0 {
			return &expression.RowError{Problem: fmt.Sprintf("int overflow in %s(%s): %d + %d", c.name, c.x.Source, p, q)}
		}
		*cell = uint64(sum)
	}
	return nil
}

// extremeFloat is min or max; NaN wins, so that the order of rows does not matter.
func extremeFloat(smaller bool, p, q float64) float64 {
	if smaller {
		return min(p, q)
	}
	return max(p, q)
}

// Result is one aggregate of an accumulator: the bits of a cell, or a text.
func (s *Set) Result(i int, a Accumulator) (bits uint64, text string, ok bool) {
	c := &s.calls[i]
	if c.name == "count" {
		return a.Cells[c.cell], "", true
	}
	n := a.Cells[c.cell+1]
	switch {
	case n == 0:
		return 0, "", false
	case c.text >= 0:
		return 0, a.Texts[c.text], true
	case c.name != "avg":
		return a.Cells[c.cell], "", true
	case c.x.Kind == row.Int:
		return math.Float64bits(float64(int64(a.Cells[c.cell])) / float64(n)), "", true
	}
	return math.Float64bits(math.Float64frombits(a.Cells[c.cell]) / float64(n)), "", true
}
