// Package topology reads topology.yaml: it checks the file, reports everything
// that is wrong with it at once, and builds the program that stream would have
// built from Go code.
//
// # How a file is read
//
//	bytes ─ parse ─▶ tree ─ interpolate ─▶ tree ─ decode by table ─▶ blocks ─ resolve ─▶ Topology ─ Build ─▶ stream.Program
//
// The YAML parser gives a tree with positions. ${NAME} and ${NAME:-default} are
// replaced in the scalars of that tree, so a variable's value is never read as
// YAML; $$ stands for a dollar sign. Only then scalars get their type, from the
// table of keys (keys.go): quotes do not matter, `"4"` is a number where a number
// is asked for. The same table makes the JSON Schema and docs/configuration.md.
//
// Resolving finds the inputs of the operators, gives each its schema, and
// compiles the expressions against it. Each problem is a Diagnostic of a Rule
// with a position; a file with errors gives all of them as one Errors value.
//
// # Operators
//
// What an operator does is said by one key: source, filter, map, aggregate (with
// key-by, and with or without a window), process or sink. An operator with
// several inputs and nothing else is their union. A process is written in Go and
// found by the name under which this program registered it; so only that program
// can lint and run a topology that uses it (process.go).
//
// An input is a uid, or `uid.output` for a side output: `daily.late` are the
// records that came too late for the windows of daily, `flights.malformed` are
// the records that the source flights could not read (with `malformed: side`).
package topology
