package aggregate_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"cutwater/codec"
	"cutwater/stream/row"
	"cutwater/topology/aggregate"
	"cutwater/topology/expression"
)

var _ codec.Codec[aggregate.Accumulator] = aggregate.Codec{}

var schema = &row.Schema{Fields: []row.Field{
	{Name: "delay", Kind: row.Int}, {Name: "score", Kind: row.Float}, {Name: "origin", Kind: row.String}, {Name: "at", Kind: row.Timestamp},
}}

// record is a row whose nil fields are null.
type record struct {
	delay  *int64
	score  *float64
	origin *string
	at     *int64
}

func (r record) row() *row.Row {
	out := &row.Row{Cells: make([]uint64, 4)}
	if r.delay == nil {
		out.Nulls |= 1
	} else {
		out.Cells[0] = uint64(*r.delay)
	}
	if r.score == nil {
		out.Nulls |= 2
	} else {
		out.Cells[1] = math.Float64bits(*r.score)
	}
	if r.origin == nil {
		out.Nulls |= 4
	} else {
		out.Text = *r.origin
		out.Cells[2] = uint64(len(out.Text))
	}
	if r.at == nil {
		out.Nulls |= 8
	} else {
		out.Cells[3] = uint64(*r.at)
	}
	return out
}

func of[T any](v T) *T { return &v }

func setOf(t interface{ Fatal(...any) }, sources ...string) (*aggregate.Set, []row.Kind) {
	s := &aggregate.Set{}
	var kinds []row.Kind
	for _, source := range sources {
		kind, err := s.Add(source, schema)
		if err != nil {
			t.Fatal(source, err)
		}
		kinds = append(kinds, kind)
	}
	return s, kinds
}

func show(s *aggregate.Set, kinds []row.Kind, a aggregate.Accumulator) string {
	var parts []string
	for i, kind := range kinds {
		bits, text, ok := s.Result(i, a)
		switch {
		case !ok:
			parts = append(parts, "null")
		case kind == row.String:
			parts = append(parts, text)
		case kind == row.Float:
			parts = append(parts, fmt.Sprint(math.Float64frombits(bits)))
		default:
			parts = append(parts, fmt.Sprint(int64(bits)))
		}
	}
	return strings.Join(parts, " ")
}

func add(t interface{ Fatal(...any) }, s *aggregate.Set, a *aggregate.Accumulator, records ...record) {
	f := &expression.Frame{}
	for _, r := range records {
		f.Begin(r.row())
		if err := s.Update(f, a); err != nil {
			t.Fatal(err)
		}
	}
}

// Each aggregate over three rows, one of them null, and over none.
func TestResults(t *testing.T) {
	records := []record{
		{of(int64(3)), of(0.5), of("b"), of(int64(20))},
		{},
		{of(int64(-7)), of(2.5), of("a"), of(int64(10))},
	}
	for _, c := range []struct{ source, want, none string }{
		{"count()", "3", "0"},
		{"count(delay > 0)", "1", "0"},
		{"count(delay)", "2", "0"},
		{"sum(delay)", "-4", "null"},
		{"sum(delay, delay > 0)", "3", "null"},
		{"sum(delay * 2, origin == \"a\")", "-14", "null"},
		{"sum(score)", "3", "null"},
		{"min(delay)", "-7", "null"},
		{"max(delay)", "3", "null"},
		{"max(delay, delay < 0)", "-7", "null"},
		{"min(score)", "0.5", "null"},
		{"max(score)", "2.5", "null"},
		{"min(origin)", "a", "null"},
		{"max(origin)", "b", "null"},
		{"max(upper(origin), delay < 0)", "A", "null"},
		{"min(at)", "10", "null"},
		{"max(at)", "20", "null"},
		{"avg(delay)", "-2", "null"},
		{"avg(score)", "1.5", "null"},
	} {
		s, kinds := setOf(t, c.source)
		a := s.New()
		if got := show(s, kinds, a); got != c.none {
			t.Errorf("%s of nothing is %s, want %s", c.source, got, c.none)
		}
		add(t, s, &a, records...)
		if got := show(s, kinds, a); got != c.want {
			t.Errorf("%s is %s, want %s", c.source, got, c.want)
		}
	}
}

