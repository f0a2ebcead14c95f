package expression

import (
	"regexp"

	"github.com/expr-lang/expr/ast"

	"cutwater/stream/row"
)

// in compiles `x in [...]` and `x in a..b`.
func (c *compiler) in(n *ast.BinaryNode) (value, error) {
	x, err := c.compile(n.Left)
	if err != nil {
		return value{}, err
	}
	if r, ok := n.Right.(*ast.BinaryNode); ok && r.Operator == ".." {
		return c.inRange(n, x, r)
	}
	list, ok := n.Right.(*ast.ArrayNode)
	if !ok {
		return value{}, problem(n.Right, "the right side of `in` must be a list of constants, such as [1, 2], or a range, such as 1..5")
	}
	var strs []string
	var nums []float64
	var whole []int64
	for _, item := range list.Nodes {
		y, err := c.compile(item)
		if err != nil {
			return value{}, err
		}
		fits := y.kind == x.kind || x.numeric() && y.numeric()
		if !y.constant || !fits || !x.numeric() && x.kind != row.String {
			return value{}, problem(item, "an item of this list must be a constant %s", KindName(x.kind))
		}
		f := &Frame{}
		switch {
		case x.kind == row.String:
			s, _ := y.s(f)
			strs = append(strs, s)
		case x.kind == row.Int && y.kind == row.Int:
			i, _ := y.i(f)
			whole = append(whole, i)
		default:
			d, _ := y.asFloat()(f)
			nums = append(nums, d)
		}
	}
	if x.kind == row.String {
		return c.finish(n, bools(member(x.s, strs)), x)
	}
	if x.kind == row.Float || len(nums) > 0 {
		for _, i := range whole {
			nums = append(nums, float64(i))
		}
		return c.finish(n, bools(member(x.asFloat(), nums)), x)
	}
	if x.kind != row.Int {
		return value{}, problem(n, "`in` cannot be applied to %s", article(x.kind))
	}
	return c.finish(n, bools(member(x.i, whole)), x)
}

// member looks a value up: by comparing where there are few.
func member[T comparable](x function[T], items []T) function[bool] {
	const few = 8
	if len(items) <= few {
		return func(f *Frame) (bool, bool) {
			v, ok := x(f)
			if !ok {
				return false, true
			}
			for _, item := range items {
				if v == item {
					return true, true
				}
			}
			return false, true
		}
	}
	set := make(map[T]struct{}, len(items))
	for _, item := range items {
		set[item] = struct{}{}
	}
	return func(f *Frame) (bool, bool) {
		v, ok := x(f)
		if !ok {
			return false, true
		}
		_, found := set[v]
		return found, true
	}
}

func (c *compiler) inRange(n *ast.BinaryNode, x value, r *ast.BinaryNode) (value, error) {
	low, err := c.compile(r.Left)
	if err != nil {
		return value{}, err
	}
	high, err := c.compile(r.Right)
	if err != nil {
		return value{}, err
	}
	if x.kind != row.Int || low.kind != row.Int || high.kind != row.Int {
		return value{}, problem(n, "a range is for ints")
	}
	a, b, e := x.i, low.i, high.i
	v := bools(func(f *Frame) (bool, bool) {
		i, ok := a(f)
		from, ok2 := b(f)
		to, ok3 := e(f)
		return ok && ok2 && ok3 && from <= i && i <= to, true
	})
	return c.finish(n, v, x, low, high)
}

func (c *compiler) matches(n *ast.BinaryNode) (value, error) {
	x, err := c.compile(n.Left)
	if err != nil {
		return value{}, err
	}
	pattern, ok := n.Right.(*ast.StringNode)
	if !ok {
		return value{}, problem(n.Right, "the right side of `matches` must be a constant regular expression")
	}
	if x.kind != row.String {
		return value{}, problem(n.Left, "`matches` cannot be applied to %s", article(x.kind))
	}
	re, err := regexp.Compile(pattern.Value)
	if err != nil {
		return value{}, problem(n.Right, "%v", err)
	}
	s := x.s
	return c.finish(n, bools(func(f *Frame) (bool, bool) {
		t, ok := s(f)
		return ok && re.MatchString(t), true
	}), x)
}
