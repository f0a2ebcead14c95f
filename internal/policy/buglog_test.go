package policy

import (
	"go/ast"
	"regexp"
	"strings"
	"testing"
)

// rowOfBugLog is a row of docs/bug-log.md: its id, and its test.
var rowOfBugLog = regexp.MustCompile("(?m)^\\| ([A-Z][0-9]{2}) \\| .+ \\| `(TestBugLog_([A-Z][0-9]{2})_[A-Za-z]+)` \\|$")

// Each row of the bug log names the one test of its id, and each such test has its row.
func TestBugLogNamesItsTests(t *testing.T) {
	_, files := source(t)
	tests := map[string]int{}
	for _, f := range files {
		for _, d := range f.syntax.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(fn.Name.Name, "TestBugLog_") {
				if tests[fn.Name.Name]++; fn.Doc == nil {
					t.Errorf("%s does not say what users suffered", fn.Name.Name)
				}
			}
		}
	}
	page := read(t, "docs/bug-log.md")
	rows := rowOfBugLog.FindAllStringSubmatch(page, -1)
	if want := strings.Count(page, "`TestBugLog_") - 1; len(rows) < 25 || len(rows) != want { // one is in the text
		t.Errorf("%d rows, and %d tests are named in some", len(rows), want)
	}
	for _, row := range rows {
		if row[1] != row[3] || tests[row[2]] != 1 {
			t.Errorf("row %s names %s, of which there are %d", row[1], row[2], tests[row[2]])
		}
		delete(tests, row[2])
	}
	for name := range tests {
		t.Errorf("%s has no row", name)
	}
}
