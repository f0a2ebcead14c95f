package expression

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/checker"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/file"

	"cutwater/stream/row"
)

// Expr is a compiled expression. It is safe for concurrent use, each user with
// its own Frame.
type Expr struct {
	// Source is the text it was compiled from.
	Source string
	// Kind is the kind of its result. It is row.Null only for the literal nil.
	Kind row.Kind
	// Field is the index of the field if the expression is just a field, or -1.
	Field int

	v    value
	null func(*Frame) bool
}

// Error is an expression that cannot be compiled.
type Error struct {
	// Column is the rune at which the problem starts, from 0; Line is for
	// expressions of several lines, from 1.
	Line, Column int
	// Problem is one sentence without a full stop.
	Problem string
}

// Error is the problem alone; callers know where the expression stands.
func (e *Error) Error() string { return e.Problem }

// Compile parses and checks an expression over rows of a schema. The error is an
// *Error.
func Compile(source string, schema *row.Schema) (*Expr, error) {
	config := configOf(schema)
	tree, err := checker.ParseCheck(source, config)
	if err != nil {
		return nil, foreign(err)
	}
	c := &compiler{schema: schema}
	v, err := c.compile(tree.Node)
	if err != nil {
		return nil, c.bound(err, tree.Source)
	}
	return exprOf(source, v), nil
}

func exprOf(source string, v value) *Expr {
	return &Expr{Source: source, Kind: v.kind, Field: v.field, v: v, null: v.null()}
}

// CompileCondition compiles an expression whose result must be a bool.
func CompileCondition(source string, schema *row.Schema) (*Expr, error) {
	e, err := Compile(source, schema)
	if err == nil && e.Kind != row.Bool {
		return nil, &Error{Line: 1, Problem: fmt.Sprintf("a condition must be a bool, and this is %s", article(e.Kind))}
	}
	return e, err
}

// configOf describes the fields and functions to the checker.
func configOf(schema *row.Schema, more ...expr.Option) *conf.Config {
	config := conf.CreateNew()
	options := append([]expr.Option{expr.Env(environment(schema)), expr.DisableAllBuiltins()}, declarations()...)
	options = append(options, more...)
	for _, option := range options {
		option(config)
	}
	for name := range config.Disabled {
		delete(config.Builtins, name)
	}
	config.Check()
	return config
}

// foreign turns an error of the checker into ours, with our names of the types.
func foreign(err error) error {
	var f *file.Error
	if errors.As(err, &f) {
		return &Error{Line: f.Line, Column: f.Column, Problem: strings.TrimSpace(typeNames.Replace(f.Message))}
	}
	return &Error{Line: 1, Problem: err.Error()}
}

var typeNames = strings.NewReplacer("int64", "int", "float64", "float", "time.Time", "timestamp",
	"[]uint8", "bytes", "expression.list", "list", "unknown name", "there is no field or function")

// Int evaluates an expression of kind Int or Timestamp; ok is false for null.
func (e *Expr) Int(f *Frame) (v int64, ok bool) { return e.v.i(f) }

// Float evaluates an expression of kind Float or Int.
func (e *Expr) Float(f *Frame) (v float64, ok bool) { return e.v.asFloat()(f) }

// Text evaluates an expression of kind String, Bytes or List. The text is valid
// until the frame's next Begin.
func (e *Expr) Text(f *Frame) (v string, ok bool) { return e.v.s(f) }

// True evaluates a condition; null is false.
func (e *Expr) True(f *Frame) bool {
	v, _ := e.v.b(f)
	return v
}

// Cell evaluates an expression whose kind is not a text kind to the bits of a
// row's cell.
func (e *Expr) Cell(f *Frame) (bits uint64, ok bool) {
	switch e.Kind {
	case row.Float:
		v, ok := e.v.f(f)
		return math.Float64bits(v), ok
	case row.Bool:
		v, ok := e.v.b(f)
		if v {
			return 1, ok
		}
		return 0, ok
	case row.Null:
		return 0, false
	}
	v, ok := e.v.i(f)
	return uint64(v), ok
}

// Null evaluates an expression of any kind only for whether it is null.
func (e *Expr) Null(f *Frame) bool { return e.null(f) }

// IsText reports whether a kind's cells point into the row's text.
func IsText(k row.Kind) bool { return k == row.String || k == row.Bytes || k == row.List }
