package topology_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"cutwater/internal/script"
	"cutwater/stream/catalog"
	"cutwater/stream/row"
	"cutwater/topology"
	"cutwater/topology/expression"
)

// connectors is a catalog with the options of a file source and sink.
func connectors() *catalog.Catalog {
	return &catalog.Catalog{
		Sources: []catalog.SourceSpec{{Name: "file", Doc: "Rows of a file.", Options: []catalog.Option{
			{Name: "path", Kind: catalog.PathOption, Required: true, Doc: "A file."},
			{Name: "format", Kind: catalog.EnumOption, Values: []string{"csv", "jsonl"}, Default: "csv", Doc: "How records are written."},
			{Name: "schema", Kind: catalog.SchemaOption, Required: true, Doc: "The fields."},
			{Name: "split-size", Kind: catalog.SizeOption, Default: "16MiB", Doc: "Size of parts."},
			{Name: "password", Kind: catalog.StringOption, Doc: "A secret."},
		}}, {Name: "clock", Doc: "A row per tick.", Options: []catalog.Option{{Name: "every", Kind: catalog.DurationOption, Default: "1s", Doc: "The tick."}},
			Schema: func(catalog.Values) (*row.Schema, error) {
				return &row.Schema{Fields: []row.Field{{Name: "at", Kind: row.Timestamp}}}, nil
			}}},
		Sinks: []catalog.SinkSpec{{Name: "file", Doc: "Files of rows.", Options: []catalog.Option{
			{Name: "path", Kind: catalog.PathOption, Required: true, Doc: "A folder."},
			{Name: "format", Kind: catalog.EnumOption, Values: []string{"csv", "jsonl"}, Default: "csv", Doc: "How records are written."},
		}}, {Name: "blackhole", Doc: "Counts rows."}},
	}
}

func environment(name string) (string, bool) {
	v, ok := map[string]string{
		"FOUR": "4", "EMPTY": "", "NAME": "from-env", "EVIL": "x\nparallelism: 99", "EXPR": "delay > 1",
	}[name]
	return v, ok
}

// flightsPrefix saves each script the repetition: a whole topology up to its source.
const flightsPrefix = `name: t
checkpointing: {interval: 1s}
operators:
  - uid: in
    source: {file: {path: a.csv, schema: {date: timestamp, delay: int, score: float, origin: string, tags: list}}}
    event-time: {field: date}
`

const sinkSuffix = `  - uid: out
    input: op
    sink: {blackhole: {}}
`

// Every mistake is reported, all at once, each at its place; what is fine says
// what it became.
func TestLoadScripts(t *testing.T) {
	for _, dir := range []string{"testdata/bad", "testdata/good"} {
		script.RunDir(t, dir, func(t *testing.T) script.Handler {
			return func(d *script.Directive) (string, error) {
				src := d.Body + "\n"
				switch d.Verb {
				case "op": // one operator between a source and a sink
					src = flightsPrefix + indented(src) + sinkSuffix
				case "more": // operators behind a source
					src = flightsPrefix + indented(src)
				}
				top, found := topology.Lint("t.yaml", []byte(src), connectors(), environment)
				var out strings.Builder
				for _, f := range found {
					fmt.Fprintln(&out, f)
				}
				if top != nil && !d.Has("quiet") {
					describe(&out, top)
				}
				return out.String(), nil
			}
		})
	}
}

// indented makes the lines items of the list of operators.
func indented(lines string) string {
	return "  " + strings.TrimSuffix(strings.ReplaceAll(lines, "\n", "\n  "), "  ")
}

func describe(b *strings.Builder, t *topology.Topology) {
	fmt.Fprintf(b, "%s: parallelism %d\n", t.Name, t.Parallelism)
	for _, op := range t.Operators {
		fmt.Fprintf(b, "%s %s", op.Kind, op.Uid)
		for _, in := range op.Inputs {
			fmt.Fprintf(b, " < %s", in.Operator.Uid)
			if in.Side != "" {
				fmt.Fprintf(b, ".%s", in.Side)
			}
		}
		if op.Window != nil {
			fmt.Fprintf(b, " window %d/%d@%d+%d ms", op.Window.SizeMs, op.Window.SlideMs, op.Window.OffsetMs, op.Window.AllowedLatenessMs)
		}
		if op.Connector != nil {
			v := op.Connector.Values
			fmt.Fprintf(b, " %s%v%v%v%v", op.Connector.Name, v.Strings, v.Ints, v.Floats, v.Bools)
		}
		if op.Output != nil {
			b.WriteString(" ->")
			for _, f := range op.Output.Fields {
				fmt.Fprintf(b, " %s:%s", f.Name, expression.KindName(f.Kind))
			}
		}
		b.WriteByte('\n')
	}
}

