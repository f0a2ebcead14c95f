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
// slots any more, but for those in which its tasks run by the record: these wait for
// the next coordinator, for as long as tasks live without one.
//
// Slots are granted all or none. If two jobs of eight slots each were given four of
// the last eight, neither could run and neither would give back. So a job that lacks
// slots keeps only those that its tasks still use, and is told in one sentence what
// is missing. What is taken from a job is free for others when its coordinator has said
// that it has the offer without it (slots.go, testdata/taken_away.txt): the offers of a
// term are numbered, and a new one is confirmed at once. Free slots go to the job that
// asked first, if they are enough for it; otherwise to the next one, since a job that
// is too large for the cluster would keep everybody else from running. A large job may
// wait for long that way, and says so.
//
// # Tasks that nobody coordinates
//
// A task manager that has not heard a coordinator for some seconds says which of its
// tasks run there. The job's present coordinator is told, if it is another one, and
// cancels what it has not taken over; tasks of a job that has ended are cancelled.
// (orphans.go, testdata/orphans.txt)
//
// # Phases
//
//   - learning: a slot that looks free may be in use. Nothing is granted beyond what is
//     held.
//   - granting: all the time after, until a node joins that has to be asked.
//
// The reason for the first is a race:
//
//  1. a dispatcher grants the slots of node n to job A, and its node dies;
//  2. the next dispatcher begins, and has heard of no slot in use;
//  3. job B asks before A does, which asks every second;
//  4. the slots of n look free, and B is granted what A's tasks run in.
//
// So a dispatcher that begins asks (learning.go). It reads the jobs; and it sends
// SlotInquiry to the agents of all nodes, and of each that joins later. An agent passes
// it on to its coordinators and answers with who they are; each of these answers with a
// SlotRequest. When all have, which takes a round trip, it is known which slots are in
// use. Who does not answer is waited for for 2 s.
//
// To hear a coordinator is not enough, if an offer of the dispatcher before is on its
// way to it:
//
//  1. A, which has no slots, answers the new dispatcher: none are in use;
//  2. the offer comes, and A deploys its tasks on n;
//  3. the new dispatcher grants n to B.
//
// So all messages about slots carry a term, that of the leadership. A coordinator that
// knows of a term takes no offer of an older one, and gives up what such an offer gave
// it and it does not hold. A request of an older term is answered with the inquiry. And
// an agent that was asked sends requests to no older dispatcher, so that a coordinator
// that starts later asks the new one, too.
//
// Nor is it enough to hear those that live:
//
//  1. the coordinator of A and the dispatcher die together, A's tasks on n live;
//  2. all others answer: nobody uses n;
//  3. the new dispatcher grants n to B;
//  4. A's next coordinator takes its tasks over, on n.
//
// So the slots in which a job runs by its record are its own as long as its coordinator
// has not spoken: the record names them since the attempt runs. (testdata/learning.txt,
// deployed.txt, terms.txt, TestRandomClusters)
//
// What remains costs speed alone: a slot is a share of a node's work, not a right. A
// node that cannot be reached for 2 s may have a coordinator whose attempt is being
// deployed and is not on record yet. Who may complete checkpoints is decided by epochs.
package dispatch
