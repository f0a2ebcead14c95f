package file

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cutwater/stream/row"
)

func floatOf(cell uint64) float64 { return math.Float64frombits(cell) }

// generate writes rows with quoted line breaks, doubled quotes and CRLF.
func generate(r *rand.Rand, rows int) string {
	var b strings.Builder
	pieces := []string{"a", "\n", "\"", ",", "xyz", "\r\n", " ", "é", ",\"", "\"\n"}
	b.WriteString("a,b,c\n")
	for range rows {
		for f := range 3 {
			var s strings.Builder
			for range r.IntN(4) {
				s.WriteString(pieces[r.IntN(len(pieces))])
			}
			v := s.String()
			if f > 0 {
				b.WriteByte(',')
			}
			if strings.ContainsAny(v, "\n\",\r") || r.IntN(3) == 0 {
				v = `"` + strings.ReplaceAll(v, `"`, `""`) + `"`
			}
			b.WriteString(v)
		}
		b.WriteString([]string{"\n", "\r\n"}[r.IntN(2)])
	}
	return b.String()
}

// Split edges anywhere, also inside quoted fields, give the records that
// encoding/csv finds in the whole file.
func TestSplitsAreExact(t *testing.T) {
	for seed := range uint64(40) {
		content := generate(rand.New(rand.NewPCG(seed, 1)), 12)
		all, err := csv.NewReader(strings.NewReader(content)).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for _, fields := range all[1:] {
			want = append(want, fmt.Sprintf("%q|%q|%q", fields[0], fields[1], fields[2]))
		}
		fsys := memory(t, "f.csv", content)
		for size := int64(1); size <= int64(len(content)); size++ {
			rows, bad := readAll(t, newSource(t, Config{Path: "f.csv", Schema: abc, SplitSizeBytes: size}), fsys)
			for i := range rows { // encoding/csv turns CRLF into LF inside quotes
				rows[i] = strings.ReplaceAll(rows[i], `\r\n`, `\n`)
			}
			if diff := cmp.Diff(want, rows); diff != "" || len(bad) > 0 {
				t.Fatalf("seed %d, split size %d: malformed %v, %s", seed, size, bad, diff)
			}
		}
	}
}

// The chunks in which a file is read do not matter: a quote, a CRLF or a long
// record may lie across their edge.
func TestChunksDoNotMatter(t *testing.T) {
	content := generate(rand.New(rand.NewPCG(7, 7)), 60)
	whole := recordsOf(content, len(content)+1)
	for chunk := 1; chunk < 80; chunk++ {
		if diff := cmp.Diff(whole, recordsOf(content, chunk)); diff != "" {
			t.Fatalf("chunk %d: %s", chunk, diff)
		}
	}
}

// recordsOf cuts CSV text into records.
func recordsOf(content string, chunk int) (records []string) {
	f := framer{file: strings.NewReader(content), end: int64(len(content)), chunk: chunk, maxRecord: 1 << 20, delimiter: ','}
	f.seek(0, 1)
	for !f.atEnd() {
		r, ok := f.find()
		if !ok {
			if err := f.fill(); err != nil {
				return append(records, err.Error())
			}
			continue
		}
		records = append(records, fmt.Sprintf("line %d: %q", f.lineOf(r.start), f.buf[r.start:r.end]))
		f.done()
	}
	return records
}

