package dispatch

import (
	"fmt"
	"strings"

	"cutwater/messages"
)

// NodeJoined: a node lives.
type NodeJoined struct {
	Node  string
	Slots int
}

// String is the event as one line.
func (e NodeJoined) String() string {
	return fmt.Sprintf("node %s joined with %s", e.Node, counted(e.Slots, "slot"))
}

// NodeGone: a node lives no more.
type NodeGone struct {
	Node string
	// Reason is empty where gossip alone says so.
	Reason string
}

// String is the event as one line.
func (e NodeGone) String() string {
	if e.Reason == "" {
		return "node " + e.Node + " is gone"
	}
	return "node " + e.Node + " is gone: " + e.Reason
}

// CoordinatorOrdered: a node is asked to coordinate a job.
type CoordinatorOrdered struct {
	Job   string
	Epoch uint64
	Node  string
	// Why nobody coordinates it.
	Why string
}

// String is the event as one line.
func (e CoordinatorOrdered) String() string {
	return fmt.Sprintf("job %s: %s; node %s is to coordinate it after epoch %d", e.Job, e.Why, e.Node, e.Epoch)
}

// CoordinatorRefusedBy: a node does not coordinate a job.
type CoordinatorRefusedBy struct{ Job, Node, Reason string }

// String is the event as one line.
func (e CoordinatorRefusedBy) String() string {
	return fmt.Sprintf("job %s: node %s does not coordinate it: %s", e.Job, e.Node, e.Reason)
}

// CoordinatorUnplaced: no node coordinates a job. They are asked again later.
type CoordinatorUnplaced struct {
	Job string
	// Refusals are the nodes that were asked; none: there was none to ask.
	Refusals []Refusal
	RetryMs  int64
}

// String is the event as one line.
func (e CoordinatorUnplaced) String() string {
	reasons := []string{"there is none that stays"}
	if len(e.Refusals) > 0 {
		reasons = nil
	}
	for _, r := range e.Refusals {
		reasons = append(reasons, r.Node+": "+r.Reason)
	}
	return fmt.Sprintf("job %s: no node coordinates it (%s); they are asked again in %d ms", e.Job, strings.Join(reasons, "; "), e.RetryMs)
}

// Granting: the dispatcher has heard who uses which slots, and grants from now on.
type Granting struct{}

// String is the event as one line.
func (Granting) String() string { return "slots are granted from now on" }

// SlotsGranted: a job may use these slots, all that it needs.
type SlotsGranted struct {
	Job   string
	Nodes []*messages.NodeSlots
}

// String is the event as one line.
func (e SlotsGranted) String() string {
	return fmt.Sprintf("job %s: slots granted: %s", e.Job, slotsText(e.Nodes))
}

// slotsText is slots of nodes, for people.
func slotsText(slots []*messages.NodeSlots) string {
	if len(slots) == 0 {
		return "none"
	}
	nodes := make([]string, len(slots))
	for i, n := range slots {
		nodes[i] = fmt.Sprintf("%d on %s", n.Slots, n.Node)
	}
	return strings.Join(nodes, ", ")
}

// SlotsMissing: a job waits for slots.
type SlotsMissing struct{ Job, Missing string }

// String is the event as one line.
func (e SlotsMissing) String() string { return fmt.Sprintf("job %s: %s", e.Job, e.Missing) }

// SlotsReleased: a job's slots are free for others.
type SlotsReleased struct{ Job, Reason string }

// String is the event as one line.
func (e SlotsReleased) String() string {
	return fmt.Sprintf("job %s: its slots are free: %s", e.Job, e.Reason)
}

// SlotsReserved: a job keeps the slots in which its tasks run by the record, and no
// others.
type SlotsReserved struct {
	Job, Reason string
	Nodes       []*messages.NodeSlots
}

// String is the event as one line.
func (e SlotsReserved) String() string {
	return fmt.Sprintf("job %s: %s; its tasks keep their slots: %s", e.Job, e.Reason, slotsText(e.Nodes))
}

// JobsUnread: the metadata store did not say which jobs there are. It is asked again
// until it does; the event is not repeated.
type JobsUnread struct{ Failure string }

// String is the event as one line.
func (e JobsUnread) String() string { return "the jobs could not be read: " + e.Failure }
