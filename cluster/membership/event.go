package membership

import "fmt"

// Kind is what an Event says.
type Kind uint8

// The kinds of events.
const (
	// Joined: the node is a member now, or its new start is.
	Joined Kind = iota + 1
	// Updated: it says something else of itself.
	Updated
	// Left: it has gone, and had said so.
	Left
	// Failed: it has gone without a word: dead, cut off, or started anew.
	Failed
	// Refused: a node was not admitted; the reason says why. Told once for each
	// node and reason.
	Refused
	// Conflict: a second process runs with the id of a member, because its data
	// folder was copied. Told once for each address.
	Conflict
)

var kindNames = [...]string{"unknown", "joined", "updated", "left", "failed", "refused", "conflict"}

// String is the kind in one word.
func (k Kind) String() string {
	if int(k) >= len(kindNames) {
		k = 0
	}
	return kindNames[k]
}

// Event is something that happened to another node, as seen from this one.
type Event struct {
	Kind   Kind
	Member Member
	// Reason is the error of Refused and Conflict, nil otherwise.
	Reason error
}

// String is the event in one line.
func (e Event) String() string {
	if e.Reason != nil {
		return fmt.Sprintf("node %v %v: %v", e.Member, e.Kind, e.Reason)
	}
	return fmt.Sprintf("node %v %v", e.Member, e.Kind)
}