// Each kind of unusual input is read, or reported and passed over, as documented.
func TestCSVInput(t *testing.T) {
	typed := &row.Schema{Fields: []row.Field{
		{Name: "at", Kind: row.Timestamp, Layout: "2006/01/02 15:04"}, {Name: "n", Kind: row.Int}, {Name: "x", Kind: row.Float},
		{Name: "ok", Kind: row.Bool}, {Name: "s", Kind: row.String}, {Name: "raw", Kind: row.Bytes}, {Name: "l", Kind: row.List}}}
	some := &row.Schema{Fields: []row.Field{{Name: "c", Kind: row.String}, {Name: "a", Kind: row.Int}}}
	for _, c := range []struct {
		name, content string
		config        Config
		rows, bad     []string
	}{
		{name: "empty file", content: ""},
		{name: "header only", content: "a,b,c"},
		{name: "mark, CRLF, no final newline", content: "\xef\xbb\xbfa,b,c\r\n1,2,3\r\n4,5,6", rows: []string{`"1"|"2"|"3"`, `"4"|"5"|"6"`}},
		{name: "mark before a quoted column", content: "\xef\xbb\xbf\"a\",b,\"c\"\n1,2,3\n", rows: []string{`"1"|"2"|"3"`}},
		{name: "mark without header", content: "\xef\xbb\xbf1,2,3\n", config: Config{NoHeader: true}, rows: []string{`"1"|"2"|"3"`}},
		{name: "empty lines", content: "\n\na,b,c\n\n1,2,3\r\n\r\n\n", rows: []string{`"1"|"2"|"3"`}},
		{name: "CRLF in quotes is kept", content: "a,b,c\n1,\"x\r\ny\",3\r\n", rows: []string{`"1"|"x\r\ny"|"3"`}},
		{name: "doubled quotes", content: "a,b,c\n\"\"\"\",\"\",\"x\"\"y\"\n", rows: []string{`"\""|""|"x\"y"`}},
		{name: "no header", content: "1,2,3\n", config: Config{NoHeader: true}, rows: []string{`"1"|"2"|"3"`}},
		{name: "delimiter", content: "a;b;c\n1,5;2;\"3;\"\n", config: Config{Delimiter: ';'}, rows: []string{`"1,5"|"2"|"3;"`}},
		{name: "subset in another order", content: "a,b,c\n1,\"2\"\"\",x\n", config: Config{Schema: some}, rows: []string{`"x"|1`}},
		{name: "stray quotes", content: "a,b,c\n1,2\"2,3\n\"1\"x,2,3\n1,2,3\n", rows: []string{`"1"|"2"|"3"`}, bad: []string{
			`f.csv:2 (byte 6): field "b": a quote inside the field "2\"2"; put the whole field in quotes and double those inside`,
			`f.csv:3 (byte 14): field "a": text after its closing quote`}},
		{name: "open quote", content: "a,b,c\n1,2,3\n1,\"2,3\n4,5,6\n", rows: []string{`"1"|"2"|"3"`}, bad: []string{
			`f.csv:3 (byte 12): field "b": its quote is never closed`}},
		{name: "wrong number of fields", content: "a,b,c\n1,2\n1,2,3,4\n1,2,3\n", rows: []string{`"1"|"2"|"3"`}, bad: []string{
			`f.csv:2 (byte 6): 2 fields where 3 are expected`, `f.csv:3 (byte 10): more than the expected 3 fields`}},
		{name: "too long", content: "a,b,c\n1,2,3\n1,\"" + strings.Repeat("\n", 200000) + "\",3\n4,5,6\n", config: Config{MaxRecordSizeBytes: 100},
			rows: []string{`"1"|"2"|"3"`, `"4"|"5"|"6"`},
			bad:  []string{`f.csv:3 (byte 12): record longer than max-record-size, which is 100 bytes`}},
		{name: "types", content: "l,raw,s,ok,x,n,at\n\"[1,\"\"a\"\"]\",AQI=,t,true,1.5,-7,2001/02/03 04:05\n,,,,,,\n", config: Config{Schema: typed},
			rows: []string{`981173100000|-7|1.5|1|"t"|"\x01\x02"|"[1,\"a\"]"`, `null|null|null|null|""|null|null`}},
		{name: "values that do not fit", content: "n\n9223372036854775807\n-9223372036854775808\n9223372036854775808\n1.5\n 1\n", config: Config{Schema: &row.Schema{Fields: typed.Fields[1:2]}},
			rows: []string{"9223372036854775807", "-9223372036854775808"}, bad: []string{
				`f.csv:4 (byte 43): field "n": "9223372036854775808" is not an int (64 bits)`,
				`f.csv:5 (byte 63): field "n": "1.5" is not an int (64 bits)`,
				`f.csv:6 (byte 67): field "n": " 1" is not an int (64 bits)`}},
		{name: "a time that does not parse", content: "at\n2001/02/29 00:00\n2001/02/28 00:00\n", config: Config{Schema: &row.Schema{Fields: typed.Fields[:1]}},
			rows: []string{"983318400000"}, bad: []string{`f.csv:2 (byte 3): field "at": "2001/02/29 00:00" is not a timestamp as "2006/01/02 15:04"`}},
		{name: "a time that is not in RFC 3339", content: "at\n2001-02-28\n", config: Config{Schema: &row.Schema{Fields: []row.Field{{Name: "at", Kind: row.Timestamp}}}},
			bad: []string{`f.csv:2 (byte 3): field "at": "2001-02-28" is not a timestamp in RFC 3339, such as 2001-01-31T09:00:00Z`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.config.Schema == nil {
				c.config.Schema = abc
			}
			c.config.Path = "f.csv"
			fsys := memory(t, "f.csv", c.content)
			for _, size := range []int64{1, 0} {
				c.config.SplitSizeBytes = size
				rows, bad := readAll(t, newSource(t, c.config), fsys)
				var problems []string
				for _, b := range bad {
					problems = append(problems, b.Error())
				}
				if diff := cmp.Diff(c.rows, rows) + cmp.Diff(c.bad, problems); diff != "" {
					t.Errorf("split size %d: %s", size, diff)
				}
			}
		})
	}
}

