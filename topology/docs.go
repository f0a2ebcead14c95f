package topology

import (
	"fmt"
	"strings"

	"cutwater/stream/catalog"
	"cutwater/topology/expression"
)

const generated = "<!-- Generated from a table in the code; change it there and run the tests of topology and examples with -rewrite. -->\n\n"

// ConfigurationDoc is docs/configuration.md: every key of a file, and the
// language of expressions.
func ConfigurationDoc() string {
	var b strings.Builder
	b.WriteString("# topology.yaml\n\n" + generated)
	b.WriteString(`A topology is one YAML document. Every key is listed here; an unknown one is an error, with its line and the
nearest name. Relative paths refer to the folder of the file.

A value may contain variables of the environment: ` + "`${NAME}`, or `${NAME:-default}`" + ` for one that may be unset or
empty; ` + "`$$`" + ` is a dollar sign. They are replaced after the file was parsed, so a variable never adds structure.
Inside ` + "`{...}`" + ` a variable must stand in quotes. The type of a value is that of its key, quoted or not.

Durations are written ` + "`250ms`, `10s`, `1m30s`, `24h`" + `; sizes ` + "`64KiB`, `16MiB`" + `. The column Flink names the key that has
the same meaning there, and its default; where ours differs, the last lines of a section say why.

`)
	for _, s := range sections {
		writeSection(&b, s)
	}
	b.WriteString("## sources\n\nAmong the options of every source connector stand these; docs/connectors.md lists each connector's own.\n\n")
	writeKeys(&b, sourceKeys)
	b.WriteString(`## schema

A schema is a map of field names and types, in the order of the columns: ` + "`int` (64 bits), `float`, `string`, `bool`,\n`timestamp` (RFC 3339, the years 1 to 9999), `{timestamp: \"2006/01/02 15:04\"}` (in the notation of Go's package time), `bytes`, `list`" + `.
A field's name is a letter or ` + "`_`" + `, then letters, digits and ` + "`_`" + `. Every field can be null.

## expressions

Filters, the fields of a map and the arguments of aggregates are expressions over the fields of the input.

| form | meaning |
|---|---|
| ` + "`+ - * / % **`" + ` | numbers; ` + "`+`" + ` also joins strings. int / int is a float, ` + "`%`" + ` is for ints |
| ` + "`== != < <= > >=`" + ` | numbers with numbers, else values of one type; ` + "`x == nil`" + ` tests for null |
| ` + "`and or not`, `&& \\|\\| !`" + ` | conditions |
| ` + "`a ?? b`" + ` | b where a is null |
| ` + "`c ? a : b`" + ` | a where c is true, else b; quote it in YAML because of the colon |
| ` + "`x in [1, 2]`, `x in 1..5`" + ` | one of these constants, or in this range |
| ` + "`contains startsWith endsWith`" + ` | strings |
| ` + "`s matches \"^A.*\"`" + ` | a constant regular expression |

A null in arithmetic or in a function gives null; a comparison with null is false; where a condition is needed null
counts as false. An int that overflows, ` + "`%`" + ` by zero and a text that cannot be converted fail the row, and with it the
job. Text constants need quotes of their own: ` + "`filter: origin == \"DTW\"`" + `.

| function | meaning |
|---|---|
`)
	for _, f := range expression.Functions() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", strings.ReplaceAll(f.Usage, "|", "\\|"), f.Doc)
	}
	b.WriteString(`
## aggregates

| call | result |
|---|---|
| ` + "`count()`, `count(condition)`, `count(x)`" + ` | rows; rows for which the condition is true; rows in which x is not null |
| ` + "`sum(x)`, `sum(x, condition)`" + ` | int or float, as x |
| ` + "`min(x)`, `max(x)`" + `, with condition | a number, timestamp or string, as x |
| ` + "`avg(x)`, `avg(x, condition)`" + ` | float |

Null is skipped; without any value the result is null, and a count 0. Inside ` + "`{...}`" + ` a call with a comma must stand in
quotes. With a window the output has the key fields, ` + "`window_start`, `window_end`" + ` and the aggregates in the order of
the file; without one, the key fields and the aggregates so far, for every record.
`)
	return b.String()
}

