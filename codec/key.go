package codec

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"time"
	"unsafe"

	"cutwater/protocol/keygroup"
)

// Key gives a key its canonical bytes. Equal keys have equal bytes on every
// machine and in every release: they decide the key group, the place in a table
// and the order in a segment.
//
// Integers of every size are 8 bytes, little endian, two's complement; floats
// are 8 bytes, with -0.0 written as 0.0 and every NaN as the same NaN; a bool is
// one byte; a string that is the whole key is its bytes, and one inside a struct
// is preceded by its length as a uvarint; a struct is its fields one after
// another.
type Key[K any] interface {
	// AppendKey appends the canonical bytes of k.
	AppendKey(dst []byte, k K) []byte
	// DecodeKey sets *k from canonical bytes, which it must not keep.
	DecodeKey(key []byte, k *K) error
	// Width is the length of every key, or 0 if it varies.
	Width() int
	// Schema describes the encoding.
	Schema() string
}

// KeyOf returns the key codec of a type: an integer, a float, a bool, a string,
// or a struct or array of these. It fails, naming the field, for others.
func KeyOf[K any]() (Key[K], error) {
	var zero K
	t := reflect.TypeOf(&zero).Elem()
	k := &keyCodec[K]{schema: schemaOf(t), alone: t.Kind() == reflect.String}
	if err := k.add(t, 0, t.String()); err != nil {
		return nil, err
	}
	if !k.varies {
		k.width = len(k.AppendKey(nil, zero))
	}
	switch fast := any(k).(type) {
	case *keyCodec[int64]:
		return any(int64Key{fast}).(Key[K]), nil
	case *keyCodec[uint64]:
		return any(uint64Key{fast}).(Key[K]), nil
	case *keyCodec[string]:
		return any(stringKey{fast}).(Key[K]), nil
	}
	return k, nil
}

// The most frequent keys are appended without a look at their fields.
type (
	int64Key  struct{ *keyCodec[int64] }
	uint64Key struct{ *keyCodec[uint64] }
	stringKey struct{ *keyCodec[string] }
)

// AppendKey implements Key.
func (int64Key) AppendKey(dst []byte, k int64) []byte { return keygroup.AppendInt(dst, k) }

// AppendKey implements Key.
func (uint64Key) AppendKey(dst []byte, k uint64) []byte { return keygroup.AppendInt(dst, int64(k)) }

// AppendKey implements Key.
func (stringKey) AppendKey(dst []byte, k string) []byte { return append(dst, k...) }

type keyField struct {
	kind reflect.Kind
	from uintptr
}

type keyCodec[K any] struct {
	fields []keyField
	width  int
	varies bool
	alone  bool
	schema string
}