// A 10 MB record is read, and its neighbours with it.
func TestLongRecord(t *testing.T) {
	long := strings.Repeat("long, ", 10<<20/6)
	fsys := memory(t, "f.csv", "a,b,c\n1,2,3\nx,\""+long+"\",y\n4,5,6\n")
	rows, bad := readAll(t, newSource(t, Config{Path: "f.csv", Schema: abc}), fsys)
	if len(bad) != 0 || len(rows) != 3 || len(rows[1]) != len(long)+10 {
		t.Errorf("%d rows, malformed %v", len(rows), bad)
	}
}

// Whatever the bytes, the scanners do not panic, every byte range is the same
// for every chunk size, and splits do not change what is read.
func FuzzCSV(f *testing.F) {
	for _, s := range []string{"", "a,b,c\n1,2,3", "a,b,c\n\"", "a,b,c\n\"\"\"", "\xef\xbb\xbfa,b,c\r\n\"x\r\n\",\"\"\"\",\n", "a,b,c\n1,\"2\"3\",4\n\"5,6\n"} {
		f.Add([]byte(s), byte(3))
	}
	f.Fuzz(func(t *testing.T, content []byte, size byte) {
		if len(content) > 1<<12 {
			return
		}
		content = bytes.ReplaceAll(content, []byte{0}, nil)
		whole := recordsOf(string(content), len(content)+1)
		if diff := cmp.Diff(whole, recordsOf(string(content), int(size)%7+1)); diff != "" {
			t.Fatal(diff)
		}
		fsys := memory(t, "f", string(content))
		var want string
		for i, split := range []int64{1 << 20, int64(size) + 1} {
			rows, bad := readAll(t, newSource(t, Config{Path: "f", Schema: abc, NoHeader: true, SplitSizeBytes: split}), fsys)
			got := strings.Join(rows, "\n")
			for _, b := range bad {
				got += "\n" + b.Error()
			}
			if i == 0 {
				want = got
			} else if got != want {
				t.Fatalf("splits of %d: %s", split, cmp.Diff(want, got))
			}
		}
	})
}

// A malformed record keeps its text whole; one that is too long for a record, its start.
func TestMalformedText(t *testing.T) {
	long, tooLong := strings.Repeat("x", 5000), strings.Repeat("y", 20_000)
	fsys := memory(t, "f.csv", "a,b,c\n1,2,"+long+",4\n5,"+tooLong+",6\n")
	_, bad := readAll(t, newSource(t, Config{Path: "f.csv", Schema: abc, MaxRecordSizeBytes: 10_000}), fsys)
	if len(bad) != 2 {
		t.Fatalf("%d malformed records, want 2: %v", len(bad), bad)
	}
	if want := "1,2," + long + ",4"; bad[0].Raw != want {
		t.Errorf("the text of the first has %d bytes, want %d: %.40q", len(bad[0].Raw), len(want), bad[0].Raw)
	}
	if want := "5,yyyy"; !strings.HasPrefix(bad[1].Raw, want) || len(bad[1].Raw) > 300 {
		t.Errorf("the start of the second is %.40q, %d bytes, want some of %q", bad[1].Raw, len(bad[1].Raw), want)
	}
}
