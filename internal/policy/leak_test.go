package policy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// leaky reports whether a file starts a goroutine or takes the disk's file system
// in hand.
func leaky(f *ast.File) (found bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			found = true
		case *ast.CallExpr:
			s, ok := n.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			x, ok := s.X.(*ast.Ident)
			if s.Sel.Name == "Go" || ok && x.Name == "vfs" && s.Sel.Name == "OS" {
				found = true
			}
		}
		return true
	})
	return found
}

// Packages that start goroutines or open files on the disk, in their code or in
// their tests, check in TestMain that nothing is left of them.
func TestLeaksAreLookedFor(t *testing.T) {
	_, files := source(t)
	found, checked, tested := map[string]bool{}, map[string]bool{}, map[string]bool{}
	var packages []string
	for _, f := range files {
		if strings.HasPrefix(f.name, "tools/") || strings.HasPrefix(f.name, "internal/") || slices.ContainsFunc(realProcesses, func(p string) bool { return strings.HasPrefix(f.name, p) }) {
			continue
		}
		if !found[f.pkg] && leaky(f.syntax) {
			found[f.pkg] = true
			packages = append(packages, f.pkg)
		}
		tested[f.pkg] = tested[f.pkg] || f.test
		checked[f.pkg] = checked[f.pkg] || f.test && calls(f.syntax, "leak", "VerifyTestMain")
	}
	if len(packages) < 5 {
		t.Fatalf("only %v are found to start goroutines or open files", packages)
	}
	for _, p := range packages {
		if tested[p] && !checked[p] {
			t.Errorf("package %s starts goroutines or opens files: give its tests a TestMain that calls leak.VerifyTestMain", p)
		}
	}
}

// calls reports whether the file calls pkg.name.
func calls(f *ast.File, pkg, name string) (found bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		found = found || isSelector(n, pkg, name)
		return true
	})
	return found
}

// isSelector reports whether a node is pkg.name.
func isSelector(n ast.Node, pkg, name string) bool {
	s, ok := n.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != name {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == pkg
}

// The check above finds what it looks for.
func TestLeakyIsFound(t *testing.T) {
	for body, want := range map[string]bool{"go f()": true, "wg.Go(f)": true, "use(vfs.OS())": true, "use(vfs.Mem())": false} {
		f, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\nfunc g() { "+body+" }", 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := leaky(f); got != want {
			t.Errorf("%s: found %t, want %t", body, got, want)
		}
	}
}
