package file

import (
	"bytes"
	"fmt"
	"strings"

	"cutwater/stream/row"
)

// csvDecoder turns CSV records into rows.
type csvDecoder struct {
	columns   []column // in the order of the file
	delimiter byte
	// extra gathers the fields that contain escaped quotes.
	extra []byte
}

// newCSVDecoder maps the columns of a file, by its header, to the schema; header
// is nil for a file without one.
func newCSVDecoder(schema *row.Schema, header []string, delimiter byte) (*csvDecoder, error) {
	d := &csvDecoder{delimiter: delimiter}
	if header == nil {
		for i := range schema.Fields {
			d.columns = append(d.columns, newColumn(schema, i))
		}
		return d, nil
	}
	at := make(map[string]int, len(header))
	for i, name := range header {
		if _, twice := at[name]; twice {
			at[name] = -1
		} else {
			at[name] = i
		}
		d.columns = append(d.columns, column{name: name, field: -1})
	}
	for i, f := range schema.Fields {
		c, ok := at[f.Name]
		switch {
		case !ok:
			return nil, fmt.Errorf("no column %q in the header (columns: %s); correct the schema, or set header: false if the first line is data", f.Name, list(header))
		case c < 0:
			return nil, fmt.Errorf("column %q stands twice in the header; give each column that the schema uses its own name", f.Name)
		}
		d.columns[c] = newColumn(schema, i)
	}
	return d, nil
}

// decode sets v, whose Cells has the width of the schema, from a record, and
// returns what is wrong with it, or "".
func (d *csvDecoder) decode(f *framer, r record, v *row.Row) string {
	b := f.buf[r.start:r.end]
	v.Nulls = 0
	d.extra = d.extra[:0]
	hasText := false
	next := 0 // where the next field starts
	for i := range d.columns {
		c := &d.columns[i]
		if next > len(b) {
			return fmt.Sprintf("%d fields where %d are expected", i, len(d.columns))
		}
		at := next // where the value is in the row's text
		var value []byte
		if f.hasQuotes && at < len(b) && b[at] == '"' {
			end, doubled, problem := closingQuote(b, at, d.delimiter)
			if problem != "" {
				return fmt.Sprintf("field %q: %s", c.name, problem)
			}
			at++
			value, next = b[at:end], end+2
			if doubled {
				from := len(d.extra)
				d.extra = appendUndoubled(d.extra, value)
				at, value = len(b)+from, d.extra[from:]
			}
		} else {
			end := indexByte(b, at, d.delimiter)
			value, next = b[at:end], end+1
			if f.hasQuotes && bytes.IndexByte(value, '"') >= 0 {
				return fmt.Sprintf("field %q: a quote inside the field %s; put the whole field in quotes and double those inside", c.name, quote(value))
			}
		}
		if c.field < 0 {
			continue
		}
		if isText(c.kind) {
			hasText = true
			if problem := d.text(c, v, at, value, len(b)); problem != "" {
				return problem
			}
			continue
		}
		if len(value) == 0 {
			if problem := setNull(c, v); problem != "" {
				return problem
			}
			continue
		}
		cell, ok := c.scalar(value)
		if !ok {
			return c.mismatch(value)
		}
		v.Cells[c.field] = cell
	}
	if next <= len(b) {
		return fmt.Sprintf("more than the expected %d fields", len(d.columns))
	}
	switch {
	case len(d.extra) > 0:
		v.Text = f.join(r, d.extra)
	case hasText:
		v.Text = f.textOf(r)
	default:
		v.Text = ""
	}
	return ""
}

// text sets the cell of a text column: the value is at index at of the row's
// text, which is the record, of length recordLen, and d.extra.
func (d *csvDecoder) text(c *column, v *row.Row, at int, value []byte, recordLen int) string {
	switch {
	case c.kind == row.String:
	case len(value) == 0:
		return setNull(c, v)
	case c.kind == row.Bytes:
		from := len(d.extra)
		var ok bool
		if d.extra, ok = decodeBase64(d.extra, value); !ok {
			return c.mismatch(value)
		}
		at, value = recordLen+from, d.extra[from:]
	case c.kind == row.List:
		if !isScalarList(value) {
			return c.mismatch(value)
		}
	}
	v.Cells[c.field] = textCell(at, len(value))
	return ""
}

// setNull marks a field as null.
func setNull(c *column, v *row.Row) string {
	if c.field >= nullable {
		return c.notNullable()
	}
	v.Nulls |= 1 << c.field
	v.Cells[c.field] = 0
	return ""
}

// closingQuote finds the end of the quoted field that starts at index at, and
// whether it contains doubled quotes.
func closingQuote(b []byte, at int, delimiter byte) (end int, doubled bool, problem string) {
	for i := at + 1; ; {
		end = indexByte(b, i, '"')
		switch {
		case end == len(b):
			return 0, false, "its quote is never closed"
		case end+1 == len(b) || b[end+1] == delimiter:
			return end, doubled, ""
		case b[end+1] != '"':
			return 0, false, "text after its closing quote"
		}
		doubled = true
		i = end + 2
	}
}

// appendUndoubled appends a quoted field's content with single quotes.
func appendUndoubled(dst, content []byte) []byte {
	for {
		q := bytes.IndexByte(content, '"')
		if q < 0 {
			return append(dst, content...)
		}
		dst = append(dst, content[:q+1]...)
		content = content[q+2:]
	}
}

// headerNames splits the record that names the columns.
func headerNames(b []byte, delimiter byte) ([]string, error) {
	var names []string
	for next := 0; next <= len(b); {
		if next < len(b) && b[next] == '"' {
			end, _, problem := closingQuote(b, next, delimiter)
			if problem != "" {
				return nil, fmt.Errorf("column %d of the header: %s", len(names)+1, problem)
			}
			names = append(names, string(appendUndoubled(nil, b[next+1:end])))
			next = end + 2
			continue
		}
		end := indexByte(b, next, delimiter)
		names = append(names, string(b[next:end]))
		next = end + 1
	}
	return names, nil
}

// list shows the names of columns in a message.
func list(names []string) string {
	const most = 20
	shown := make([]string, 0, most+1)
	for _, name := range names[:min(len(names), most)] {
		if q := quote([]byte(name)); q != `"`+name+`"` {
			name = q // what a terminal would obey or a reader not see
		}
		shown = append(shown, name)
	}
	if len(names) > most {
		shown = append(shown, "...")
	}
	return strings.Join(shown, ", ")
}
