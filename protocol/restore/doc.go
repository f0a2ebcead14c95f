// Package restore assigns the state of a checkpoint to the tasks of a plan:
// Flink's StateAssignmentOperation as a function.
//
// State follows the uid of its operator, whatever chain the operator stands in
// now, and whatever parallelism it has:
//
//   - keyed state goes to the subtasks whose key groups meet those of the handle;
//     the reader skips the rest. At unchanged parallelism that is one to one;
//   - list state of mode SPLIT stays where it is at unchanged parallelism, and is
//     otherwise dealt out in runs of equal length;
//   - list state of mode UNION goes to every subtask whole, always;
//   - list state of mode BROADCAST stays where it is, and new subtasks take a
//     copy of an old one.
//
// What does not fit is refused, all of it at once, as a [RefusedError] that names
// uids: state without an operator, unless its uid is given up by name; another
// maximum parallelism or another schema of keyed state; operators that had
// finished in front of ones that had not. Nothing is ever restored in part.
//
// The order of use: [Adopt] gives the graph the maximum parallelism that its
// state was written with, protocol/job.Plan plans it, [Assign] assigns.
package restore
