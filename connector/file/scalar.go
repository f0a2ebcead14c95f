package file

import (
	"encoding/base64"
	"fmt"
	"math"
	"strconv"

	"cutwater/stream/row"
)

// column is a field of the schema, ready to decode.
type column struct {
	name string
	kind row.Kind
	time *timeLayout // of a timestamp
	// field is the index in the schema, or -1 for a column that is skipped.
	field int
}

func newColumn(s *row.Schema, field int) column {
	f := s.Fields[field]
	c := column{name: f.Name, kind: f.Kind, field: field}
	if f.Kind == row.Timestamp {
		c.time = newTimeLayout(f.Layout)
	}
	return c
}

// nullable is the number of leading fields that a row can mark as null.
const nullable = 64

// scalar decodes the text of a number, bool or timestamp.
func (c *column) scalar(b []byte) (uint64, bool) {
	switch c.kind {
	case row.Int:
		v, ok := parseInt(b)
		return uint64(v), ok
	case row.Float:
		v, err := strconv.ParseFloat(string(b), 64)
		return math.Float64bits(v), err == nil
	case row.Bool:
		return parseBool(b)
	case row.Timestamp:
		v, ok := c.time.parse(b)
		return uint64(v), ok
	}
	return 0, false
}

// isText reports whether a value of the kind lies in a row's text.
func isText(k row.Kind) bool { return k == row.String || k == row.Bytes || k == row.List }

// textCell is the cell of a text value.
func textCell(offset, length int) uint64 { return uint64(offset)<<32 | uint64(length) }

// parseInt parses a decimal 64-bit integer with an optional sign.
func parseInt(b []byte) (int64, bool) {
	digits := b
	negative := false
	if len(b) > 0 && (b[0] == '-' || b[0] == '+') {
		negative = b[0] == '-'
		digits = b[1:]
	}
	if len(digits) == 0 {
		return 0, false
	}
	if len(digits) > 18 { // may overflow
		v, err := strconv.ParseInt(string(b), 10, 64)
		return v, err == nil
	}
	var v int64
	for _, d := range digits {
		d -= '0'
		if d > 9 {
			return 0, false
		}
		v = v*10 + int64(d)
	}
	if negative {
		v = -v
	}
	return v, true
}

// parseBool parses what strconv.ParseBool does.
func parseBool(b []byte) (uint64, bool) {
	v, err := strconv.ParseBool(string(b))
	if v {
		return 1, err == nil
	}
	return 0, err == nil
}

// decodeBase64 appends the bytes that src encodes to dst.
func decodeBase64(dst, src []byte) ([]byte, bool) {
	out, err := base64.StdEncoding.AppendDecode(dst, src)
	return out, err == nil
}

// mismatch says why a value does not fit its column.
func (c *column) mismatch(value []byte) string {
	if c.kind == row.Timestamp {
		if _, ok := c.time.read(value); ok {
			return fmt.Sprintf("field %q: %s is not in the years 1 to 9999 (UTC), which timestamps are in", c.name, quote(value))
		}
	}
	return fmt.Sprintf("field %q: %s is not %s", c.name, quote(value), c.wanted())
}

func (c *column) wanted() string {
	switch c.kind {
	case row.Int:
		return "an int (64 bits)"
	case row.Float:
		return "a float"
	case row.String:
		return "a string"
	case row.Bool:
		return "a bool (true or false)"
	case row.Timestamp:
		if c.time.rfc3339 {
			return "a timestamp in RFC 3339, such as 2001-01-31T09:00:00Z"
		}
		return "a timestamp as " + strconv.Quote(c.time.layout)
	case row.Bytes:
		return "base64"
	case row.List:
		return "a JSON list of scalars"
	}
	return "of a known kind"
}

// notNullable says that a null stands where a row cannot have one.
func (c *column) notNullable() string {
	return fmt.Sprintf("field %q is empty, and only the first %d fields of a schema may be: move it forward", c.name, nullable)
}

// quote shows a value in a message.
func quote(b []byte) string {
	const most = 60
	if len(b) > most {
		return strconv.Quote(string(b[:most])) + "..."
	}
	return strconv.Quote(string(b))
}
