// Package chaos runs a cluster of real processes, breaks what can be broken, and looks
// at what is left: the result of the job, one cluster, one leader per term. It is a
// test; nothing imports it.
//
//	go test ./test/chaos -v                     one short round
//	make chaos                                  100 rounds, ROUNDS=n for another number
//	go test ./test/chaos -v -run TestChaos -seed 7 -rounds 3    the rounds 7, 8, 9
//
// # A round
//
// Three or five nodes run `cutwater start`. As root on Linux each has a network
// namespace of its own, with a cable to a bridge in one more namespace, which has no
// way out of the machine; and a small file system in memory for its data folder.
// Without root, or without the command ip, all nodes are on 127.0.0.1, processes are
// killed and paused and nothing else, and the output says so.
//
// A round deploys a job, whose tasks are spread over all nodes: it counts the rows of a
// file by key and writes every count. The faults of the round are drawn from its seed
// and printed before they happen:
//
//	kill       SIGKILL, and a start a while later
//	pause      SIGSTOP, and SIGCONT a while later
//	cut        the node's cable is pulled
//	flap       the cable is pulled again and again
//	blind      what one node sends to another one is lost; the other direction works
//	unroutable the same, but the sender is told so by its system
//	full       no room is left on the file system of the data folder
//	power      SIGKILL for all nodes at once
//	roll       SIGTERM and a new start, one node after the other
//
// Half of those that need one node take the leader. Meanwhile clients deploy and cancel
// small jobs under a few names and list them, each through a node of its own, so also
// through one that is cut off.
//
// When all is mended: within 30 s each node lists all nodes as alive and the same one
// as the leader. The job finishes, and each count of each key is there once. In no
// term two nodes led. What the clients saw is linearizable: one register per name,
// which a deploy sets, a cancel clears, and a list reads. Goroutines and open files are
// about as many as before.
//
// The next two rounds go on with the same cluster, so a round is replayed from the
// first of its three; the printed command does that. Faults happen at the same times to
// the same nodes, or to the leader, whoever that is then; the rest is up to the
// machine.
//
// When a round fails, the ends of the logs are printed, and the folder with all logs,
// the events of all nodes and the history of the clients is kept.
package chaos
