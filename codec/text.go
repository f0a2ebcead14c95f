package codec

import (
	"encoding/binary"
	"fmt"
	"unsafe"
)

// textWidth is the fixed part of a text: offset and length, 4 bytes each.
const textWidth = 8

// nilText is the offset of a nil byte slice.
const nilText = 1<<32 - 1

// putText appends s to text and stores where it is.
func putText(fixed, text []byte, s string) []byte {
	setText(fixed, len(text), len(s))
	return append(text, s...)
}

// setText stores where a text is.
func setText(fixed []byte, from, n int) {
	binary.LittleEndian.PutUint64(fixed, uint64(from)|uint64(n)<<32)
}

// getText returns the text that putText stored.
func getText(fixed []byte, text string) (string, error) {
	where := binary.LittleEndian.Uint64(fixed)
	from, n := where&(1<<32-1), where>>32
	if from+n > uint64(len(text)) {
		return "", fmt.Errorf("%w: text at %d+%d of %d bytes", ErrDecode, from, n, len(text))
	}
	return text[from : from+n], nil
}

// putBytes is putText for a byte slice that may be nil.
func putBytes(fixed, text, b []byte) []byte {
	if b == nil {
		binary.LittleEndian.PutUint64(fixed, nilText)
		return text
	}
	return putText(fixed, text, unsafe.String(unsafe.SliceData(b), len(b)))
}

// getBytes returns a copy of what putBytes stored.
func getBytes(fixed []byte, text string) ([]byte, error) {
	if binary.LittleEndian.Uint64(fixed) == nilText {
		return nil, nil
	}
	s, err := getText(fixed, text)
	if err != nil {
		return nil, err
	}
	return append(make([]byte, 0, len(s)), s...), nil
}
