package replicated

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"cutwater/cluster/metadata"
	"cutwater/messages"
	machine "cutwater/protocol/metadata"
)

var (
	// ErrHasLog: the folder belongs to a cluster already.
	ErrHasLog = errors.New("metadata: this node has a log already")
	// ErrNotYielded: the log may hold what no other cluster has.
	ErrNotYielded = errors.New("metadata: this cluster has not given itself up")
)

// Bootstrap begins a cluster with this node as its only voter, and returns when it
// leads. The id is 32 lower-case hexadecimal digits, chosen at random. Never call it
// where another node may do the same for the same cluster. A node that has a log is
// refused with ErrHasLog.
func (s *Store) Bootstrap(ctx context.Context, clusterID string) error {
	if !machine.ValidClusterID(clusterID) {
		return fmt.Errorf("metadata: cluster id %q is not 32 lower-case hexadecimal digits", clusterID)
	}
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	if len(s.Members()) > 0 {
		return fmt.Errorf("%w, of cluster %s", ErrHasLog, s.ClusterID())
	}
	// The id is durable before the log has a first entry, so that no log is without.
	if err := s.file.put(clusterKey, []byte(clusterID)); err != nil {
		return err
	}
	s.rename("", clusterID)
	self := raft.Server{Suffrage: raft.Voter, ID: raft.ServerID(s.options.NodeID), Address: raft.ServerAddress(s.options.Advertise)}
	switch err := s.await(ctx, s.raft.BootstrapCluster(raft.Configuration{Servers: []raft.Server{self}})); {
	case errors.Is(err, raft.ErrCantBootstrap):
		s.rename(clusterID, "")
		return fmt.Errorf("%w, of cluster %s", ErrHasLog, s.ClusterID())
	case err != nil:
		return fmt.Errorf("metadata: whether the cluster has begun is not known: %w", err)
	}
	s.elect()
	for {
		now, changed := s.Leadership()
		if now.Here {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("metadata: the cluster has begun, but its only voter does not lead yet: %w", ctx.Err())
		}
	}
}

// rename changes the id under which this node speaks to others, unless it has learned
// another one meanwhile.
func (s *Store) rename(from, to string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clusterID == from {
		s.clusterID = to
	}
}

// Identity is what a cluster, or a node without one, shows to others.
type Identity struct {
	// ClusterID is empty where a node belongs to no cluster yet.
	ClusterID string
	// Provisional: no job was ever accepted.
	Provisional bool
}

// Verdict is what becomes of one side when two meet.
type Verdict uint8

const (
	// Same: both belong to one cluster, or neither to any.
	Same Verdict = iota + 1
	// Stay: the other side is to join.
	Stay
	// Join: this side gives up what it is, and joins the other.
	Join
	// Conflict: both have jobs, and neither may give them up.
	Conflict
)

// Meet says what this side does when it meets the other; the other side comes to the
// opposite verdict. Who has jobs stays; of two that have none the one with the smaller
// id stays.
func Meet(mine, theirs Identity) Verdict {
	switch {
	case mine.ClusterID == theirs.ClusterID:
		return Same
	case theirs.ClusterID == "":
		return Stay
	case mine.ClusterID == "":
		return Join
	case !mine.Provisional && !theirs.Provisional:
		return Conflict
	case mine.Provisional != theirs.Provisional:
		if mine.Provisional {
			return Join
		}
		return Stay
	case mine.ClusterID < theirs.ClusterID:
		return Stay
	}
	return Join
}

// Yield gives the cluster up for another one: no job is accepted from then on, and
// every member may Abandon its log once it knows. Any member may call it; the answer
// is that of Propose. REFUSED: the cluster has jobs. On the leader it also waits until
// all members know, or the time is up, and then returns an error that names those who
// do not. The leader abandons its log last.
func (s *Store) Yield(ctx context.Context, toCluster string) (*messages.MetadataResult, error) {
	result, err := s.Propose(ctx, &messages.MetadataCommand{Command: &messages.MetadataCommand_YieldCluster{YieldCluster: &messages.YieldCluster{ToCluster: toCluster}}})
	if err != nil || result.Outcome != messages.MetadataOutcome_APPLIED && result.Outcome != messages.MetadataOutcome_ALREADY_RECORDED {
		return result, err
	}
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	if leader, _ := s.Leadership(); !leader.Here {
		return result, nil
	}
	missing := s.Members()
	for {
		missing = s.unaware(ctx, missing, toCluster)
		if len(missing) == 0 {
			return result, nil
		}
		pause := time.NewTimer(lastPause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			var ids []string
			for _, m := range missing {
				ids = append(ids, m.ID)
			}
			return result, fmt.Errorf("metadata: the cluster has given itself up, but these nodes do not know it yet: %s", strings.Join(ids, ", "))
		}
	}
}

// unaware returns those of the other members that do not know yet.
func (s *Store) unaware(ctx context.Context, members []Member, toCluster string) (unaware []Member) {
	for _, m := range members {
		if m.ID == s.options.NodeID {
			continue
		}
		asked, cancel := context.WithTimeout(ctx, progressTimeout)
		response, err := s.progressOf(asked, m)
		cancel()
		if err != nil || response.YieldedTo != toCluster {
			unaware = append(unaware, m)
		}
	}
	return unaware
}

// Abandon closes the store and deletes its log, so that the node can join another
// cluster. It refuses with ErrNotYielded unless this member has seen its cluster give
// itself up, or has no log.
func (s *Store) Abandon() error {
	if status := s.Status(); status.Members > 0 && status.YieldedTo == "" {
		return fmt.Errorf("%w: cluster %s may have jobs; its data folder must be moved away by hand", ErrNotYielded, status.ClusterID)
	}
	if err := s.Close(); err != nil && !errors.Is(err, metadata.ErrClosed) {
		return err
	}
	return errors.Join(
		os.Remove(s.file.path),
		os.RemoveAll(filepath.Join(s.options.Dir, "snapshots")),
	)
}
