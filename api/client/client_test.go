package client_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"cutwater/api"
	"cutwater/api/apitest"
	"cutwater/api/client"
	"cutwater/internal/leak"
	"cutwater/messages"
)

// Nothing that a test starts outlives it.
func TestMain(m *testing.M) { leak.VerifyTestMain(m) }

const token = "secret"

// open returns a client of a server with that backend and token.
func open(t *testing.T, b api.Backend, present string) *client.Client {
	t.Helper()
	s := httptest.NewServer(api.New(api.Options{Backend: b, Token: token}))
	c, err := client.New(client.Options{Address: s.Listener.Addr().String(), Token: present})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		s.Close()
	})
	return c
}

// What a node says arrives as it was.
func TestAnswers(t *testing.T) {
	b := apitest.Sample()
	c, ctx := open(t, b, token), t.Context()
	if err := errors.Join(c.Health(ctx), c.Ready(ctx)); err != nil {
		t.Error(err)
	}
	nodes, err := c.Nodes(ctx)
	if err != nil || len(nodes) != 2 || nodes[0].Name != b.Node.Name || len(nodes[0].Jobs) != 2 || !nodes[0].Leader {
		t.Errorf("nodes %v, %v", nodes, err)
	}
	jobs, err := c.Jobs(ctx)
	if err != nil || len(jobs) != 5 || jobs[0].ID != apitest.Running || jobs[0].Status != "RUNNING" || jobs[2].Failure != "the disk is full" {
		t.Errorf("jobs %v, %v", jobs, err)
	}
	if job, err := c.Job(ctx, apitest.Finished); err != nil || job.Completed != 2 {
		t.Errorf("job %v, %v", job, err)
	}
	view, err := c.View(ctx, apitest.Running, 8)
	if err != nil || !proto.Equal(view, b.Views[apitest.Running]) {
		t.Errorf("the view is %v, %v", view, err)
	}
	job, err := c.Deploy(ctx, &messages.TopologySource{File: "/t.yaml", Text: []byte("name: x"), Variables: map[string]string{"A": "1"}}, api.DeployOptions{})
	if err != nil || job != "0000000000000000000000000000d005" || b.Records[5].Topology.Variables["A"] != "1" {
		t.Errorf("deployed %s, %v", job, err)
	}
	if err := c.Cancel(ctx, job); err != nil || b.Asked()[1] != "cancel "+job {
		t.Errorf("cancelled %v, %v", b.Asked(), err)
	}
}

// An answer that says no is an Error with the node's sentences and its status.
func TestErrors(t *testing.T) {
	b := apitest.Sample()
	b.NotReady = errors.New("no leader yet")
	b.OnDeploy = func(*messages.TopologySource, api.DeployOptions) error {
		return &api.RefusedError{Reasons: []string{"one", "two"}}
	}
	c, ctx := open(t, b, token), t.Context()
	_, unknown := c.View(ctx, strings.Repeat("f", 32), 0)
	_, bad := c.Job(ctx, "no/such?job")
	_, refused := c.Deploy(ctx, &messages.TopologySource{File: "/t.yaml", Text: []byte("x")}, api.DeployOptions{})
	_, without := open(t, b, "").Jobs(ctx)
	_, wrong := open(t, b, "wrong").Jobs(ctx)
	for _, test := range []struct {
		err    error
		status int
		text   string
	}{
		{unknown, http.StatusNotFound, "there is no job ffff"},
		{bad, http.StatusBadRequest, `"no/such?job" is no job id`},
		{refused, http.StatusBadRequest, "one\ntwo"},
		{c.Ready(ctx), http.StatusServiceUnavailable, "no leader yet"},
		{c.Cancel(ctx, apitest.Failed), http.StatusConflict, "has ended as FAILED"},
		{without, http.StatusUnauthorized, "asks for the API token"},
		{wrong, http.StatusUnauthorized, "not that of this cluster"},
	} {
		var e *client.Error
		if !errors.As(test.err, &e) || e.Status != test.status || !strings.Contains(e.Error(), test.text) {
			t.Errorf("%v, want %d with %q", test.err, test.status, test.text)
		}
	}
}

// Events arrive in order; a follower ends with its context, and without an error.
func TestEvents(t *testing.T) {
	b := apitest.NewBackend()
	b.Happen(api.Event{Kind: "A", Text: "one"})
	b.Happen(api.Event{Kind: "B", Text: "two"})
	c := open(t, b, token)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var texts []string
	for e, err := range c.Events(ctx, api.EventOptions{From: 2, Follow: true}) {
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, e.Text)
		switch len(texts) {
		case 1:
			b.Happen(api.Event{Kind: "C", Text: "three"})
		case 2:
			cancel()
		}
	}
	if strings.Join(texts, " ") != "two three" {
		t.Errorf("followed %v", texts)
	}
	for e, err := range c.Events(t.Context(), api.EventOptions{}) {
		if err != nil || e.Number != 1 {
			t.Errorf("the first is %v, %v", e, err)
		}
		break // is no error either
	}

	// The streams above may be open still, and read their backend.
	failing := apitest.NewBackend()
	failing.Happen(api.Event{Kind: "A", Text: "one"})
	failing.Failure = errors.New("the log is gone")
	var last error
	count := 0
	for _, err := range open(t, failing, token).Events(t.Context(), api.EventOptions{}) {
		last = err
		count++
	}
	var e *client.Error
	if count != 2 || !errors.As(last, &e) || e.Error() != "the log is gone" {
		t.Errorf("%d events, the last error is %v", count, last)
	}
}

// Where no node answers the error says so, and one whose address cannot be is not
// even asked.
func TestUnreachable(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close() // it accepts nobody
	for address, timeout := range map[string]time.Duration{
		listener.Addr().String(): 50 * time.Millisecond,
		"127.0.0.1:1":            10 * time.Second,
	} {
		c, err := client.New(client.Options{Address: address, Timeout: timeout})
		if err != nil {
			t.Fatal(err)
		}
		var e *client.UnreachableError
		if err := c.Ready(t.Context()); !errors.As(err, &e) || e.Address != address || !strings.Contains(err.Error(), "no node answers at "+address) {
			t.Errorf("%s: %v", address, err)
		}
		c.Close()
	}
	for _, address := range []string{"", "ftp://x", "http://", "a b", "http://[::1"} {
		if _, err := client.New(client.Options{Address: address}); err == nil || !strings.Contains(err.Error(), "is no address") {
			t.Errorf("%q: %v", address, err)
		}
	}
}

// What answers without being a node is told from a node; its redirects are not
// followed, so that the token goes nowhere else.
func TestStrangers(t *testing.T) {
	followed := false
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed = true }))
	defer other.Close()
	for what, h := range map[string]http.Handler{
		"html":     http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }),
		"an error": http.NotFoundHandler(),
		"redirect": http.RedirectHandler(other.URL, http.StatusFound),
	} {
		s := httptest.NewServer(h)
		c, err := client.New(client.Options{Address: s.URL + "/", Token: token})
		if err != nil {
			t.Fatal(err)
		}
		var e *client.Error
		if _, err := c.Jobs(t.Context()); err == nil || errors.As(err, &e) || !strings.Contains(err.Error(), "is not a node of Cutwater") {
			t.Errorf("%s: %v", what, err)
		}
		c.Close()
		s.Close()
	}
	if followed {
		t.Error("the redirect was followed")
	}
}
