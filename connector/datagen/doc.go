// Package datagen is the source "datagen": made-up rows for tries, tests and
// benchmarks.
//
// Row n is a function of the seed and n alone, so every run makes the same rows,
// however many tasks share the work. A bounded source is cut into ranges of
// consecutive rows, handed out in order. An unbounded one has a split per subtask
// of its first start; split i of p has rows i, i+p, i+2p and so on, so that event
// time advances in all of them alike.
//
// A position is the number of the next row.
package datagen
