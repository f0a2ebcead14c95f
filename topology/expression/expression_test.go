package expression_test

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/expr-lang/expr"
	"pgregory.net/rapid"

	"cutwater/internal/script"
	"cutwater/stream/row"
	"cutwater/topology/expression"
)

var flights = &row.Schema{Fields: []row.Field{
	{Name: "date", Kind: row.Timestamp}, {Name: "delay", Kind: row.Int}, {Name: "distance", Kind: row.Int},
	{Name: "origin", Kind: row.String}, {Name: "score", Kind: row.Float}, {Name: "cancelled", Kind: row.Bool},
	{Name: "tags", Kind: row.List},
}}

// flight makes a row; a missing value is null.
func flight(fields map[string]any) *row.Row {
	r := &row.Row{Cells: make([]uint64, len(flights.Fields))}
	for i, f := range flights.Fields {
		switch v := fields[f.Name].(type) {
		case nil:
			r.Nulls |= 1 << i
		case int64:
			r.Cells[i] = uint64(v)
		case float64:
			r.Cells[i] = math.Float64bits(v)
		case string:
			r.Cells[i] = uint64(len(r.Text))<<32 | uint64(len(v))
			r.Text += v
		case bool:
			if v {
				r.Cells[i] = 1
			}
		case time.Time:
			r.Cells[i] = uint64(v.UnixMilli())
		}
	}
	return r
}

func show(e *expression.Expr, f *expression.Frame) string {
	text := "null"
	switch {
	case e.Kind == row.Null:
	case expression.IsText(e.Kind):
		if s, ok := e.Text(f); ok {
			text = strconv.Quote(s)
		}
	case e.Kind == row.Float:
		if v, ok := e.Float(f); ok {
			text = strconv.FormatFloat(v, 'g', -1, 64)
		}
	case e.Kind == row.Timestamp:
		if v, ok := e.Int(f); ok {
			text = time.UnixMilli(v).UTC().Format(time.RFC3339)
		}
	case e.Kind == row.Bool:
		if bits, ok := e.Cell(f); ok {
			text = fmt.Sprint(bits == 1)
		}
	default:
		if v, ok := e.Int(f); ok {
			text = fmt.Sprint(v)
		}
	}
	if err := f.Err(); err != nil {
		return "row fails: " + err.Error()
	}
	return expression.KindName(e.Kind) + " " + text
}

// The language by example: values, nulls, failures of a row and errors of the text.
func TestScripts(t *testing.T) {
	script.RunDir(t, "testdata", func(t *testing.T) script.Handler {
		rows := map[string]*row.Row{
			"full": flight(map[string]any{"date": time.Date(2001, 2, 3, 14, 5, 6, 0, time.UTC), "delay": int64(66), "distance": int64(1750),
				"origin": "DTW", "score": 2.5, "cancelled": true, "tags": "[1]"}),
			"null": flight(nil),
			"max":  flight(map[string]any{"delay": int64(math.MaxInt64), "distance": int64(math.MinInt64), "origin": "Zürich", "score": math.Inf(1)}),
		}
		return func(d *script.Directive) (string, error) {
			e, err := expression.Compile(d.Body, flights)
			if err != nil {
				var bad *expression.Error
				if !errors.As(err, &bad) {
					t.Fatalf("%T is not an *Error: %v", err, err)
				}
				return fmt.Sprintf("%*s\n", bad.Column+1, "^"), err
			}
			f := &expression.Frame{}
			f.Begin(rows[d.Verb])
			return show(e, f), nil
		}
	})
}

