// Package rowtext writes rows as text for sinks: CSV after RFC 4180, with LF at
// the end of a record, or JSON Lines.
//
//	kind       CSV                          JSON
//	null       empty                        null
//	int        decimal                      number, all 64 bits
//	float      shortest form that reads     number; NaN and infinities, which
//	           back the same; NaN, +Inf     JSON has not, are null
//	bool       true, false                  true, false
//	timestamp  RFC 3339, UTC, milliseconds where they are not zero
//	bytes      base64                       string in base64
//	list       its JSON text                array
//
// A record of one empty CSV field is written as "", since an empty line is no
// record.
package rowtext

import (
	"encoding/base64"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"cutwater/stream/row"
)

// Encoder writes the rows of one schema. It keeps nothing between calls.
type Encoder struct {
	fields []row.Field
	// keys are the JSON object's: {"name": or ,"name":. Of CSV there are none.
	keys []string
	csv  bool
}

// CSV writes comma-separated values.
func CSV(s *row.Schema) *Encoder { return &Encoder{fields: s.Fields, csv: true} }

// JSON writes one object a line.
func JSON(s *row.Schema) *Encoder {
	e := &Encoder{fields: s.Fields}
	for i, f := range s.Fields {
		open := ","
		if i == 0 {
			open = "{"
		}
		e.keys = append(e.keys, open+string(appendString(nil, f.Name))+":")
	}
	return e
}

// AppendHeader appends what stands once at the top of a file.
func (e *Encoder) AppendHeader(dst []byte) []byte {
	if !e.csv {
		return dst
	}
	start := len(dst)
	for i, f := range e.fields {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendQuoted(dst, f.Name)
	}
	return endRecord(dst, start)
}

// Append appends one row and the end of its line.
func (e *Encoder) Append(dst []byte, r row.Row) []byte {
	if e.csv {
		return e.appendCSV(dst, r)
	}
	return e.appendJSON(dst, r)
}

// nullable is the number of leading fields that a row can mark as null.
const nullable = 64

func isNull(r *row.Row, i int, k row.Kind) bool {
	return k == row.Null || i < nullable && r.Nulls>>i&1 == 1
}

func text(r *row.Row, cell uint64) string {
	offset := cell >> 32
	return r.Text[offset : offset+cell&math.MaxUint32]
}

func (e *Encoder) appendCSV(dst []byte, r row.Row) []byte {
	start := len(dst)
	for i := range e.fields {
		if i > 0 {
			dst = append(dst, ',')
		}
		kind := e.fields[i].Kind
		if isNull(&r, i, kind) {
			continue
		}
		switch cell := r.Cells[i]; kind {
		case row.String, row.List:
			dst = appendQuoted(dst, text(&r, cell))
		case row.Bytes:
			dst = appendBase64(dst, text(&r, cell))
		case row.Float:
			dst = appendFloat(dst, math.Float64frombits(cell))
		case row.Timestamp:
			dst = appendTimestamp(dst, int64(cell))
		default:
			dst = appendPlain(dst, kind, cell)
		}
	}
	return endRecord(dst, start)
}

func endRecord(dst []byte, start int) []byte {
	if len(dst) == start {
		dst = append(dst, `""`...)
	}
	return append(dst, '\n')
}

func (e *Encoder) appendJSON(dst []byte, r row.Row) []byte {
	if len(e.fields) == 0 {
		return append(dst, "{}\n"...)
	}
	for i, key := range e.keys {
		dst = append(dst, key...)
		kind := e.fields[i].Kind
		if isNull(&r, i, kind) {
			dst = append(dst, "null"...)
			continue
		}
		switch cell := r.Cells[i]; kind {
		case row.String:
			dst = appendString(dst, text(&r, cell))
		case row.List:
			dst = append(dst, text(&r, cell)...)
		case row.Bytes:
			dst = append(dst, '"')
			dst = append(appendBase64(dst, text(&r, cell)), '"')
		case row.Float:
			if v := math.Float64frombits(cell); math.IsNaN(v) || math.IsInf(v, 0) {
				dst = append(dst, "null"...)
			} else {
				dst = appendFloat(dst, v)
			}
		case row.Timestamp:
			dst = append(dst, '"')
			dst = append(appendTimestamp(dst, int64(cell)), '"')
		default:
			dst = appendPlain(dst, kind, cell)
		}
	}
	return append(dst, "}\n"...)
}

// appendPlain writes the kinds that look the same in both formats.
func appendPlain(dst []byte, kind row.Kind, cell uint64) []byte {
	if kind == row.Bool {
		return strconv.AppendBool(dst, cell != 0)
	}
	return strconv.AppendInt(dst, int64(cell), 10)
}

// appendFloat avoids exponents for numbers of ordinary size, as people write them.
func appendFloat(dst []byte, v float64) []byte {
	format := byte('f')
	if abs := math.Abs(v); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(dst, v, format, -1, 64)
}

func appendTimestamp(dst []byte, ms int64) []byte {
	return time.UnixMilli(ms).UTC().AppendFormat(dst, "2006-01-02T15:04:05.999Z07:00")
}

func appendBase64(dst []byte, s string) []byte {
	return base64.StdEncoding.AppendEncode(dst, []byte(s))
}

// appendQuoted writes a CSV field, in quotes if it needs them.
func appendQuoted(dst []byte, s string) []byte {
	if !strings.ContainsAny(s, ",\"\r\n") {
		return append(dst, s...)
	}
	dst = append(dst, '"')
	for {
		i := strings.IndexByte(s, '"')
		if i < 0 {
			break
		}
		dst = append(append(dst, s[:i+1]...), '"')
		s = s[i+1:]
	}
	return append(append(dst, s...), '"')
}

const hexDigits = "0123456789abcdef"

// appendString writes a JSON string. Bytes that are not UTF-8 become U+FFFD.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, `\n`...)
		case c == '\r':
			dst = append(dst, `\r`...)
		case c == '\t':
			dst = append(dst, `\t`...)
		case c < ' ':
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		case c < utf8.RuneSelf:
			dst = append(dst, c)
		default:
			r, size := utf8.DecodeRuneInString(s[i:])
			dst = utf8.AppendRune(dst, r)
			i += size
			continue
		}
		i++
	}
	return append(dst, '"')
}
