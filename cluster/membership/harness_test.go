package membership

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"cutwater/messages"
	"cutwater/storage/vfs"
)

// deadline bounds every wait of these tests; what is waited for comes long before.
const deadline = 30 * time.Second

// folder is a data folder that outlives its processes.
type folder struct {
	fs   vfs.FS
	name string // of the cluster
}

func newFolder(clusterName string) folder { return folder{vfs.Mem(), clusterName} }

// randomName is a cluster name that no other test has.
func randomName() string { return "test-" + rand.Text() }

// testNode is a running node whose events can be waited for.
type testNode struct {
	*Membership
	identity *Identity
	t        *testing.T

	mu      sync.Mutex
	events  []Event
	arrived chan struct{}
}

// run starts a node on loopback in a data folder; it is closed at the end of the test.
func (f folder) run(t *testing.T, change ...func(*Config)) *testNode {
	t.Helper()
	n := &testNode{t: t, arrived: make(chan struct{}, 1)}
	var err error
	if n.identity, err = OpenIdentity(f.fs, "data", f.name, rand.Reader); err != nil {
		t.Fatal(err)
	}
	c := f.config(n.identity)
	c.OnEvent = n.take
	for _, change := range change {
		change(&c)
	}
	if n.Membership, err = Start(c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.kill)
	return n
}

func (f folder) config(id *Identity) Config {
	return Config{
		Identity: id,
		Meta:     &messages.NodeMeta{ClusterName: f.name, Ports: &messages.NodePorts{Control: 1234}},
		Bind:     netip.MustParseAddrPort("127.0.0.1:0"),
		Preset:   Short,
		FS:       f.fs,
		Dir:      "data",
	}
}

// patient makes a node that no load of the machine lets fail.
func patient(c *Config) { c.Preset = Local }

// kill ends the node without a word.
func (n *testNode) kill() {
	if err := n.Close(); err != nil {
		n.t.Error(err)
	}
	if err := n.identity.Close(); err != nil {
		n.t.Error(err)
	}
}

func (n *testNode) take(e Event) {
	n.mu.Lock()
	n.events = append(n.events, e)
	n.mu.Unlock()
	select {
	case n.arrived <- struct{}{}:
	default:
	}
}

// await waits for an event about a node, or about any if it is empty, and takes it
// out.
func (n *testNode) await(kind Kind, node string) Event {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), deadline)
	defer cancel()
	for {
		n.mu.Lock()
		for i, e := range n.events {
			if e.Kind == kind && (node == "" || e.Member.Meta.GetNode() == node) {
				n.events = slices.Delete(n.events, i, i+1)
				n.mu.Unlock()
				return e
			}
		}
		heard := fmt.Sprint(n.events)
		n.mu.Unlock()
		select {
		case <-n.arrived:
		case <-ctx.Done():
			n.t.Fatalf("node %s did not hear that %s %v; it heard %s", n.identity.Node, node, kind, heard)
		}
	}
}

// join makes n join another node.
func (n *testNode) join(other *testNode) error {
	ctx, cancel := context.WithTimeout(n.t.Context(), deadline)
	defer cancel()
	return n.Join(ctx, other.Address())
}

func (n *testNode) mustJoin(other *testNode) {
	n.t.Helper()
	if err := n.join(other); err != nil {
		n.t.Fatal(err)
	}
}

// names are the node ids of the members.
func (n *testNode) names() (names []string) {
	for _, m := range n.Members() {
		names = append(names, m.Meta.Node)
	}
	return names
}
