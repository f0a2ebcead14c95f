// Package stream is how a topology is written in Go.
//
// A topology is a graph of operators joined by typed streams:
//
//	t := stream.New("clicks")
//	clicks := stream.From(t, "clicks", source, stream.EventTime(Click.Ms, 5*time.Second))
//	large := stream.Filter(clicks, "large", func(c Click) bool { return c.Amount > 1 })
//	users := stream.KeyBy(large, func(c Click) string { return c.User })
//	perMinute := stream.Window(users, "per-minute", stream.Tumbling(time.Minute), newTotal)
//	stream.To(perMinute, "out", sink)
//	program, err := t.Build()
//
// Every operator has a uid, always the second argument: state in a checkpoint is
// found by it, so it must be unique and stay the same for as long as the state
// matters. KeyBy, Union and SideOf have none because they are no operators: they
// say how records reach the next one.
//
// Mistakes do not stop a declaration. Build reports all of them at once, each
// with the uid and the line of the declaration.
//
// # What a function may do
//
// One instance of an operator serves one subtask and is called by one goroutine
// at a time. Factories (of Process, Transform, Window, Aggregate) are called
// once per subtask; plain functions (of Map, Filter, FlatMap, KeyBy, Reduce) are
// shared by all subtasks, so they must not keep anything. Strings of a record
// may be kept; other memory that a record refers to may be reused after the
// call. A function must not block, and must depend on its arguments and state
// alone: after a failure it is called again with the same records. An error or a
// panic fails the task, and the job restarts from the last checkpoint; one that is
// marked by NoRestart ends the job, until somebody has mended its cause.
//
// # Types
//
// A record needs a codec where it leaves a task. Codecs of basic types, messages
// and structs are found by themselves (codec.Of); others are given by
// WithCodec. Types are erased once, by Build; per record there are only calls of
// typed closures.
//
// # Running it
//
// node.Run runs a program in a process of its own, with checkpoints; its example
// is one to copy.
//
// # Names
//
// A topology.yaml can use an operator in Go: RegisterProcess gives it a name, in
// the program that reads the file, and the file says `process: NAME`. Such an
// operator reads and emits rows (package row); RowProcess says what it needs of
// them and what it makes of them. examples/process is a whole program.
//
// Package testkit tests operators under manual time and topologies under faults.
package stream