func writeSection(b *strings.Builder, s *Section) {
	fmt.Fprintf(b, "## %s\n\n", s.Name)
	if s != topologySection {
		fmt.Fprintf(b, "At `%s`. ", s.Path)
	}
	b.WriteString(s.Doc + "\n\n")
	writeKeys(b, s.Keys)
}

func writeKeys(b *strings.Builder, keys []Key) {
	flink := false
	for _, k := range keys {
		flink = flink || k.Flink != ""
	}
	if flink {
		b.WriteString("| key | value | default | meaning | Flink | its default |\n|---|---|---|---|---|---|\n")
	} else {
		b.WriteString("| key | value | default | meaning |\n|---|---|---|---|\n")
	}
	var why []string
	for i := range keys {
		k := &keys[i]
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |", k.Name, cell(valueDoc(k)), defaultDoc(k), cell(k.Doc))
		if flink {
			fmt.Fprintf(b, " %s | %s |", code(k.Flink), k.FlinkDefault)
		}
		b.WriteByte('\n')
		if k.Why != "" {
			why = append(why, fmt.Sprintf("`%s` differs from Flink: %s.", k.Name, k.Why))
		}
	}
	b.WriteByte('\n')
	if len(why) > 0 {
		b.WriteString(strings.Join(why, "\n") + "\n\n")
	}
}

// valueDoc says what a key takes, with its range.
func valueDoc(k *Key) string {
	switch k.Kind {
	case Enum:
		words := make([]string, len(k.Values))
		for i, v := range k.Values {
			words[i] = code(v)
		}
		return strings.Join(words, ", ")
	case Block, Blocks:
		what := "map"
		if k.Kind == Blocks {
			what = "list of maps"
		}
		return fmt.Sprintf("%s, see [%s](#%s)", what, k.Section.Name, k.Section.Name)
	case Connector:
		return "map with one connector"
	case Schema:
		return "map, see [schema](#schema)"
	case Expressions:
		return "map of [expressions](#expressions)"
	}
	doc := map[Kind]string{String: "text", Int: "int", Float: "number", Bool: "`true`, `false`", Duration: "duration", Size: "size",
		Path: "path", UID: "name", Names: "name or list", Expression: "[expression](#expressions)"}[k.Kind]
	if r := rangeOf(k); r != "" {
		doc += ", " + r
	}
	return doc
}

func defaultDoc(k *Key) string {
	switch {
	case k.Required:
		return "required"
	case k.Default == "":
		return "-"
	}
	return code(k.Default)
}

func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}

func cell(s string) string { return strings.ReplaceAll(s, "|", "\\|") }

// ConnectorsDoc is docs/connectors.md: the connectors of a catalog and their
// options.
func ConnectorsDoc(cat *catalog.Catalog) string {
	var b strings.Builder
	b.WriteString("# Connectors\n\n" + generated)
	b.WriteString("An operator's `source` or `sink` names one connector with its options, as in `source: {file: {path: in.csv}}`.\n\n")
	for _, s := range cat.Sources {
		fmt.Fprintf(&b, "## source: %s\n\n%s\n\n", s.Name, s.Doc)
		writeKeys(&b, sourceSection(s).Keys)
	}
	for _, s := range cat.Sinks {
		fmt.Fprintf(&b, "## sink: %s\n\n%s\n\n", s.Name, s.Doc)
		if len(s.Options) > 0 {
			writeKeys(&b, sinkSection(s).Keys)
		}
	}
	return strings.ReplaceAll(b.String(), "(#schema)", "(configuration.md#schema)")
}

// LintDoc is docs/lint.md: every rule.
func LintDoc() string {
	var b strings.Builder
	b.WriteString("# What a topology is checked for\n\n" + generated)
	b.WriteString("`cutwater lint FILE` reports everything at once, each finding with the number of its rule. Errors keep a topology from\nrunning (exit code 5); warnings do not.\n\n")
	for _, r := range rules {
		fmt.Fprintf(&b, "## %s: %s\n\n%s. %s\n\n", r.ID, r.Title, strings.ToUpper(r.Severity.String()[:1])+r.Severity.String()[1:], r.Doc)
	}
	return b.String()
}
