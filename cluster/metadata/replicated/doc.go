// Package replicated keeps the log of metadata commands on several nodes, with
// hashicorp/raft: a [Store] is a metadata.Store whose log survives the loss of any
// minority of its voters.
//
// # Members
//
// Every node of a cluster is a member: a voter, or a non-voter that has a copy and
// knows the leader. The first node calls [Store.Bootstrap] and is the sole voter, and
// leader within milliseconds. Others open a store on an empty folder and wait; the
// leader takes them in. Who votes is decided by [Decide], a function of what is known
// about the nodes; [Store.Steer] carries its decision out. Voters become more two at
// a time, because of two voters neither may fail.
//
// # Asking
//
// Any member may be asked. Commands and reads go to the leader, over the same
// listener as the log. What a caller can learn about a command is one of:
//
//   - a result: the command is in the log, durably, on a majority;
//   - a result with the outcome UNKNOWN: leadership or the connection was lost while
//     the command was under way. It may have been applied, or may still be. Read the
//     job, or repeat the command where its ids make that harmless;
//   - an error: the command was not applied and never will be. With
//     metadata.ErrUnavailable it may be proposed again later.
//
// What a caller has given up does not turn up much later: a request is for one term of
// one leader, who refuses it in any other, and a connection over which nothing is heard
// ends with all that is still on its way. Only a leader whose process was stopped, and
// that nobody replaced meanwhile, takes what had reached its system before.
//
// A read sees every command that was answered before the read began, whoever
// answered it: the leader has applied everything before its term, and has a majority
// confirm that it leads still. Every wait ends, at the latest after
// [Options].TimeoutMs.
//
// # Identity
//
// The log carries the id of its cluster. Connections begin with it, so members of
// two clusters never exchange entries, even where one has taken over the address of
// the other. A cluster that has never accepted a job may give itself up for another
// one ([Meet], [Store.Yield], [Store.Abandon]); two that have jobs never merge.
//
// # Disk
//
// Everything is fsynced before it is answered for. The folder is a voter's memory:
// restoring an old copy of it, or starting an empty one under the same node id, can
// undo what a majority agreed on. A node that lost its folder gets a new id. When the
// disk is full the node falls silent, and resumes when there is space. When a
// majority of the voters is lost for good, [Recover] starts again from the survivor
// that [Inspect] says has the newest log, as a cluster with an id of its own: what
// comes back of the old one ends where it meets the new one ([Store.Supersede]).
package replicated
