// Package testkit tests topologies.
//
//   - Harness runs one operator under manual time: what it emits, when, and what it
//     forgets; snapshots that go on in another harness.
//   - ExactlyOnce runs a topology in Go in the simulation, under one seed after the
//     other, and holds what it commits to a run without faults.
//   - Job runs a topology on a real node inside the test, and Tap puts a Probe into
//     it, which waits for records, event time and checkpoints.
//   - Cluster has several nodes in the simulation, to be killed and cut off by hand.
//   - Records and Feed are sources in memory.
//   - Scenario and World are the simulation itself: the production actors of several
//     nodes, in which every fault is a decision of the seed.
//
// docs/testing.md says which to use when.
package testkit
