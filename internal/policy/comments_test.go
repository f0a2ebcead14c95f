package policy

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// silent returns the exported names of a file that have no doc comment. A constant
// or variable may be explained by the comment of its group or of its line; a method
// only counts if its type is exported.
func silent(f *ast.File) (names []string) {
	missing := func(name *ast.Ident, docs ...*ast.CommentGroup) {
		for _, d := range docs {
			if d != nil {
				return
			}
		}
		if name.IsExported() {
			names = append(names, name.Name)
		}
	}
	for _, decl := range f.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if receiver := receiverOf(d); receiver == "" || ast.IsExported(receiver) {
				missing(d.Name, d.Doc)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					missing(s.Name, s.Doc, d.Doc, s.Comment)
				case *ast.ValueSpec:
					for _, n := range s.Names {
						missing(n, s.Doc, d.Doc, s.Comment)
					}
				}
			}
		}
	}
	return names
}

// receiverOf returns the name of a method's type, or "" for a function.
func receiverOf(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return ""
	}
	expr := d.Recv.List[0].Type
	for {
		switch e := expr.(type) {
		case *ast.StarExpr:
			expr = e.X
		case *ast.IndexExpr:
			expr = e.X
		case *ast.IndexListExpr:
			expr = e.X
		case *ast.Ident:
			return e.Name
		default:
			return fmt.Sprintf("%T", e)
		}
	}
}

// Every exported name has a doc comment, and every package says what it is.
func TestEveryExportedNameIsExplained(t *testing.T) {
	_, files := source(t)
	explained := map[string]bool{}
	var packages []string
	for _, f := range files {
		if f.test || f.syntax.Name.Name == "main" && !strings.HasPrefix(f.pkg, "cmd/") {
			continue
		}
		if _, seen := explained[f.pkg]; !seen {
			packages = append(packages, f.pkg)
		}
		explained[f.pkg] = explained[f.pkg] || f.syntax.Doc != nil
		for _, name := range silent(f.syntax) {
			t.Errorf("%s: %s has no doc comment", f.name, name)
		}
	}
	for _, p := range packages {
		if !explained[p] {
			t.Errorf("package %s has no comment", p)
		}
	}
}

// The check above finds what it looks for.
func TestSilentNameIsFound(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "x.go", `package x
type T struct{}
func (t *T) M() {}
func (t t2[A]) N() {}
// F is explained.
func F() {}
func G() {}
func h() {}
const (
	A = 1
	B = 2 // B is explained.
)
// All of these are explained.
var (C = 1; D = 2)
`, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(silent(f), " "); got != "T M G A" {
		t.Errorf("found %q, want T M G A", got)
	}
}
