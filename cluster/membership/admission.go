package membership

import (
	"errors"
	"fmt"
	"slices"

	"cutwater/messages"
)

// The versions of the protocol between nodes that this program speaks.
const (
	ProtocolVersion       = 1
	OldestProtocolVersion = 1
)

// Why a node is not admitted; the errors that wrap them are one sentence.
var (
	// ErrOtherName: it has another cluster name.
	ErrOtherName = errors.New("membership: other cluster name")
	// ErrOtherCluster: it has the same name, and another cluster id.
	ErrOtherCluster = errors.New("membership: other cluster of the same name")
	// ErrProtocol: the two have no version of the protocol in common.
	ErrProtocol = errors.New("membership: no common protocol version")
	// ErrSecret: it has another cluster secret, or one of the two has none.
	ErrSecret = errors.New("membership: other cluster secret")
)

// Admit says why two nodes must not be members of one cluster, or nil. It is
// symmetric: both sides refuse, or none, each in its own words.
func Admit(mine, theirs *messages.NodeMeta) error {
	switch {
	case mine.ClusterName != theirs.ClusterName:
		return fmt.Errorf("%w: it is %q there and %q here; nodes of different names never join", ErrOtherName, theirs.ClusterName, mine.ClusterName)
	case mine.ProtocolVersion < theirs.OldestProtocolVersion || theirs.ProtocolVersion < mine.OldestProtocolVersion:
		return fmt.Errorf("%w: %d to %d there, %d to %d here; update the older program", ErrProtocol,
			theirs.OldestProtocolVersion, theirs.ProtocolVersion, mine.OldestProtocolVersion, mine.ProtocolVersion)
	case mine.ClusterId == "" || theirs.ClusterId == "" || mine.ClusterId == theirs.ClusterId:
		return nil
	case Superseded(mine, theirs):
		return fmt.Errorf("%w %q: %s, which goes on there as %s without this node", ErrOtherCluster, mine.ClusterName, mine.ClusterId, theirs.ClusterId)
	case Superseded(theirs, mine):
		return fmt.Errorf("%w %q: %s, which goes on here as %s without that node; it ends", ErrOtherCluster, mine.ClusterName, theirs.ClusterId, mine.ClusterId)
	case !mine.Provisional && !theirs.Provisional:
		return fmt.Errorf("%w %q: %s there, %s here, and both have jobs, so they never merge; give one of them another name, or cancel its jobs and remove its data folders",
			ErrOtherCluster, mine.ClusterName, theirs.ClusterId, mine.ClusterId)
	}
	return fmt.Errorf("%w %q: %s there, %s here; the one that has no jobs gives way", ErrOtherCluster, mine.ClusterName, theirs.ClusterId, mine.ClusterId)
}

// Superseded reports whether the other's cluster was made of this node's, after most of
// its voters were lost: this node's log is of the past then.
func Superseded(mine, theirs *messages.NodeMeta) bool {
	return mine.ClusterName == theirs.ClusterName && mine.ClusterId != "" && mine.ClusterId != theirs.ClusterId &&
		slices.Contains(theirs.Supersedes, mine.ClusterId)
}

// Yields reports whether this node's cluster gives way to the other's: its nodes
// leave it, forget its cluster id and start again to join the other. A cluster that
// never accepted a job yields to one that has; of two such the one with the higher
// id yields; two that have jobs never do. Of two clusters at most one yields.
func Yields(mine, theirs *messages.NodeMeta) bool {
	if mine.ClusterName != theirs.ClusterName || mine.ClusterId == "" || theirs.ClusterId == "" || mine.ClusterId == theirs.ClusterId {
		return false
	}
	return mine.Provisional && (!theirs.Provisional || mine.ClusterId > theirs.ClusterId)
}
