package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// environment names the variable that says which mutant a test binary is: its
// number, a comma and what its guard becomes.
const environment = "CUTWATER_MUTANT"

// support is added to each package. A guard C of number N is rewritten to
// mutantGuard(N, C), which evaluates C first: what C does, it still does. The
// switch of types over x is rewritten to one over mutantHide(x, hidden).
const support = `package %s

import (
	"os"
	"strconv"
	"strings"
)

var mutantActive, mutantHow = func() (int, string) {
	number, how, _ := strings.Cut(os.Getenv("` + environment + `"), ",")
	n, _ := strconv.Atoi(number)
	return n, how
}()

func mutantGuard[B ~bool](n int, c B) B {
	switch {
	case n != mutantActive:
		return c
	case mutantHow == "negated":
		return !c
	}
	return mutantHow == "true"
}

func mutantHide[T any](x T, hidden func(any) int) (shown T) {
	if mutantActive != 0 && mutantHow != "true" && hidden(x) == mutantActive {
		return shown
	}
	return x
}
`

// mutant is one guard that can be negated.
type mutant struct {
	number       int
	path         string // protocol/barrier/gate.go
	pkg          string // protocol/barrier
	line, column int
	kind         kind
	function     string
	source       string // one line
	// repetition tells apart equal sources in one function, from 1.
	repetition int

	fate fate
}

// place is where the guard stands, as -run takes it.
func (m *mutant) place() string { return fmt.Sprintf("%s:%d:%d", m.path, m.line, m.column) }

// key names the guard in the file of survivors: it outlives edits elsewhere.
func (m *mutant) key() string {
	key := fmt.Sprintf("%s %s: %s", m.path, m.function, m.source)
	if m.repetition > 1 {
		key += fmt.Sprintf(" #%d", m.repetition)
	}
	return key
}

// mutated is the source of the mutant.
func (m *mutant) mutated(how string) string {
	switch {
	case m.kind == caseType:
		return "case " + m.source + " is never taken"
	case how != "negated":
		return m.source + " is " + how
	case m.kind == caseValue:
		return "case !" + m.source
	}
	return "!(" + m.source + ")"
}

// overlay is the rewritten source of the machines.
type overlay struct {
	dir     string
	replace map[string]string // absolute path to the file that is compiled instead
	last    int
}

func newOverlay(scratch string) *overlay {
	return &overlay{dir: scratch, replace: map[string]string{}}
}

// path is the file for go's -overlay.
func (o *overlay) path() string { return filepath.Join(o.dir, "overlay.json") }

func (o *overlay) write() error {
	text, err := json.Marshal(map[string]any{"Replace": o.replace})
	if err != nil {
		return err
	}
	return os.WriteFile(o.path(), text, 0o644)
}

// add puts the source in the place of the file, which need not exist.
func (o *overlay) add(path string, source []byte) error {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	instead := filepath.Join(o.dir, strings.ReplaceAll(path, "/", "_"))
	o.replace[absolute] = instead
	return os.WriteFile(instead, source, 0o644)
}

// rewrite adds the file with all its guards wrapped, and returns them.
func (o *overlay) rewrite(path string) ([]*mutant, error) {
	source, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	e := editor{fset: fset, source: source, switches: map[ast.Stmt]int{}}
	var mutants []*mutant
	times := map[string]int{}
	for _, g := range guardsOf(file) {
		if s, ok := g.in.(*ast.SwitchStmt); ok && s.Init != nil {
			return nil, fmt.Errorf("%s: a switch with both a statement and a tag cannot be rewritten; put the statement before it",
				fset.Position(s.Pos()))
		}
		o.last++
		at := fset.Position(g.expr.Pos())
		m := &mutant{number: o.last, path: path, pkg: filepath.Dir(path), line: at.Line, column: at.Column,
			kind: g.kind, function: g.function, source: oneLine(fset, g.expr)}
		times[m.key()]++
		m.repetition = times[m.key()]
		mutants = append(mutants, m)
		e.wrap(g, m.number)
	}
	if len(mutants) == 0 {
		return nil, nil
	}
	if err := o.add(path, e.apply()); err != nil {
		return nil, err
	}
	return mutants, o.add(filepath.Join(filepath.Dir(path), "mutant_support.go"), fmt.Appendf(nil, support, file.Name.Name))
}

func oneLine(fset *token.FileSet, e ast.Expr) string {
	var b bytes.Buffer
	if err := printer.Fprint(&b, fset, e); err != nil {
		panic(err) // a buffer takes everything, and the expression was parsed
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// editor inserts text into a source; no line moves.
type editor struct {
	fset     *token.FileSet
	source   []byte
	opens    []insertion // in the order of the text, outer ones first
	closes   []insertion
	switches map[ast.Stmt]int // the number of the first guard of each
}

type insertion struct {
	offset int
	text   string
}

func (e *editor) around(x ast.Expr, open, shut string) {
	e.opens = append(e.opens, insertion{e.fset.Position(x.Pos()).Offset, open})
	e.closes = append(e.closes, insertion{e.fset.Position(x.End()).Offset, shut})
}

// wrap puts the guard of that number under the control of the environment.
func (e *editor) wrap(g guard, number int) {
	switch g.kind {
	case condition:
		e.around(g.expr, fmt.Sprintf("mutantGuard(%d, ", number), ")")
	case caseValue:
		// switch tag { case v: }  becomes  switch t := tag; { case mutantGuard(N, t == (v)): }
		s := g.in.(*ast.SwitchStmt)
		first, known := e.switches[s]
		if !known {
			first = number
			e.switches[s] = number
			e.around(s.Tag, fmt.Sprintf("mutantTag%d := ", first), ";")
		}
		e.around(g.expr, fmt.Sprintf("mutantGuard(%d, mutantTag%d == (", number, first), "))")
	case caseType:
		s := g.in.(*ast.TypeSwitchStmt)
		if _, known := e.switches[s]; known {
			return // all types of the switch were wrapped with the first
		}
		e.switches[s] = number
		var hidden strings.Builder
		hidden.WriteString(", func(v any) int { switch v.(type) { ")
		for i, t := range casesOf(s.Body) {
			fmt.Fprintf(&hidden, "case %s: return %d; ", oneLine(e.fset, t), number+i)
		}
		hidden.WriteString("}; return 0 })")
		e.around(switched(s), "mutantHide(", hidden.String())
	}
}

// switched is the expression whose type is switched over.
func switched(s *ast.TypeSwitchStmt) ast.Expr {
	switch a := s.Assign.(type) {
	case *ast.AssignStmt:
		return a.Rhs[0].(*ast.TypeAssertExpr).X
	case *ast.ExprStmt:
		return a.X.(*ast.TypeAssertExpr).X
	}
	panic("a type switch without a type assertion")
}

// apply returns the source with all insertions: of those that end at one place
// the inner one ends first, of those that begin there the outer one begins first.
func (e *editor) apply() []byte {
	slices.Reverse(e.closes)
	all := append(slices.Clone(e.closes), e.opens...)
	slices.SortStableFunc(all, func(a, b insertion) int { return a.offset - b.offset })
	var out []byte
	last := 0
	for _, i := range all {
		out = append(out, e.source[last:i.offset]...)
		out = append(out, i.text...)
		last = i.offset
	}
	return append(out, e.source[last:]...)
}
