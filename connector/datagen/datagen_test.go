package datagen

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cutwater/connector/connectortest"
	"cutwater/messages"
	"cutwater/storage/vfs"
	"cutwater/stream"
	"cutwater/stream/catalog"
	"cutwater/stream/row"
)

var schema = &row.Schema{Fields: []row.Field{
	{Name: "at", Kind: row.Timestamp}, {Name: "id", Kind: row.Int}, {Name: "user", Kind: row.String},
	{Name: "amount", Kind: row.Int}, {Name: "x", Kind: row.Float}, {Name: "ok", Kind: row.Bool}, {Name: "tag", Kind: row.String}}}

const fields = "user: choice(ann, ben, cid); amount: uniform(-2, 500); x: uniform(0, 1); ok: uniform"

func newSource(t testing.TB, c Config) *Source {
	t.Helper()
	c.Schema, c.Fields = schema, fields
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func format(v row.Row) string {
	text := func(i int) string {
		from := v.Cells[i] >> 32
		return v.Text[from : from+v.Cells[i]&math.MaxUint32]
	}
	return fmt.Sprintf("%d %d %s %d %v %d %s", int64(v.Cells[0]), int64(v.Cells[1]), text(2), int64(v.Cells[3]), math.Float64frombits(v.Cells[4]), v.Cells[5], text(6))
}

// read returns the first rows of a split, at most limit.
func read(t testing.TB, s *Source, split *messages.Split, limit int) []string {
	t.Helper()
	r, err := s.Open(context.Background(), nil, split)
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for len(rows) < limit {
		var v row.Row
		status, err := r.Next(&v)
		if err != nil {
			t.Fatal(err)
		}
		if status == stream.ReadEnd {
			break
		}
		rows = append(rows, format(v))
	}
	return rows
}

func splits(t testing.TB, s *Source, parallelism int) []*messages.Split {
	t.Helper()
	found, err := s.Discover(context.Background(), nil, parallelism)
	if err != nil {
		t.Fatal(err)
	}
	return found.Splits
}

// A seed makes these rows, today and for ever: checkpoints rely on it.
func TestGoldenRows(t *testing.T) {
	s := newSource(t, Config{Rows: 4, Seed: 1, StartMs: 1000, StepMs: 10})
	want := []string{
		"1000 0 ann 67 0.14004215786228236 0 tag-0",
		"1010 1 cid 348 0.8411218973457939 1 tag-1",
		"1020 2 cid 406 0.7620173286502624 1 tag-2",
		"1030 3 ann 173 0.15943840119336372 0 tag-3",
	}
	if diff := cmp.Diff(want, read(t, s, splits(t, s, 1)[0], 10)); diff != "" {
		t.Error(diff)
	}
}

// A bounded source passes the conformance suite.
func TestConformance(t *testing.T) {
	s := newSource(t, Config{Rows: 500, Seed: 5, StepMs: 1})
	connectortest.Source(t, connectortest.SourceHarness[row.Row]{
		New:    func(*testing.T, int64) stream.Source[row.Row] { return s },
		FS:     vfs.Mem(),
		Format: format,
		Want:   read(t, s, splits(t, s, 1)[0], 500),
	})
}

// The splits of an unbounded source share its rows, and continue at a position.
func TestUnbounded(t *testing.T) {
	s := newSource(t, Config{Seed: 5, StepMs: 1})
	whole := read(t, s, splits(t, s, 1)[0], 300)
	var shared []string
	for _, split := range splits(t, s, 3) {
		shared = append(shared, read(t, s, split, 100)...)
	}
	slices.Sort(whole)
	slices.Sort(shared)
	if diff := cmp.Diff(whole, shared); diff != "" {
		t.Error(diff)
	}
	if s.Bounded() {
		t.Error("rows without end are bounded")
	}
}

// A long bounded source has ranges in order that cover its rows.
func TestRanges(t *testing.T) {
	s := newSource(t, Config{Rows: 2*splitRows + 1, StepMs: 1})
	var lengths []int
	for i, split := range splits(t, s, 2) {
		if split.Group != "rows" || split.Ordinal != uint64(i) {
			t.Errorf("split %d: %v", i, split)
		}
		lengths = append(lengths, len(read(t, s, split, math.MaxInt)))
	}
	if diff := cmp.Diff([]int{splitRows, splitRows, 1}, lengths); diff != "" {
		t.Error(diff)
	}
}

// What cannot be made is refused with the field and what to write instead.
func TestNewErrors(t *testing.T) {
	for text, want := range map[string]string{
		"user":                     "has no colon",
		"user: choice(a":           "no closing parenthesis",
		"user: choice(a); user: x": "two generators",
		"user: choice":             "choice takes the values",
		"user: uniform(1, 2)":      "use choice for texts",
		"user: normal(1, 2)":       "unknown generator",
		"amount: uniform(5, 1)":    "the lowest and the highest",
		"amount: choice(1, a)":     `"a" does not have`,
		"amount: sequence(x)":      "sequence takes the first number",
		"x: uniform(1, 1)":         "the lower first",
		"ok: uniform(1)":           "no arguments",
		"at: uniform(1, 2)":        "advances by step",
		"nobody: sequence":         `no field "nobody"`,
	} {
		if _, err := New(Config{Schema: schema, Fields: text}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	if _, err := New(Config{}); err == nil {
		t.Error("no schema was accepted")
	}
	if _, err := New(Config{Schema: schema, Rows: -1}); err == nil {
		t.Error("negative rows were accepted")
	}
	if _, err := New(Config{Schema: schema, StepMs: -1}); err == nil {
		t.Error("a negative step was accepted")
	}
}

// The options of a topology reach the source; missing ones have their defaults.
func TestSpec(t *testing.T) {
	source, err := Spec().New(catalog.Values{Schema: schema, Ints: map[string]int64{"rows": 3, "seed": 9}})
	if err != nil {
		t.Fatal(err)
	}
	want := Config{Schema: schema, Rows: 3, Seed: 9, StartMs: 1704067200000, StepMs: 1000}
	if got := source.(*Source).config; got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if _, err := Spec().New(catalog.Values{Schema: schema, Strings: map[string]string{"start": "now"}}); err == nil {
		t.Error("a start that is no time was accepted")
	}
}

// A row costs no allocation of its own.
func TestAllocations(t *testing.T) {
	s := newSource(t, Config{Rows: splitRows, StepMs: 1})
	r, err := s.Open(context.Background(), nil, splits(t, s, 1)[0])
	if err != nil {
		t.Fatal(err)
	}
	var v row.Row
	n := testing.AllocsPerRun(10, func() {
		for range 1000 {
			if status, err := r.Next(&v); err != nil || status != stream.ReadRecord {
				t.Fatal(status, err)
			}
		}
	})
	if n > 5 {
		t.Errorf("%v allocations for 1000 rows", n)
	}
}
