package topology

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"cutwater/codec"
	"cutwater/protocol/keygroup"
	"cutwater/stream/row"
	"cutwater/topology/expression"
)

// keyCodec gives the key fields of rows their canonical bytes. Each field is a
// tag, which is its kind or 0 for null, and then 8 bytes (those of
// keygroup.AppendInt or AppendFloat, zero for null), or the length of a text as
// a uvarint and the text. A decoded key is a row of the key fields alone.
type keyCodec struct {
	fields []row.Field
	from   []int // their indexes in the input
	width  int
}

var _ codec.Key[row.Row] = (*keyCodec)(nil)

func newKeyCodec(schema *row.Schema, keys []int) *keyCodec {
	c := &keyCodec{from: keys}
	for _, i := range keys {
		f := schema.Fields[i]
		c.fields = append(c.fields, f)
		c.width += 1 + 8
	}
	if slices.ContainsFunc(c.fields, func(f row.Field) bool { return expression.IsText(f.Kind) }) {
		c.width = 0 // it varies
	}
	return c
}

// Width is the length of every key, or 0 if one of the fields is a text.
func (c *keyCodec) Width() int { return c.width }

// Schema names the fields and their kinds.
func (c *keyCodec) Schema() string {
	parts := make([]string, len(c.fields))
	for i, f := range c.fields {
		parts[i] = f.Name + " " + expression.KindName(f.Kind)
	}
	return "key{" + strings.Join(parts, "; ") + "}"
}

// AppendKey appends the bytes of a decoded key.
func (c *keyCodec) AppendKey(dst []byte, key row.Row) []byte {
	for i := range c.fields {
		dst = c.append(dst, &key, i, i)
	}
	return dst
}

// appendFrom appends the bytes of an input row's key.
func (c *keyCodec) appendFrom(dst []byte, v row.Row) []byte {
	for i, from := range c.from {
		dst = c.append(dst, &v, i, from)
	}
	return dst
}

func (c *keyCodec) append(dst []byte, v *row.Row, field, cell int) []byte {
	kind := c.fields[field].Kind
	null := v.Nulls&(1<<cell) != 0
	tag := byte(kind)
	bits := v.Cells[cell]
	if null {
		tag, bits = 0, 0
	}
	dst = append(dst, tag)
	switch {
	case expression.IsText(kind):
		dst = binary.AppendUvarint(dst, bits&0xffffffff)
		return append(dst, v.Text[bits>>32:bits>>32+bits&0xffffffff]...)
	case kind == row.Float && !null:
		return keygroup.AppendFloat(dst, math.Float64frombits(bits))
	}
	return keygroup.AppendInt(dst, int64(bits))
}

// DecodeKey sets a row of the key fields. It reuses the cells of *k, and its
// text if that is the same as before.
func (c *keyCodec) DecodeKey(key []byte, k *row.Row) error {
	if cap(k.Cells) < len(c.fields) {
		k.Cells = make([]uint64, len(c.fields))
	}
	k.Cells, k.Nulls = k.Cells[:len(c.fields)], 0
	if k.Text != string(key) {
		k.Text = string(key)
	}
	at := 0
	for i, f := range c.fields {
		if at >= len(key) || key[at] != 0 && key[at] != byte(f.Kind) {
			return c.corrupt(f)
		}
		if key[at] == 0 {
			k.Nulls |= 1 << i
		}
		at++
		if expression.IsText(f.Kind) {
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

func (c *keyCodec) corrupt(f row.Field) error {
	return fmt.Errorf("%w: a key of %s has no %s where %q belongs", codec.ErrDecode, c.Schema(), expression.KindName(f.Kind), f.Name)
}
