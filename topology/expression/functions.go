package expression

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/types"

	"cutwater/stream/row"
)

// list stands for a field of kind List in the checker: it has no operations.
type list struct{}

// environment declares the fields to the checker.
func environment(schema *row.Schema) types.Map {
	env := make(types.Map, len(schema.Fields))
	for _, f := range schema.Fields {
		env[f.Name] = checkerTypes[f.Kind]
	}
	return env
}

var checkerTypes = map[row.Kind]types.Type{
	row.Null: types.Any, row.Int: types.Int64, row.Float: types.Float64, row.String: types.String,
	row.Bool: types.Bool, row.Timestamp: types.TypeOf(time.Time{}), row.Bytes: types.TypeOf([]byte(nil)), row.List: types.TypeOf(list{}),
}

// Function is a function of the language.
type Function struct {
	Name string
	// Usage shows its parameters and result.
	Usage string
	// Doc is one sentence.
	Doc string

	signatures []any
	compile    func(args []value) (value, bool)
}

// Functions lists what expressions can call, for the documentation.
func Functions() []Function { return functions }

var functions = []Function{
	{Name: "abs", Usage: "abs(number)", Doc: "The magnitude; of the kind of its argument.",
		signatures: []any{new(func(int64) int64), new(func(int) int64), new(func(float64) float64)}, compile: absolute},
	{Name: "ceil", Usage: "ceil(number) float", Doc: "The smallest whole number that is not smaller.",
		signatures: numberToFloat, compile: rounding(math.Ceil)},
	{Name: "day", Usage: "day(timestamp) int", Doc: "The day of the month, from 1, in UTC.",
		signatures: timeToInt, compile: timePart(func(t time.Time) int { return t.Day() })},
	{Name: "float", Usage: "float(int | float | string) float", Doc: "The number; a string that is none fails the row.",
		signatures: []any{new(func(int64) float64), new(func(int) float64), new(func(float64) float64), new(func(string) float64)}, compile: toFloat},
	{Name: "floor", Usage: "floor(number) float", Doc: "The largest whole number that is not larger.",
		signatures: numberToFloat, compile: rounding(math.Floor)},
	{Name: "hour", Usage: "hour(timestamp) int", Doc: "The hour, 0 to 23, in UTC.",
		signatures: timeToInt, compile: timePart(func(t time.Time) int { return t.Hour() })},
	{Name: "int", Usage: "int(int | float | string) int", Doc: "The whole number, a float cut towards zero; what does not fit fails the row.",
		signatures: []any{new(func(int64) int64), new(func(int) int64), new(func(float64) int64), new(func(string) int64)}, compile: toInt},
	{Name: "len", Usage: "len(string) int", Doc: "The number of characters.",
		signatures: []any{new(func(string) int64)}, compile: length},
	{Name: "lower", Usage: "lower(string) string", Doc: "The text in lower case.",
		signatures: stringToString, compile: mapRunes(unicode.ToLower)},
	{Name: "minute", Usage: "minute(timestamp) int", Doc: "The minute, 0 to 59.",
		signatures: timeToInt, compile: timePart(func(t time.Time) int { return t.Minute() })},
	{Name: "month", Usage: "month(timestamp) int", Doc: "The month, 1 to 12, in UTC.",
		signatures: timeToInt, compile: timePart(func(t time.Time) int { return int(t.Month()) })},
	{Name: "round", Usage: "round(number) float", Doc: "The nearest whole number, halves away from zero.",
		signatures: numberToFloat, compile: rounding(math.Round)},
	{Name: "second", Usage: "second(timestamp) int", Doc: "The second, 0 to 59.",
		signatures: timeToInt, compile: timePart(func(t time.Time) int { return t.Second() })},
	{Name: "string", Usage: "string(int | float | bool | string | timestamp) string", Doc: "The value as text; a timestamp as RFC 3339 in UTC.",
		signatures: []any{new(func(int64) string), new(func(int) string), new(func(float64) string), new(func(bool) string), new(func(string) string), new(func(time.Time) string)}, compile: toString},
	{Name: "timestamp", Usage: "timestamp(string | int) timestamp", Doc: "The time of a text in RFC 3339, which fails the row if it is none, or of Unix milliseconds.",
		signatures: []any{new(func(string) time.Time), new(func(int64) time.Time), new(func(int) time.Time)}, compile: toTimestamp},
	{Name: "trim", Usage: "trim(string) string", Doc: "The text without white space around it.",
		signatures: stringToString, compile: trim},
	{Name: "truncate", Usage: "truncate(timestamp, \"1h\") timestamp", Doc: "The time cut down to a multiple of a constant duration since 1970, UTC.",
		signatures: []any{new(func(time.Time, string) time.Time)}, compile: truncate},
	{Name: "unix_ms", Usage: "unix_ms(timestamp) int", Doc: "Milliseconds since 1970, UTC.",
		signatures: timeToInt, compile: unixMs},
	{Name: "upper", Usage: "upper(string) string", Doc: "The text in upper case.",
		signatures: stringToString, compile: mapRunes(unicode.ToUpper)},
	{Name: "weekday", Usage: "weekday(timestamp) int", Doc: "The day of the week in UTC, 1 for Monday to 7 for Sunday.",
		signatures: timeToInt, compile: timePart(func(t time.Time) int { return (int(t.Weekday())+6)%7 + 1 })},
	{Name: "year", Usage: "year(timestamp) int", Doc: "The year in UTC.",
		signatures: timeToInt, compile: timePart(func(t time.Time) int { return t.Year() })},
}

