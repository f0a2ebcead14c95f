package expression

import (
	"fmt"
	"math"
	"strings"

	"github.com/expr-lang/expr/ast"

	"cutwater/stream/row"
)

type compiler struct{ schema *row.Schema }

func problem(n ast.Node, format string, args ...any) error {
	return &Error{Column: n.Location().From, Problem: fmt.Sprintf(format, args...)}
}

func (c *compiler) compile(n ast.Node) (value, error) {
	switch n := n.(type) {
	case *ast.NilNode:
		return never(), nil
	case *ast.IntegerNode:
		v := ints(always(int64(n.Value)))
		v.constant = true
		return v, nil
	case *ast.FloatNode:
		v := floats(always(n.Value))
		v.constant = true
		return v, nil
	case *ast.StringNode:
		v := texts(always(n.Value))
		v.constant = true
		return v, nil
	case *ast.BoolNode:
		v := bools(always(n.Value))
		v.constant = true
		return v, nil
	case *ast.IdentifierNode:
		for i, f := range c.schema.Fields {
			if f.Name == n.Value {
				return fieldOf(i, f.Kind), nil
			}
		}
		return value{}, problem(n, "%s is not a field", n.Value)
	case *ast.UnaryNode:
		return c.unary(n)
	case *ast.BinaryNode:
		return c.binary(n)
	case *ast.ConditionalNode:
		return c.conditional(n)
	case *ast.CallNode:
		return c.call(n)
	case *ast.ArrayNode:
		return value{}, problem(n, "a list can stand only on the right of `in`")
	case *ast.MemberNode, *ast.SliceNode, *ast.ChainNode:
		return value{}, problem(n, "fields have no parts: `.` and `[...]` are not available")
	case *ast.VariableDeclaratorNode, *ast.SequenceNode:
		return value{}, problem(n, "an expression is one value: `let` and `;` are not available")
	}
	return value{}, problem(n, "this form of expression is not available here")
}

func (c *compiler) unary(n *ast.UnaryNode) (value, error) {
	x, err := c.compile(n.Node)
	if err != nil {
		return value{}, err
	}
	var v value
	switch {
	case (n.Operator == "not" || n.Operator == "!") && x.kind == row.Bool:
		b := x.b
		v = bools(func(f *Frame) (bool, bool) {
			t, _ := b(f)
			return !t, true
		})
	case n.Operator == "+" && x.numeric():
		return x, nil
	case n.Operator == "-" && x.kind == row.Int:
		v = ints(negate(x.i))
	case n.Operator == "-" && x.kind == row.Float:
		a := x.f
		v = floats(func(f *Frame) (float64, bool) {
			t, ok := a(f)
			return -t, ok
		})
	default:
		return value{}, problem(n, "%s cannot be applied to %s", n.Operator, article(x.kind))
	}
	return c.finish(n, v, x)
}

// finish folds a node whose operands are all constant.
func (c *compiler) finish(n ast.Node, v value, operands ...value) (value, error) {
	for _, o := range operands {
		if !o.constant {
			return v, nil
		}
	}
	f := &Frame{row: &row.Row{}}
	v.null()(f)
	if f.err != nil {
		return value{}, problem(n, "%s", f.err.Problem)
	}
	return v.folded(), nil
}

func (c *compiler) binary(n *ast.BinaryNode) (value, error) {
	switch n.Operator {
	case "in":
		return c.in(n)
	case "matches":
		return c.matches(n)
	}
	x, err := c.compile(n.Left)
	if err != nil {
		return value{}, err
	}
	y, err := c.compile(n.Right)
	if err != nil {
		return value{}, err
	}
	var v value
	ok := false
	switch n.Operator {
	case "&&", "and":
		if ok = x.kind == row.Bool && y.kind == row.Bool; ok {
			v = bools(and(x.b, y.b))
		}
	case "||", "or":
		if ok = x.kind == row.Bool && y.kind == row.Bool; ok {
			v = bools(or(x.b, y.b))
		}
	case "??":
		v, ok = coalesce(x, y)
	case "==", "!=", "<", "<=", ">", ">=":
		v, ok = compare(n.Operator, x, y)
	case "contains", "startsWith", "endsWith":
		if ok = x.kind == row.String && y.kind == row.String; ok {
			v = bools(stringTest(n.Operator, x.s, y.s))
		}
	default:
		v, ok = arithmetic(n.Operator, x, y)
	}
	if !ok {
		if x.kind == row.Timestamp || y.kind == row.Timestamp {
			return value{}, problem(n, "%s cannot be applied to %s and %s; timestamp(\"2001-01-31T00:00:00Z\") makes a timestamp, unix_ms(t) an int",
				n.Operator, article(x.kind), article(y.kind))
		}
		return value{}, problem(n, "%s cannot be applied to %s and %s", n.Operator, article(x.kind), article(y.kind))
	}
	return c.finish(n, v, x, y)
}

