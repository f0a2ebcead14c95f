package main

import (
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const example = `package example

const less = 3 > 2

func f(a, b int, ok bool, m any) bool {
	if a > 0 && (b < 9 || !ok) {
		return a == b
	}
	for i := 0; i < a; i++ {
	}
	switch a {
	case 1, 2:
	}
	switch {
	case ok:
	}
	switch m.(type) {
	case int, nil:
	}
	protocol.Assert(ok, "text")
	protocol.Assert(false, "never")
	return !(a > 0)
}
`

// Every guard is found once, outer ones first: a negation is not a guard beside what
// it negates, and neither constants nor Assert(false) are.
func TestGuards(t *testing.T) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "example.go", example, 0)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, g := range guardsOf(file) {
		found = append(found, oneLine(fset, g.expr))
	}
	want := []string{
		"a > 0 && (b < 9 || !ok)", "a > 0", "(b < 9 || !ok)", "b < 9", "!ok", "a == b", "i < a",
		"1", "2", "ok", "int", "nil", "ok", "!(a > 0)",
	}
	if strings.Join(found, "; ") != strings.Join(want, "; ") {
		t.Errorf("found %s\nwant  %s", strings.Join(found, "; "), strings.Join(want, "; "))
	}
}

// The rewritten source parses, keeps its lines, and wraps each guard by its number.
func TestRewrite(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.WriteFile("example.go", []byte(example), 0o644); err != nil {
		t.Fatal(err)
	}
	o := newOverlay(filepath.Join(dir, "scratch"))
	if err := os.Mkdir(o.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	mutants, err := o.rewrite("example.go")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(filepath.Join(o.dir, "example.go"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := format.Source(source); err != nil {
		t.Fatalf("%v in\n%s", err, source)
	}
	if got, want := strings.Count(string(source), "\n"), strings.Count(example, "\n"); got != want {
		t.Errorf("%d lines became %d", want, got)
	}
	for _, want := range []string{
		"if mutantGuard(1, mutantGuard(2, a > 0) && mutantGuard(3, (mutantGuard(4, b < 9) || mutantGuard(5, !ok)))) {",
		"switch mutantTag8 := a; {", "case mutantGuard(8, mutantTag8 == (1)), mutantGuard(9, mutantTag8 == (2)):",
		"switch mutantHide(m, func(v any) int { switch v.(type) { case int: return 11; case nil: return 12; }; return 0 }).(type) {",
		"return mutantGuard(14, !(a > 0))",
	} {
		if !strings.Contains(string(source), want) {
			t.Errorf("no %s in\n%s", want, source)
		}
	}
	if len(mutants) != 14 || mutants[12].key() != "example.go f: ok #2" || mutants[0].place() != "example.go:6:5" {
		t.Errorf("%d mutants, the 13th is %q", len(mutants), mutants[12].key())
	}
}

// A survivor without a reason fails the run, and so does a reason without a survivor.
func TestReport(t *testing.T) {
	path := filepath.Join(t.TempDir(), "survivors.txt")
	text := "# For readers.\n\nprotocol/a/a.go f: x > 0\n\tEquivalent:\n\tnothing reads x.\n"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	reasons, err := readReasons(path)
	if err != nil {
		t.Fatal(err)
	}
	explained := &mutant{path: "protocol/a/a.go", pkg: "protocol/a", function: "f", source: "x > 0"}
	unexplained := &mutant{path: "protocol/a/a.go", pkg: "protocol/a", function: "f", source: "y > 0"}
	caught := &mutant{path: "protocol/a/a.go", pkg: "protocol/a", function: "f", source: "y > 0", fate: byOwn}
	for _, c := range []struct {
		mutants []*mutant
		want    string
	}{
		{[]*mutant{explained, caught}, ""},
		{[]*mutant{explained, unexplained}, "1 survivors are not explained"},
		{[]*mutant{caught}, "did not survive"},
	} {
		err := report(&strings.Builder{}, options{how: "negated"}, c.mutants, reasons)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("the error is %v, want %q", err, c.want)
		}
	}
	for _, bad := range []string{"protocol/a/a.go f: x > 0\n", "\tno guard\n", "something else\n"} {
		if err := os.WriteFile(path, []byte(bad), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := readReasons(path); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
}
