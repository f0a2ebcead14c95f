package membership

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/hashicorp/memberlist"
	"google.golang.org/protobuf/proto"

	"cutwater/messages"
)

// MaxMetaBytes bounds an encoded messages.NodeMeta.
const MaxMetaBytes = memberlist.MetaMaxSize

// maxNameBytes bounds a cluster name.
const maxNameBytes = 64

// ErrMeta: what a node says of itself cannot be gossiped.
var ErrMeta = errors.New("membership: bad node metadata")

// CheckName checks a cluster name: 1 to 64 letters, digits, dots, hyphens and
// underscores. The error wraps ErrMeta.
func CheckName(clusterName string) error {
	ok := 0 < len(clusterName) && len(clusterName) <= maxNameBytes
	for _, c := range []byte(clusterName) {
		ok = ok && (c == '.' || c == '-' || c == '_' || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z')
	}
	if !ok {
		return fmt.Errorf("%w: the cluster name %.80q must be 1 to %d letters, digits, dots, hyphens and underscores", ErrMeta, clusterName, maxNameBytes)
	}
	return nil
}

// encodeMeta checks and encodes what a node says of itself.
func encodeMeta(m *messages.NodeMeta) ([]byte, error) {
	if err := CheckName(m.ClusterName); err != nil {
		return nil, err
	}
	encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMeta, err)
	}
	if len(encoded) > MaxMetaBytes {
		return nil, fmt.Errorf("%w: it has %d bytes, at most %d can be gossiped; shorten the zone or the roles", ErrMeta, len(encoded), MaxMetaBytes)
	}
	return encoded, nil
}

// decodeMeta reads what a node said under its name in gossip.
func decodeMeta(name string, encoded []byte) (*messages.NodeMeta, error) {
	m := &messages.NodeMeta{}
	if err := proto.Unmarshal(encoded, m); err != nil {
		return nil, fmt.Errorf("%w: the node %.80q says what cannot be decoded", ErrMeta, name)
	}
	if !isNodeID(m.Node) || gossipName(m.Node, m.Start) != name {
		return nil, fmt.Errorf("%w: the node %.80q says that it is %.80q, start %d", ErrMeta, name, m.Node, m.Start)
	}
	return m, nil
}

// gossipName is the name of one start of a node: two starts never conflict.
func gossipName(node string, start uint64) string {
	return node + "." + strconv.FormatUint(start, 10)
}

// splitName is the inverse of gossipName.
func splitName(name string) (node string, start uint64, ok bool) {
	node, digits, _ := strings.Cut(name, ".")
	start, err := strconv.ParseUint(digits, 10, 63)
	return node, start, err == nil && isNodeID(node)
}

// Member is a node that seems to be alive, or an event's node.
type Member struct {
	// Meta is what the node says of itself; it must not be changed.
	Meta *messages.NodeMeta
	// Gossip is the address at which it gossips. Its other ports are at the same IP.
	Gossip netip.AddrPort
}

// String names the member in one word and its address.
func (m Member) String() string { return fmt.Sprintf("%s at %v", m.Meta.GetNode(), m.Gossip) }

func memberOf(n *memberlist.Node) (Member, error) {
	meta, err := decodeMeta(n.Name, n.Meta)
	return Member{meta, addressOf(n)}, err
}

func addressOf(n *memberlist.Node) netip.AddrPort {
	ip, _ := netip.AddrFromSlice(n.Addr)
	return netip.AddrPortFrom(ip.Unmap(), n.Port)
}
