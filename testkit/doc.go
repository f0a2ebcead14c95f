// Package testkit tests topologies: one operator at a time under manual time
// (Harness), and whole jobs in a seeded simulation of several nodes (World,
// Scenario), in which every fault is a decision of the seed and the committed rows
// must be those of a run without faults.
package testkit
