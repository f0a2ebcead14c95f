package row

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A row survives encoding, behind other text, and bytes of another shape are an
// error.
func TestCodec(t *testing.T) {
	c := Codec(&Schema{Fields: []Field{{Name: "n", Kind: Int}, {Name: "s", Kind: String}, {Name: "b", Kind: Bytes}, {Name: "e", Kind: String}}})
	if want := `row{"n" int; "s" string; "b" bytes; "e" string}`; c.Schema() != want {
		t.Errorf("schema %s, want %s", c.Schema(), want)
	}
	fixed := make([]byte, c.Width())
	in := Row{Cells: []uint64{7, 2<<32 | 3, 0, 5 << 32}, Nulls: 1 << 2, Text: "..abc"}
	text := c.Encode(fixed, []byte("before"), in)
	var out Row
	if err := c.Decode(fixed, string(text), &out); err != nil {
		t.Fatal(err)
	}
	want := Row{Cells: []uint64{7, 6<<32 | 3, 9 << 32, 9 << 32}, Nulls: 1 << 2, Text: "beforeabc"}
	if diff := cmp.Diff(want, out); diff != "" {
		t.Error(diff)
	}
	if c.Decode(fixed, "before", &out) == nil || c.Decode(fixed[1:], string(text), &out) == nil {
		t.Error("damaged bytes were accepted")
	}
}

// Encoding and decoding a row allocates nothing.
func TestCodecAllocations(t *testing.T) {
	c := Codec(&Schema{Fields: []Field{{Name: "n", Kind: Int}, {Name: "s", Kind: String}}})
	fixed, text := make([]byte, c.Width()), make([]byte, 0, 100)
	in, out := Row{Cells: []uint64{7, 3}, Text: "abc"}, Row{Cells: make([]uint64, 2)}
	n := testing.AllocsPerRun(100, func() {
		text = c.Encode(fixed, text[:0], in)
		if err := c.Decode(fixed, "abc", &out); err != nil {
			t.Fatal(err)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}
