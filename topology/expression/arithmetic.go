package expression

import (
	"math"
	"math/bits"

	"cutwater/stream/row"
)

// arithmetic compiles + - * / % ** on numbers and + on strings.
func arithmetic(operator string, x, y value) (value, bool) {
	switch {
	case operator == "+" && x.kind == row.String && y.kind == row.String:
		return texts(concat(x.s, y.s)), true
	case !x.numeric() || !y.numeric():
		return value{}, false
	case operator == "%":
		if x.kind != row.Int || y.kind != row.Int {
			return value{}, false
		}
		return ints(modulo(x.i, y.i)), true
	case x.kind == row.Int && y.kind == row.Int:
		switch operator {
		case "+":
			return ints(add(x, y)), true
		case "-":
			return ints(subtract(x.i, y.i)), true
		case "*":
			return ints(multiply(x.i, y.i)), true
		}
	}
	a, b := x.asFloat(), y.asFloat()
	var op func(a, b float64) float64
	switch operator {
	case "+":
		op = func(a, b float64) float64 { return a + b }
	case "-":
		op = func(a, b float64) float64 { return a - b }
	case "*":
		op = func(a, b float64) float64 { return a * b }
	case "/":
		op = func(a, b float64) float64 { return a / b }
	case "**", "^":
		op = math.Pow
	default:
		return value{}, false
	}
	return floats(func(f *Frame) (float64, bool) {
		p, ok := a(f)
		q, ok2 := b(f)
		if !ok || !ok2 {
			return 0, false
		}
		return op(p, q), true
	}), true
}

// add is the commonest of all: two fields are added without further calls.
func add(x, y value) function[int64] {
	if x.field >= 0 && y.field >= 0 {
		i, j := x.field, y.field
		mask := uint64(1)<<i | uint64(1)<<j
		return func(f *Frame) (int64, bool) {
			r := f.row
			if r.Nulls&mask != 0 {
				return 0, false
			}
			p, q := int64(r.Cells[i]), int64(r.Cells[j])
			s := p + q
			if (s^p)&(s^q) < 0 {
				return overflow(f, p, '+', q)
			}
			return s, true
		}
	}
	a, b := x.i, y.i
	return func(f *Frame) (int64, bool) {
		p, ok := a(f)
		q, ok2 := b(f)
		if !ok || !ok2 {
			return 0, false
		}
		s := p + q
		if (s^p)&(s^q) < 0 {
			return overflow(f, p, '+', q)
		}
		return s, true
	}
}

func subtract(a, b function[int64]) function[int64] {
	return func(f *Frame) (int64, bool) {
		p, ok := a(f)
		q, ok2 := b(f)
		if !ok || !ok2 {
			return 0, false
		}
		d := p - q
		if (p^q)&(p^d) < 0 {
			return overflow(f, p, '-', q)
		}
		return d, true
	}
}

func multiply(a, b function[int64]) function[int64] {
	return func(f *Frame) (int64, bool) {
		p, ok := a(f)
		q, ok2 := b(f)
		if !ok || !ok2 {
			return 0, false
		}
		m, fits := product(p, q)
		if !fits {
			return overflow(f, p, '*', q)
		}
		return m, true
	}
}

// product multiplies the magnitudes in 128 bits.
func product(p, q int64) (int64, bool) {
	high, low := bits.Mul64(magnitude(p), magnitude(q))
	if negative := (p < 0) != (q < 0); negative {
		return -int64(low), high == 0 && low <= 1<<63
	}
	return int64(low), high == 0 && low < 1<<63
}

func magnitude(p int64) uint64 {
	if p < 0 {
		return -uint64(p)
	}
	return uint64(p)
}

func modulo(a, b function[int64]) function[int64] {
	return func(f *Frame) (int64, bool) {
		p, ok := a(f)
		q, ok2 := b(f)
		switch {
		case !ok || !ok2:
			return 0, false
		case q == 0:
			f.fail("division by zero in %d %% 0", p)
			return 0, false
		}
		return p % q, true
	}
}

func negate(a function[int64]) function[int64] {
	return func(f *Frame) (int64, bool) {
		p, ok := a(f)
		if p == math.MinInt64 {
			f.fail("int overflow in -(%d)", p)
			return 0, false
		}
		return -p, ok
	}
}

func overflow(f *Frame, p int64, operator rune, q int64) (int64, bool) {
	f.fail("int overflow in %d %c %d", p, operator, q)
	return 0, false
}

func concat(x, y function[string]) function[string] {
	return func(f *Frame) (string, bool) {
		s, ok := x(f)
		t, ok2 := y(f)
		if !ok || !ok2 {
			return "", false
		}
		start := len(f.buf)
		f.buf = append(append(f.buf, s...), t...)
		return f.made(start), true
	}
}
