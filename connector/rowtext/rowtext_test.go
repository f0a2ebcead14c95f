package rowtext

import (
	"encoding/csv"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"cutwater/stream/row"
)

var schema = &row.Schema{Fields: []row.Field{
	{Name: "name", Kind: row.String}, {Name: "n", Kind: row.Int}, {Name: "ratio, %", Kind: row.Float},
	{Name: "ok", Kind: row.Bool}, {Name: "at", Kind: row.Timestamp, Layout: "2006/01/02"}, {Name: "raw", Kind: row.Bytes}, {Name: "tags", Kind: row.List},
}}

func sample(name, raw, tags string, ratio float64, nulls uint64) row.Row {
	at := func(offset, n int) uint64 { return uint64(offset)<<32 | uint64(n) }
	negative := int64(math.MinInt64)
	return row.Row{
		Cells: []uint64{at(0, len(name)), uint64(negative), math.Float64bits(ratio), 1, 1_700_000_000_120, at(len(name), len(raw)), at(len(name)+len(raw), len(tags))},
		Text:  name + raw + tags, Nulls: nulls,
	}
}

// Each kind is written as the table in the package comment says.
func TestFormats(t *testing.T) {
	c, j := CSV(schema), JSON(schema)
	for _, test := range []struct {
		name      string
		r         row.Row
		csv, json string
	}{
		{"plain", sample("Ann", "ab", `[1,2]`, 0.5, 0),
			`Ann,-9223372036854775808,0.5,true,2023-11-14T22:13:20.12Z,YWI=,"[1,2]"`,
			`{"name":"Ann","n":-9223372036854775808,"ratio, %":0.5,"ok":true,"at":"2023-11-14T22:13:20.12Z","raw":"YWI=","tags":[1,2]}`},
		{"nulls", sample("Ann", "ab", `[1]`, 1, 127), `,,,,,,`,
			`{"name":null,"n":null,"ratio, %":null,"ok":null,"at":null,"raw":null,"tags":null}`},
		{"quotes and lines", sample("say \"hi\",\r\nAnn\x01\xff\\\t", "", `[]`, 1e6, 0b1011010),
			"\"say \"\"hi\"\",\r\nAnn\x01\xff\\\t\",,1000000,,,,",
			`{"name":"say \"hi\",\r\nAnn\u0001` + "\uFFFD" + `\\\t","n":null,"ratio, %":1000000,"ok":null,"at":null,"raw":"","tags":null}`},
		{"no number", sample("é", "", `[]`, math.NaN(), 0b1111010), `é,,NaN,,,,`,
			`{"name":"é","n":null,"ratio, %":null,"ok":null,"at":null,"raw":null,"tags":null}`},
		{"large", sample("", "", `[]`, 1e300, 0b1111010), `,,1e+300,,,,`,
			`{"name":"","n":null,"ratio, %":1e+300,"ok":null,"at":null,"raw":null,"tags":null}`},
	} {
		if got := string(c.Append(nil, test.r)); got != test.csv+"\n" {
			t.Errorf("%s: CSV is\n%q, want\n%q", test.name, got, test.csv)
		}
		got := j.Append(nil, test.r)
		if string(got) != test.json+"\n" {
			t.Errorf("%s: JSON is\n%s, want\n%s", test.name, got, test.json)
		}
		if !json.Valid(got) {
			t.Errorf("%s: not JSON: %s", test.name, got)
		}
	}
	if got := string(c.AppendHeader(nil)); got != "name,n,\"ratio, %\",ok,at,raw,tags\n" {
		t.Errorf("header is %q", got)
	}
	if got := j.AppendHeader(nil); len(got) != 0 {
		t.Errorf("JSON has the header %q", got)
	}
}

// A record of one empty field is not an empty line.
func TestOneEmptyField(t *testing.T) {
	one := &row.Schema{Fields: []row.Field{{Name: "s", Kind: row.String}}}
	if got := string(CSV(one).Append(nil, row.Row{Cells: []uint64{0}})); got != "\"\"\n" {
		t.Errorf("got %q", got)
	}
}

// What is written, another reader of RFC 4180 reads back.
func TestReadsBack(t *testing.T) {
	two := &row.Schema{Fields: []row.Field{{Name: "a", Kind: row.String}, {Name: "b", Kind: row.String}}}
	for _, s := range []string{"", `"`, `""`, ",", "\n", "a\nb", " x ", `a"b,c` + "\n"} {
		r := row.Row{Cells: []uint64{uint64(len(s)), uint64(len(s))}, Text: s}
		got, err := csv.NewReader(strings.NewReader(string(CSV(two).Append(nil, r)))).Read()
		if err != nil || len(got) != 2 || got[0] != s || got[1] != s {
			t.Errorf("%q came back as %q, %v", s, got, err)
		}
	}
}

// Writing a row allocates nothing.
func TestNoAllocation(t *testing.T) {
	r := sample(`a "quoted" name`, "", `[1,2]`, 0.25, 0)
	for _, e := range []*Encoder{CSV(schema), JSON(schema)} {
		buffer := make([]byte, 0, 1024)
		if n := testing.AllocsPerRun(100, func() { buffer = e.Append(buffer[:0], r) }); n != 0 {
			t.Errorf("%v allocations per row", n)
		}
	}
}
