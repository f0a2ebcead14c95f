package metadata

import (
	"slices"

	"cutwater/messages"
)

// ClusterID returns the name of the cluster whose log this is, or nothing before
// FoundCluster.
func (m *Machine) ClusterID() string { return m.clusterID }

// Provisional reports whether no job was ever accepted. Such a cluster may yield
// to another one; jobs never leave the record, so one that has them never will.
func (m *Machine) Provisional() bool { return len(m.jobs) == 0 }

// YieldedTo returns the id of the cluster to which this one has yielded, if it has.
func (m *Machine) YieldedTo() string { return m.yieldedTo }

// maxSuperseded is how many clusters of before are remembered.
const maxSuperseded = 3

// Supersede makes the log that of a new cluster, after most of the voters were lost. It
// is no command, since nobody is left who could agree: it is done to a copy of which a
// person has said that it is the truth now. Who belongs to a cluster of before knows by
// its id that it does not belong to this one.
func (m *Machine) Supersede(clusterID string) {
	if m.clusterID != "" && m.clusterID != clusterID {
		m.supersedes = slices.Insert(m.supersedes, 0, m.clusterID)
		m.supersedes = m.supersedes[:min(len(m.supersedes), maxSuperseded)]
	}
	m.clusterID = clusterID
}

// Supersedes returns the ids of the clusters that this one was made of, the newest
// first.
func (m *Machine) Supersedes() []string { return slices.Clone(m.supersedes) }

// foundCluster names the cluster. Repeating it is success.
func (m *Machine) foundCluster(c *messages.FoundCluster) *messages.MetadataResult {
	switch {
	case !ValidClusterID(c.ClusterId):
		return refused("cluster id %q is not 32 lower-case hexadecimal digits", c.ClusterId)
	case m.clusterID == c.ClusterId:
		return &messages.MetadataResult{Outcome: messages.MetadataOutcome_ALREADY_RECORDED}
	case m.clusterID != "":
		return refused("this is cluster %s and cannot become %s", m.clusterID, c.ClusterId)
	}
	m.clusterID = c.ClusterId
	return &messages.MetadataResult{Outcome: messages.MetadataOutcome_APPLIED}
}

// yieldCluster closes the log for jobs: what comes after it in the log cannot be
// worth keeping, so every node that has seen it may drop the log.
func (m *Machine) yieldCluster(c *messages.YieldCluster) *messages.MetadataResult {
	switch {
	case !ValidClusterID(c.ToCluster):
		return refused("cluster id %q is not 32 lower-case hexadecimal digits", c.ToCluster)
	case c.ToCluster == m.clusterID:
		return refused("cluster %s cannot yield to itself", m.clusterID)
	case !m.Provisional():
		return refused("cluster %s has %d jobs on record and cannot join cluster %s; two clusters with jobs never merge", m.clusterID, len(m.jobs), c.ToCluster)
	case m.yieldedTo == c.ToCluster:
		return &messages.MetadataResult{Outcome: messages.MetadataOutcome_ALREADY_RECORDED}
	}
	m.yieldedTo = c.ToCluster
	return &messages.MetadataResult{Outcome: messages.MetadataOutcome_APPLIED}
}

// ValidClusterID reports whether the id has the form of one, which is that of a
// job id.
func ValidClusterID(id string) bool { return ValidJobID(id) }
