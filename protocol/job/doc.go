// Package job turns a logical graph into what is deployed ([Plan]) and leads the
// life of one job ([Master]).
//
// Master is a composite machine: Flink's JobMaster and scheduler in one. It holds
// the checkpoint coordinator (protocol/checkpoint), one enumerator per source
// (protocol/split) with its event gate, the restart strategy, and the tasks, each in
// its current attempt.
//
// # Life
//
// Every coordinator of a job begins by taking an epoch: whoever had the job
// before can complete no checkpoint from then on. It reads the job's record and
// restores the newest completed checkpoint, or the path that the job was told to
// start from; only a job that never completed a checkpoint starts empty. The
// master hooks are restored or reset, the sources discover their splits, and all
// tasks are deployed as soon as there are slots for them. Once all run, the job runs
// and the checkpoint scheduler starts.
//
// If the record says that the job runs already, the tasks of the coordinator before are
// taken over instead, where all of them are there and as they were deployed
// (takeover.go).
//
// The failure of a task or a node ends the attempts of the tasks that channels connect
// with it (failover.go); one checkpoint failure too many, and whatever else fails, those
// of all tasks. Pending checkpoints are aborted, these tasks are cancelled, and a
// completion whose outcome is outstanding is waited for, because it decides from
// which checkpoint the next attempt starts. Then the restart strategy is asked.
//
// A job ends FINISHED when all tasks have finished, CANCELED on CancelJob,
// SUSPENDED on SuspendJob after one last checkpoint, and FAILED when the restart
// strategy gives up, when a task or a master hook failed for a reason that no
// restart can mend (norestart.go), or at once when it cannot start as it is: a
// checkpoint that cannot be read or does not fit, or a source that cannot list its
// input. What may pass by itself, a disk that did not answer, is tried again instead,
// as the restart strategy says. A job that could not start keeps every checkpoint.
// The end is recorded in the metadata store before checkpoints are let go and master
// hooks are closed.
//
// What crashed tasks left in the checkpoint directory is swept after the first
// checkpoint of each attempt, and after the end of a job that FINISHED or was
// CANCELED. That it fails is an event.
//
// # Conversations
//
// Deploy and CancelTask are resent until the task has reported; a repetition
// changes nothing. TaskStateChanged and EndOfDataReached are resent by the other
// side and acknowledged each time.
//
// AdoptTasks is repeated twice a second until AdoptableTasks lists what runs, and each
// task in it has given its TaskAccount; after 3 s the tasks are given up.
//
// SlotRequest is repeated each second and answered by SlotOffer, see slots.go. NodeLost
// ends the tasks of a node at once; without it the silence of the node does.
//
// SplitRequest is answered by SplitAssignment, and an assignment with a split by
// SplitAck; each of the first two is resent until the next one comes. An
// enumerator's snapshot waits for the SplitAck of every assignment that is on its
// way, and requests that come meanwhile are postponed: a split in flight when the
// checkpoint passes would be in nobody's state.
//
// Messages of another epoch or attempt are dropped and counted; a task manager
// that still runs tasks of an older one is told to cancel them.
package job
