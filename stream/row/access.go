package row

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unsafe"
)

// Index is the position of the field of that name, or -1.
func (s *Schema) Index(name string) int {
	for i := range s.Fields {
		if s.Fields[i].Name == name {
			return i
		}
	}
	return -1
}

// Field is the position of the field of that name, which must be of this kind.
// The error says what the schema has instead.
func (s *Schema) Field(name string, kind Kind) (int, error) {
	i := s.Index(name)
	switch {
	case i < 0:
		return 0, fmt.Errorf("there is no field %q; the fields are %s", name, names(s))
	case s.Fields[i].Kind != kind:
		return 0, fmt.Errorf("the field %q is %s and must be %s", name, s.Fields[i].Kind, kind)
	}
	return i, nil
}

// IsText reports whether values of the kind are in Row.Text.
func (k Kind) IsText() bool { return k == String || k == Bytes || k == List }

// String is the kind as topologies write it.
func (k Kind) String() string { return kindNames[k] }

// maxNullable is how many fields can be null.
const maxNullable = 64

// IsNull reports whether field i is null.
func (r *Row) IsNull(i int) bool { return i < maxNullable && r.Nulls&(1<<i) != 0 }

// Int is the value of an Int field.
func (r *Row) Int(i int) int64 { return int64(r.Cells[i]) }

// Float is the value of a Float field.
func (r *Row) Float(i int) float64 { return math.Float64frombits(r.Cells[i]) }

// Bool is the value of a Bool field.
func (r *Row) Bool(i int) bool { return r.Cells[i] != 0 }

// Ms is the value of a Timestamp field, in Unix ms.
func (r *Row) Ms(i int) int64 { return int64(r.Cells[i]) }

// Time is the value of a Timestamp field, in UTC.
func (r *Row) Time(i int) time.Time { return time.UnixMilli(r.Ms(i)).UTC() }

// String is the value of a String, Bytes or List field; it may be kept.
func (r *Row) String(i int) string {
	from, n := r.Cells[i]>>32, r.Cells[i]&(1<<32-1)
	return r.Text[from : from+n]
}

// Format is field i as text for people: timestamps in RFC 3339, a null as
// "null", text in quotes.
func Format(s *Schema, r *Row, i int) string {
	if r.IsNull(i) {
		return "null"
	}
	switch s.Fields[i].Kind {
	case Int:
		return strconv.FormatInt(r.Int(i), 10)
	case Float:
		return strconv.FormatFloat(r.Float(i), 'g', -1, 64)
	case Bool:
		return strconv.FormatBool(r.Bool(i))
	case Timestamp:
		return r.Time(i).Format(time.RFC3339Nano)
	case List:
		return r.String(i)
	case Null:
		return "null"
	}
	return strconv.Quote(r.String(i))
}

// Describe is a whole row for people: {origin: "DTW", delay: 12}.
func Describe(s *Schema, r *Row) string {
	var b strings.Builder
	for i := range s.Fields {
		b.WriteString([]string{", ", "{"}[btoi(i == 0)])
		b.WriteString(s.Fields[i].Name + ": " + Format(s, r, i))
	}
	if len(s.Fields) == 0 {
		b.WriteByte('{')
	}
	return b.String() + "}"
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Builder makes rows one after another. Their cells are reused, so a row is
// valid until the next Reset; their text is fresh. Fields that are not set are
// null.
type Builder struct {
	cells []uint64
	nulls uint64
	text  []byte
}

// NewBuilder makes rows of that many fields.
func NewBuilder(fields int) *Builder {
	b := &Builder{cells: make([]uint64, fields)}
	b.Reset()
	return b
}

// Reset starts the next row.
func (b *Builder) Reset() {
	clear(b.cells)
	b.nulls, b.text = 1<<min(len(b.cells), maxNullable)-1, nil
}

// Int sets an Int field.
func (b *Builder) Int(i int, v int64) { b.set(i, uint64(v)) }

// Float sets a Float field.
func (b *Builder) Float(i int, v float64) { b.set(i, math.Float64bits(v)) }

// Bool sets a Bool field.
func (b *Builder) Bool(i int, v bool) { b.set(i, uint64(btoi(v))) }

// Ms sets a Timestamp field, in Unix ms.
func (b *Builder) Ms(i int, v int64) { b.set(i, uint64(v)) }

// String sets a String, Bytes or List field.
func (b *Builder) String(i int, v string) {
	b.set(i, uint64(len(b.text))<<32|uint64(len(v)))
	b.text = append(b.text, v...)
}

// Null sets a field to null.
func (b *Builder) Null(i int) {
	b.cells[i] = 0
	if i < maxNullable {
		b.nulls |= 1 << i
	}
}

func (b *Builder) set(i int, cell uint64) {
	b.cells[i] = cell
	if i < maxNullable {
		b.nulls &^= 1 << i
	}
}

// Row is the row that was built since Reset.
func (b *Builder) Row() Row {
	// Reset gives the next row a text of its own, so this one never changes.
	return Row{Cells: b.cells, Nulls: b.nulls, Text: unsafe.String(unsafe.SliceData(b.text), len(b.text))}
}