func and(x, y function[bool]) function[bool] {
	return func(f *Frame) (bool, bool) {
		if v, _ := x(f); !v {
			return false, true
		}
		v, _ := y(f)
		return v, true
	}
}

func or(x, y function[bool]) function[bool] {
	return func(f *Frame) (bool, bool) {
		if v, _ := x(f); v {
			return true, true
		}
		v, _ := y(f)
		return v, true
	}
}

// common brings two values to one kind: that of either where the other is nil,
// float for int and float.
func common(x, y value) (a, b value, ok bool) {
	switch {
	case x.kind == y.kind:
	case x.kind == row.Null:
		x.kind = y.kind
	case y.kind == row.Null:
		y.kind = x.kind
	case x.numeric() && y.numeric():
		x.f, y.f = x.asFloat(), y.asFloat()
		x.kind, y.kind = row.Float, row.Float
	default:
		return x, y, false
	}
	return x, y, true
}

func coalesce(x, y value) (value, bool) {
	x, y, ok := common(x, y)
	if !ok {
		return value{}, false
	}
	v := value{kind: x.kind, field: -1}
	switch kindClass(x.kind) {
	case row.Int:
		v.i = orElse(x.i, y.i)
	case row.Float:
		v.f = orElse(x.f, y.f)
	case row.String:
		v.s = orElse(x.s, y.s)
	case row.Bool:
		v.b = orElse(x.b, y.b)
	default:
		return never(), true
	}
	return v, true
}

func orElse[T any](x, y function[T]) function[T] {
	return func(f *Frame) (T, bool) {
		if v, ok := x(f); ok {
			return v, true
		}
		return y(f)
	}
}

// kindClass is the kind that stands for the function that a kind uses.
func kindClass(k row.Kind) row.Kind {
	switch k {
	case row.Timestamp:
		return row.Int
	case row.Bytes, row.List:
		return row.String
	}
	return k
}

func (c *compiler) conditional(n *ast.ConditionalNode) (value, error) {
	cond, err := c.compile(n.Cond)
	if err != nil {
		return value{}, err
	}
	if cond.kind != row.Bool {
		return value{}, problem(n.Cond, "a condition must be a bool, and this is %s", article(cond.kind))
	}
	x, err := c.compile(n.Exp1)
	if err != nil {
		return value{}, err
	}
	y, err := c.compile(n.Exp2)
	if err != nil {
		return value{}, err
	}
	a, b, ok := common(x, y)
	if !ok {
		return value{}, problem(n.Exp2, "the branches of a condition must have one type: %s and %s", article(x.kind), article(y.kind))
	}
	v := value{kind: a.kind, field: -1}
	switch kindClass(a.kind) {
	case row.Int:
		v.i = choose(cond.b, a.i, b.i)
	case row.Float:
		v.f = choose(cond.b, a.f, b.f)
	case row.String:
		v.s = choose(cond.b, a.s, b.s)
	case row.Bool:
		v.b = choose(cond.b, a.b, b.b)
	default:
		v = never()
	}
	return c.finish(n, v, cond, x, y)
}

func choose[T any](cond function[bool], x, y function[T]) function[T] {
	return func(f *Frame) (T, bool) {
		if t, _ := cond(f); t {
			return x(f)
		}
		return y(f)
	}
}

func stringTest(operator string, x, y function[string]) function[bool] {
	test := strings.Contains
	switch operator {
	case "startsWith":
		test = strings.HasPrefix
	case "endsWith":
		test = strings.HasSuffix
	}
	return func(f *Frame) (bool, bool) {
		s, ok := x(f)
		t, ok2 := y(f)
		return ok && ok2 && test(s, t), true
	}
}

func floatOf(bits uint64) float64 { return math.Float64frombits(bits) }
