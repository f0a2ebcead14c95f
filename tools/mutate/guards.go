package main

import (
	"go/ast"
	"go/token"
)

// kind is what stands at a guard.
type kind uint8

const (
	// condition is a boolean expression.
	condition kind = iota
	// caseValue is a value of a switch with a tag: the tag equals it, or not.
	caseValue
	// caseType is a type of a type switch: the negation hides the type from it.
	caseType
)

// guard is a boolean expression that decides what a machine does.
type guard struct {
	kind kind
	expr ast.Expr
	// function is the name of the declaration around it.
	function string
	// in is the switch of a caseValue or caseType.
	in ast.Stmt
}

// guardsOf finds the guards of a file in the order of the text, an outer one
// before those inside it.
func guardsOf(file *ast.File) []guard {
	var found []guard
	for _, d := range file.Decls {
		f := finder{function: nameOf(d), seen: map[ast.Expr]bool{}}
		ast.Inspect(d, f.visit)
		found = append(found, f.found...)
	}
	return found
}

func nameOf(d ast.Decl) string {
	f, ok := d.(*ast.FuncDecl)
	if !ok {
		return "package"
	}
	if f.Recv == nil {
		return f.Name.Name
	}
	receiver := f.Recv.List[0].Type
	for {
		switch t := receiver.(type) {
		case *ast.StarExpr:
			receiver = t.X
		case *ast.IndexExpr:
			receiver = t.X
		case *ast.Ident:
			return t.Name + "." + f.Name.Name
		default:
			return f.Name.Name
		}
	}
}

// finder collects the guards of one declaration.
type finder struct {
	function string
	found    []guard
	// seen are expressions whose negation is that of a guard found before.
	seen map[ast.Expr]bool
}

func (f *finder) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GenDecl:
		return n.Tok != token.CONST // a constant cannot call the switch
	case *ast.IfStmt:
		f.guard(n.Cond)
	case *ast.ForStmt:
		f.guard(n.Cond)
	case *ast.SwitchStmt:
		for _, e := range casesOf(n.Body) {
			if n.Tag == nil {
				f.guard(e)
			} else {
				f.add(guard{kind: caseValue, expr: e, in: n})
			}
		}
	case *ast.TypeSwitchStmt:
		for _, e := range casesOf(n.Body) {
			f.add(guard{kind: caseType, expr: e, in: n})
		}
	case *ast.CallExpr:
		if s, ok := n.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Assert" {
			f.guard(n.Args[0])
		}
	case *ast.UnaryExpr:
		if n.Op == token.NOT {
			f.guard(n)
		}
	case *ast.BinaryExpr:
		switch n.Op {
		case token.LAND, token.LOR:
			f.guard(n)
			f.guard(n.X)
			f.guard(n.Y)
		case token.EQL, token.NEQ, token.LSS, token.LEQ, token.GTR, token.GEQ:
			f.guard(n)
		}
	}
	return true
}

// guard adds a condition, once. Assert(false) is a panic and not a guard.
func (f *finder) guard(e ast.Expr) {
	if e == nil || f.seen[e] {
		return
	}
	if name, ok := e.(*ast.Ident); ok && (name.Name == "false" || name.Name == "true") {
		return
	}
	f.add(guard{kind: condition, expr: e})
	for { // (C) and !C are negated with C
		f.seen[e] = true
		switch x := e.(type) {
		case *ast.ParenExpr:
			e = x.X
		case *ast.UnaryExpr:
			if x.Op != token.NOT {
				return
			}
			e = x.X
		default:
			return
		}
	}
}

func (f *finder) add(g guard) {
	g.function = f.function
	f.found = append(f.found, g)
}

func casesOf(body *ast.BlockStmt) []ast.Expr {
	var all []ast.Expr
	for _, s := range body.List {
		all = append(all, s.(*ast.CaseClause).List...)
	}
	return all
}
