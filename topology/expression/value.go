package expression

import (
	"cutwater/stream/row"
)

// function computes a T; ok is false for null, and then the value is zero.
type function[T any] func(*Frame) (v T, ok bool)

// value is a compiled node: a kind and the one function of that kind.
type value struct {
	kind row.Kind
	i    function[int64] // Int, Timestamp
	f    function[float64]
	s    function[string] // String, Bytes, List
	b    function[bool]
	// field is the index of a plain field, or -1.
	field int
	// constant is true if the value depends on no field.
	constant bool
}

func ints(f function[int64]) value     { return value{kind: row.Int, i: f, field: -1} }
func times(f function[int64]) value    { return value{kind: row.Timestamp, i: f, field: -1} }
func floats(f function[float64]) value { return value{kind: row.Float, f: f, field: -1} }
func texts(f function[string]) value   { return value{kind: row.String, s: f, field: -1} }
func bools(f function[bool]) value     { return value{kind: row.Bool, b: f, field: -1} }

func always[T any](v T) function[T] { return func(*Frame) (T, bool) { return v, true } }

// never is the literal nil as a value of every kind.
func never() value {
	return value{
		kind: row.Null, field: -1, constant: true,
		i: func(*Frame) (int64, bool) { return 0, false },
		f: func(*Frame) (float64, bool) { return 0, false },
		s: func(*Frame) (string, bool) { return "", false },
		b: func(*Frame) (bool, bool) { return false, false },
	}
}

func fieldOf(i int, kind row.Kind) value {
	v := value{kind: kind, field: i}
	mask := uint64(1) << i // 0 from field 64 on: these are never null
	switch {
	case kind == row.Float:
		bits := rawCell(i, mask)
		v.f = func(f *Frame) (float64, bool) {
			c, ok := bits(f)
			return floatOf(c), ok
		}
	case kind == row.Bool:
		v.b = func(f *Frame) (bool, bool) {
			ok := f.row.Nulls&mask == 0
			return ok && f.row.Cells[i] != 0, ok
		}
	case IsText(kind):
		v.s = func(f *Frame) (string, bool) {
			if f.row.Nulls&mask != 0 {
				return "", false
			}
			return f.text(f.row.Cells[i]), true
		}
	default:
		v.i = func(f *Frame) (int64, bool) {
			if f.row.Nulls&mask != 0 {
				return 0, false
			}
			return int64(f.row.Cells[i]), true
		}
	}
	return v
}

func rawCell(i int, mask uint64) function[uint64] {
	return func(f *Frame) (uint64, bool) {
		if f.row.Nulls&mask != 0 {
			return 0, false
		}
		return f.row.Cells[i], true
	}
}

func (v value) numeric() bool { return v.kind == row.Int || v.kind == row.Float }

// asFloat converts an int; it is the value itself for a float.
func (v value) asFloat() function[float64] {
	if v.kind != row.Int {
		return v.f
	}
	i := v.i
	if v.constant {
		n, ok := i(&Frame{})
		return func(*Frame) (float64, bool) { return float64(n), ok }
	}
	return func(f *Frame) (float64, bool) {
		n, ok := i(f)
		return float64(n), ok
	}
}

// null tests for null.
func (v value) null() func(*Frame) bool {
	switch {
	case v.field >= 0:
		mask := uint64(1) << v.field
		return func(f *Frame) bool { return f.row.Nulls&mask != 0 }
	case v.i != nil:
		return isNull(v.i)
	case v.f != nil:
		return isNull(v.f)
	case v.s != nil:
		return isNull(v.s)
	}
	return isNull(v.b)
}

func isNull[T any](fn function[T]) func(*Frame) bool {
	return func(f *Frame) bool {
		_, ok := fn(f)
		return !ok
	}
}

// folded evaluates a constant once. A constant that fails keeps failing.
func (v value) folded() value {
	f := &Frame{row: &row.Row{}}
	v.constant = true
	switch {
	case v.i != nil:
		if n, ok := v.i(f); f.err == nil && ok {
			v.i = always(n)
		}
	case v.f != nil:
		if n, ok := v.f(f); f.err == nil && ok {
			v.f = always(n)
		}
	case v.s != nil:
		if s, ok := v.s(f); f.err == nil && ok {
			v.s = always(s)
		}
	case v.b != nil:
		if b, ok := v.b(f); f.err == nil && ok {
			v.b = always(b)
		}
	}
	return v
}

var kindNames = [...]string{row.Null: "null", row.Int: "int", row.Float: "float", row.String: "string",
	row.Bool: "bool", row.Timestamp: "timestamp", row.Bytes: "bytes", row.List: "list"}

// KindName is the name of a kind as topologies write it.
func KindName(k row.Kind) string { return kindNames[k] }

func article(k row.Kind) string {
	switch k {
	case row.Null, row.Bytes:
		return kindNames[k]
	case row.Int:
		return "an int"
	}
	return "a " + kindNames[k]
}
