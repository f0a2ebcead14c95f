// Package client asks a node through its HTTP API, for the command and for other
// programs in Go. A node answers for the whole cluster.
//
// Every method returns an *Error where the node says no, with the node's own
// sentences, and an *UnreachableError where none answers.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"cutwater/api"
	"cutwater/messages"
)

// Options say which node is asked and how.
type Options struct {
	// Address is host:port, or a URL that begins with http:// or https://.
	Address string
	// Token is the API token; empty for none.
	Token string
	// Timeout bounds each request but a stream of events; 0 means 45 s, which is more
	// than a node takes to give up.
	Timeout time.Duration
	// HTTP sends the requests; nil means a client of its own.
	HTTP *http.Client
}

// Client asks one node. It is safe for concurrent use.
type Client struct {
	base    *url.URL
	token   string
	timeout time.Duration
	http    *http.Client
}

// maxAnswer bounds an answer, in bytes.
const maxAnswer = 100 << 20

// New returns a client; it connects when it is used. The error is that of an
// address that cannot be one.
func New(o Options) (*Client, error) {
	address := o.Address
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	base, err := url.Parse(address)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, fmt.Errorf("%q is no address of a node: that is host:port, or a URL that begins with http:// or https://", o.Address)
	}
	c := &Client{base: base, token: o.Token, timeout: o.Timeout, http: o.HTTP}
	if c.timeout == 0 {
		c.timeout = 45 * time.Second
	}
	if c.http == nil {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		c.http = &http.Client{Transport: transport}
	}
	// The token is for the node that was named, and for no other.
	redirecting := *c.http
	redirecting.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.http = &redirecting
	return c, nil
}

// Close closes the connections that are idle.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Health tells whether the process answers.
func (c *Client) Health(ctx context.Context) error {
	return c.get(ctx, "health", nil, &api.Health{})
}

// Ready tells why the node cannot serve now, as an *Error of status 503, or nil.
func (c *Client) Ready(ctx context.Context) error { return c.get(ctx, "ready", nil, &api.Health{}) }

// Nodes are the nodes of the cluster.
func (c *Client) Nodes(ctx context.Context) ([]api.Node, error) {
	var answer api.Nodes
	err := c.get(ctx, "nodes", nil, &answer)
	return answer.Nodes, err
}

// Jobs are the records of all jobs, newest last.
func (c *Client) Jobs(ctx context.Context) ([]api.Job, error) {
	var answer api.Jobs
	err := c.get(ctx, "jobs", nil, &answer)
	return answer.Jobs, err
}

// Job is the record of a job.
func (c *Client) Job(ctx context.Context, job string) (api.Job, error) {
	var answer api.Job
	err := c.get(ctx, "jobs/"+url.PathEscape(job), nil, &answer)
	return answer, err
}

// View is how a job stands now, with the subtasks of one checkpoint, or of none if
// it is 0.
func (c *Client) View(ctx context.Context, job string, checkpoint uint64) (*messages.JobView, error) {
	query := url.Values{}
	if checkpoint != 0 {
		query.Set("checkpoint", strconv.FormatUint(checkpoint, 10))
	}
	var text json.RawMessage
	if err := c.get(ctx, "jobs/"+url.PathEscape(job)+"/view", query, &text); err != nil {
		return nil, err
	}
	v := &messages.JobView{}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(text, v); err != nil {
		return nil, c.strange(err)
	}
	return v, nil
}

// Deploy hands a topology to the cluster and returns the id of its job, which is on
// record then and starts by itself.
func (c *Client) Deploy(ctx context.Context, topology *messages.TopologySource, o api.DeployOptions) (job string, err error) {
	body, err := json.Marshal(api.DeployRequest{
		Topology: api.Topology{File: topology.File, Text: string(topology.Text), Variables: topology.Variables}, Options: o,
	})
	if err != nil {
		return "", err
	}
	var answer api.Deployed
	err = c.ask(ctx, http.MethodPost, "/cutwater/v1/jobs", nil, body, &answer)
	return answer.Job, err
}

// Cancel asks for the end of a job and does not wait for it.
func (c *Client) Cancel(ctx context.Context, job string) error {
	return c.ask(ctx, http.MethodPatch, "/v1/jobs/"+url.PathEscape(job), url.Values{"mode": {"cancel"}}, nil, &api.Empty{})
}

// get asks one of our own routes.
func (c *Client) get(ctx context.Context, path string, query url.Values, answer any) error {
	return c.ask(ctx, http.MethodGet, "/cutwater/v1/"+path, query, nil, answer)
}

func (c *Client) ask(ctx context.Context, method, path string, query url.Values, body []byte, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	r, err := c.send(ctx, method, path, query, body)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(io.LimitReader(r.Body, maxAnswer))
	if err != nil {
		return c.unreachable(err)
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return c.strange(err)
	}
	return nil
}

// send sends a request. The answer's status is one of success; its body is the
// caller's to close.
func (c *Client) send(ctx context.Context, method, path string, query url.Values, body []byte) (*http.Response, error) {
	u := *c.base
	u.RawPath = strings.TrimSuffix(u.EscapedPath(), "/") + path
	plain, err := url.PathUnescape(u.RawPath)
	if err != nil {
		return nil, err
	}
	u.Path, u.RawQuery = plain, query.Encode()
	r, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return nil, c.unreachable(err)
	}
	if answer.StatusCode >= 200 && answer.StatusCode < 300 {
		return answer, nil
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return nil, c.unreachable(err)
	}
	var f api.Failure
	if json.Unmarshal(text, &f) != nil || len(f.Errors) == 0 {
		return nil, c.strange(fmt.Errorf("status %s", answer.Status))
	}
	return nil, &Error{Status: answer.StatusCode, Reasons: f.Errors}
}

// Error is an answer that says no.
type Error struct {
	// Status is that of HTTP: 400 bad input, 401 no or a wrong token, 404 not there, 409
	// in conflict, 503 not now, 500 a failure of the node.
	Status int
	// Reasons are the node's sentences, at least one.
	Reasons []string
}

// Error joins the sentences.
func (e *Error) Error() string { return strings.Join(e.Reasons, "\n") }

// UnreachableError: no node answered at the address, or not in time.
type UnreachableError struct {
	Address string
	Err     error
}

// Error says what to do.
func (e *UnreachableError) Error() string {
	return fmt.Sprintf("no node answers at %s: %v; is it running, and is the address right?", e.Address, e.Err)
}

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.Err }

func (c *Client) unreachable(err error) error {
	var inURL *url.Error
	if errors.As(err, &inURL) {
		err = inURL.Err // the rest repeats the address
	}
	return &UnreachableError{Address: c.base.Host, Err: err}
}

// strange is what answers, but not as a node does.
func (c *Client) strange(err error) error {
	return fmt.Errorf("what answers at %s is not a node of Cutwater, or of another version: %w", c.base.Host, err)
}
