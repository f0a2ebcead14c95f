// Package client asks a node through its HTTP API, for the command and for other
// programs in Go.
package client

import (
	"context"
	"iter"
	"net/http"
	"time"

	"cutwater/api"
	"cutwater/messages"
)

// Options say which node is asked and how.
type Options struct {
	// Address is host:port, or a URL that begins with http:// or https://.
	Address string
	// Token is the API token; empty for none.
	Token string
	// Timeout bounds each request but the stream of events; 0 means 30 s.
	Timeout time.Duration
	// HTTP sends the requests; nil means a client of its own.
	HTTP *http.Client
}

// Client asks one node. It is safe for concurrent use.
type Client struct{ o Options }

// New returns a client; it connects when it is used. The error is that of an
// address that cannot be one.
func New(o Options) (*Client, error) { return &Client{o}, nil }

// Job is what the record of a job says.
type Job = api.Job

// Error is an answer that says no: the node's sentences, and the status.
type Error struct {
	Status  int
	Reasons []string
}

// Error is the first sentence.
func (e *Error) Error() string { return "" }

// UnreachableError: no node answered at the address, or not in time.
type UnreachableError struct {
	Address string
	Err     error
}

// Error says what to do.
func (e *UnreachableError) Error() string { return "" }

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.Err }

// Health tells whether the process answers.
func (c *Client) Health(ctx context.Context) error { return nil }

// Ready tells why the node cannot serve now, as an *Error of status 503, or nil.
func (c *Client) Ready(ctx context.Context) error { return nil }

// Nodes are the nodes of the cluster.
func (c *Client) Nodes(ctx context.Context) ([]api.Node, error) { return nil, nil }

// Jobs are all jobs, newest last.
func (c *Client) Jobs(ctx context.Context) ([]Job, error) { return nil, nil }

// View is how a job stands now, with the subtasks of one checkpoint, or of none if
// it is 0.
func (c *Client) View(ctx context.Context, job string, checkpoint uint64) (*messages.JobView, error) {
	return nil, nil
}

// Deploy hands a topology to the cluster and returns the id of its job.
func (c *Client) Deploy(ctx context.Context, topology *messages.TopologySource, o api.DeployOptions) (string, error) {
	return "", nil
}

// Cancel asks for the end of a job and does not wait for it.
func (c *Client) Cancel(ctx context.Context, job string) error { return nil }

// Events yields what happened. It ends as api.Backend's does.
func (c *Client) Events(ctx context.Context, o api.EventOptions) iter.Seq2[api.Event, error] {
	return func(func(api.Event, error) bool) {}
}
