package row

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"cutwater/codec"
	"cutwater/protocol/keygroup"
)

// KeyCodec gives some fields of a row their canonical bytes, as a key. Each
// field is its kind, one byte, or 0 for a null; then a number, bool or timestamp
// has 8 bytes, as package keygroup writes them (zero for a null), and a text its
// length as a uvarint and its bytes. A decoded key is a row of the key fields.
type KeyCodec struct {
	// Fields is the schema of a decoded key.
	Fields *Schema
	from   []int
	width  int
}

var _ codec.Key[Row] = (*KeyCodec)(nil)

// Key is the codec of keys made of these fields of a schema; it fails if one is
// not there.
func Key(s *Schema, fields ...string) (*KeyCodec, error) {
	if len(fields) == 0 {
		return nil, fmt.Errorf("row: a key needs a field")
	}
	at := make([]int, len(fields))
	for i, name := range fields {
		if at[i] = s.Index(name); at[i] < 0 {
			return nil, fmt.Errorf("row: there is no field %q to be a key; the fields are %s", name, names(s))
		}
	}
	return KeyAt(s, at), nil
}

// KeyAt is Key with the indexes of the fields, which the schema must have.
func KeyAt(s *Schema, fields []int) *KeyCodec {
	c := &KeyCodec{Fields: &Schema{}, from: fields, width: len(fields) * (1 + 8)}
	varies := false
	for _, i := range fields {
		c.Fields.Fields = append(c.Fields.Fields, s.Fields[i])
		varies = varies || s.Fields[i].Kind.IsText()
	}
	if varies {
		c.width = 0
	}
	return c
}

func names(s *Schema) string {
	var all []string
	for _, f := range s.Fields {
		all = append(all, f.Name)
	}
	return strings.Join(all, ", ")
}

// Width is the length of every key, or 0 if a field is text.
func (c *KeyCodec) Width() int { return c.width }

// Schema names the fields and their kinds.
func (c *KeyCodec) Schema() string {
	parts := make([]string, len(c.Fields.Fields))
	for i, f := range c.Fields.Fields {
		parts[i] = f.Name + " " + f.Kind.String()
	}
	return "key{" + strings.Join(parts, "; ") + "}"
}

// AppendKey appends the bytes of a decoded key.
func (c *KeyCodec) AppendKey(dst []byte, key Row) []byte {
	for i := range c.from {
		dst = c.append(dst, &key, i, i)
	}
	return dst
}

// AppendFrom appends the bytes of the key of a whole row.
func (c *KeyCodec) AppendFrom(dst []byte, v Row) []byte {
	for i, from := range c.from {
		dst = c.append(dst, &v, i, from)
	}
	return dst
}

func (c *KeyCodec) append(dst []byte, v *Row, field, cell int) []byte {
	kind, null := c.Fields.Fields[field].Kind, v.IsNull(cell)
	tag := byte(kind)
	if null {
		tag = byte(Null)
	}
	dst = append(dst, tag)
	switch {
	case kind.IsText() && null:
		return append(dst, 0)
	case kind.IsText():
		s := v.String(cell)
		return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
	case null:
		return keygroup.AppendInt(dst, 0)
	case kind == Float:
		return keygroup.AppendFloat(dst, math.Float64frombits(v.Cells[cell]))
	}
	return keygroup.AppendInt(dst, v.Int(cell))
}

// DecodeKey sets *k to a row of the key fields; it reuses the cells of *k.
func (c *KeyCodec) DecodeKey(key []byte, k *Row) error {
	if cap(k.Cells) < len(c.from) {
		k.Cells = make([]uint64, len(c.from))
	}
	k.Cells, k.Nulls = k.Cells[:len(c.from)], 0
	if k.Text != string(key) {
		k.Text = string(key)
	}
	at := 0
	for i, f := range c.Fields.Fields {
		if at >= len(key) || key[at] != byte(f.Kind) && key[at] != byte(Null) {
			return c.corrupt(f)
		}
		if key[at] == byte(Null) {
			k.Nulls |= 1 << i
		}
		at++
		if f.Kind.IsText() {
			n, used := binary.Uvarint(key[at:])
			if used <= 0 || n > uint64(len(key)-at-used) {
				return c.corrupt(f)
			}
			at += used
			k.Cells[i] = uint64(at)<<32 | n
			at += int(n)
			continue
		}
		if len(key)-at < 8 {
			return c.corrupt(f)
		}
		k.Cells[i] = binary.LittleEndian.Uint64(key[at:])
		at += 8
	}
	if at != len(key) {
		return fmt.Errorf("%w: a key of %s has %d bytes too many", codec.ErrDecode, c.Schema(), len(key)-at)
	}
	return nil
}

func (c *KeyCodec) corrupt(f Field) error {
	return fmt.Errorf("%w: a key of %s has no %s where %q belongs", codec.ErrDecode, c.Schema(), f.Kind, f.Name)
}
