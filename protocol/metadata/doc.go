// Package metadata is the replicated truth about jobs as a state machine: which
// jobs there are, which coordinator of each may act, which checkpoint ids are
// taken and which checkpoints are complete.
//
// One set of commands (messages.MetadataCommand) is applied in the order of a
// log; where the log lives is package cluster/metadata's business. The machine
// depends on nothing but the commands, so that every replica of a log agrees:
// even the time of a change arrives inside its command.
//
// What it guarantees, whatever the order in which coordinators speak:
//
//   - epochs grow with every StartEpoch and every new incarnation, and a command of a coordinator
//     whose epoch is not the newest changes nothing (STALE_EPOCH): of two
//     coordinators at most one can complete checkpoints;
//   - checkpoint ids never go back, not even over incarnations;
//   - a checkpoint is complete once its RecordCompletion was applied, and not
//     before. Repeating the command is harmless: the same id with the same hash
//     answers ALREADY_RECORDED;
//   - the list of completed checkpoints is ordered by id, and a checkpoint that
//     a completion subsumes leaves the list in the same step;
//   - a cluster that has yielded to another one accepts no job, and one that has
//     jobs never yields;
//   - a refused command changes nothing.
package metadata
