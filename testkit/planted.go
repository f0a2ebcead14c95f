package testkit

import (
	"google.golang.org/protobuf/proto"

	"cutwater/protocol"
)

// planted are faults that a test puts in one place, and takes away again. World.DiskFull,
// Cluster.Isolate and Cluster.Kill are others.
type planted struct {
	lose func(to protocol.Address, m proto.Message) bool
	hang func(n *Node, work string) bool
	hung []func() // work that waits for the end of hang
}

// Lose loses the messages between nodes for which that is so, until it is called with
// nil.
func (w *World) Lose(these func(to protocol.Address, m proto.Message) bool) { w.planted.lose = these }

// Hang lets the work of the Executor wait for which that is so, until it is called with
// nil. The name of work is that of the message that asked for it, of the operator, or
// "checkpoint" with the id for a task's state.
func (w *World) Hang(these func(n *Node, work string) bool) {
	hung := w.planted.hung
	w.planted.hang, w.planted.hung = these, nil
	for _, again := range hung {
		again()
	}
}

// SetClock sets what the node's wall clock is ahead.
func (n *Node) SetClock(aheadMs int64) { n.skewMs = aheadMs }
