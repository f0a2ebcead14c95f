package file

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"cutwater/connector/connectortest"
	"cutwater/stream"
	"cutwater/stream/row"
)

// The source passes the conformance suite, with quoted line breaks, several
// files and malformed records.
func TestConformance(t *testing.T) {
	csv := generate(rand.New(rand.NewPCG(3, 3)), 80) + "1,2\n\"a\"b,2,3\n" + strings.Repeat("x", 300) + ",2,3\r\n" + "4,5,6"
	var jsonl strings.Builder
	for i := range 100 {
		fmt.Fprintf(&jsonl, `{"c":"%s","a":"\t%d"}`+"\n\n", strings.Repeat("z", i%17), i)
		if i%10 == 0 {
			jsonl.WriteString("{\"a\":\n")
		}
	}
	for _, c := range []struct {
		name, content string
		config        Config
	}{
		{"csv", csv, Config{Format: CSV, MaxRecordSizeBytes: 200}},
		{"jsonl", jsonl.String(), Config{Format: JSONL}},
		{"empty", "", Config{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.config.Path, c.config.Schema = "f", abc
			fsys := memory(t, "f", c.content)
			want, bad := readAll(t, newSource(t, c.config), fsys)
			connectortest.Source(t, connectortest.SourceHarness[row.Row]{
				New: func(t *testing.T, splitSize int64) stream.Source[row.Row] {
					config := c.config
					config.SplitSizeBytes = splitSize
					return newSource(t, config)
				},
				FS:        fsys,
				Format:    func(v row.Row) string { return format(abc, v) },
				Want:      want,
				Malformed: len(bad),
			})
		})
	}
}
