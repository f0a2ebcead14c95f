package codec

import "unsafe"

// InPlace reports whether the fixed part of the codec's values is their memory as
// it is: numbers, and structs and arrays of numbers without padding. Then At is
// the short way for Encode and Decode, which a loop over records may take.
func InPlace[T any](c Codec[T]) bool {
	switch c := any(c).(type) {
	case *structCodec[T]:
		return c.whole && len(c.bools) == 0
	case int64Codec, uint64Codec, float64Codec:
		return littleEndian
	}
	return false
}

// At is the value in a fixed part, to be read or written there. T must be the
// type of a codec that is InPlace, and fixed of its Width.
func At[T any](fixed []byte) *T { return (*T)(unsafe.Pointer(&fixed[0])) }
