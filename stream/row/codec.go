package row

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"cutwater/codec"
)

// Codec encodes rows of a schema: the bits of the nulls, then a cell per field.
// The fields of a text kind follow one another in the text region.
func Codec(s *Schema) codec.Codec[Row] {
	c := &rowCodec{text: make([]bool, len(s.Fields))}
	var b strings.Builder
	b.WriteString("row{")
	for i, f := range s.Fields {
		c.text[i] = f.Kind == String || f.Kind == Bytes || f.Kind == List
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%q %s", f.Name, kindNames[f.Kind])
	}
	b.WriteByte('}')
	c.schema = b.String()
	return c
}

// kindNames are the kinds as topologies write them; they are part of checkpoints.
var kindNames = map[Kind]string{Null: "null", Int: "int", Float: "float", String: "string", Bool: "bool", Timestamp: "timestamp", Bytes: "bytes", List: "list"}

type rowCodec struct {
	// text tells which fields have their value in the text region.
	text   []bool
	schema string
}

const (
	nullsWidth = 8
	cellWidth  = 8
)

// Width implements codec.Codec.
func (c *rowCodec) Width() int { return nullsWidth + cellWidth*len(c.text) }

// Encode implements codec.Codec.
func (c *rowCodec) Encode(fixed, text []byte, v Row) []byte {
	binary.LittleEndian.PutUint64(fixed, v.Nulls)
	at := nullsWidth
	for i, isText := range c.text {
		cell := v.Cells[i]
		if isText {
			from, length := cell>>32, cell&(1<<32-1)
			cell = uint64(len(text))<<32 | length
			text = append(text, v.Text[from:from+length]...)
		}
		binary.LittleEndian.PutUint64(fixed[at:], cell)
		at += cellWidth
	}
	return text
}

// Decode implements codec.Codec. It reuses the memory of v.Cells.
func (c *rowCodec) Decode(fixed []byte, text string, v *Row) error {
	if len(fixed) != c.Width() {
		return fmt.Errorf("%w: %d bytes where a row of %d fields has %d", codec.ErrDecode, len(fixed), len(c.text), c.Width())
	}
	if cap(v.Cells) < len(c.text) {
		v.Cells = make([]uint64, len(c.text))
	}
	v.Cells = v.Cells[:len(c.text)]
	v.Nulls, v.Text = binary.LittleEndian.Uint64(fixed), text
	at := nullsWidth
	for i, isText := range c.text {
		cell := binary.LittleEndian.Uint64(fixed[at:])
		if isText && cell>>32+cell&(1<<32-1) > uint64(len(text)) {
			return fmt.Errorf("%w: the text of field %d lies outside of its batch", codec.ErrDecode, i)
		}
		v.Cells[i] = cell
		at += cellWidth
	}
	return nil
}

// HasText reports whether a field has a text kind.
func (c *rowCodec) HasText() bool { return slices.Contains(c.text, true) }

// Schema implements codec.Codec.
func (c *rowCodec) Schema() string { return c.schema }