// The example of the documentation loads without a finding, and its paths refer
// to its folder.
func TestExample(t *testing.T) {
	const path = "../examples/flights/topology.yaml"
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	top, err := topology.Load(path, src, connectors(), environment)
	if err != nil {
		t.Fatal(err)
	}
	if len(top.Warnings) > 0 {
		t.Errorf("warnings: %v", top.Warnings)
	}
	if got := top.Operators[2].Connector.Values.Strings["path"]; got != "../examples/flights/out/daily" {
		t.Errorf("the sink writes to %s", got)
	}
}

// Load's error is an Errors with every error and no warning.
func TestLoadErrors(t *testing.T) {
	_, err := topology.Load("t.yaml", []byte("name: 1\nintervall: 2\n"), connectors(), environment)
	var errs topology.Errors
	if !errors.As(err, &errs) || len(errs) != 3 {
		t.Fatalf("%T with %d errors: %v", err, len(errs), err)
	}
	for _, d := range errs {
		if d.Severity != topology.Error {
			t.Errorf("a %s among the errors: %v", d.Severity, d)
		}
	}
}

// A byte order mark and CRLF change neither the meaning nor the places.
func TestWindowsText(t *testing.T) {
	src := "\uFEFF" + strings.ReplaceAll(flightsPrefix+"  - {uid: out, input: im, sink: {blackhole: {}}}\n", "\n", "\r\n")
	_, err := topology.Load("t.yaml", []byte(src), connectors(), environment)
	var errs topology.Errors
	if !errors.As(err, &errs) || len(errs) != 1 || errs[0].Position != (topology.Position{Line: 7, Column: 23}) {
		t.Errorf("%v", err)
	}
}

// A message is short and points at its place, however long the lines and the values
// of the file are, and shows no characters that a terminal would obey.
func TestLongLines(t *testing.T) {
	for name, c := range map[string]struct {
		before, value, after, shown string
	}{
		"short":          {"{uid: out, ", "x: 1", "}", "  - {uid: out, x: 1}"},
		"before":         {"{uid: " + strings.Repeat("ü", 1000) + ", ", "x: 1", "}", "üüü, x: 1}"},
		"after":          {"{uid: out, ", "x: 1", "} # " + strings.Repeat("ü", 1000), "  - {uid: out, x: 1} # üüü"},
		"both":           {"{uid: " + strings.Repeat("ü", 1000) + ", ", "x: 1", ", sink: " + strings.Repeat("ä", 1000) + "}", "üüü, x: 1, sink: ääää"},
		"value":          {"{uid: ", strings.Repeat("ü", 10_000), "}", "{uid: üüüüü"},
		"control":        {"{uid: out, ", "x: 1", "} # \x1b[31m\x00", "x: 1} # \uFFFD[31m\uFFFD"},
		"line of spaces": {strings.Repeat(" ", 1000) + "{uid: out, ", "x: 1", "}", "   {uid: out, x: 1}"},
	} {
		t.Run(name, func(t *testing.T) {
			src := "name: long\noperators:\n  - " + c.before + c.value + c.after + "\n"
			_, found := topology.Lint("t.yaml", []byte(src), connectors(), environment)
			pointed := false
			for _, d := range found {
				text := d.String()
				if len(text) > 2000 || strings.ContainsAny(text, "\x00\x1b") {
					t.Errorf("%d bytes: %.300q", len(text), text)
				}
				lines := strings.Split(text, "\n")
				if len(lines) < 3 || !strings.Contains(lines[1], c.shown) {
					continue
				}
				source, caret := []rune(lines[1]), len([]rune(lines[2]))-1
				pointed = pointed || strings.HasPrefix(string(source[caret:]), string([]rune(c.value)[:3]))
			}
			if !pointed {
				t.Errorf("nothing points at %.20q in %q: %.3000v", c.value, c.shown, found)
			}
		})
	}
}

// No file makes Lint panic, and one without a finding has a topology.
func FuzzLint(f *testing.F) {
	f.Add("")
	f.Add(flightsPrefix + sinkSuffix)
	f.Add(flightsPrefix + "  - {uid: op, input: in, key-by: origin, window: {sliding: {size: 2h, slide: 1h}}, aggregate: {n: count(), m: max(delay, score > 1)}}\n" + sinkSuffix)
	f.Add("a: &x {b: *x}\n? c\n: [d, {e: ${F:-g}}]\n--- |\n h")
	f.Add("operators: [{uid: a, input: b.late}, {uid: b, input: [a.late, c]}, 3, ~]")
	f.Add("name: [\nstate: {backend: ${X}}\n\t- uid")
	f.Fuzz(func(t *testing.T, src string) {
		top, found := topology.Lint("t.yaml", []byte(src), connectors(), environment)
		if top == nil && len(found) == 0 {
			t.Fatal("refused without a reason")
		}
		for _, d := range found {
			_ = d.String()
		}
	})
}
