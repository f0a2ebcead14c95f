// Package dispatch decides on which node each job is coordinated, and which slots
// each job may use: what Flink's Dispatcher and ResourceManager do.
//
// A [Dispatcher] lives for one leadership of the metadata store, on the leader's
// node. It keeps nothing durable. All that it knows it is told again and again: the
// living nodes by its own node, the jobs by the metadata store, the slots in use by
// the jobs' coordinators. So the next one begins with nothing and loses nothing.
//
// # Coordinators
//
// A job that has not ended, and that nobody coordinates, gets a coordinator: the
// agent of the node with the fewest is sent StartCoordinator, each second, until the
// job's record names a coordinator on a living node, or a higher epoch. The order
// carries the epoch under which it was decided; the agent's node reads the record
// first and leaves an order with a lower epoch alone. If two coordinators start all
// the same, the one that takes its epoch last has the job, and the other can
// complete nothing.
//
// A node that refuses (CoordinatorRefused), or is silent for 30 s, is not asked again
// before the nodes change. When all have refused, they are asked anew every 10 s.
//
// A coordinator on a living node is left alone while it is heard: its SlotRequest
// comes every second. One that is silent for 10 s is ordered again, on its own node
// first: if it runs, that changes nothing. When a node goes that lived, or lives under
// the name of another start, its coordinators are replaced at once. One on a node that
// was never said to live is replaced when it is not heard for 1.5 s: a dispatcher may
// begin before its node knows all others.
//
// # Slots
//
// A slot hosts one subtask of each vertex of one job. Each coordinator says every
// second how many slots its job needs and which it holds, and is answered with all
// that it may use. What was granted stays granted while its node lives and the
// coordinator is heard; a job that ended on record, or is silent for 10 s, has no
// slots any more.
//
// Slots are granted all or none. If two jobs of eight slots each were given four of
// the last eight, neither could run and neither would give back. So a job that lacks
// slots keeps only those that its tasks still use, and is told in one sentence what
// is missing. Free slots go to the job that asked first, if they are enough for it;
// otherwise to the next one, since a job that is too large for the cluster would
// keep everybody else from running. A large job may wait for long that way, and says
// so.
//
// # Phases
//
//   - learning: for the first 2 s. Nothing is granted beyond what is held. It ends at
//     once where the first reading shows no job that can hold slots.
//   - granting: all the time after.
//
// The reason for the first is a race:
//
//  1. a dispatcher grants the slots of node n to job A, and its node dies;
//  2. the next dispatcher begins, and has heard of no slot in use;
//  3. job B asks before A does, which asks every second;
//  4. the slots of n look free, and B is granted what A's tasks run in.
//
// To hear every coordinator once is not enough: what it says may be older than the
// last offer of the dispatcher before. After 2 s each has spoken twice, unless it was
// not heard. (testdata/learning.txt, TestRandomClusters)
//
// Two dispatchers may work for a moment, while the store changes its leader and an
// old one does not know yet. Then a slot may be granted twice, which costs speed: a
// slot is a share of a node's work, not a right. Who may complete checkpoints is
// decided by epochs alone.
package dispatch
