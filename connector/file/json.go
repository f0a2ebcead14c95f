package file

import (
	"fmt"

	"cutwater/stream/row"
)

// jsonDecoder turns JSON objects into rows.
type jsonDecoder struct {
	columns []column // in the order of the schema
	index   map[string]int
	// set tells which fields beyond the nullable ones the record has.
	set []bool
	// extra gathers strings that contain escapes, key is scratch for names.
	extra, key []byte
}

func newJSONDecoder(schema *row.Schema) *jsonDecoder {
	d := &jsonDecoder{index: map[string]int{}, set: make([]bool, max(0, len(schema.Fields)-nullable))}
	for i, f := range schema.Fields {
		d.columns = append(d.columns, newColumn(schema, i))
		d.index[f.Name] = i
	}
	return d
}

// decode sets v, whose Cells has the width of the schema, from an object, and
// returns what is wrong with it, or "".
func (d *jsonDecoder) decode(f *framer, r record, v *row.Row) string {
	b := f.buf[r.start:r.end]
	d.extra = d.extra[:0]
	v.Nulls = ^uint64(0)
	if n := len(d.columns); n < nullable {
		v.Nulls = 1<<n - 1
	}
	clear(v.Cells)
	clear(d.set)
	hasText, problem := d.object(b, v)
	if problem != "" {
		return problem
	}
	for i, set := range d.set {
		if !set {
			return d.columns[nullable+i].notNullable()
		}
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

// object parses a whole record.
func (d *jsonDecoder) object(b []byte, v *row.Row) (hasText bool, problem string) {
	i := space(b, 0)
	if i == len(b) || b[i] != '{' {
		return false, "not a JSON object"
	}
	i = space(b, i+1)
	guess := 0 // objects tend to have their fields in one order
	if i < len(b) && b[i] == '}' {
		return false, trailing(b, i+1)
	}
	for {
		key := scanString(b, i)
		if key.end == 0 {
			return false, broken(b, i, "a field name in double quotes")
		}
		name := b[i+1 : key.end-1]
		if key.escaped {
			d.key = appendUnescaped(d.key[:0], name)
			name = d.key
		}
		i = space(b, key.end)
		if i == len(b) || b[i] != ':' {
			return false, broken(b, i, "a colon")
		}
		i = space(b, i+1)
		value := scanValue(b, i, 0)
		if value.end == 0 {
			return false, broken(b, i, "a JSON value")
		}
		field := d.lookup(name, guess)
		if field >= 0 {
			guess = field + 1
			c := &d.columns[field]
			if problem := d.value(c, v, b, i, value); problem != "" {
				return false, problem
			}
			hasText = hasText || isText(c.kind)
		}
		i = space(b, value.end)
		switch {
		case i < len(b) && b[i] == ',':
			i = space(b, i+1)
		case i < len(b) && b[i] == '}':
			return hasText, trailing(b, i+1)
		default:
			return false, broken(b, i, "a comma or a closing brace")
		}
	}
}

// lookup is the field of that name, or -1.
func (d *jsonDecoder) lookup(name []byte, guess int) int {
	if guess < len(d.columns) && string(name) == d.columns[guess].name {
		return guess
	}
	if field, ok := d.index[string(name)]; ok {
		return field
	}
	return -1
}

// value sets a field from the token at index at of the record b. Of a name that
// stands twice the last value counts.
func (d *jsonDecoder) value(c *column, v *row.Row, b []byte, at int, t token) string {
	raw := b[at:t.end]
	if t.kind == jsonNull {
		if c.field >= nullable {
			return c.notNullable()
		}
		v.Nulls |= 1 << c.field
		v.Cells[c.field] = 0
		return ""
	}
	var cell uint64
	ok := false
	switch c.kind {
	case row.Int, row.Float:
		if t.kind == jsonNumber {
			cell, ok = c.scalar(raw)
		}
	case row.Bool:
		if t.kind == jsonBool {
			cell, ok = c.scalar(raw)
		}
	case row.List:
		if t.kind == jsonArray {
			cell, ok = textCell(at, len(raw)), isScalarList(raw)
		}
	default:
		if t.kind != jsonString {
			break
		}
		content := raw[1 : len(raw)-1]
		place, length := at+1, len(content)
		if t.escaped {
			from := len(d.extra)
			d.extra = appendUnescaped(d.extra, content)
			content = d.extra[from:]
			place, length = len(b)+from, len(content)
		}
		switch c.kind {
		case row.String:
			cell, ok = textCell(place, length), true
		case row.Timestamp:
			cell, ok = c.scalar(content)
		case row.Bytes:
			from := len(d.extra)
			if d.extra, ok = decodeBase64(d.extra, content); ok {
				cell = textCell(len(b)+from, len(d.extra)-from)
			}
		}
	}
	if !ok {
		return c.mismatch(raw)
	}
	v.Cells[c.field] = cell
	if c.field < nullable {
		v.Nulls &^= 1 << c.field
	} else {
		d.set[c.field-nullable] = true
	}
	return ""
}

func trailing(b []byte, i int) string {
	if i = space(b, i); i < len(b) {
		return broken(b, i, "the end of the line")
	}
	return ""
}

// broken says where a record stops being JSON.
func broken(b []byte, i int, wanted string) string {
	if i >= len(b) {
		return "the object ends early: " + wanted + " is missing"
	}
	return fmt.Sprintf("byte %d of the object: %s where %s is expected", i, quote(b[i:min(i+20, len(b))]), wanted)
}
