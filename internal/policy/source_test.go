package policy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// root is the root of the module.
const root = "../.."

// file is one parsed Go file of the module.
type file struct {
	// name is its path within the module; pkg is that of its folder.
	name, pkg string
	test      bool
	syntax    *ast.File
}

// source is the module's Go files, generated messages left out. Nobody changes
// them.
func source(t *testing.T) (*token.FileSet, []file) {
	t.Helper()
	m := parsed()
	if m.err != nil {
		t.Fatal(m.err)
	}
	if len(m.files) < 50 {
		t.Fatalf("only %d files were found: is this the root of the module?", len(m.files))
	}
	return m.set, m.files
}

type module struct {
	set   *token.FileSet
	files []file
	err   error
}

// parsed reads them once for all tests.
var parsed = sync.OnceValue(func() module {
	set := token.NewFileSet()
	var files []file
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		base := entry.Name()
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (base == "testdata" || base == ".git" || base == "bin"):
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(base, ".go") || strings.HasSuffix(base, ".pb.go"):
			return nil
		}
		relative, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		relative = filepath.ToSlash(relative)
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		syntax, err := parser.ParseFile(set, relative, content, parser.ParseComments)
		if err != nil {
			return err
		}
		files = append(files, file{name: relative, pkg: path.Dir(relative), test: strings.HasSuffix(base, "_test.go"), syntax: syntax})
		return nil
	})
	return module{set, files, err}
})

// generated is the generated files of package messages.
func generated(t *testing.T) []*ast.File {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(root, "messages", "*.pb.go"))
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, name := range names {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return files
}
