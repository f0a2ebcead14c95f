package topology_test

import (
	"fmt"
	"strings"
	"testing"

	"cutwater/topology"
)

// A file that no topology is, whatever its form, is refused in a moment: the parser
// alone would need minutes for most of these.
func TestOutOfBounds(t *testing.T) {
	const deep, wide, long = "nested deeper than 32 levels", "a map has at most 1000 keys", "and a topology at most 4194304"
	const closes = `nothing is open that "]" closes`
	keys := func(n int, form string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, form, i)
		}
		return b.String()
	}
	const n = 100_000
	for name, c := range map[string]struct{ src, want string }{
		"brackets":             {"name: " + strings.Repeat("[", n), deep},
		"closed brackets":      {"name: " + strings.Repeat("[", n) + strings.Repeat("]", n), deep},
		"braces":               {"name: " + strings.Repeat("{a: ", n), deep},
		"dashes":               {strings.Repeat("- ", n) + "a", deep},
		"indented maps":        {nested(1000), deep},
		"lists in maps":        {strings.Repeat("a: [{", 40), deep},
		"keys of a block":      {keys(n, "a%d: 1\n"), wide},
		"keys below a dash":    {"operators:\n- " + keys(n, "a%d: 1\n  "), wide},
		"keys above lists":     {keys(n, "a%d:\n- 1\n"), wide},
		"keys of a flow":       {"name: {" + keys(n, "a%d: 1, ") + "}", wide},
		"keys on many lines":   {"name: {\n" + keys(n, "a%d: 1,\n") + "}", wide},
		"quoted keys":          {keys(n, "\"a%d\": 1\n"), wide},
		"a large comment":      {"#" + strings.Repeat("x", 5<<20) + "\nname: j\n", long},
		"a document too many":  {"name: j\n---\n" + keys(n, "a%d: 1\n"), wide},
		"brackets never open":  {strings.Repeat("]", n), closes},
		"closed and then deep": {"name: []]]]]\nx: " + strings.Repeat("[", n), closes},
	} {
		t.Run(name, func(t *testing.T) {
			top, found := topology.Lint("t.yaml", []byte(c.src), connectors(), environment)
			if top != nil || len(found) != 1 || !strings.Contains(found[0].String(), c.want) {
				t.Errorf("%d findings, want one with %q: %.1000v", len(found), c.want, found)
			}
		})
	}
}

// nested is a map in a map, depth times, one a line.
func nested(depth int) string {
	var b strings.Builder
	for i := range depth {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

// Many operators are no reason to refuse a file, nor are many that stand in one line.
func TestWithinBounds(t *testing.T) {
	for _, separator := range []string{"\n", " "} {
		var b strings.Builder
		b.WriteString("name: wide\ncheckpointing: {interval: 1s}\noperators: [" + separator)
		b.WriteString("{uid: in, source: {file: {path: x.csv, schema: {delay: int}}}}")
		for i := range 1500 {
			fmt.Fprintf(&b, ",%s{uid: o%d, input: in, sink: {blackhole: {}}}", separator, i)
		}
		b.WriteString("]\n")
		if top, found := topology.Lint("t.yaml", []byte(b.String()), connectors(), environment); top == nil || len(top.Operators) != 1501 {
			t.Errorf("%.1000v", found)
		}
	}
}

// Of very many mistakes the first ones are shown, and how many there are.
func TestManyFindings(t *testing.T) {
	src := "name: j\noperators: [" + strings.Repeat("{uid: s, sink: {none: {}}, input: s, x: 1}, ", 3000) + "]\n"
	top, found := topology.Lint("t.yaml", []byte(src), connectors(), environment)
	if top != nil || len(found) != 1000 {
		t.Fatalf("%d findings", len(found))
	}
	if last := found[999].String(); !strings.Contains(last, "more of this file are not shown") {
		t.Errorf("the last one says: %s", last)
	}
}
