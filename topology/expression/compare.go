package expression

import (
	"cmp"

	"cutwater/stream/row"
)

// compare compiles a comparison. One with the literal nil tests for null; any
// other is false where an operand is null.
func compare(operator string, x, y value) (value, bool) {
	equality := operator == "==" || operator == "!="
	if x.kind == row.Null || y.kind == row.Null {
		if x.kind == row.Null {
			x = y
		}
		null, want := x.null(), operator == "=="
		return bools(func(f *Frame) (bool, bool) { return null(f) == want, true }), equality
	}
	x, y, ok := common(x, y)
	if !ok {
		return value{}, false
	}
	switch x.kind {
	case row.Int, row.Timestamp:
		if y.constant {
			return bools(compareConstant(operator, x.i, y.i)), true
		}
		return bools(compareOrdered(operator, x.i, y.i)), true
	case row.Float:
		if y.constant {
			return bools(compareConstant(operator, x.f, y.f)), true
		}
		return bools(compareOrdered(operator, x.f, y.f)), true
	case row.String:
		if y.constant && x.field >= 0 && operator == "==" {
			return bools(fieldIs(x.field, y.s)), true
		}
		if y.constant {
			return bools(compareConstant(operator, x.s, y.s)), true
		}
		return bools(compareOrdered(operator, x.s, y.s)), true
	case row.Bool:
		a, b, want := x.b, y.b, operator == "=="
		return bools(func(f *Frame) (bool, bool) {
			p, ok := a(f)
			q, ok2 := b(f)
			return ok && ok2 && (p == q) == want, true
		}), equality
	case row.Bytes, row.List:
		return bools(compareOrdered(operator, x.s, y.s)), equality
	}
	return value{}, false
}

func compareOrdered[T cmp.Ordered](operator string, x, y function[T]) function[bool] {
	// The operands are fetched in each closure: one call less per comparison.
	switch operator {
	case "==":
		return func(f *Frame) (bool, bool) {
			a, ok := x(f)
			b, ok2 := y(f)
			return ok && ok2 && a == b, true
		}
	case "!=":
		return func(f *Frame) (bool, bool) {
			a, ok := x(f)
			b, ok2 := y(f)
			return ok && ok2 && a != b, true
		}
	case "<":
		return func(f *Frame) (bool, bool) {
			a, ok := x(f)
			b, ok2 := y(f)
			return ok && ok2 && a < b, true
		}
	case "<=":
		return func(f *Frame) (bool, bool) {
			a, ok := x(f)
			b, ok2 := y(f)
			return ok && ok2 && a <= b, true
		}
	case ">":
		return compareOrdered("<", y, x)
	}
	return compareOrdered("<=", y, x)
}

// compareConstant compares with a value that is known now.
func compareConstant[T cmp.Ordered](operator string, x, y function[T]) function[bool] {
	k, known := y(&Frame{})
	if !known {
		return always(false)
	}
	switch operator {
	case "==":
		return func(f *Frame) (bool, bool) {
			a, ok := x(f)
			return ok && a == k, true
		}
	case "!=":
		return func(f *Frame) (bool, bool) {
			a, ok := x(f)
			return ok && a != k, true
		}
	case "<":
		return func(f *Frame) (bool, bool) {
			a, ok := x(f)
			return ok && a < k, true
		}
	case "<=":
		return func(f *Frame) (bool, bool) {
			a, ok := x(f)
			return ok && a <= k, true
		}
	case ">":
		return func(f *Frame) (bool, bool) {
			a, ok := x(f)
			return ok && a > k, true
		}
	}
	return func(f *Frame) (bool, bool) {
		a, ok := x(f)
		return ok && a >= k, true
	}
}

// fieldIs is the commonest test of a text: a field equals a constant.
func fieldIs(field int, constant function[string]) function[bool] {
	k, known := constant(&Frame{})
	mask := uint64(1) << field
	return func(f *Frame) (bool, bool) {
		r := f.row
		cell := r.Cells[field]
		if !known || r.Nulls&mask != 0 || int(cell&0xffffffff) != len(k) {
			return false, true
		}
		return f.text(cell) == k, true
	}
}
