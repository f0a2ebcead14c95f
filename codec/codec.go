// Package codec turns Go values into bytes and back: for the records that travel
// between tasks, for the values that state keeps, and for keys.
//
// A value has a fixed part, of the same width for all values of a codec, and may
// have text: everything of variable length. The fixed parts of many records lie
// side by side in a batch, and their text in one region behind them that is
// turned into a Go string once, so that decoding strings allocates nothing per
// record and no value aliases a buffer that will be reused.
//
// Of finds the codec of a Go type; Struct, JSON, Proto and the codecs of the
// basic types make a particular one. A key is encoded differently, see Key.
package codec

import "errors"

// Codec encodes and decodes values of type T. Implementations are stateless and
// safe for concurrent use.
type Codec[T any] interface {
	// Width is the number of bytes of the fixed part; it never changes.
	Width() int
	// Encode fills fixed, which is Width bytes long, and appends the variable
	// part to text, which it returns. An offset that it stores in fixed is the
	// length that text had, so decoding finds it in the same region.
	Encode(fixed, text []byte, v T) []byte
	// Decode sets *v from a fixed part and the text region. Strings in *v may be
	// sub-strings of text. It must overwrite every field of *v. An error means
	// that the bytes were not written by this codec.
	Decode(fixed []byte, text string, v *T) error
	// Schema describes the encoding, for example "struct{Key int64; Name
	// string}": state that was written under another schema is not restored.
	Schema() string
}

// ErrDecode is wrapped by the errors of Decode and DecodeKey.
var ErrDecode = errors.New("codec: bytes were not written by this codec")

// HasText reports whether values of the codec may have text. A codec whose
// values never do says so with a method HasText() bool; then state keeps its
// values in place.
func HasText[T any](c Codec[T]) bool {
	t, ok := any(c).(interface{ HasText() bool })
	return !ok || t.HasText()
}

// Must returns the codec or key of a constructor and panics on its error, which
// depends on the type alone. It is for package variables.
func Must[C any](c C, err error) C {
	if err != nil {
		panic(err)
	}
	return c
}
