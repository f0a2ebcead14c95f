package row_test

import (
	"encoding/hex"
	"math"
	"strings"
	"testing"

	"cutwater/stream/row"
)

var all = &row.Schema{Fields: []row.Field{
	{Name: "n", Kind: row.Int}, {Name: "x", Kind: row.Float}, {Name: "on", Kind: row.Bool},
	{Name: "at", Kind: row.Timestamp}, {Name: "name", Kind: row.String}, {Name: "tags", Kind: row.List}, {Name: "none", Kind: row.String},
}}

func sample(b *row.Builder) row.Row {
	b.Reset()
	b.Int(0, -5)
	b.Float(1, 1.5)
	b.Bool(2, true)
	b.Ms(3, 1_000_000_000_500)
	b.String(4, `O"Hare`)
	b.String(5, `["a"]`)
	return b.Row()
}

// What a builder is given is what the accessors return; rows of one builder do
// not share text; what is not set is null.
func TestBuilderAndAccessors(t *testing.T) {
	b := row.NewBuilder(len(all.Fields))
	first := sample(b)
	want := `{n: -5, x: 1.5, on: true, at: 2001-09-09T01:46:40.5Z, name: "O\"Hare", tags: ["a"], none: null}`
	if got := row.Describe(all, &first); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	text := first.Text
	b.Reset()
	b.String(4, "another")
	if second := b.Row(); second.String(4) != "another" || !second.IsNull(0) || text != `O"Hare["a"]` {
		t.Errorf("second row %s, first text %q", row.Describe(all, &second), text)
	}
	b.Null(4)
	if r := b.Row(); !r.IsNull(4) {
		t.Error("Null does not set null")
	}
}

// Keys of rows have canonical bytes, with nulls and -0.0 defined, that come back
// as a row of the key fields: golden vectors.
func TestKey(t *testing.T) {
	k, err := row.Key(all, "name", "n", "none")
	if err != nil {
		t.Fatal(err)
	}
	r := sample(row.NewBuilder(len(all.Fields)))
	bytes := k.AppendFrom(nil, r)
	if got, want := hex.EncodeToString(bytes), "03064f22"+"48617265"+"01fbffffffffffffff"+"0000"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	var back row.Row
	if err := k.DecodeKey(bytes, &back); err != nil {
		t.Fatal(err)
	}
	if got := row.Describe(k.Fields, &back); got != `{name: "O\"Hare", n: -5, none: null}` {
		t.Errorf("decoded %s", got)
	}
	if again := k.AppendKey(nil, back); string(again) != string(bytes) {
		t.Errorf("a decoded key has other bytes: %x", again)
	}
	for cut := range bytes {
		if k.DecodeKey(bytes[:cut], &back) == nil {
			t.Errorf("a key cut at %d was accepted", cut)
		}
	}
	if k.Width() != 0 || k.Schema() != "key{name string; n int; none string}" {
		t.Errorf("width %d schema %s", k.Width(), k.Schema())
	}
	zero, _ := row.Key(all, "x")
	a := zero.AppendFrom(nil, row.Row{Cells: []uint64{0, math.Float64bits(math.Copysign(0, -1))}})
	if b := zero.AppendFrom(nil, row.Row{Cells: []uint64{0, 0}}); string(a) != string(b) || zero.Width() != len(a) {
		t.Errorf("-0.0 %x, 0.0 %x, width %d", a, b, zero.Width())
	}
	if _, err := row.Key(all, "gone"); err == nil || !strings.Contains(err.Error(), `no field "gone"`) {
		t.Errorf("got %v", err)
	}
}
