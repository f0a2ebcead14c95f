package node

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"slices"
	"time"

	"cutwater/cluster/membership"
	"cutwater/cluster/metadata/replicated"
	"cutwater/messages"
)

const (
	// aloneAfter is how long a node without a cluster looks for one before it founds
	// its own: long enough to hear an announcement on its network. With seeds they are
	// waited for longer, and after having given way longer still.
	aloneAfter      = 150 * time.Millisecond
	aloneAfterSeeds = 3 * time.Second
	aloneAfterYield = 10 * time.Second
	// maxTurns is how often a node leaves it to another one to found their cluster.
	maxTurns = 20
	// lookEvery is how often a node looks at its cluster without being told to.
	lookEvery = 500 * time.Millisecond
)

// met takes in what gossip says, and wakes those who look.
func (s *session) met(e membership.Event) {
	select {
	case <-s.opened:
	case <-s.ctx.Done():
		return
	}
	s.happened(e)
	if e.Kind == membership.Refused && membership.Superseded(s.gossip.Self().Meta, e.Member.Meta) {
		select {
		case s.superseded <- e.Member.Meta.ClusterId:
		default: // it is known
		}
		return
	}
	if e.Kind == membership.Refused && errors.Is(e.Reason, membership.ErrOtherCluster) && membership.Yields(s.gossip.Self().Meta, e.Member.Meta) {
		s.start(func() { s.yield(e.Member.Meta.ClusterId) })
	}
	s.wake()
}

func (s *session) wake() {
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// look follows the cluster: who lives, to which cluster this node belongs, who votes.
func (s *session) look() {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		s.control.Look(s.gossip.Members(), s.store.Members())
		s.describe()
		if _, err := s.store.Steer(s.ctx, s.member.options.Voters, s.clock.MonotonicMs(), s.control.roster.voters()); err != nil && s.ctx.Err() == nil {
			s.member.options.Log.Info("the voters stay as they are", "error", err)
		}
		if status := s.store.Status(); status.YieldedTo != "" && status.Leadership.ID != s.identity.Node {
			s.giveWay()
			return
		}
		select {
		case <-s.ctx.Done():
			return
		case <-s.news:
		case <-ticker.C:
		}
	}
}

// describe tells others to which cluster this node belongs, and keeps its own idea of
// whether it is ready.
func (s *session) describe() {
	status := s.store.Status()
	id := status.ClusterID
	if id == "" {
		id = s.foundByOthers()
	}
	self := s.gossip.Self().Meta
	provisional, used := status.Provisional, uint32(s.runtime.SlotsInUse())
	if self.ClusterId != id || self.Provisional != provisional || self.SlotsUsed != used || !slices.Equal(self.Supersedes, status.Supersedes) {
		if err := s.gossip.Update(func(m *messages.NodeMeta) {
			m.ClusterId, m.Provisional, m.SlotsUsed, m.Supersedes = id, provisional, used, status.Supersedes
		}); err != nil && s.ctx.Err() == nil {
			s.member.options.Log.Warn("the other nodes are not told of the cluster", "error", err)
		}
	}
	away := ""
	switch {
	case status.Failure != nil:
		away = status.Failure.Error()
	case status.ClusterID == "":
		away = "it has not found its cluster yet"
	case status.Leadership.ID == "":
		away = "no voter leads: a majority of the voters is needed"
	}
	s.mu.Lock()
	s.away = away
	s.mu.Unlock()
	s.member.notify()
}

// foundByOthers is the cluster of the other members, before this node's own log knows.
func (s *session) foundByOthers() string {
	for _, m := range s.gossip.Members() {
		if m.Meta.ClusterId != "" && m.Meta.Node != s.identity.Node {
			return m.Meta.ClusterId
		}
	}
	return ""
}

// lead tells the local dispatcher whether it works.
func (s *session) lead() {
	was := uint64(0) // the term in which it was told that it leads
	for {
		now, changed := s.store.Leadership()
		switch {
		case now.Here && now.Term != was:
			was = now.Term
			s.happened(MetadataLed{now.Term})
			s.control.Lead(now.Term)
		case !now.Here && was != 0:
			was = 0
			s.control.Follow()
		}
		s.wake()
		select {
		case <-s.ctx.Done():
			return
		case <-changed:
		}
	}
}

// found makes a cluster of this node, if it has found none for a while. Of nodes that
// know each other and are all without, the one with the lowest id does it. Two that do
// it at once all the same meet later, and one gives way: neither has a job.
func (s *session) found(patient bool) {
	wait := aloneAfter
	switch {
	case patient:
		wait = aloneAfterYield
	case len(s.member.options.Join) > 0:
		wait = aloneAfterSeeds
	}
	for turns := 0; ; turns++ {
		timer := time.NewTimer(wait)
		select {
		case <-s.ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		switch {
		case s.store.ClusterID() != "" || len(s.store.Members()) > 0:
			return
		case s.foundByOthers() != "": // they will take this node in, if they live on
			wait, turns = aloneAfterSeeds, 0
			continue
		case turns < maxTurns && s.otherFounds():
			wait = aloneAfter
			continue
		}
		var id [16]byte
		_, _ = rand.Read(id[:]) // never fails
		if err := s.store.Bootstrap(s.ctx, hex.EncodeToString(id[:])); err != nil && s.ctx.Err() == nil && !errors.Is(err, replicated.ErrHasLog) {
			s.member.options.Log.Error("the node cannot found a cluster", "error", err)
		}
		s.wake()
		return
	}
}

// otherFounds reports whether it is the turn of another node to found a cluster.
func (s *session) otherFounds() bool {
	for _, m := range s.gossip.Members() {
		if m.Meta.Node < s.identity.Node {
			return true
		}
	}
	return false
}

// yield gives this cluster, which has no jobs, up for another one. The leader sees to
// it that all members know before it goes itself.
func (s *session) yield(cluster string) {
	if now, _ := s.store.Leadership(); !now.Here {
		return // the leader meets the others, too
	}
	ctx, cancel := context.WithTimeout(s.ctx, aloneAfterYield)
	defer cancel()
	result, err := s.store.Yield(ctx, cluster)
	switch {
	case s.ctx.Err() != nil:
	case err != nil:
		s.member.options.Log.Warn("the cluster has not given way yet", "error", err)
	case result.Outcome == messages.MetadataOutcome_APPLIED || result.Outcome == messages.MetadataOutcome_ALREADY_RECORDED:
		s.giveWay()
	}
}

// giveWay asks the member for a new session, once.
func (s *session) giveWay() {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.yielded:
	default:
		close(s.yielded)
	}
}
