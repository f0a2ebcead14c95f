// Package apitest is for tests of what serves and what asks the HTTP API: a Backend
// in memory, and the check of Flink's rules and required fields against any server.
package apitest

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"

	"cutwater/api"
	"cutwater/messages"
)

// Backend is an api.Backend in memory. Its fields are set before it is used; the
// methods are safe for concurrent use.
type Backend struct {
	// Node is the node that answers, Others are the others.
	Node   api.Node
	Others []api.Node
	// Records are all jobs; Views those that a coordinator answers for, by job id, with
	// subtasks in every checkpoint.
	Records []*messages.JobRecord
	Views   map[string]*messages.JobView
	// Failure, if set, is the error of every call; NotReady that of Ready alone.
	Failure, NotReady error
	// OnDeploy, if set, may refuse.
	OnDeploy func(*messages.TopologySource, api.DeployOptions) error
	// OwnMetrics are those of the node.
	OwnMetrics []api.Metric

	mu       sync.Mutex
	happened []api.Event
	more     chan struct{} // closed at the next event
	asked    []string      // what changed something, in order
}

// NewBackend returns a backend of one node without jobs.
func NewBackend() *Backend {
	return &Backend{
		Node: api.Node{
			ID: "0123456789abcdef0123456789abcdef", Name: "0123456789abcdef0123456789abcdef.1", Version: "1.2.3", Voter: true, Leader: true, Alive: true,
			Gossip: "127.0.0.1:7946", Control: "127.0.0.1:7947", Data: "127.0.0.1:7948", HTTP: "127.0.0.1:8081",
			SlotsTotal: 4, SlotsFree: 1, StartedMs: 1_700_000_000_000, SeenMs: 1_700_000_100_000, CPUs: 2, MemoryBytes: 1 << 30,
		},
		Views: map[string]*messages.JobView{},
		more:  make(chan struct{}),
	}
}

// Self implements api.Backend.
func (b *Backend) Self() api.Node { return b.Node }

// Nodes implements api.Backend.
func (b *Backend) Nodes(context.Context) ([]api.Node, error) {
	return append([]api.Node{b.Node}, b.Others...), b.Failure
}

// Ready implements api.Backend.
func (b *Backend) Ready() error { return b.NotReady }

// Jobs implements api.Backend.
func (b *Backend) Jobs(context.Context) ([]*messages.JobRecord, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.Records), b.Failure
}

// Job implements api.Backend.
func (b *Backend) Job(_ context.Context, job string) (*messages.JobRecord, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.Failure != nil {
		return nil, b.Failure
	}
	for _, r := range b.Records {
		if r.Job == job {
			return r, nil
		}
	}
	return nil, fmt.Errorf("%w: %s", api.ErrUnknownJob, job)
}

// View implements api.Backend.
func (b *Backend) View(ctx context.Context, job string, _ uint64) (*messages.JobView, error) {
	if _, err := b.Job(ctx, job); err != nil {
		return nil, err
	}
	if v := b.Views[job]; v != nil {
		return v, nil
	}
	return nil, api.ErrNoCoordinator
}

// Deploy implements api.Backend. The job is one more record.
func (b *Backend) Deploy(_ context.Context, t *messages.TopologySource, o api.DeployOptions) (string, error) {
	if b.Failure != nil {
		return "", b.Failure
	}
	if b.OnDeploy != nil {
		if err := b.OnDeploy(t, o); err != nil {
			return "", err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	job := fmt.Sprintf("%032x", 0xd000+len(b.Records))
	b.Records = append(b.Records, &messages.JobRecord{Job: job, Name: t.File, Status: messages.JobStatus_CREATED, Topology: t, CreatedMs: 1_700_000_200_000})
	b.asked = append(b.asked, "deploy "+t.File)
	return job, nil
}

// Cancel implements api.Backend.
func (b *Backend) Cancel(ctx context.Context, job string) error {
	if _, err := b.Job(ctx, job); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked = append(b.asked, "cancel "+job)
	return nil
}

// Metrics implements api.Backend.
func (b *Backend) Metrics() []api.Metric { return b.OwnMetrics }

// Asked returns what was asked for that changes something, in order.
func (b *Backend) Asked() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.asked)
}

// Happen adds an event; its number follows the last one's.
func (b *Backend) Happen(e api.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e.Number = uint64(len(b.happened) + 1)
	b.happened = append(b.happened, e)
	close(b.more)
	b.more = make(chan struct{})
}

// Events implements api.Backend.
func (b *Backend) Events(ctx context.Context, o api.EventOptions) iter.Seq2[api.Event, error] {
	return func(yield func(api.Event, error) bool) {
		for next := 0; ; {
			b.mu.Lock()
			events, more := b.happened[next:], b.more
			next = len(b.happened)
			b.mu.Unlock()
			for _, e := range events {
				if e.Number >= o.From && (o.Job == "" || e.Job == o.Job) && !yield(e, nil) {
					return
				}
			}
			switch {
			case b.Failure != nil:
				yield(api.Event{}, b.Failure)
				return
			case !o.Follow:
				return
			}
			select {
			case <-more:
			case <-ctx.Done():
				return
			}
		}
	}
}