func (c *keyCodec[K]) add(t reflect.Type, from uintptr, path string) error {
	switch t.Kind() {
	case reflect.String:
		c.varies = true
	case reflect.Bool, reflect.Float32, reflect.Float64,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
	case reflect.Array:
		for i := range t.Len() {
			if err := c.add(t.Elem(), from+uintptr(i)*t.Elem().Size(), fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
		return nil
	case reflect.Struct:
		if t == reflect.TypeFor[time.Time]() {
			return fmt.Errorf("codec: %s is a time.Time, which cannot be a key; keep Unix milliseconds in an int64", path)
		}
		for i := range t.NumField() {
			if err := c.add(t.Field(i).Type, from+t.Field(i).Offset, path+"."+t.Field(i).Name); err != nil {
				return err
			}
		}
		return nil
	default:
		return fmt.Errorf("codec: %s is a %s, which cannot be a key; keys are integers, floats, bools, strings, and structs or arrays of these", path, t)
	}
	c.fields = append(c.fields, keyField{t.Kind(), from})
	return nil
}

// Width is the length of every key, or 0.
func (c *keyCodec[K]) Width() int { return c.width }

// Schema describes the key's type.
func (c *keyCodec[K]) Schema() string { return c.schema }

// AppendKey appends field after field.
func (c *keyCodec[K]) AppendKey(dst []byte, k K) []byte {
	p := unsafe.Pointer(&k)
	for _, f := range c.fields {
		at := unsafe.Add(p, f.from)
		switch f.kind {
		case reflect.Int64, reflect.Uint64:
			dst = binary.LittleEndian.AppendUint64(dst, *(*uint64)(at))
		case reflect.String:
			s := *(*string)(at)
			if !c.alone {
				dst = binary.AppendUvarint(dst, uint64(len(s)))
			}
			dst = append(dst, s...)
		case reflect.Bool, reflect.Uint8:
			if f.kind == reflect.Bool {
				dst = append(dst, *(*byte)(at))
				break
			}
			dst = keygroup.AppendInt(dst, int64(*(*uint8)(at)))
		case reflect.Float64:
			dst = keygroup.AppendFloat(dst, *(*float64)(at))
		case reflect.Float32:
			dst = keygroup.AppendFloat(dst, float64(*(*float32)(at)))
		case reflect.Int:
			dst = keygroup.AppendInt(dst, int64(*(*int)(at)))
		case reflect.Uint:
			dst = keygroup.AppendInt(dst, int64(*(*uint)(at)))
		case reflect.Int32:
			dst = keygroup.AppendInt(dst, int64(*(*int32)(at)))
		case reflect.Uint32:
			dst = keygroup.AppendInt(dst, int64(*(*uint32)(at)))
		case reflect.Int16:
			dst = keygroup.AppendInt(dst, int64(*(*int16)(at)))
		case reflect.Uint16:
			dst = keygroup.AppendInt(dst, int64(*(*uint16)(at)))
		case reflect.Int8:
			dst = keygroup.AppendInt(dst, int64(*(*int8)(at)))
		}
	}
	return dst
}

// DecodeKey reads field after field. The strings of k are copies.
func (c *keyCodec[K]) DecodeKey(key []byte, k *K) error {
	p := unsafe.Pointer(k)
	for _, f := range c.fields {
		at := unsafe.Add(p, f.from)
		switch f.kind {
		case reflect.String:
			n, used := uint64(len(key)), 0
			if !c.alone {
				if n, used = binary.Uvarint(key); used <= 0 || n > uint64(len(key)-used) {
					return fmt.Errorf("%w: a key of %s ends inside a string", ErrDecode, c.schema)
				}
			}
			*(*string)(at) = string(key[used : used+int(n)])
			key = key[used+int(n):]
			continue
		case reflect.Bool:
			if len(key) == 0 || key[0] > 1 {
				return fmt.Errorf("%w: a key of %s has no bool where one belongs", ErrDecode, c.schema)
			}
			*(*bool)(at) = key[0] == 1
			key = key[1:]
			continue
		}
		if len(key) < 8 {
			return fmt.Errorf("%w: a key of %s ends inside a number", ErrDecode, c.schema)
		}
		setNumber(f.kind, at, binary.LittleEndian.Uint64(key))
		key = key[8:]
	}
	if len(key) != 0 {
		return fmt.Errorf("%w: a key of %s has %d bytes too many", ErrDecode, c.schema, len(key))
	}
	return nil
}

func setNumber(kind reflect.Kind, at unsafe.Pointer, bits uint64) {
	switch kind {
	case reflect.Int64, reflect.Uint64, reflect.Float64:
		*(*uint64)(at) = bits
	case reflect.Float32:
		*(*float32)(at) = float32(math.Float64frombits(bits))
	case reflect.Int, reflect.Uint:
		*(*uint)(at) = uint(bits)
	case reflect.Int32, reflect.Uint32:
		*(*uint32)(at) = uint32(bits)
	case reflect.Int16, reflect.Uint16:
		*(*uint16)(at) = uint16(bits)
	case reflect.Int8, reflect.Uint8:
		*(*uint8)(at) = uint8(bits)
	}
}
