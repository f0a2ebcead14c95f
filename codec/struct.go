package codec

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"strings"
	"time"
	"unsafe"
)

// Struct encodes a type of fixed size with strings in it: numbers, bools,
// strings, byte slices, and structs and arrays of these. The type is examined
// once, here; after that values are copied by offset, and in one piece where T
// has neither text nor padding. It fails, naming the field, for any other type.
func Struct[T any]() (Codec[T], error) {
	var zero T
	t := reflect.TypeOf(&zero).Elem()
	c := &structCodec[T]{}
	if err := c.add(t, 0, t.String()); err != nil {
		return nil, err
	}
	c.schema = schemaOf(t)
	c.whole = littleEndian && !c.text && c.width > 0 && c.width == int(t.Size())
	for i := range c.fields {
		c.whole = c.whole && c.fields[i].from == c.fields[i].to
	}
	return c, nil
}

var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// field is one scalar: where it is in the value and in the fixed part.
type field struct {
	kind     fieldKind
	from, to uintptr
}

type fieldKind uint8

const (
	byteField fieldKind = iota
	boolField
	twoField
	fourField
	eightField
	stringField
	bytesField
)

type structCodec[T any] struct {
	fields []field
	bools  []uintptr
	width  int
	text   bool
	// whole: the value's memory is the fixed part.
	whole  bool
	schema string
}

// add appends the scalars of a type that lies at offset from of the value.
func (c *structCodec[T]) add(t reflect.Type, from uintptr, path string) error {
	scalar := func(k fieldKind, width int) {
		c.fields = append(c.fields, field{k, from, uintptr(c.width)})
		c.width += width
	}
	switch t.Kind() {
	case reflect.Bool:
		c.bools = append(c.bools, uintptr(c.width))
		scalar(boolField, 1)
	case reflect.Int8, reflect.Uint8:
		scalar(byteField, 1)
	case reflect.Int16, reflect.Uint16:
		scalar(twoField, 2)
	case reflect.Int32, reflect.Uint32, reflect.Float32:
		scalar(fourField, 4)
	case reflect.Int64, reflect.Uint64, reflect.Float64, reflect.Int, reflect.Uint:
		if t.Size() != 8 {
			return fmt.Errorf("codec: %s is an %s, which has 4 bytes on this machine and 8 on others; use int64", path, t.Kind())
		}
		scalar(eightField, 8)
	case reflect.String:
		c.text = true
		scalar(stringField, textWidth)
	case reflect.Slice:
		if t.Elem().Kind() != reflect.Uint8 {
			return unsupported(path, t)
		}
		c.text = true
		scalar(bytesField, textWidth)
	case reflect.Array:
		for i := range t.Len() {
			if err := c.add(t.Elem(), from+uintptr(i)*t.Elem().Size(), fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
	case reflect.Struct:
		if t == reflect.TypeFor[time.Time]() {
			return unsupported(path, t)
		}
		for i := range t.NumField() {
			f := t.Field(i)
			if f.Name == "_" {
				continue
			}
			if err := c.add(f.Type, from+f.Offset, path+"."+f.Name); err != nil {
				return err
			}
		}
	default:
		return unsupported(path, t)
	}
	return nil
}

func unsupported(path string, t reflect.Type) error {
	if t == reflect.TypeFor[time.Time]() {
		return fmt.Errorf("codec: %s is a time.Time, which has no fixed encoding: keep Unix milliseconds in an int64, as event time is, or use codec.JSON or write a Codec", path)
	}
	return fmt.Errorf("codec: %s is a %s; fixed encoding knows numbers, bools, strings, byte slices, structs and arrays: use codec.JSON or write a Codec", path, t)
}

// schemaOf names the encoding; names of types do not matter, those of fields do.
func schemaOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Struct:
		var parts []string
		for i := range t.NumField() {
			if f := t.Field(i); f.Name != "_" {
				parts = append(parts, f.Name+" "+schemaOf(f.Type))
			}
		}
		return "struct{" + strings.Join(parts, "; ") + "}"
	case reflect.Array:
		return fmt.Sprintf("[%d]%s", t.Len(), schemaOf(t.Elem()))
	case reflect.Slice:
		return "bytes"
	case reflect.Int, reflect.Uint:
		return t.Kind().String() + "64"
	}
	return t.Kind().String()
}

// Width is the number of bytes of the fixed part.
func (c *structCodec[T]) Width() int { return c.width }

// HasText reports whether T has strings or byte slices.
func (c *structCodec[T]) HasText() bool { return c.text }

// Schema lists the fields.
func (c *structCodec[T]) Schema() string { return c.schema }

// Encode copies the fields.
func (c *structCodec[T]) Encode(fixed, text []byte, v T) []byte {
	if c.whole {
		// T has no pointers, so it may be stored at any address
		*(*T)(unsafe.Pointer(&fixed[:c.width][0])) = v
		return text
	}
	p := unsafe.Pointer(&v)
	for i := range c.fields {
		f := &c.fields[i]
		at, to := unsafe.Add(p, f.from), fixed[f.to:]
		switch f.kind {
		case byteField, boolField:
			to[0] = *(*byte)(at)
		case twoField:
			binary.LittleEndian.PutUint16(to, *(*uint16)(at))
		case fourField:
			binary.LittleEndian.PutUint32(to, *(*uint32)(at))
		case eightField:
			binary.LittleEndian.PutUint64(to, *(*uint64)(at))
		case stringField:
			text = putText(to, text, *(*string)(at))
		case bytesField:
			text = putBytes(to, text, *(*[]byte)(at))
		}
	}
	return text
}

// Decode copies the fields back.
func (c *structCodec[T]) Decode(fixed []byte, text string, v *T) error {
	for _, at := range c.bools {
		if fixed[at] > 1 {
			return fmt.Errorf("%w: a bool of %d", ErrDecode, fixed[at])
		}
	}
	if c.whole {
		*v = *(*T)(unsafe.Pointer(&fixed[:c.width][0]))
		return nil
	}
	p := unsafe.Pointer(v)
	for i := range c.fields {
		f := &c.fields[i]
		at, from := unsafe.Add(p, f.from), fixed[f.to:]
		var err error
		switch f.kind {
		case byteField, boolField:
			*(*byte)(at) = from[0]
		case twoField:
			*(*uint16)(at) = binary.LittleEndian.Uint16(from)
		case fourField:
			*(*uint32)(at) = binary.LittleEndian.Uint32(from)
		case eightField:
			*(*uint64)(at) = binary.LittleEndian.Uint64(from)
		case stringField:
			*(*string)(at), err = getText(from, text)
		case bytesField:
			*(*[]byte)(at), err = getBytes(from, text)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
