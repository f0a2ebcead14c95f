package file

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"cutwater/stream/row"
)

// jsonSchema has a field of every kind.
var jsonSchema = &row.Schema{Fields: []row.Field{
	{Name: "at", Kind: row.Timestamp}, {Name: "n", Kind: row.Int}, {Name: "x", Kind: row.Float},
	{Name: "ok", Kind: row.Bool}, {Name: "s", Kind: row.String}, {Name: "raw", Kind: row.Bytes}, {Name: "l", Kind: row.List}}}

// Each kind of object is read, or reported and passed over, as documented.
func TestJSONInput(t *testing.T) {
	text := &row.Schema{Fields: []row.Field{{Name: "s", Kind: row.String}}}
	number := &row.Schema{Fields: []row.Field{{Name: "n", Kind: row.Int}}}
	for _, c := range []struct {
		name, content string
		schema        *row.Schema
		rows, bad     []string
	}{
		{name: "empty file"},
		{name: "types, any order, skipped fields", schema: jsonSchema,
			content: "\xef\xbb\xbf" + `{"l":[1,"a",null,true],"more":{"a":[{}],"b":"\""},"raw":"AQI=","s":"t","ok":true,"x":1e3,"n":-7,"at":"1970-01-01T00:00:01.5Z"}` + "\r\n\n{}\n" + `{"at":null,"n":null,"s":null}`,
			rows:    []string{`1500|-7|1000|1|"t"|"\x01\x02"|"[1,\"a\",null,true]"`, "null|null|null|null|null|null|null", "null|null|null|null|null|null|null"}},
		{name: "escapes", content: `{ "\u0073" : "a\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00\ud800x" }`, schema: text, rows: []string{`"a\"\\/\b\f\n\r\té😀�x"`}},
		{name: "the last of two", content: `{"s":"a","s":"b"}` + "\n" + `{"s":"a","s":null}`, schema: text, rows: []string{`"b"`, "null"}},
		{name: "64 bits", content: `{"n":9223372036854775807}` + "\n" + `{"n":-9223372036854775808}` + "\n" + `{"n":9223372036854775808}`, schema: number,
			rows: []string{"9223372036854775807", "-9223372036854775808"},
			bad:  []string{`f:3 (byte 53): field "n": "9223372036854775808" is not an int (64 bits)`}},
		{name: "wrong types", content: `{"n":"1"}` + "\n" + `{"n":1.0}` + "\n" + `{"n":true}` + "\n" + `{"n":1}`, schema: number, rows: []string{"1"}, bad: []string{
			`f:1 (byte 0): field "n": "\"1\"" is not an int (64 bits)`, `f:2 (byte 10): field "n": "1.0" is not an int (64 bits)`, `f:3 (byte 20): field "n": "true" is not an int (64 bits)`}},
		{name: "broken", content: "[1]\n{\"n\":1\n{\"n\":01}\n{\"n\":1}x\n{n:1}\n{\"n\":1}\n", schema: number, rows: []string{"1"}, bad: []string{
			`f:1 (byte 0): not a JSON object`,
			`f:2 (byte 4): the object ends early: a comma or a closing brace is missing`,
			`f:3 (byte 11): byte 5 of the object: "01}" where a JSON value is expected`,
			`f:4 (byte 20): byte 7 of the object: "x" where the end of the line is expected`,
			`f:5 (byte 29): byte 1 of the object: "n:1}" where a field name in double quotes is expected`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.schema == nil {
				c.schema = text
			}
			fsys := memory(t, "f", c.content)
			rows, bad := readAll(t, newSource(t, Config{Path: "f", Format: JSONL, Schema: c.schema}), fsys)
			var problems []string
			for _, b := range bad {
				problems = append(problems, b.Error())
			}
			if diff := cmp.Diff(c.rows, rows) + cmp.Diff(c.bad, problems); diff != "" {
				t.Error(diff)
			}
			again, _ := readAll(t, newSource(t, Config{Path: "f", Format: JSONL, Schema: c.schema, SplitSizeBytes: 1}), fsys)
			if diff := cmp.Diff(rows, again); diff != "" {
				t.Errorf("in small splits: %s", diff)
			}
		})
	}
}

// What is read of a line is what encoding/json reads of it.
func FuzzJSON(f *testing.F) {
	for _, s := range []string{`{}`, `{"n":1,"s":"\ud800\udc00"}`, `{"l":[1,[2]],"x":1e-3}`, `{"raw":"AQ==","ok":false}`, `{"s":"a" , "a":{"b":[]}}`, `{"n":-0}`} {
		f.Add([]byte(s))
	}
	fields := []row.Field{{Name: "n", Kind: row.Int}, {Name: "s", Kind: row.String}}
	d := newJSONDecoder(&row.Schema{Fields: fields})
	f.Fuzz(func(t *testing.T, line []byte) {
		if bytes.ContainsAny(line, "\r\n") || !utf8.Valid(line) || len(line) == 0 {
			return
		}
		fr := framer{buf: line, end: int64(len(line)), maxRecord: 1 << 20}
		v := row.Row{Cells: make([]uint64, len(fields))}
		problem := d.decode(&fr, record{0, len(line)}, &v)
		var object map[string]json.RawMessage
		if err := json.Unmarshal(line, &object); err != nil || object == nil {
			if problem == "" {
				t.Fatalf("%q is accepted; encoding/json: %v", line, err)
			}
			return
		}
		want := make([]string, len(fields))
		for i, field := range fields {
			raw, ok := object[field.Name]
			switch {
			case !ok || string(raw) == "null":
				want[i] = "null"
			case field.Kind == row.Int:
				n, err := strconv.ParseInt(string(raw), 10, 64)
				if err != nil {
					return
				}
				want[i] = strconv.FormatInt(n, 10)
			default:
				var s string
				if json.Unmarshal(raw, &s) != nil {
					return
				}
				want[i] = strconv.Quote(s)
			}
		}
		if strings.Count(string(line), `"n"`) > 1 || problem != "" && bytes.Count(line, []byte("[")) > maxDepth/2 {
			return // the first of two may be of another type; deep nesting is bounded
		}
		if got := format(&row.Schema{Fields: fields}, v); problem != "" || got != strings.Join(want, "|") {
			t.Fatalf("%q: %s (%s), want %v", line, got, problem, want)
		}
	})
}