var (
	timeToInt      = []any{new(func(time.Time) int64)}
	stringToString = []any{new(func(string) string)}
	numberToFloat  = []any{new(func(int64) float64), new(func(int) float64), new(func(float64) float64)}
)

// declarations declares the functions to the checker, which never calls them.
func declarations() []expr.Option {
	options := make([]expr.Option, len(functions))
	for i, fn := range functions {
		options[i] = expr.Function(fn.Name, func(...any) (any, error) { return nil, nil }, fn.signatures...)
	}
	return options
}

func (c *compiler) call(n *ast.CallNode) (value, error) {
	callee, ok := n.Callee.(*ast.IdentifierNode)
	if !ok {
		return value{}, problem(n, "only functions can be called")
	}
	at := slices.IndexFunc(functions, func(f Function) bool { return f.Name == callee.Value })
	if at < 0 {
		return value{}, problem(n, "%s is not a function", callee.Value)
	}
	args := make([]value, len(n.Arguments))
	for i, a := range n.Arguments {
		var err error
		if args[i], err = c.compile(a); err != nil {
			return value{}, err
		}
	}
	v, ok := functions[at].compile(args)
	if !ok {
		return value{}, problem(n, "%s is used as %s", callee.Value, functions[at].Usage)
	}
	return c.finish(n, v, args...)
}

func absolute(args []value) (value, bool) {
	x := args[0]
	if x.kind == row.Float {
		return floats(func(f *Frame) (float64, bool) {
			v, ok := x.f(f)
			return math.Abs(v), ok
		}), true
	}
	minus := negate(x.i)
	return ints(func(f *Frame) (int64, bool) {
		if v, ok := x.i(f); v >= 0 {
			return v, ok
		}
		return minus(f)
	}), x.kind == row.Int
}

func rounding(round func(float64) float64) func([]value) (value, bool) {
	return func(args []value) (value, bool) {
		if !args[0].numeric() {
			return value{}, false
		}
		x := args[0].asFloat()
		return floats(func(f *Frame) (float64, bool) {
			v, ok := x(f)
			return round(v), ok
		}), true
	}
}

func timePart(part func(time.Time) int) func([]value) (value, bool) {
	return func(args []value) (value, bool) {
		x := args[0].i
		return ints(func(f *Frame) (int64, bool) {
			ms, ok := x(f)
			if !ok {
				return 0, false
			}
			return int64(part(time.UnixMilli(ms).UTC())), true
		}), args[0].kind == row.Timestamp
	}
}

func unixMs(args []value) (value, bool) { return ints(args[0].i), args[0].kind == row.Timestamp }

func truncate(args []value) (value, bool) {
	if args[0].kind != row.Timestamp || args[1].kind != row.String || !args[1].constant {
		return value{}, false
	}
	text, _ := args[1].s(&Frame{})
	d, err := time.ParseDuration(text)
	unit := d.Milliseconds()
	if err != nil || unit <= 0 {
		return value{}, false
	}
	x := args[0].i
	return times(func(f *Frame) (int64, bool) {
		ms, ok := x(f)
		rest := ms % unit
		if rest < 0 {
			rest += unit
		}
		return timestamp(f, ms-rest, ok)
	}), true
}

