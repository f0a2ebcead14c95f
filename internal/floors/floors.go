package floors

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// rules is a parsed policy.
type rules struct {
	module string
	// floors are the patterns of each floor, lowest first.
	floors [][]string
	// allow and deny are pairs: packages of to may, or must not, import those of
	// from.
	allow, deny []rule
}

type rule struct{ from, to []string }

func (r rule) covers(imported, importer string) bool {
	return matchesAny(r.from, imported) && matchesAny(r.to, importer)
}

// testKits may be imported by any test.
var testKits = []string{
	"internal/script", "internal/leak", "messages/describe", "storage/vfs/vfstest", "storage/storagetest", "state/statetest",
	"actors/system/systemtest", "connector/connectortest", "testkit/...",
}

// parse reads a policy for the packages of a module.
func parse(module, policy string) (*rules, error) {
	r := &rules{module: module}
	var text strings.Builder
	for line := range strings.Lines(policy) {
		line, _, _ = strings.Cut(line, "#")
		text.WriteString(line + " ")
	}
	statements := strings.Split(text.String(), ";")
	if rest := strings.TrimSpace(statements[len(statements)-1]); rest != "" {
		return nil, fmt.Errorf("the policy ends without a semicolon: %q", rest)
	}
	for i, statement := range statements[:len(statements)-1] {
		negative := strings.Contains(statement, "!<")
		var groups [][]string
		for _, group := range strings.Split(strings.ReplaceAll(statement, "!<", "<"), "<") {
			var patterns []string
			for _, pattern := range strings.Split(group, ",") {
				pattern = strings.TrimSpace(pattern)
				if pattern == "" || strings.ContainsAny(pattern, " \t!") {
					return nil, fmt.Errorf("statement %d of the policy has a bad pattern %q: %s",
						i+1, pattern, strings.TrimSpace(statement))
				}
				patterns = append(patterns, pattern)
			}
			groups = append(groups, patterns)
		}
		if len(groups) < 2 || negative && len(groups) != 2 {
			return nil, fmt.Errorf("statement %d of the policy is neither `a < b` nor `a !< b`: %s",
				i+1, strings.TrimSpace(statement))
		}
		if i == 0 {
			r.floors = groups
		}
		for to := 1; to < len(groups); to++ {
			pair := rule{slices.Concat(groups[:to]...), groups[to]}
			if negative {
				r.deny = append(r.deny, pair)
			} else {
				r.allow = append(r.allow, pair)
			}
		}
	}
	return r, nil
}

// file is one Go file: the package's path within the module, and its imports,
// those of this module as paths within it.
type file struct {
	name    string
	pkg     string
	test    bool
	imports []string
	// inside tells which imports are of this module.
	inside []bool
}

// check returns one sentence per violation.
func (r *rules) check(files []file) []string {
	var bad []string
	for _, f := range files {
		if !r.known(f.pkg) {
			bad = append(bad, fmt.Sprintf("%s: package %s stands on no floor; give it a place in internal/floors/policy.go", f.name, f.pkg))
			continue
		}
		for i, imported := range f.imports {
			if problem := r.problem(f, imported, f.inside[i]); problem != "" {
				bad = append(bad, fmt.Sprintf("%s: %s must not import %s: %s", f.name, f.pkg, imported, problem))
			}
		}
	}
	return bad
}

// problem says why the import is wrong, or nothing.
func (r *rules) problem(f file, imported string, inside bool) string {
	if f.test {
		if !inside || imported == f.pkg || matchesAny(testKits, imported) || r.floor(imported) <= r.floor(f.pkg) {
			return ""
		}
		return "it stands on a higher floor"
	}
	for _, d := range r.deny {
		if d.covers(imported, f.pkg) {
			return "the policy forbids it"
		}
	}
	first, _, _ := strings.Cut(imported, "/")
	if !inside && !strings.Contains(first, ".") {
		return "" // the standard library
	}
	for _, a := range r.allow {
		if a.covers(imported, f.pkg) {
			return ""
		}
	}
	return "no rule of the policy allows it"
}

// known reports whether any rule speaks of the package as an importer.
func (r *rules) known(pkg string) bool {
	if r.floor(pkg) >= 0 {
		return true
	}
	return slices.ContainsFunc(r.allow, func(a rule) bool {
		return !slices.Contains(a.to, "...") && matchesAny(a.to, pkg)
	})
}

// floor returns the number of the floor on which the package stands, or -1.
func (r *rules) floor(pkg string) int {
	return slices.IndexFunc(r.floors, func(patterns []string) bool { return matchesAny(patterns, pkg) })
}

func matchesAny(patterns []string, pkg string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		prefix, below := strings.CutSuffix(pattern, "/...")
		return pattern == "..." || pkg == prefix || below && strings.HasPrefix(pkg, prefix+"/")
	})
}

// read returns the Go files of the tree at root, which is the root of the module,
// with their imports; nothing else of them is parsed.
func read(root, module string) ([]file, error) {
	var files []file
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "testdata" || entry.Name() == ".git"):
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(name, ".go"):
			return nil
		}
		source, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		f, err := readFile(filepath.ToSlash(relative), source, module)
		if err != nil {
			return err
		}
		files = append(files, f)
		return nil
	})
	return files, err
}

func readFile(name string, source []byte, module string) (file, error) {
	f := file{name: name, pkg: path.Dir(name), test: strings.HasSuffix(name, "_test.go")}
	syntax, err := parser.ParseFile(token.NewFileSet(), name, source, parser.ImportsOnly)
	if err != nil {
		return f, err
	}
	for _, spec := range syntax.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return f, fmt.Errorf("%s: import %s: %w", name, spec.Path.Value, err)
		}
		within, inside := strings.CutPrefix(imported, module+"/")
		f.imports = append(f.imports, within)
		f.inside = append(f.inside, inside)
	}
	return f, nil
}
