package membership

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"path"
	"slices"
	"strings"
	"sync"

	"cutwater/storage/vfs"
)

const (
	peersFile   = "peers"
	peersFormat = "cutwater peers 1"
	// maxPeers bounds the peers that are remembered.
	maxPeers = 64
)

// peers remembers where other nodes gossiped, the most recent first, in a file of
// the data folder. It is a hint: a file that is damaged costs what it held.
type peers struct {
	fs   vfs.FS
	file string

	mu   sync.Mutex
	list []peer
	// unwritten: the list has what the file has not.
	unwritten bool
}

type peer struct {
	node   string
	gossip netip.AddrPort
}

// loadPeers reads the file of a data folder. An error says what was lost; the peers
// can be used all the same.
func loadPeers(fsys vfs.FS, dir string) (*peers, error) {
	p := &peers{fs: fsys, file: path.Join(dir, peersFile)}
	content, err := vfs.ReadFile(fsys, p.file)
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err == nil {
		p.list, err = parsePeers(string(content))
	}
	if err != nil {
		return p, fmt.Errorf("the peers of earlier days cannot be read from %s: %w; the node goes on without them", p.file, err)
	}
	return p, nil
}

// parsePeers returns all peers of the text or none.
func parsePeers(text string) ([]peer, error) {
	header, rest, _ := strings.Cut(text, "\n")
	if err := checkFormat(header, peersFormat); err != nil {
		return nil, err
	}
	var list []peer
	for line := range strings.Lines(rest) {
		node, address, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		gossip, err := netip.ParseAddrPort(address)
		if err != nil || !isNodeID(node) || len(list) == maxPeers {
			return nil, fmt.Errorf("line %d is damaged", len(list)+2)
		}
		list = append(list, peer{node, gossip})
	}
	return list, nil
}

// seen moves members to the front, and writes the file if an address is
// new or could not be written before.
func (p *peers) seen(members []Member) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]peer, 0, len(members)+len(p.list))
	for _, m := range members {
		now := peer{m.Meta.Node, m.Gossip}
		p.unwritten = p.unwritten || !slices.Contains(p.list, now)
		list = append(list, now)
	}
	for _, old := range p.list {
		if !slices.ContainsFunc(members, func(m Member) bool { return m.Meta.Node == old.node }) {
			list = append(list, old)
		}
	}
	p.list = list[:min(len(list), maxPeers)]
	if !p.unwritten {
		return nil
	}
	var text strings.Builder
	text.WriteString(peersFormat + "\n")
	for _, peer := range p.list {
		fmt.Fprintf(&text, "%s %v\n", peer.node, peer.gossip)
	}
	if err := replaceFile(p.fs, p.file, []byte(text.String())); err != nil {
		return fmt.Errorf("the peers cannot be remembered: %w", err)
	}
	p.unwritten = false
	return nil
}

// addresses lists the peers, the most recent first.
func (p *peers) addresses() []netip.AddrPort {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []netip.AddrPort
	for _, peer := range p.list {
		all = append(all, peer.gossip)
	}
	return all
}
