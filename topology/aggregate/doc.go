// Package aggregate has the aggregates of a topology: count, sum, min, max and
// avg over the rows of a key or a window.
//
//	count()             rows
//	count(condition)    rows for which the condition is true
//	count(x)            rows in which x is not null
//	sum(x), avg(x)      of a number
//	min(x), max(x)      of a number, a timestamp or a string
//
// sum, avg, min and max take a condition as a second argument: `sum(delay,
// delay > 0)` adds the positive ones. A null is skipped; without any value the
// result is null, while a count is 0. The sum of ints is an int, and one that
// overflows fails the row. avg is always a float; over ints it divides an exact
// sum, so that it does not depend on the order of rows. Sums of floats do.
//
// The accumulator has a fixed number of cells for all aggregates together, and a
// text for each min or max of strings. Without such texts its encoding has a
// fixed width, and state updates it in place.
package aggregate
