package testkit

// The kinds of faults that a World injects where its nodes are a cluster.
const (
	LeaderChanged       = "leader changed"
	LeaderLost          = "leader's node lost"
	TwoLeaders          = "two nodes believe to lead"
	CoordinatorNodeLost = "coordinator's node lost"
	PairPartitioned     = "partition of two nodes"
	OneWayPartitioned   = "partition one way"
	FlappingPartition   = "partition that flaps"
	LeaderUnreachable   = "partition between coordinator and leader"
	NodeIsolated        = "node cut off from all"
	FalselySuspected    = "gossip wrong about a node"
	GossipIsLate        = "gossip late"
	LossToldLate        = "node lost: told late"
	LossNotTold         = "node lost: not told"
	LinkLossToldLate    = "link lost: told late"
	LinkLossNotTold     = "link lost: not told"
	StaleLeaderAsked    = "metadata asked of a stale leader"
	MetadataLate        = "metadata command late"
	NewName             = "restart under a new name"
	CopyDamaged         = "local copy damaged"
)

// ClusterFaultKinds lists those that FaultKinds does not have.
func ClusterFaultKinds() []string {
	return []string{
		LeaderChanged, LeaderLost, TwoLeaders, CoordinatorNodeLost, PairPartitioned, OneWayPartitioned, FlappingPartition, LeaderUnreachable,
		NodeIsolated, FalselySuspected, GossipIsLate, LossToldLate, LossNotTold, LinkLossToldLate, LinkLossNotTold, StaleLeaderAsked,
		MetadataLate, NewName, CopyDamaged,
	}
}

// ClusterDisasters is a Plan for a cluster: nodes crash, above all those that lead and
// coordinate, leaders change, nodes are cut off from each other in every way, gossip
// is wrong, power and the disk fail, at seeded times.
func ClusterDisasters(w *World) {
	for range 2 + w.Random(4) {
		// Soon, so that it meets the start, or among what follows.
		w.After(int64(10+w.Random([]int{300, 2000, 8000}[w.Random(3)])), w.plane.disaster)
	}
	if w.Random(2) == 0 {
		w.damageCopies()
	}
}

// disaster is one of them.
func (c *controlPlane) disaster() {
	w := c.world
	someone := func() *Node { return w.nodes[w.Random(len(w.nodes))] }
	a := someone()
	b := someone()
	for b == a {
		b = someone()
	}
	shortMs, longMs := int64(50+w.Random(1000)), int64(500+w.Random(9000))
	leader, coordinator := w.byID(c.group.Leader()), c.coordinator()
	switch w.Random(18) {
	case 0:
		a.CrashFor(shortMs)
	case 1:
		a.LoseFor(longMs)
	case 2, 3:
		if leader != nil && leader.alive {
			w.happened(LeaderLost)
			leader.crash([]int64{shortMs, longMs}[w.Random(2)])
		}
	case 4, 5, 6:
		if coordinator != nil && coordinator.alive {
			w.happened(CoordinatorNodeLost)
			coordinator.crash([]int64{shortMs, longMs}[w.Random(2)])
		}
	case 7:
		for at := int64(0); at < longMs; at += int64(100 + w.Random(3000)) {
			w.After(at, c.changeLeader)
		}
	case 8:
		w.PartitionPair(a, b, longMs)
	case 9:
		w.PartitionOneWay(a, b, longMs)
	case 10:
		w.PartitionFlapping(a, b, 2+w.Random(5))
	case 11, 12, 17:
		if leader == coordinator {
			c.changeLeader()
			leader = w.byID(c.group.Leader())
		}
		if leader != nil && coordinator != nil && leader != coordinator {
			w.happened(LeaderUnreachable)
			w.separate(leader, coordinator, longMs)
		}
	case 13, 14:
		w.happened(NodeIsolated)
		victim := []*Node{a, leader, coordinator}[w.Random(3)]
		if victim == nil {
			victim = a
		}
		for _, o := range w.nodes {
			if o != victim {
				w.separate(victim, o, longMs)
			}
		}
	case 15:
		c.suspect(a, b, longMs)
	case 16:
		if w.Random(2) == 0 {
			w.PowerFailure()
		} else {
			w.DiskFull(true)
			w.After(int64(10+w.Random(3_000)), func() { w.DiskFull(false) })
		}
	}
}
