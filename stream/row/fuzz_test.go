package row

import (
	"bytes"
	"errors"
	"testing"

	"cutwater/codec"
)

// Whatever the bytes, Decode gives a row whose every field can be shown and which is
// encoded and decoded to itself, or an ErrDecode; it never panics.
func FuzzDecode(f *testing.F) {
	s := &Schema{Fields: []Field{{Name: "n", Kind: Int}, {Name: "s", Kind: String}, {Name: "x", Kind: Float},
		{Name: "ok", Kind: Bool}, {Name: "at", Kind: Timestamp}, {Name: "raw", Kind: Bytes}, {Name: "l", Kind: List}}}
	c := Codec(s)
	b := NewBuilder(len(s.Fields))
	b.Int(0, 7)
	b.String(1, "text")
	b.Ms(4, -1)
	b.String(6, "[1]")
	fixed := make([]byte, c.Width())
	f.Add(append(fixed, c.Encode(fixed, nil, b.Row())...))
	f.Add(make([]byte, c.Width()))
	f.Add(bytes.Repeat([]byte{0xff}, c.Width()+8))
	f.Add([]byte("short"))
	f.Fuzz(func(t *testing.T, b []byte) {
		fixed, text := b[:min(c.Width(), len(b))], ""
		if len(b) > len(fixed) {
			text = string(b[len(fixed):])
		}
		var r Row
		if err := c.Decode(fixed, text, &r); err != nil {
			if !errors.Is(err, codec.ErrDecode) {
				t.Error(err)
			}
			return
		}
		shown := Describe(s, &r)
		again := make([]byte, c.Width())
		own := c.Encode(again, nil, r)
		var back Row
		if err := c.Decode(again, string(own), &back); err != nil {
			t.Fatal(err)
		}
		if got := Describe(s, &back); got != shown {
			t.Errorf("%s became %s", shown, got)
		}
	})
}
