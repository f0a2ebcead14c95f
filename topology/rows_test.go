package topology

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"cutwater/codec"
	"cutwater/stream"
	"cutwater/stream/row"
	"cutwater/topology/aggregate"
	"cutwater/topology/expression"
)

var keySchema = &row.Schema{Fields: []row.Field{
	{Name: "n", Kind: row.Int}, {Name: "f", Kind: row.Float}, {Name: "s", Kind: row.String}, {Name: "b", Kind: row.Bool},
}}

func keyRow(n int64, f float64, s string, nulls uint64) row.Row {
	return row.Row{Cells: []uint64{uint64(n), math.Float64bits(f), 1<<32 | uint64(len(s)), 1}, Nulls: nulls, Text: "." + s}
}

// The bytes of keys never change: state is found by them.
func TestKeyGolden(t *testing.T) {
	for _, c := range []struct {
		keys []int
		row  row.Row
		want string
	}{
		{nil, keyRow(0, 0, "", 0), ""},
		{[]int{0}, keyRow(258, 0, "", 0), "010201000000000000"},
		{[]int{0}, keyRow(258, 0, "", 1), "000000000000000000"},
		{[]int{1}, keyRow(0, math.Copysign(0, -1), "", 0), "020000000000000000"},
		{[]int{1}, keyRow(0, math.NaN(), "", 0), "02010000000000f87f"},
		{[]int{2}, keyRow(0, 0, "DTW", 0), "0303445457"},
		{[]int{2}, keyRow(0, 0, "", 0), "0300"},
		{[]int{2}, keyRow(0, 0, "DTW", 4), "0000"},
		{[]int{3, 2}, keyRow(0, 0, "a", 0), "040100000000000000030161"},
	} {
		k := row.KeyAt(keySchema, c.keys)
		if got := hex.EncodeToString(k.AppendFrom(nil, c.row)); got != c.want {
			t.Errorf("key %v of %v is %s, want %s", c.keys, c.row, got, c.want)
		}
	}
	if w := row.KeyAt(keySchema, []int{0, 3}).Width(); w != 18 {
		t.Errorf("two fixed fields have width %d", w)
	}
	if w := row.KeyAt(keySchema, []int{2, 0, 2}).Width(); w != 0 {
		t.Errorf("a key with texts has width %d", w)
	}
}

// A decoded key has the values it was made of, and the same bytes again.
func TestKeyRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := keyRow(rapid.Int64().Draw(t, "n"), rapid.Float64().Draw(t, "f"), rapid.String().Draw(t, "s"), rapid.Uint64Range(0, 15).Draw(t, "nulls"))
		keys := rapid.SliceOfNDistinct(rapid.IntRange(0, 3), 0, 4, rapid.ID[int]).Draw(t, "keys")
		k := row.KeyAt(keySchema, keys)
		b := k.AppendFrom(nil, in)
		if w := k.Width(); w != 0 && w != len(b) {
			t.Fatalf("width %d, %d bytes", w, len(b))
		}
		var out row.Row
		if err := k.DecodeKey(b, &out); err != nil {
			t.Fatal(err)
		}
		if again := k.AppendKey(nil, out); !bytes.Equal(b, again) {
			t.Fatalf("%x becomes %x", b, again)
		}
		for i, from := range keys {
			if out.Nulls>>i&1 != in.Nulls>>from&1 {
				t.Fatalf("field %d: null differs", from)
			}
		}
	})
}

// Bytes that are no key are an error.
func TestKeyCorrupt(t *testing.T) {
	k := row.KeyAt(keySchema, []int{0, 2})
	good := k.AppendFrom(nil, keyRow(1, 0, "abc", 0))
	bad := [][]byte{{9}, append([]byte{2}, good[1:]...), append(bytes.Clone(good), 0)}
	for n := range good {
		bad = append(bad, good[:n])
	}
	for _, b := range bad {
		var out row.Row
		if err := k.DecodeKey(b, &out); !errors.Is(err, codec.ErrDecode) {
			t.Errorf("%x: %v", b, err)
		}
	}
}

func mapperOf(t *testing.T, sources ...string) func(row.Row) (row.Row, bool, error) {
	op := &Operator{Output: &row.Schema{}}
	for _, s := range sources {
		x, err := expression.Compile(s, keySchema)
		if err != nil {
			t.Fatal(err)
		}
		op.Fields = append(op.Fields, x)
		op.Output.Fields = append(op.Output.Fields, row.Field{Name: "x", Kind: x.Kind})
	}
	return mapOf(op, "t.yaml:1")()
}

func textOf(r row.Row, i int) string {
	c := r.Cells[i]
	return r.Text[c>>32 : c>>32+c&0xffffffff]
}

