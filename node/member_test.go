package node_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"cutwater/connector/blackhole"
	"cutwater/connector/datagen"
	"cutwater/messages"
	"cutwater/node"
	"cutwater/storage/vfs"
	"cutwater/stream/catalog"
	"cutwater/stream/operator"
	"cutwater/topology"
)

// cluster is what the nodes of one test have in common.
type cluster struct {
	t    *testing.T
	name string
	port uint16
}

func newCluster(t *testing.T) *cluster {
	return &cluster{t, fmt.Sprintf("test-%d", rand.Uint64()), uint16(20_000 + rand.IntN(10_000))}
}

func (c *cluster) catalog() *catalog.Catalog {
	return &catalog.Catalog{Sources: []catalog.SourceSpec{datagen.Spec()}, Sinks: []catalog.SinkSpec{blackhole.Spec()}}
}

func (c *cluster) build(s *messages.TopologySource) (operator.Program, *messages.JobSettings, error) {
	top, err := topology.LoadSource(s, c.catalog())
	if err != nil {
		return nil, nil, err
	}
	p, settings, err := topology.Build(top, c.catalog())
	return p, settings, err
}

// start starts a node on loopback with a data folder of its own.
func (c *cluster) start(change ...func(*node.MemberOptions)) *node.Member {
	c.t.Helper()
	o := node.MemberOptions{DataDir: c.t.TempDir(), FS: vfs.OS(), ClusterName: c.name, Bind: netip.MustParseAddr("127.0.0.1"),
		AnnouncePort: c.port, Slots: 4, Build: c.build}
	for _, f := range change {
		f(&o)
	}
	m, err := node.StartMember(o)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		if err := m.Close(); err != nil {
			c.t.Error(err)
		}
	})
	return m
}

// ready waits for a node.
func (c *cluster) ready(members ...*node.Member) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 20*time.Second)
	defer cancel()
	for _, m := range members {
		if err := m.AwaitReady(ctx); err != nil {
			c.t.Fatal(err)
		}
	}
}

// Nodes that start together find each other, and are one cluster with one leader.
func TestMembersFindEachOther(t *testing.T) {
	c := newCluster(t)
	begun := time.Now()
	first := c.start()
	c.ready(first)
	t.Logf("alone: %v", time.Since(begun))
	begun = time.Now()
	second := c.start()
	c.ready(second)
	t.Logf("second: %v", time.Since(begun))
	if first.ClusterID() != second.ClusterID() {
		t.Errorf("clusters %s and %s", first.ClusterID(), second.ClusterID())
	}
}
