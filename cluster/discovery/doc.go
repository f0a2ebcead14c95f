// Package discovery finds the addresses at which other nodes of the cluster may
// gossip, for as long as the node lives. It decides nothing: what it finds is
// handed to membership, which refuses what is not of the same cluster.
//
// A [Discoverer] is one source of addresses:
//
//   - [Seeds]: the list of --join; names are resolved at each try
//   - [File]: file:PATH, one address a line, read at each try
//   - [Exec]: exec:COMMAND, the same from the output of a command
//   - [Announcer]: datagrams on the network that the node is bound to
//   - [Remembered]: the peers of earlier days, from the data folder
//
// [Parse] makes the first three of what a user wrote.
//
// A [Loop] runs all sources side by side and for ever, with pauses that grow to a
// bound and have jitter. So a cluster that was cut in two heals when the network
// does, however long that took: gossip forgets the dead, the sources do not. No
// source can hold up another, and the last error of each can be seen
// ([Loop.Status]).
//
// # Announcements
//
// On loopback a node announces itself by broadcast to 127.255.255.255, elsewhere
// by multicast with a time to live of 1; always on the one interface that it is
// bound to, and never beyond the next router. A node that hears of another of its
// cluster name joins it. With a cluster secret each datagram ends in an HMAC, and
// others are ignored; without one there is none, which is allowed on loopback
// only. What is foreign, forged, repeated or garbage is counted
// ([Announcer.Counts]) and changes nothing.
//
// A datagram that is replayed to a node that has restarted since cannot be told
// from a fresh one, because the clocks of two machines are not compared. It costs
// one attempt to join an address, where gossip asks for the secret again.
package discovery