func toTimestamp(args []value) (value, bool) {
	x := args[0]
	switch x.kind {
	case row.Int:
		return times(func(f *Frame) (int64, bool) {
			ms, ok := x.i(f)
			return timestamp(f, ms, ok)
		}), true
	case row.String:
		return times(func(f *Frame) (int64, bool) {
			s, ok := x.s(f)
			if !ok {
				return 0, false
			}
			t, err := time.Parse(time.RFC3339Nano, s)
			if err != nil {
				f.fail("%q is not a timestamp in RFC 3339, such as 2001-01-31T09:00:00Z", s)
				return 0, false
			}
			return timestamp(f, t.UnixMilli(), true)
		}), true
	}
	return value{}, false
}

// timestamp passes on what a timestamp can be.
func timestamp(f *Frame, ms int64, ok bool) (int64, bool) {
	if ok && !row.ValidMs(ms) {
		f.fail("%d ms since 1970 is not in the years 1 to 9999, which timestamps are in", ms)
		return 0, false
	}
	return ms, ok
}

func toInt(args []value) (value, bool) {
	x := args[0]
	switch x.kind {
	case row.Int:
		return ints(x.i), true
	case row.Float:
		return ints(func(f *Frame) (int64, bool) {
			v, ok := x.f(f)
			if !(v >= -1<<63 && v < 1<<63) {
				f.fail("%v does not fit an int", v)
				return 0, false
			}
			return int64(v), ok
		}), true
	case row.String:
		return ints(func(f *Frame) (int64, bool) {
			s, ok := x.s(f)
			if !ok {
				return 0, false
			}
			v, err := strconv.ParseInt(s, 10, 64)
			if err != nil {
				f.fail("%q is not an int", s)
			}
			return v, err == nil
		}), true
	}
	return value{}, false
}

func toFloat(args []value) (value, bool) {
	x := args[0]
	switch x.kind {
	case row.Int, row.Float:
		return floats(x.asFloat()), true
	case row.String:
		return floats(func(f *Frame) (float64, bool) {
			s, ok := x.s(f)
			if !ok {
				return 0, false
			}
			v, err := strconv.ParseFloat(s, 64)
			if err != nil {
				f.fail("%q is not a float", s)
			}
			return v, err == nil
		}), true
	}
	return value{}, false
}

func toString(args []value) (value, bool) {
	x := args[0]
	switch x.kind {
	case row.String:
		return texts(x.s), true
	case row.Int:
		return rendered(x.i, func(b []byte, v int64) []byte { return strconv.AppendInt(b, v, 10) }), true
	case row.Float:
		return rendered(x.f, func(b []byte, v float64) []byte { return strconv.AppendFloat(b, v, 'g', -1, 64) }), true
	case row.Bool:
		return rendered(x.b, strconv.AppendBool), true
	case row.Timestamp:
		return rendered(x.i, func(b []byte, v int64) []byte {
			return time.UnixMilli(v).UTC().AppendFormat(b, time.RFC3339Nano)
		}), true
	}
	return value{}, false
}

func rendered[T any](x function[T], write func([]byte, T) []byte) value {
	return texts(func(f *Frame) (string, bool) {
		v, ok := x(f) // may use buf itself
		if !ok {
			return "", false
		}
		start := len(f.buf)
		f.buf = write(f.buf, v)
		return f.made(start), true
	})
}

func length(args []value) (value, bool) {
	x := args[0].s
	return ints(func(f *Frame) (int64, bool) {
		s, ok := x(f)
		return int64(utf8.RuneCountInString(s)), ok
	}), args[0].kind == row.String
}

func trim(args []value) (value, bool) {
	x := args[0].s
	return texts(func(f *Frame) (string, bool) {
		s, ok := x(f)
		return strings.TrimSpace(s), ok
	}), args[0].kind == row.String
}

func mapRunes(change func(rune) rune) func([]value) (value, bool) {
	return func(args []value) (value, bool) {
		x := args[0].s
		return texts(func(f *Frame) (string, bool) {
			s, ok := x(f)
			start := len(f.buf)
			for _, r := range s {
				f.buf = utf8.AppendRune(f.buf, change(r))
			}
			return f.made(start), ok
		}), args[0].kind == row.String
	}
}
