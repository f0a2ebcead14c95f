// Package transport carries the messages of actors between nodes. It stands behind
// [cutwater/actors/system.Transport] without knowing of actors: it is given an
// address and a message, and hands both over on the other node.
//
// # Lanes
//
// Each pair of nodes has up to four TCP connections: one for control and one for
// data in each direction, dialled by the node that sends. Control therefore never
// waits behind data. The type of a message decides its lane ([LaneOf]). Within one
// lane from one node to another messages keep their order, also when the connection
// is replaced: the end of the old one is waited for before the new one delivers.
//
// A node's name is that of one start of it, `<node id>.<start>`, the part of an
// address before the bar. Who answers at an address says which start it is, so mail
// for a process that has ended never reaches its successor.
//
// # What is lost, and who is told
//
// Nothing is sent twice, and what was on its way when a connection broke is lost.
//
//   - Data is never dropped in silence. When a data connection breaks, or none can be
//     had within Options.DialTimeout or ever, everything that waits for it is dropped too, and
//     Lost is called with [Data]: on the sending node, and, if there was a connection,
//     on the receiving one. Both know within milliseconds, and the numbers of the
//     messages would show the gap in any case.
//   - Control may be dropped in silence, since its conversations repeat what matters.
//     When a control connection breaks the sender dials again at once. If nobody
//     listens there any more, or another start answers, the process has ended: Lost is
//     called with [Control], milliseconds after its death. If the same start answers
//     all is well. If nobody can tell, nothing is said: silence is for heartbeats and
//     gossip to judge.
//   - A node that is closed says so first, and the others are told with [ErrLeft].
//
// Lost is called for Control once per start, until that start is connected again.
//
// # Bounds
//
// Sending never blocks: a message is encoded into the lane's queue, which one
// goroutine writes. What waits for the data lane is bounded by the credits of its
// channels, and where these fail by [MaxDataQueueBytes]. What waits for the control
// lane is bounded by [MaxControlQueueBytes]: what does not fit is dropped and counted,
// the newest first, because the older ones are the ones that are waited for longest.
// A stranger has Options.HelloTimeout to say who it is, in [MaxHelloBytes].
//
// # Time-outs
//
// An idle connection to a host that is gone ends after 10 s without an answer to
// keepalives, and so does a control connection whose bytes nobody acknowledges. A data
// connection may wait 90 s for that. A stopped process (SIGSTOP) looks different from
// a dead host: its kernel answers still, and takes bytes until its buffer is full.
// From then on Linux counts the time-out although the other side answers, which is why
// it is so long for data: within 90 s heartbeats have decided. Should control fill the
// buffer, its connection breaks, and nobody can tell whether the process lives.
//
// # Security
//
// With a cluster secret both sides prove that they know it: TLS 1.3, with certificates
// that each node issues to itself in memory, by a certificate authority whose key is
// derived from the secret. Without one, connections are plain and both ends must be
// loopback addresses.
package transport
