package file

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"cutwater/stream/row"
)

// rowCodec encodes rows of a schema: the bits of the nulls, then the cells; a
// text cell is rebased onto the batch's text.
type rowCodec struct{ schema *row.Schema }

func (c rowCodec) Width() int { return 8 + 8*len(c.schema.Fields) }

func (c rowCodec) Encode(fixed, text []byte, v row.Row) []byte {
	binary.LittleEndian.PutUint64(fixed, v.Nulls)
	for i, f := range c.schema.Fields {
		cell := v.Cells[i]
		if isText(f.Kind) {
			from, n := int(cell>>32), int(uint32(cell))
			cell = textCell(len(text), n)
			text = append(text, v.Text[from:from+n]...)
		}
		binary.LittleEndian.PutUint64(fixed[8+8*i:], cell)
	}
	return text
}

func (c rowCodec) Decode(fixed []byte, text string, v *row.Row) error {
	if len(fixed) != c.Width() {
		return errors.New("row: the fixed part has another width than the schema")
	}
	v.Nulls, v.Text = binary.LittleEndian.Uint64(fixed), text
	if cap(v.Cells) < len(c.schema.Fields) {
		v.Cells = make([]uint64, len(c.schema.Fields))
	}
	v.Cells = v.Cells[:len(c.schema.Fields)]
	for i, f := range c.schema.Fields {
		cell := binary.LittleEndian.Uint64(fixed[8+8*i:])
		if isText(f.Kind) && cell>>32+uint64(uint32(cell)) > uint64(len(text)) {
			return errors.New("row: a text lies outside of its batch")
		}
		v.Cells[i] = cell
	}
	return nil
}

func (c rowCodec) Schema() string {
	var b strings.Builder
	b.WriteString("row{")
	for _, f := range c.schema.Fields {
		fmt.Fprintf(&b, "%q %d; ", f.Name, f.Kind)
	}
	return b.String() + "}"
}
