package codec

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Int64 encodes an int64 in 8 bytes.
func Int64() Codec[int64] { return int64Codec{} }

// Uint64 encodes a uint64 in 8 bytes.
func Uint64() Codec[uint64] { return uint64Codec{} }

// Float64 encodes a float64 in 8 bytes, bit for bit.
func Float64() Codec[float64] { return float64Codec{} }

// Bool encodes a bool in one byte.
func Bool() Codec[bool] { return boolCodec{} }

// String encodes a string as text.
func String() Codec[string] { return stringCodec{} }

// Bytes encodes a byte slice as text; decoding copies it.
func Bytes() Codec[[]byte] { return bytesCodec{} }

type (
	int64Codec   struct{}
	uint64Codec  struct{}
	float64Codec struct{}
	boolCodec    struct{}
	stringCodec  struct{}
	bytesCodec   struct{}
)

func (int64Codec) Width() int     { return 8 }
func (int64Codec) HasText() bool  { return false }
func (int64Codec) Schema() string { return "int64" }

func (int64Codec) Encode(fixed, text []byte, v int64) []byte {
	binary.LittleEndian.PutUint64(fixed, uint64(v))
	return text
}

func (int64Codec) Decode(fixed []byte, _ string, v *int64) error {
	*v = int64(binary.LittleEndian.Uint64(fixed))
	return nil
}

func (uint64Codec) Width() int     { return 8 }
func (uint64Codec) HasText() bool  { return false }
func (uint64Codec) Schema() string { return "uint64" }

func (uint64Codec) Encode(fixed, text []byte, v uint64) []byte {
	binary.LittleEndian.PutUint64(fixed, v)
	return text
}

func (uint64Codec) Decode(fixed []byte, _ string, v *uint64) error {
	*v = binary.LittleEndian.Uint64(fixed)
	return nil
}

func (float64Codec) Width() int     { return 8 }
func (float64Codec) HasText() bool  { return false }
func (float64Codec) Schema() string { return "float64" }

func (float64Codec) Encode(fixed, text []byte, v float64) []byte {
	binary.LittleEndian.PutUint64(fixed, math.Float64bits(v))
	return text
}

func (float64Codec) Decode(fixed []byte, _ string, v *float64) error {
	*v = math.Float64frombits(binary.LittleEndian.Uint64(fixed))
	return nil
}

func (boolCodec) Width() int     { return 1 }
func (boolCodec) HasText() bool  { return false }
func (boolCodec) Schema() string { return "bool" }

func (boolCodec) Encode(fixed, text []byte, v bool) []byte {
	fixed[0] = 0
	if v {
		fixed[0] = 1
	}
	return text
}

func (boolCodec) Decode(fixed []byte, _ string, v *bool) error {
	if fixed[0] > 1 {
		return fmt.Errorf("%w: a bool of %d", ErrDecode, fixed[0])
	}
	*v = fixed[0] == 1
	return nil
}

func (stringCodec) Width() int     { return textWidth }
func (stringCodec) Schema() string { return "string" }

func (stringCodec) Encode(fixed, text []byte, v string) []byte { return putText(fixed, text, v) }

func (stringCodec) Decode(fixed []byte, text string, v *string) (err error) {
	*v, err = getText(fixed, text)
	return err
}

func (bytesCodec) Width() int     { return textWidth }
func (bytesCodec) Schema() string { return "bytes" }

func (bytesCodec) Encode(fixed, text []byte, v []byte) []byte { return putBytes(fixed, text, v) }

func (bytesCodec) Decode(fixed []byte, text string, v *[]byte) (err error) {
	*v, err = getBytes(fixed, text)
	return err
}
