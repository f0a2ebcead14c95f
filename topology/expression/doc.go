// Package expression compiles the expressions of a topology to functions over
// rows.
//
// The language is that of expr-lang/expr without its collections: it is parsed
// and type-checked there, and compiled here to closures that allocate nothing.
//
//	delay > 15 and origin in ["DTW", "ORD"]
//	carrier ?? "unknown"
//	truncate(date, "1h")
//	delay > 0 ? delay / 60 : 0.0
//
// # Nulls
//
// A null in arithmetic or in a function gives null. A comparison with a null is
// false, whatever the operator; `x == nil` and `x != nil` test for null. Where a
// condition is needed (`and`, `or`, `not`, a filter) null counts as false. `a ??
// b` is b where a is null.
//
// # Numbers
//
// An int is 64 bits wide; an operation that overflows fails the row, as does
// `%` by zero. int / int is a float, and so is every operation with a float;
// division by zero follows IEEE 754. Ints and floats compare as floats.
//
// # Failing a row
//
// What cannot be computed, such as int("abc"), fails the row: Frame.Err tells
// which expression and why. What then happens is the operator's decision.
package expression
