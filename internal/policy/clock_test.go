package policy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// realProcesses are the tests that start processes, which have no clock but the
// wall's. Everything else steps, advances a clock, or waits for a named signal.
var realProcesses = []string{"cmd/", "examples/", "test/"}

// waits are the functions of package time that wait.
var waits = map[string]bool{"Sleep": true, "After": true, "Tick": true, "NewTimer": true, "NewTicker": true, "AfterFunc": true}

// waitsIn returns the calls of the file that wait for the wall clock. In a bubble of
// synctest there is none: time passes when nobody can go on.
func waitsIn(f *ast.File) (found []*ast.SelectorExpr) {
	ast.Inspect(f, func(n ast.Node) bool {
		if c, ok := n.(*ast.CallExpr); ok && isSelector(c.Fun, "synctest", "Test") {
			return false
		}
		if s, ok := n.(*ast.SelectorExpr); ok && waits[s.Sel.Name] {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == "time" {
				found = append(found, s)
			}
		}
		return true
	})
	return found
}

// No test waits for the wall clock, save those of real processes.
func TestNoTestSleeps(t *testing.T) {
	set, files := source(t)
	for _, f := range files {
		if !f.test || slices.ContainsFunc(realProcesses, func(p string) bool { return strings.HasPrefix(f.name, p) }) {
			continue
		}
		for _, s := range waitsIn(f.syntax) {
			t.Errorf("%s: time.%s: a test must not depend on how fast the machine is; step, advance a clock or wait for a signal", set.Position(s.Pos()), s.Sel.Name)
		}
	}
}

// The check above finds what it looks for.
func TestSleepIsFound(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\nimport \"time\"\nfunc f() { time.Sleep(1); <-time.After(2); time.Now()\nsynctest.Test(t, func(t *T) { time.Sleep(3) }) }", 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := len(waitsIn(f)); got != 2 {
		t.Errorf("found %d waits, want 2", got)
	}
}
