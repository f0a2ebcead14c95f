package command

import (
	"context"
	"errors"
	"iter"
	"net/netip"
	"runtime"
	"slices"
	"time"

	"cutwater/api"
	"cutwater/cluster/discovery"
	"cutwater/cluster/metadata"
	"cutwater/cluster/transport"
	"cutwater/messages"
	"cutwater/node"
	"cutwater/protocol/dispatch"
	machine "cutwater/protocol/metadata"
	"cutwater/stream/operator"
	"cutwater/topology"
)

// extrasTimeout bounds how long a list of nodes waits for what the metadata says of
// them: without a leader the list is there all the same.
const extrasTimeout = 2 * time.Second

// backend shows a member of a cluster through the API.
type backend struct{ *node.Member }

var _ api.Backend = backend{}

// Self implements api.Backend.
func (b backend) Self() api.Node {
	if n, ok := selfOf(b.Member); ok {
		return b.nodeOf(n, time.Now())
	}
	return api.Node{Name: b.Name()} // it has not looked around yet
}

// sourcesOf are where a member looks for others.
func sourcesOf(all []discovery.Status) (sources []api.NodeSource) {
	for _, s := range all {
		sources = append(sources, api.NodeSource{Name: s.Name, Addresses: s.Addresses, Failed: s.Failed, Error: s.Error})
	}
	return sources
}

// selfOf is what a member knows of itself.
func selfOf(m *node.Member) (node.NodeStatus, bool) {
	nodes, _ := m.Nodes() // without an answer it is not among them
	name := m.Name()
	for _, n := range nodes {
		if n.Name == name {
			return n, true
		}
	}
	return node.NodeStatus{}, false
}

// Nodes implements api.Backend.
func (b backend) Nodes(ctx context.Context) ([]api.Node, error) {
	known, err := b.Member.Nodes()
	if err != nil {
		return nil, err
	}
	now := time.Now()
	nodes := make([]api.Node, 0, len(known))
	for _, n := range known {
		if n.Alive || n.Voter {
			nodes = append(nodes, b.nodeOf(n, now))
		}
	}
	b.addJobs(ctx, nodes)
	return nodes, nil
}

// nodeOf is what this node knows of another, or of itself.
func (b backend) nodeOf(n node.NodeStatus, now time.Time) api.Node {
	out := api.Node{ID: n.Meta.GetNode(), Name: n.Name, Gossip: addressText(n.Gossip), Control: addressText(n.Control), Data: addressText(n.Data),
		HTTP: addressText(n.HTTP), Zone: n.Meta.GetZone(), Voter: n.Voter, Leader: n.Leader, Alive: n.Alive, Leaving: n.Meta.GetLeaving(),
		Version: n.Meta.GetVersion(), SlotsTotal: int(n.Meta.GetSlots()), SlotsFree: max(0, int(n.Meta.GetSlots())-int(n.Meta.GetSlotsUsed())),
		SeenMs: now.UnixMilli()}
	if !n.Alive {
		out.SeenMs = now.Add(-n.Since).UnixMilli()
		out.SlotsTotal, out.SlotsFree = 0, 0
	}
	if n.Name == b.Name() {
		out.StartedMs, out.CPUs, out.Sources = b.Started().UnixMilli(), runtime.NumCPU(), sourcesOf(b.Discovery())
	}
	return out
}

// addressText is an address, or nothing where there is none.
func addressText(a netip.AddrPort) string {
	if !a.IsValid() || a.Port() == 0 {
		return ""
	}
	return a.String()
}

// addJobs adds which jobs the nodes coordinate, as far as the metadata answers.
func (b backend) addJobs(ctx context.Context, nodes []api.Node) {
	ctx, cancel := context.WithTimeout(ctx, extrasTimeout)
	defer cancel()
	records, err := b.Member.Jobs(ctx)
	if err != nil {
		return
	}
	for _, r := range records {
		i := slices.IndexFunc(nodes, func(n api.Node) bool { return n.Name == startOf(r.Coordinator) })
		if i >= 0 && !machine.Ended(r.Status) {
			nodes[i].Jobs = append(nodes[i].Jobs, r.Job)
		}
	}
}

// Jobs implements api.Backend.
func (b backend) Jobs(ctx context.Context) ([]*messages.JobRecord, error) {
	records, err := b.Member.Jobs(ctx)
	return records, backendError(err)
}

// Job implements api.Backend.
func (b backend) Job(ctx context.Context, job string) (*messages.JobRecord, error) {
	record, err := b.Member.Job(ctx, job)
	return record, backendError(err)
}

// View implements api.Backend.
func (b backend) View(ctx context.Context, job string, checkpoint uint64) (*messages.JobView, error) {
	view, err := b.Member.View(ctx, job, checkpoint)
	return view, backendError(err)
}

// Deploy implements api.Backend.
func (b backend) Deploy(ctx context.Context, source *messages.TopologySource, o api.DeployOptions) (string, error) {
	job, err := b.Member.Deploy(ctx, source, node.DeployOptions{Parallelism: o.Parallelism, Restore: o.Restore, DropState: o.DropState})
	return job, backendError(err)
}

// Cancel implements api.Backend.
func (b backend) Cancel(ctx context.Context, job string) error {
	return backendError(b.Member.Cancel(ctx, job))
}