// A map computes its fields; texts that it makes stay as they are when the next
// rows are made, and null stays null.
func TestMap(t *testing.T) {
	apply := mapperOf(t, "n + 1", `s + "!"`, "s", "f > 0.5")
	var kept []string
	for i := range 10_000 {
		out, ok, err := apply(keyRow(int64(i), 0, string(rune('a'+i%26)), 0))
		if err != nil || !ok || out.Cells[0] != uint64(i+1) || textOf(out, 2) != string(rune('a'+i%26)) || out.Cells[3] != 0 {
			t.Fatal(i, out, ok, err)
		}
		kept = append(kept, textOf(out, 1))
	}
	for i, s := range kept {
		if want := string(rune('a'+i%26)) + "!"; s != want {
			t.Fatalf("text %d became %q", i, s)
		}
	}
	if out, _, _ := apply(keyRow(0, 0, "", 15)); out.Nulls != 0b0111 {
		t.Errorf("nulls %b", out.Nulls)
	}
	if _, _, err := apply(keyRow(math.MaxInt64, 0, "", 0)); !errors.Is(err, stream.ErrNoRestart) || err.Error() != "t.yaml:1: x: n + 1: int overflow in 9223372036854775807 + 1; correct the expression or its input, or leave such records out with `on-error: skip`" {
		t.Errorf("overflow: %v", err)
	}
}

// A map that only moves fields shares the input's text and allocates nothing.
func TestMapSharesText(t *testing.T) {
	apply := mapperOf(t, "s", "n * 2")
	in := keyRow(4, 0, "DTW", 0)
	if n := testing.AllocsPerRun(100, func() {
		if out, _, _ := apply(in); textOf(out, 0) != "DTW" || out.Cells[1] != 8 {
			t.Fatal(out)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A filter passes rows on as they are and reports what fails.
func TestFilter(t *testing.T) {
	x, err := expression.CompileCondition("n + 1 > 3", keySchema)
	if err != nil {
		t.Fatal(err)
	}
	filter := filterOf(&Operator{Condition: x}, "t.yaml:1")()
	for n, want := range map[int64]bool{2: false, 3: true} {
		if _, ok, err := filter(keyRow(n, 0, "", 0)); ok != want || err != nil {
			t.Errorf("%d: %v %v", n, ok, err)
		}
	}
	if _, _, err := filter(keyRow(math.MaxInt64, 0, "", 0)); err == nil {
		t.Error("an overflow passes")
	}
}

// What a source could not read becomes a row with its place and reason.
func TestMalformedRows(t *testing.T) {
	rows := malformedRows()
	out, ok, err := rows(stream.MalformedRecord{Where: "a.csv", Offset: 7, Line: 2, Problem: "no int", Raw: "x,y"})
	if err != nil || !ok || textOf(out, 0) != "a.csv" || out.Cells[1] != 7 || out.Cells[2] != 2 || textOf(out, 3) != "no int" || textOf(out, 4) != "x,y" {
		t.Error(out, ok, err)
	}
}

// An aggregator's rows have the key, then the aggregates; null keys and empty
// results are null; parts that are merged overflow with the operator's place.
func TestAggregator(t *testing.T) {
	op := &Operator{Keys: []int{2}, Aggregates: &aggregate.Set{}, Output: &row.Schema{Fields: []row.Field{
		{Name: "s", Kind: row.String}, {Name: "most", Kind: row.String}, {Name: "sum", Kind: row.Int},
	}}}
	for _, source := range []string{"max(s)", "sum(n)"} {
		if _, err := op.Aggregates.Add(source, keySchema); err != nil {
			t.Fatal(err)
		}
	}
	a, keys := newAggregatorOf(op, "t.yaml:1"), row.KeyAt(keySchema, op.Keys)
	result := func(acc *aggregate.Accumulator, of row.Row) row.Row {
		var key row.Row
		if err := keys.DecodeKey(keys.AppendFrom(nil, of), &key); err != nil {
			t.Fatal(err)
		}
		out, err := a.Result(key, stream.Interval{}, acc)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	var acc, other aggregate.Accumulator
	a.Init(&acc)
	a.Init(&other)
	if out := result(&acc, keyRow(0, 0, "", 4)); out.Nulls != 0b111 {
		t.Errorf("nothing of a null key: nulls %b", out.Nulls)
	}
	for acc, r := range map[*aggregate.Accumulator]row.Row{&acc: keyRow(math.MaxInt64, 0, "b", 0), &other: keyRow(1, 0, "c", 0)} {
		if err := a.Add(acc, r); err != nil {
			t.Fatal(err)
		}
	}
	if out := result(&acc, keyRow(0, 0, "k", 0)); out.Nulls != 0 || textOf(out, 0) != "k" || textOf(out, 1) != "b" || out.Cells[2] != math.MaxInt64 {
		t.Errorf("one row: %v", out)
	}
	if err := a.Merge(&acc, &other); err == nil || !strings.HasPrefix(err.Error(), "t.yaml:1: aggregate: int overflow in sum(n)") {
		t.Errorf("Merge: %v", err)
	}
	if err := a.Add(&acc, keyRow(1, 0, "", 0)); err == nil {
		t.Error("an overflow is added")
	}
}
