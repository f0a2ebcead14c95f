package codec_test

import (
	"bytes"
	"errors"
	"testing"

	"cutwater/codec"
	"cutwater/messages"
)

// tree is a value that only JSON can carry.
type tree struct {
	Name string
	Kids []tree
}

// decodings holds one check for each codec of the package, by its type.
var decodings = map[string]func(t *testing.T, b []byte){
	"int64":          decoding(codec.Int64()),
	"uint64":         decoding(codec.Uint64()),
	"float64":        decoding(codec.Float64()),
	"bool":           decoding(codec.Bool()),
	"string":         decoding(codec.String()),
	"bytes":          decoding(codec.Bytes()),
	"struct":         decoding(codec.Must(codec.Struct[mixed]())),
	"struct, whole":  decoding(codec.Must(codec.Struct[plain]())),
	"struct, bools":  decoding(codec.Must(codec.Struct[inner]())),
	"struct, empty":  decoding(codec.Must(codec.Struct[struct{}]())),
	"JSON":           decoding(codec.JSON[tree]()),
	"protobuf":       decoding(codec.Proto[*messages.Split]()),
	"protobuf by Of": decoding(codec.Must(codec.Of[*messages.Split]())),
}

// decoding decodes the first bytes as a fixed part and the others as text.
func decoding[T any](c codec.Codec[T]) func(t *testing.T, b []byte) {
	return func(t *testing.T, b []byte) {
		w := c.Width()
		if len(b) < w {
			return
		}
		var v T
		if err := c.Decode(b[:w:w], string(b[w:]), &v); err != nil {
			if !errors.Is(err, codec.ErrDecode) {
				t.Errorf("%s: %v", c.Schema(), err)
			}
			return
		}
		fixed, text := encoded(c, v)
		var again T
		if err := c.Decode(fixed, string(text), &again); err != nil {
			t.Errorf("%s: what was decoded cannot be encoded and decoded again: %v", c.Schema(), err)
			return
		}
		if f, x := encoded(c, again); !bytes.Equal(f, fixed) || !bytes.Equal(x, text) {
			t.Errorf("%s: %x %q is encoded again as %x %q", c.Schema(), fixed, text, f, x)
		}
	}
}

func encoded[T any](c codec.Codec[T], v T) (fixed, text []byte) {
	fixed = make([]byte, c.Width())
	return fixed, c.Encode(fixed, nil, v)
}

// Whatever the bytes, Decode gives a value that is encoded and decoded to itself,
// or an ErrDecode; it never panics and never looks beyond them.
func FuzzDecode(f *testing.F) {
	seed := func(fixed, text []byte) { f.Add(append(fixed, text...)) }
	seed(encoded(codec.Int64(), 1))
	seed(encoded(codec.String(), "text"))
	seed(encoded(codec.Must(codec.Struct[mixed]()), mixed{ID: 1, Name: "name", In: inner{On: true}, Raw: []byte("raw"), Last: "last"}))
	seed(encoded(codec.Must(codec.Struct[plain]()), plain{A: 1, C: 2}))
	seed(encoded(codec.JSON[tree](), tree{"a", []tree{{"b", nil}}}))
	seed(encoded(codec.Proto[*messages.Split](), &messages.Split{Id: "x", Position: []byte("at")}))
	f.Add([]byte{})
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xfftext"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, check := range decodings {
			check(t, b)
		}
	})
}

// keyDecodings holds one check for each kind of key.
var keyDecodings = map[string]func(t *testing.T, b []byte){
	"int64":   keyDecoding[int64],
	"uint64":  keyDecoding[uint64],
	"int8":    keyDecoding[int8],
	"float32": keyDecoding[float32],
	"float64": keyDecoding[float64],
	"bool":    keyDecoding[bool],
	"string":  keyDecoding[string],
	"struct": keyDecoding[struct {
		A string
		B [2]uint16
		C bool
		D string
	}],
}

func keyDecoding[K comparable](t *testing.T, b []byte) {
	c := codec.Must(codec.KeyOf[K]())
	var k K
	if err := c.DecodeKey(b[:len(b):len(b)], &k); err != nil {
		if !errors.Is(err, codec.ErrDecode) {
			t.Errorf("%s: %v", c.Schema(), err)
		}
		return
	}
	canonical := c.AppendKey(nil, k)
	var again K
	if err := c.DecodeKey(canonical, &again); err != nil {
		t.Errorf("%s: the key %v cannot be decoded again: %v", c.Schema(), k, err)
	} else if got := c.AppendKey(nil, again); !bytes.Equal(got, canonical) {
		t.Errorf("%s: the key %v has the bytes %x, and then %x", c.Schema(), k, canonical, got)
	}
	if w := c.Width(); w != 0 && w != len(canonical) {
		t.Errorf("%s: the key %v has %d bytes, and the width is %d", c.Schema(), k, len(canonical), w)
	}
}

// Whatever the bytes, DecodeKey gives a key whose canonical bytes are decoded to
// the same key, or an ErrDecode; it never panics.
func FuzzDecodeKey(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{1})
	f.Add([]byte("\xfe\xff\xff\xff\xff\xff\xff\xff"))
	f.Add([]byte("\x03DTW\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x01\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, check := range keyDecodings {
			check(t, b)
		}
	})
}
