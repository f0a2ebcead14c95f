package command

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"strings"
	"time"

	"cutwater/api"
	"cutwater/cluster/metadata"
	"cutwater/messages"
	"cutwater/node"
	"cutwater/topology"
)

// backend shows a member of a cluster through the API.
type backend struct{ *node.Member }

var _ api.Backend = backend{}

// Self implements api.Backend.
func (b backend) Self() api.Node {
	nodes, _ := b.Nodes(context.Background())
	for _, n := range nodes {
		if n.Name == b.Name() {
			return n
		}
	}
	return api.Node{Name: b.Name()} // it has not looked around yet
}

// Nodes implements api.Backend.
func (b backend) Nodes(context.Context) ([]api.Node, error) {
	statuses, err := b.Member.Nodes()
	if err != nil {
		return nil, err
	}
	now := time.Now()
	nodes := make([]api.Node, 0, len(statuses))
	for _, s := range statuses {
		n := api.Node{
			ID: s.Meta.Node, Name: s.Name, Gossip: addressText(s.Gossip), Control: addressText(s.Control), Data: addressText(s.Data), HTTP: addressText(s.HTTP),
			Zone: s.Meta.Zone, Voter: s.Voter, Leader: s.Leader, Alive: s.Alive, Leaving: s.Meta.Leaving,
			SlotsTotal: int(s.Meta.Slots), Jobs: []string{},
		}
		if s.Alive {
			n.SeenMs = now.UnixMilli()
		} else {
			n.SeenMs = now.Add(-s.Since).UnixMilli()
		}
		if s.Name == b.Name() {
			n.Version, n.StartedMs = version().Version, b.Started().UnixMilli()
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// addressText is empty for an address that there is not.
func addressText(a netip.AddrPort) string {
	if !a.IsValid() || a.Port() == 0 {
		return ""
	}
	return a.String()
}

// Jobs implements api.Backend.
func (b backend) Jobs(ctx context.Context) ([]*messages.JobRecord, error) {
	records, err := b.Member.Jobs(ctx)
	return records, translated(err)
}

// Job implements api.Backend.
func (b backend) Job(ctx context.Context, job string) (*messages.JobRecord, error) {
	record, err := b.Member.Job(ctx, job)
	return record, translated(err)
}

// View implements api.Backend.
func (b backend) View(ctx context.Context, job string, checkpoint uint64) (*messages.JobView, error) {
	view, err := b.Member.View(ctx, job, checkpoint)
	return view, translated(err)
}

// Deploy implements api.Backend.
func (b backend) Deploy(ctx context.Context, source *messages.TopologySource, o api.DeployOptions) (string, error) {
	job, err := b.Member.Deploy(ctx, source, node.DeployOptions{Parallelism: o.Parallelism, Restore: o.Restore, DropState: o.DropState})
	return job, translated(err)
}

// Cancel implements api.Backend.
func (b backend) Cancel(ctx context.Context, job string) error {
	return translated(b.Member.Cancel(ctx, job))
}

// Events implements api.Backend.
func (b backend) Events(ctx context.Context, o api.EventOptions) iter.Seq2[api.Event, error] {
	return func(yield func(api.Event, error) bool) {
		for e := range b.Member.Events(ctx, o.From, o.Follow) {
			if o.Job != "" && o.Job != e.Job {
				continue
			}
			shown := api.Event{Number: e.Number, AtMs: e.At.UnixMilli(), Node: e.Node, Job: e.Job, Kind: e.Kind(), Text: e.Event.String()}
			if !yield(shown, nil) {
				return
			}
		}
	}
}

// Metrics implements api.Backend.
func (b backend) Metrics() []api.Metric { return nil }

// translated gives an error of a node the type by which the API answers it.
func translated(err error) error {
	var refused *node.RefusedError
	var findings topology.Errors
	switch {
	case err == nil:
		return nil
	case errors.As(err, &findings):
		var reasons []string
		for _, f := range findings {
			reasons = append(reasons, f.String())
		}
		return &api.RefusedError{Reasons: reasons}
	case errors.As(err, &refused):
		return &api.RefusedError{Reasons: []string{refused.Reason}}
	}
	for _, pair := range []struct{ mine, theirs error }{
		{node.ErrUnknownJob, api.ErrUnknownJob}, {node.ErrNameTaken, api.ErrNameExists}, {node.ErrEnded, api.ErrEnded},
		{node.ErrNoCoordinator, api.ErrNoCoordinator}, {metadata.ErrUnavailable, api.ErrNoLeader},
	} {
		if errors.Is(err, pair.mine) {
			_, detail, _ := strings.Cut(err.Error(), ": ")
			return fmt.Errorf("%w: %s", pair.theirs, detail)
		}
	}
	return err
}
