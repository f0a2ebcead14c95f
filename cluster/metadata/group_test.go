package metadata_test

import (
	"context"
	"errors"
	"testing"

	"cutwater/cluster/metadata"
	"cutwater/cluster/metadata/metadatatest"
	"cutwater/messages"
)

// TestGroup: a member that asks the leader has a store.
func TestGroup(t *testing.T) {
	var g *metadata.Group
	member := func(*testing.T) metadata.Store {
		return g.Member(func() metadata.Request { return metadata.Request{Leader: "a"} })
	}
	metadatatest.Run(t, func(t *testing.T) metadata.Store {
		g = metadata.NewGroup()
		g.Elect("a", false)
		return member(t)
	}, nil)
}

// TestGroupLeaders: what is asked through the leader is applied; through one that is
// none any more it is not, or is unknown; without any leader a command may be applied
// by the next one, and is not seen before.
func TestGroupLeaders(t *testing.T) {
	ctx := context.Background()
	g := metadata.NewGroup()
	var ask metadata.Request
	m := g.Member(func() metadata.Request { return ask })
	g.Elect("a", false)
	if _, err := g.Propose(ctx, metadatatest.Register(metadatatest.Job)); err != nil {
		t.Fatal(err)
	}
	epoch := func() uint64 {
		t.Helper()
		r, err := g.Job(ctx, metadatatest.Job)
		if err != nil {
			t.Fatal(err)
		}
		return r.Epoch
	}
	for _, test := range []struct {
		name, leads, asks string
		fault             metadata.Fault
		unavailable       bool
		unknown           bool
		epoch             uint64 // afterwards
		kept              uint64 // after the next election that keeps what is late
	}{
		{"no leader is known", "a", "", metadata.NoFault, true, false, 0, 0},
		{"the leader", "a", "a", metadata.NoFault, false, false, 1, 1},
		{"the leader is not reached", "a", "a", metadata.Unavailable, true, false, 1, 1},
		{"the answer is lost", "a", "a", metadata.LostAnswer, false, true, 2, 2},
		{"the command is lost", "a", "a", metadata.LostCommand, false, true, 2, 2},
		{"the command is late", "a", "a", metadata.LateCommand, false, true, 2, 3},
		{"one that led", "b", "a", metadata.NoFault, false, true, 3, 3},
		{"nobody leads", "", "a", metadata.NoFault, false, true, 3, 4},
	} {
		g.Elect(test.leads, false)
		ask = metadata.Request{Leader: test.asks, Fault: test.fault}
		r, err := m.Propose(ctx, metadatatest.StartEpoch(metadatatest.Job))
		if test.unavailable != errors.Is(err, metadata.ErrUnavailable) || test.unknown != (r.GetOutcome() == messages.MetadataOutcome_UNKNOWN) {
			t.Errorf("%s: %v, %v", test.name, r, err)
		}
		_, err = m.Job(ctx, metadatatest.Job)
		if served := test.asks != "" && test.leads == test.asks && test.fault == metadata.NoFault; served != (err == nil) {
			t.Errorf("%s: the read ended with %v", test.name, err)
		}
		if got := epoch(); got != test.epoch {
			t.Errorf("%s: epoch %d, want %d", test.name, got, test.epoch)
		}
		g.Elect("a", true)
		if got := epoch(); got != test.kept {
			t.Errorf("%s: after the next election epoch %d, want %d", test.name, got, test.kept)
		}
	}
}

// TestModelLate: a late command is applied before the next one, and Observe is told of
// all that is applied.
func TestModelLate(t *testing.T) {
	ctx := context.Background()
	fault := metadata.NoFault
	m := metadata.NewModel(func(*messages.MetadataCommand) metadata.Fault { return fault })
	var epochs []uint64
	m.Observe(func(c *messages.MetadataCommand, r *messages.MetadataResult) {
		if c.GetStartEpoch() != nil {
			epochs = append(epochs, r.Epoch)
		}
	})
	if _, err := m.Propose(ctx, metadatatest.Register(metadatatest.Job)); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		fault metadata.Fault
		want  int
	}{{metadata.LateCommand, 0}, {metadata.NoFault, 2}, {metadata.LateCommand, 2}, {metadata.LostAnswer, 4}} {
		fault = test.fault
		if _, err := m.Propose(ctx, metadatatest.StartEpoch(metadatatest.Job)); err != nil || len(epochs) != test.want {
			t.Fatalf("fault %d: epochs %v, want %d of them (%v)", fault, epochs, test.want, err)
		}
	}
}
