package membership

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"cutwater/messages"
	"cutwater/storage/vfs"
)

func testPeer(n int) Member {
	return Member{Meta: &messages.NodeMeta{Node: fmt.Sprintf("%032x", n)}, Gossip: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(1000+n))}
}

// Peers come back after a restart, the most recent first, one for each node, the
// newest address, and no more than the bound.
func TestPeersAreRemembered(t *testing.T) {
	fsys := vfs.Mem()
	p, err := loadPeers(fsys, ".")
	if err != nil {
		t.Fatal(err)
	}
	for n := range maxPeers + 10 {
		if err := p.seen([]Member{testPeer(n)}); err != nil {
			t.Fatal(err)
		}
	}
	moved := testPeer(20)
	moved.Gossip = netip.MustParseAddrPort("[::1]:9")
	if err := p.seen([]Member{moved}); err != nil {
		t.Fatal(err)
	}
	again, err := loadPeers(fsys, ".")
	if err != nil {
		t.Fatal(err)
	}
	got := again.addresses()
	if len(got) != maxPeers || got[0] != moved.Gossip || got[1] != testPeer(maxPeers+9).Gossip || slices.Contains(got, testPeer(20).Gossip) || !slices.Equal(got, p.addresses()) {
		t.Errorf("%d peers: %v", len(got), got)
	}
}

// A file that is damaged is told and costs what it held; the next peers replace it.
func TestDamagedPeersAreLeftOut(t *testing.T) {
	for _, bad := range []string{"", "cutwater peers 2\n", peersFormat + "\nxyz 127.0.0.1:1\n", peersFormat + "\n" + strings.Repeat("0", 32) + " nowhere\n"} {
		fsys := vfs.Mem()
		if err := vfs.WriteFile(fsys, peersFile, []byte(bad)); err != nil {
			t.Fatal(err)
		}
		p, err := loadPeers(fsys, ".")
		if err == nil || !strings.Contains(err.Error(), peersFile) || len(p.addresses()) != 0 {
			t.Errorf("%q: %v, %v", bad, p.addresses(), err)
		}
		if err := p.seen([]Member{testPeer(1)}); err != nil {
			t.Fatal(err)
		}
		if again, err := loadPeers(fsys, "."); err != nil || len(again.addresses()) != 1 {
			t.Errorf("%q: afterwards %v, %v", bad, again.addresses(), err)
		}
	}
}

// A disk that takes nothing is told each time that there is something to write, and
// the peers are known all the same; nothing is written if nothing is new.
func TestPeersOnFullDisk(t *testing.T) {
	faulty := vfs.Faulty(vfs.Mem(), vfs.Plan{Faults: []vfs.Fault{{Kind: vfs.Fail, Op: vfs.OpWrite}}})
	p, err := loadPeers(faulty, ".")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.seen([]Member{testPeer(1)}); !errors.Is(err, vfs.ErrInjected) {
		t.Errorf("got %v", err)
	}
	if got := p.addresses(); len(got) != 1 {
		t.Errorf("peers are %v", got)
	}
	if err := p.seen([]Member{testPeer(1)}); !errors.Is(err, vfs.ErrInjected) {
		t.Errorf("tried again: got %v", err)
	}
	faulty.SetFaults()
	if err := p.seen([]Member{testPeer(1)}); err != nil {
		t.Fatal(err)
	}
	before := faulty.Ops()
	if err := p.seen([]Member{testPeer(1)}); err != nil || faulty.Ops() != before {
		t.Errorf("nothing new: %d operations, %v", faulty.Ops()-before, err)
	}
}