// A sum of ints that overflows fails the row, in Update and in Merge.
func TestOverflow(t *testing.T) {
	s, _ := setOf(t, "sum(delay)")
	a, b := s.New(), s.New()
	add(t, s, &a, record{delay: of(int64(math.MaxInt64))})
	add(t, s, &b, record{delay: of(int64(1))})
	f := &expression.Frame{}
	f.Begin(record{delay: of(int64(2))}.row())
	if err := s.Update(f, &a); err == nil || !strings.Contains(err.Error(), "int overflow in sum(delay): 9223372036854775807 + 2") {
		t.Errorf("Update: %v", err)
	}
	if err := s.Merge(&a, b); err == nil || !strings.Contains(err.Error(), "int overflow") {
		t.Errorf("Merge: %v", err)
	}
}

// Aggregating in parts, with every part encoded and decoded, gives what
// aggregating at once gives.
func TestMergeAndCodec(t *testing.T) {
	sources := []string{"count()", "count(delay > 2)", "sum(delay)", "avg(delay)", "min(delay)", "max(delay)",
		"min(origin)", "max(origin)", "min(score)", "max(score)", "min(at)", "max(origin, delay > 0)"}
	s, kinds := setOf(t, sources...)
	optional := func(t *rapid.T) bool { return rapid.IntRange(0, 3).Draw(t, "null") > 0 }
	gen := rapid.Custom(func(t *rapid.T) record {
		var r record
		if optional(t) {
			r.delay = of(rapid.Int64Range(-5, 5).Draw(t, "delay"))
		}
		if optional(t) {
			r.score = of(rapid.Float64().Draw(t, "score"))
		}
		if optional(t) {
			r.origin = of(rapid.SampledFrom([]string{"", "a", "b", "ü"}).Draw(t, "origin"))
		}
		if optional(t) {
			r.at = of(rapid.Int64().Draw(t, "at"))
		}
		return r
	})
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.SliceOf(gen), 1, 4).Draw(t, "parts")
		whole, merged := s.New(), s.New()
		c := s.Codec()
		for _, part := range parts {
			add(t, s, &whole, part...)
			a := s.New()
			add(t, s, &a, part...)
			fixed := make([]byte, c.Width())
			text := c.Encode(fixed, []byte("before"), a)
			var b aggregate.Accumulator
			if err := c.Decode(fixed, string(text), &b); err != nil {
				t.Fatal(err)
			}
			if err := s.Merge(&merged, b); err != nil {
				t.Fatal(err)
			}
		}
		if got, want := show(s, kinds, merged), show(s, kinds, whole); got != want {
			t.Fatalf("merged: %s\nat once: %s", got, want)
		}
	})
}

// Without strings the encoding has a fixed width and updating allocates nothing;
// other aggregates have another schema.
func TestFixedWidth(t *testing.T) {
	s, _ := setOf(t, "count()", "count(delay > 15)", "sum(delay)", "max(delay)")
	c := s.Codec()
	if c.Width() != 8*6 || codec.HasText(c) {
		t.Errorf("width %d, text %v", c.Width(), codec.HasText(c))
	}
	if strings, _ := setOf(t, "max(origin)"); !codec.HasText(strings.Codec()) {
		t.Error("a maximum of strings has no text")
	}
	if got := c.Schema(); got != "aggregates{count int; count int; sum int; max int}" {
		t.Errorf("schema %q", got)
	}
	a, f, r := s.New(), &expression.Frame{}, record{delay: of(int64(20))}.row()
	fixed := make([]byte, c.Width())
	if n := testing.AllocsPerRun(100, func() {
		f.Begin(r)
		if err := s.Update(f, &a); err != nil {
			t.Fatal(err)
		}
		if text := c.Encode(fixed, nil, a); text != nil {
			t.Fatal("text without strings")
		}
		if err := c.Decode(fixed, "", &a); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Bytes that are no accumulator are an error, not a panic.
func TestDecodeGarbage(t *testing.T) {
	s, _ := setOf(t, "min(origin)")
	c := s.Codec()
	var a aggregate.Accumulator
	for _, fixed := range [][]byte{nil, make([]byte, 7), append(make([]byte, 16), 255, 255, 255, 255, 255, 255, 255, 255)} {
		if err := c.Decode(fixed, "x", &a); err == nil {
			t.Errorf("%v decodes", fixed)
		}
	}
}