// Events implements api.Backend.
func (b backend) Events(ctx context.Context, o api.EventOptions) iter.Seq2[api.Event, error] {
	return func(yield func(api.Event, error) bool) {
		for e := range b.Member.Events(ctx, o.From, o.Follow) {
			job := jobOfEvent(e)
			if o.Job != "" && job != o.Job {
				continue
			}
			if !yield(api.Event{Number: e.Number, AtMs: e.At.UnixMilli(), Node: e.Node, Job: job, Kind: e.Kind(), Text: e.Event.String()}, nil) {
				return
			}
		}
	}
}

// jobOfEvent is the id of the job that an event is about, or empty. The dispatcher's
// say it themselves.
func jobOfEvent(logged node.LoggedEvent) string {
	switch e := logged.Event.(type) {
	case dispatch.CoordinatorOrdered:
		return e.Job
	case dispatch.CoordinatorRefusedBy:
		return e.Job
	case dispatch.CoordinatorUnplaced:
		return e.Job
	case dispatch.SlotsGranted:
		return e.Job
	case dispatch.SlotsMissing:
		return e.Job
	case dispatch.SlotsReleased:
		return e.Job
	}
	return logged.Job
}

// Metrics implements api.Backend: there are none beside those of the API.
func (b backend) Metrics() []api.Metric {
	t := b.Traffic()
	m := []api.Metric{
		gauge("cutwater_node_slots", "Slots that this node offers.", float64(t.Slots)),
		gauge("cutwater_node_slots_used", "Slots of this node that run something.", float64(t.SlotsUsed)),
		gauge("cutwater_metadata_term", "The term of the metadata log: it grows with each election.", float64(t.Term)),
		gauge("cutwater_metadata_leader", "1 if this node leads the metadata log, else 0.", truth(t.Leads)),
	}
	for lane, c := range map[string]transport.LaneCounts{"control": t.Control, "data": t.Data} {
		for _, x := range []struct {
			name, help string
			kind       api.MetricKind
			value      float64
		}{
			{"sent_messages_total", "Messages to other nodes that were written.", api.Counter, float64(c.SentMessages)},
			{"sent_bytes_total", "Bytes to other nodes that were written.", api.Counter, float64(c.SentBytes)},
			{"received_messages_total", "Messages from other nodes.", api.Counter, float64(c.ReceivedMessages)},
			{"received_bytes_total", "Bytes from other nodes.", api.Counter, float64(c.ReceivedBytes)},
			{"dropped_messages_total", "Messages to other nodes that were dropped.", api.Counter, float64(c.Dropped)},
			{"refused_connections_total", "Connections that one side did not let in.", api.Counter, float64(c.Refused)},
			{"reconnections_total", "Connections that replaced an earlier one.", api.Counter, float64(c.Reconnected)},
			{"connections", "Connections that are open.", api.Gauge, float64(c.Open)},
			{"queued_bytes", "Bytes that wait to be written.", api.Gauge, float64(c.QueueBytes)},
		} {
			m = append(m, api.Metric{Name: "cutwater_transport_" + x.name, Help: x.help, Kind: x.kind,
				Samples: []api.Sample{{Labels: []api.Label{{Name: "lane", Value: lane}}, Value: x.value}}})
		}
	}
	return m
}

func gauge(name, help string, value float64) api.Metric {
	return api.Metric{Name: name, Help: help, Kind: api.Gauge, Samples: []api.Sample{{Value: value}}}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// buildTopology makes a program of what was deployed. What is wrong with the topology
// is an *api.RefusedError.
func buildTopology(source *messages.TopologySource) (operator.Program, *messages.JobSettings, error) {
	t, err := topology.LoadSource(source, connectors())
	if err != nil {
		return nil, nil, refusedTopology(err)
	}
	program, settings, err := topology.Build(t, connectors())
	if err != nil {
		return nil, nil, refusedTopology(err)
	}
	return program, settings, nil
}

func refusedTopology(err error) error {
	var errs topology.Errors
	if !errors.As(err, &errs) {
		return &api.RefusedError{Reasons: []string{err.Error()}}
	}
	refused := &api.RefusedError{}
	for _, d := range errs {
		refused.Reasons = append(refused.Reasons, d.String())
	}
	return refused
}

// kinds are the errors of a node, and of its metadata, that the API knows by its own.
var kinds = []struct{ of, is error }{
	{node.ErrUnknownJob, api.ErrUnknownJob},
	{node.ErrNoCoordinator, api.ErrNoCoordinator},
	{node.ErrNameTaken, api.ErrNameExists},
	{node.ErrEnded, api.ErrEnded},
	{metadata.ErrUnavailable, api.ErrNoLeader},
}

// backendError makes an error of the node one that the API knows.
func backendError(err error) error {
	var refused *node.RefusedError
	if errors.As(err, &refused) {
		return &api.RefusedError{Reasons: []string{refused.Reason}}
	}
	for _, k := range kinds {
		if errors.Is(err, k.of) {
			return &kindError{err, k.is}
		}
	}
	return err
}

// kindError has the text of one error and is of the kind of another one.
type kindError struct{ err, kind error }

// Error is the text of the first.
func (e *kindError) Error() string { return e.err.Error() }

// Unwrap returns both.
func (e *kindError) Unwrap() []error { return []error{e.err, e.kind} }

// hostAndPort is how processes of this machine reach a listener.
func hostAndPort(a netip.AddrPort) string {
	if a.Addr().IsUnspecified() {
		loopback := netip.AddrFrom4([4]byte{127, 0, 0, 1})
		if a.Addr().Is6() {
			loopback = netip.IPv6Loopback()
		}
		a = netip.AddrPortFrom(loopback, a.Port())
	}
	return a.String()
}
