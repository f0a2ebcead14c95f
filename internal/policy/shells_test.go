package policy

import (
	"go/ast"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// shell is one kind of actor: its package comment lists what it accepts, and these
// functions take it in.
type shell struct {
	pkg string
	// receives are functions as package.function or package.Type.method; the cases
	// of their type switches are what the actor accepts.
	receives []string
	// phases is a package whose exported constants of type Phase are the actor's
	// behaviours, or empty for an actor of one behaviour.
	phases string
}

var shells = []shell{
	{pkg: "actors/agent", receives: []string{"actors/agent.Agent.Receive"}},
	{pkg: "actors/coordinator", receives: []string{"protocol/job.Master.Step", "actors/coordinator.Coordinator.Receive"}},
	{pkg: "actors/dispatcher", receives: []string{"actors/dispatcher.Dispatcher.Receive", "protocol/dispatch.Dispatcher.Step"}},
	{pkg: "actors/task", receives: []string{"actors/task.Task.receive", "actors/task.Task.inBand", "actors/task.Task.receiveClosed"}, phases: "protocol/subtask"},
	{pkg: "actors/taskmanager", receives: []string{"actors/taskmanager.TaskManager.Receive"}},
	{pkg: "actors/timer", receives: []string{"actors/timer.Timer.Receive"}},
}

// What the package comment of an actor says it accepts is what its code accepts,
// and all its phases are named there.
func TestShellsAcceptWhatTheySay(t *testing.T) {
	_, files := source(t)
	messages := messageNames(t)
	for _, s := range shells {
		said := map[string]bool{}
		doc := packageComment(files, s.pkg)
		for _, word := range regexp.MustCompile(`\b[A-Z][A-Za-z]+\b`).FindAllString(doc, -1) {
			if messages[word] {
				said[word] = true
			}
		}
		accepted := map[string]bool{}
		for _, name := range s.receives {
			cases := casesOf(files, name)
			if len(cases) == 0 {
				t.Fatalf("%s has no type switch over messages", name)
			}
			for _, c := range cases {
				accepted[c] = true
			}
		}
		for _, m := range sorted(accepted) {
			if !said[m] {
				t.Errorf("%s accepts %s, but its package comment does not list it", s.pkg, m)
			}
		}
		for _, m := range sorted(said) {
			if !accepted[m] {
				t.Errorf("the package comment of %s lists %s, but no receive function has a case for it", s.pkg, m)
			}
		}
		if s.phases == "" {
			continue
		}
		phases := constants(files, s.phases, "Phase")
		if len(phases) < 3 {
			t.Fatalf("package %s has only the phases %v", s.phases, phases)
		}
		for _, phase := range phases {
			if !regexp.MustCompile(`\b` + phase + `\b`).MatchString(doc) {
				t.Errorf("the package comment of %s does not name the phase %s", s.pkg, phase)
			}
		}
	}
}

// Every actor has an entry in the table.
func TestAllShellsAreListed(t *testing.T) {
	_, files := source(t)
	for _, f := range files {
		below, isActor := strings.CutPrefix(f.pkg, "actors/")
		if !isActor || below == "system" || strings.HasPrefix(below, "system/") {
			continue
		}
		if !slices.ContainsFunc(shells, func(s shell) bool { return s.pkg == f.pkg }) {
			t.Errorf("the actor package %s is not listed in shells", f.pkg)
		}
	}
}

// messageNames are the messages of the module: what has a method ProtoReflect.
func messageNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, f := range generated(t) {
		for _, decl := range f.Decls {
			if d, ok := decl.(*ast.FuncDecl); ok && d.Name.Name == "ProtoReflect" {
				names[receiverOf(d)] = true
			}
		}
	}
	if len(names) < 50 {
		t.Fatalf("only %d messages were found", len(names))
	}
	return names
}

func packageComment(files []file, pkg string) string {
	var b strings.Builder
	for _, f := range files {
		if f.pkg == pkg && !f.test && f.syntax.Doc != nil {
			b.WriteString(f.syntax.Doc.Text())
		}
	}
	return b.String()
}

// casesOf lists the message types in the type switches of a function.
func casesOf(files []file, name string) (types []string) {
	for _, f := range files {
		for _, decl := range f.syntax.Decls {
			d, ok := decl.(*ast.FuncDecl)
			if !ok || f.test {
				continue
			}
			full := f.pkg + "." + d.Name.Name
			if r := receiverOf(d); r != "" {
				full = f.pkg + "." + r + "." + d.Name.Name
			}
			if full != name {
				continue
			}
			ast.Inspect(d.Body, func(n ast.Node) bool {
				s, ok := n.(*ast.TypeSwitchStmt)
				if !ok {
					return true
				}
				for _, clause := range s.Body.List {
					for _, expr := range clause.(*ast.CaseClause).List {
						if star, ok := expr.(*ast.StarExpr); ok {
							if sel, ok := star.X.(*ast.SelectorExpr); ok {
								types = append(types, sel.Sel.Name)
							}
						}
					}
				}
				return true
			})
		}
	}
	return types
}

// constants lists the exported constants of a type, which the first of a group
// states.
func constants(files []file, pkg, typ string) (names []string) {
	for _, f := range files {
		if f.pkg != pkg || f.test {
			continue
		}
		for _, decl := range f.syntax.Decls {
			d, ok := decl.(*ast.GenDecl)
			if !ok || len(d.Specs) == 0 {
				continue
			}
			first, ok := d.Specs[0].(*ast.ValueSpec)
			if !ok {
				continue
			}
			if id, ok := first.Type.(*ast.Ident); !ok || id.Name != typ {
				continue
			}
			for _, spec := range d.Specs {
				for _, n := range spec.(*ast.ValueSpec).Names {
					if n.IsExported() {
						names = append(names, n.Name)
					}
				}
			}
		}
	}
	return names
}

func sorted(set map[string]bool) []string {
	var names []string
	for n := range set {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}
