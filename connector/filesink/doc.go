// Package filesink is the sink "file": rows to CSV or JSON Lines files that appear
// exactly once.
//
// Each subtask writes the rows between two checkpoints into one file:
//
//	<dir>/part-<uid>-<first 8 of the job id>-<incarnation>-<subtask>-<checkpoint>.<format>
//
// Until its checkpoint is complete the file is in <dir>/.cutwater/<job id>/, on the
// same file system. Who reads <dir> and skips names that start with a dot, as most
// tools do, sees committed rows only, and each file whole. A CSV file starts with a
// header. There are no empty files: a subtask without rows writes none.
//
// The two phases:
//
//   - prepare (at the barrier): the pending file and its name are made durable. The
//     committable holds both names, the size and a checksum; nothing of it is ever
//     computed again.
//   - commit (after the checkpoint is complete): the file is linked to its visible
//     name, the folder is synced, the pending name is removed. If the visible name
//     exists with the same size and checksum, an earlier commit has done it.
//     Anything else there is an error, and nothing is overwritten.
//
// A job that starts from an older savepoint is a new incarnation: its files have
// other names, and those of the incarnation before stay. Whoever wants only the
// newest drops files whose incarnation is lower.
//
// All nodes that run the sink must see the folder.
package filesink