// Where expr's own machine has the same rules, the results are the same.
func TestAgreesWithExpr(t *testing.T) {
	leaves := map[row.Kind][]string{
		row.Int: {"delay", "distance", "3", "7"}, row.Float: {"score", "0.5"},
		row.String: {"origin", `"DTW"`, `""`}, row.Bool: {"cancelled", "true"},
	}
	var gen func(t *rapid.T, k row.Kind, depth int) string
	gen = func(t *rapid.T, k row.Kind, depth int) string {
		pick := func(s ...string) string { return rapid.SampledFrom(s).Draw(t, "op") }
		sub := func(k row.Kind) string { return "(" + gen(t, k, depth-1) + ")" }
		if depth == 0 || rapid.IntRange(0, 4).Draw(t, "leaf") == 0 {
			return rapid.SampledFrom(leaves[k]).Draw(t, "leaf")
		}
		numeric := func() row.Kind { return rapid.SampledFrom([]row.Kind{row.Int, row.Float}).Draw(t, "kind") }
		switch k {
		case row.Int:
			return pick(sub(k)+pick("+", "-", "*")+sub(k), "-"+sub(k), sub(row.Bool)+"?"+sub(k)+":"+sub(k))
		case row.Float:
			return pick(sub(numeric())+"/"+sub(numeric()), sub(row.Float)+pick("+", "-", "*")+sub(numeric()), "-"+sub(k))
		case row.String:
			return pick(sub(k)+"+"+sub(k), sub(row.Bool)+"?"+sub(k)+":"+sub(k))
		}
		return pick(
			sub(row.Bool)+pick("and", "or", "==", "!=")+sub(row.Bool), "not "+sub(row.Bool),
			sub(numeric())+pick("<", "<=", ">", ">=", "==", "!=")+sub(numeric()),
			sub(row.String)+pick("==", "!=", "<", ">", "contains", "startsWith", "endsWith")+sub(row.String),
			sub(row.String)+` in ["DTW", "A"]`, sub(row.Int)+" in [3, 21, -7]", sub(row.Int)+" in 1..9")
	}
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom([]row.Kind{row.Int, row.Float, row.String, row.Bool}).Draw(t, "kind")
		source := gen(t, kind, 3)
		fields := map[string]any{
			"delay": rapid.Int64Range(-40, 40).Draw(t, "delay"), "distance": rapid.Int64Range(0, 40).Draw(t, "distance"),
			"origin": rapid.SampledFrom([]string{"DTW", "A", "D", ""}).Draw(t, "origin"),
			"score":  rapid.Float64Range(-10, 10).Draw(t, "score"), "cancelled": rapid.Bool().Draw(t, "cancelled"),
		}
		ours, err := expression.Compile(source, flights)
		if err != nil {
			t.Fatalf("%s: %v", source, err)
		}
		program, err := expr.Compile(source, expr.Env(fields))
		if err != nil {
			t.Fatalf("%s: expr: %v", source, err)
		}
		want, err := expr.Run(program, fields)
		if err != nil {
			t.Fatalf("%s: expr: %v", source, err)
		}
		f := &expression.Frame{}
		f.Begin(flight(fields))
		expected := ""
		switch v := want.(type) {
		case int:
			expected = fmt.Sprintf("int %d", v)
		case int64:
			expected = fmt.Sprintf("int %d", v)
		case float64:
			expected = "float " + strconv.FormatFloat(v, 'g', -1, 64)
		case string:
			expected = "string " + strconv.Quote(v)
		default:
			expected = fmt.Sprintf("bool %v", v)
		}
		if got := show(ours, f); got != expected {
			t.Fatalf("%s over %v: %s, expr says %s", source, fields, got, expected)
		}
	})
}

// No text makes the compiler or what it compiles panic.
func FuzzCompile(f *testing.F) {
	for _, s := range []string{`delay + 1`, `origin in ["a"]`, `truncate(date, "1h")`, `tags == nil ? 1 : 2.0`, `-int(score) ** 2`, `"\x00"`, `a.b[1]`, `let x = 1; x`} {
		f.Add(s)
	}
	full := flight(map[string]any{"delay": int64(1), "origin": "x", "score": 1.5, "tags": "[]"})
	f.Fuzz(func(t *testing.T, source string) {
		e, err := expression.Compile(source, flights)
		if err != nil {
			return
		}
		frame := &expression.Frame{}
		for _, r := range []*row.Row{full, flight(nil)} {
			frame.Begin(r)
			show(e, frame)
		}
	})
}

// Evaluating allocates nothing.
func TestNoAllocation(t *testing.T) {
	r := flight(map[string]any{"date": time.Unix(1e9, 0), "delay": int64(66), "distance": int64(1750), "origin": "Dtw", "score": 1.5})
	for _, source := range []string{
		`delay + distance > 1500 && origin == "Dtw"`, `upper(origin) == "DTW"`, `hour(date) > 100 or delay in [1, 66]`,
		`string(delay) + lower(origin) startsWith "66d"`, `truncate(date, "1h") <= date`, `(cancelled ?? true) and origin matches "^D"`,
	} {
		e, err := expression.CompileCondition(source, flights)
		if err != nil {
			t.Fatal(err)
		}
		f := &expression.Frame{}
		if n := testing.AllocsPerRun(100, func() {
			f.Begin(r)
			if !e.True(f) {
				t.Fatalf("%s is false (%v)", source, f.Err())
			}
		}); n != 0 {
			t.Errorf("%s allocates %v times", source, n)
		}
	}
}

func BenchmarkCondition(b *testing.B) {
	r := flight(map[string]any{"delay": int64(66), "distance": int64(1750), "origin": "DTW"})
	for _, source := range []string{`delay > 15`, `delay + distance > 1500 && origin == "DTW"`} {
		b.Run(source, func(b *testing.B) {
			e, err := expression.CompileCondition(source, flights)
			if err != nil {
				b.Fatal(err)
			}
			f := &expression.Frame{}
			b.ReportAllocs()
			for b.Loop() {
				f.Begin(r)
				if !e.True(f) {
					b.Fatal("false")
				}
			}
		})
	}
}
