package expression

import (
	"errors"
	"fmt"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/checker"
	"github.com/expr-lang/expr/file"

	"cutwater/stream/row"
)

// Call is a call of a function that is not part of the language, such as an
// aggregate: its arguments are expressions of the language.
type Call struct {
	Name string
	Args []*Expr
	// Columns are the runes at which the arguments start, from 0.
	Columns []int
}

// CompileCall compiles a source that must be one call of one of the names. The
// error is an *Error.
func CompileCall(source string, schema *row.Schema, names []string) (*Call, error) {
	var options []expr.Option
	for _, name := range names {
		options = append(options, expr.Function(name, func(...any) (any, error) { return nil, nil }, new(func(...any) any)))
	}
	tree, err := checker.ParseCheck(source, configOf(schema, options...))
	if err != nil {
		return nil, foreign(err)
	}
	call, ok := tree.Node.(*ast.CallNode)
	name := ""
	if ok {
		if id, isName := call.Callee.(*ast.IdentifierNode); isName {
			name = id.Value
		}
	}
	known := false
	for _, n := range names {
		known = known || n == name
	}
	if !known {
		return nil, &Error{Line: 1, Problem: fmt.Sprintf("this must be one call of %s; compute with the results in a map operator behind it", strings.Join(names, ", "))}
	}
	out := &Call{Name: name}
	c := &compiler{schema: schema}
	for _, arg := range call.Arguments {
		v, err := c.compile(arg)
		if err != nil {
			return nil, c.bound(err, tree.Source)
		}
		out.Args = append(out.Args, exprOf(arg.String(), v))
		at := (&file.Error{Location: arg.Location()}).Bind(tree.Source)
		out.Columns = append(out.Columns, at.Column)
	}
	return out, nil
}

// bound turns an error's offset into a line and a column.
func (c *compiler) bound(err error, source file.Source) error {
	var e *Error
	if errors.As(err, &e) {
		at := (&file.Error{Location: file.Location{From: e.Column}}).Bind(source)
		e.Line, e.Column = at.Line, at.Column
	}
	return err
}
