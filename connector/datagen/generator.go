package datagen

import (
	"encoding/base64"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"cutwater/stream/row"
)

// generator makes the values of one field. Exactly one of cell and text is set.
type generator struct {
	cell func(n, random uint64) uint64
	text func(dst []byte, n, random uint64) []byte
}

// random is a hash of the seed, the row and the field (the mixing steps of
// SplitMix64).
func random(seed, n, field uint64) uint64 {
	return mix(mix(mix(seed)+n) + field)
}

func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// unit turns a random number into one of [0, 1). A product with it is converted
// before it is added to, so that no processor fuses the two and differs.
func unit(random uint64) float64 { return float64(random>>11) / (1 << 53) }

// call is a generator as it was written: name(arguments).
type call struct {
	name string
	args []string
}

// parseGenerators parses `field: name(argument, ...); field: name(...)`.
func parseGenerators(text string) (map[string]call, error) {
	calls := map[string]call{}
	for part := range strings.SplitSeq(text, ";") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		field, expr, ok := strings.Cut(part, ":")
		if !ok {
			return nil, fmt.Errorf("%q has no colon; write field: generator(arguments)", part)
		}
		field, expr = strings.TrimSpace(field), strings.TrimSpace(expr)
		c := call{name: expr}
		if name, rest, ok := strings.Cut(expr, "("); ok {
			args, closed := strings.CutSuffix(rest, ")")
			if !closed {
				return nil, fmt.Errorf("%q has no closing parenthesis at its end", part)
			}
			c.name = strings.TrimSpace(name)
			for arg := range strings.SplitSeq(args, ",") {
				c.args = append(c.args, strings.TrimSpace(arg))
			}
		}
		if _, twice := calls[field]; twice {
			return nil, fmt.Errorf("field %q has two generators; remove one", field)
		}
		calls[field] = c
	}
	return calls, nil
}

// newGenerator makes the generator of a field.
func newGenerator(f row.Field, c call, start, stepMs int64) (generator, error) {
	switch {
	case f.Kind == row.Timestamp && c.name == "":
		return generator{cell: func(n, _ uint64) uint64 { return uint64(start + int64(n)*stepMs) }}, nil
	case f.Kind == row.Timestamp:
		return generator{}, fmt.Errorf("field %q is a timestamp, which advances by step: it takes no generator", f.Name)
	case c.name == "" || c.name == "sequence":
		return sequence(f, c)
	case c.name == "uniform":
		return uniform(f, c)
	case c.name == "choice":
		return choice(f, c)
	}
	return generator{}, fmt.Errorf("field %q: unknown generator %q; use sequence, uniform or choice", f.Name, c.name)
}

// sequence counts the rows, from 0 or from its argument; a text is the number
// behind the field's name, a bool changes with each row.
func sequence(f row.Field, c call) (generator, error) {
	first := int64(0)
	if len(c.args) > 0 {
		v, err := strconv.ParseInt(c.args[0], 10, 64)
		if err != nil || len(c.args) > 1 {
			return generator{}, fmt.Errorf("field %q: sequence takes the first number, an int", f.Name)
		}
		first = v
	}
	switch f.Kind {
	case row.Int:
		return generator{cell: func(n, _ uint64) uint64 { return uint64(first) + n }}, nil
	case row.Float:
		return generator{cell: func(n, _ uint64) uint64 { return math.Float64bits(float64(first + int64(n))) }}, nil
	case row.Bool:
		return generator{cell: func(n, _ uint64) uint64 { return (uint64(first) + n) & 1 }}, nil
	case row.List:
		return generator{text: func(dst []byte, n, _ uint64) []byte {
			return append(strconv.AppendInt(append(dst, '['), first+int64(n), 10), ']')
		}}, nil
	}
	return generator{text: func(dst []byte, n, _ uint64) []byte {
		dst = append(append(dst, f.Name...), '-')
		return strconv.AppendInt(dst, first+int64(n), 10)
	}}, nil
}

// uniform picks from low to high: both included for an int, high excluded for a
// float. A bool takes no arguments.
func uniform(f row.Field, c call) (generator, error) {
	switch f.Kind {
	case row.Bool:
		if len(c.args) > 0 {
			return generator{}, fmt.Errorf("field %q: uniform takes no arguments for a bool", f.Name)
		}
		return generator{cell: func(_, r uint64) uint64 { return r >> 63 }}, nil
	case row.Int:
		low, high := int64(0), int64(0)
		var errLow, errHigh error
		if len(c.args) == 2 {
			low, errLow = strconv.ParseInt(c.args[0], 10, 64)
			high, errHigh = strconv.ParseInt(c.args[1], 10, 64)
		}
		if len(c.args) != 2 || errLow != nil || errHigh != nil || low > high {
			return generator{}, fmt.Errorf("field %q: uniform takes the lowest and the highest int, such as uniform(1, 6)", f.Name)
		}
		width := uint64(high) - uint64(low) + 1 // 0 means all ints
		return generator{cell: func(_, r uint64) uint64 {
			if width == 0 {
				return r
			}
			return uint64(low) + r%width
		}}, nil
	case row.Float:
		low, high := 0.0, 1.0
		var errLow, errHigh error
		if len(c.args) == 2 {
			low, errLow = strconv.ParseFloat(c.args[0], 64)
			high, errHigh = strconv.ParseFloat(c.args[1], 64)
		}
		if len(c.args) != 0 && len(c.args) != 2 || errLow != nil || errHigh != nil || !(low < high) {
			return generator{}, fmt.Errorf("field %q: uniform takes two floats, the lower first, such as uniform(0, 1)", f.Name)
		}
		return generator{cell: func(_, r uint64) uint64 { return math.Float64bits(low + float64(unit(r)*(high-low))) }}, nil
	}
	return generator{}, fmt.Errorf("field %q: uniform makes ints, floats and bools; use choice for texts", f.Name)
}

// choice picks one of its arguments.
func choice(f row.Field, c call) (generator, error) {
	if len(c.args) == 0 {
		return generator{}, fmt.Errorf("field %q: choice takes the values to choose from, such as choice(a, b)", f.Name)
	}
	count := uint64(len(c.args))
	cells := make([]uint64, len(c.args))
	for i, arg := range c.args {
		var err error
		switch f.Kind {
		case row.String:
			continue
		case row.Int:
			var v int64
			v, err = strconv.ParseInt(arg, 10, 64)
			cells[i] = uint64(v)
		case row.Float:
			var v float64
			v, err = strconv.ParseFloat(arg, 64)
			cells[i] = math.Float64bits(v)
		case row.Bool:
			var v bool
			if v, err = strconv.ParseBool(arg); v {
				cells[i] = 1
			}
		case row.Bytes:
			var b []byte
			b, err = base64.StdEncoding.DecodeString(arg)
			c.args = slices.Clone(c.args)
			c.args[i] = string(b)
		default:
			return generator{}, fmt.Errorf("field %q: choice does not make lists; use sequence", f.Name)
		}
		if err != nil {
			return generator{}, fmt.Errorf("field %q: choice: %q does not have the field's type", f.Name, arg)
		}
	}
	if f.Kind == row.String || f.Kind == row.Bytes {
		return generator{text: func(dst []byte, _, r uint64) []byte { return append(dst, c.args[r%count]...) }}, nil
	}
	return generator{cell: func(_, r uint64) uint64 { return cells[r%count] }}, nil
}
