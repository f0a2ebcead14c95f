package api_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"cutwater/api"
	"cutwater/api/apitest"
	"cutwater/messages"
)

const deployBody = `{"topology":{"file":"/here/t.yaml","text":"name: x","variables":{"DIR":"/d"}},"options":{"parallelism":3,"restore":"/s","drop_state":["a"]}}`

// A topology reaches the backend whole, and the answer names its job.
func TestDeploy(t *testing.T) {
	b := apitest.NewBackend()
	var topology *messages.TopologySource
	var options api.DeployOptions
	b.OnDeploy = func(s *messages.TopologySource, o api.DeployOptions) error {
		topology, options = s, o
		return nil
	}
	s := serve(t, b, api.Options{})
	answer, body := ask(t, s, http.MethodPost, "/cutwater/v1/jobs", deployBody, "Content-Type", "application/json; charset=utf-8")
	if answer.StatusCode != http.StatusCreated || body != `{"job":"0000000000000000000000000000d000"}` || answer.Header.Get("Location") != "/cutwater/v1/jobs/0000000000000000000000000000d000" {
		t.Fatalf("%d %s %v", answer.StatusCode, body, answer.Header)
	}
	if topology.File != "/here/t.yaml" || string(topology.Text) != "name: x" || topology.Variables["DIR"] != "/d" ||
		options.Parallelism != 3 || options.Restore != "/s" || fmt.Sprint(options.DropState) != "[a]" {
		t.Errorf("the backend got %v and %v", topology, options)
	}
}

// A body that is no deployment is refused with a sentence and the right status, and a
// refused topology with all that is wrong in it; the backend changes nothing.
func TestDeployRefused(t *testing.T) {
	b := apitest.NewBackend()
	var refusal error
	b.OnDeploy = func(*messages.TopologySource, api.DeployOptions) error { return refusal }
	s := serve(t, b, api.Options{})
	for _, c := range []struct {
		body    string
		refusal error
		status  int
		want    string
	}{
		{"", nil, 400, "not as"},
		{"null", nil, 400, "topology.text is missing"},
		{"[1]", nil, 400, "not as"},
		{deployBody + "{}", nil, 400, "something behind"},
		{`{"topologie":{}}`, nil, 400, "topologie"},
		{`{"topology":{"file":"t.yaml","text":"x"}}`, nil, 400, "absolute"},
		{`{"topology":{"file":"/t.yaml","text":"` + "\xff" + `"}}`, nil, 400, "UTF-8"},
		{`{"options":{"parallelism":-1}}`, nil, 400, "parallelism"},
		{strings.Repeat("[", 100_000), nil, 400, "depth"},
		{`{"topology":{"text":"` + strings.Repeat("x", 13<<20) + `"}}`, nil, 413, "larger than"},
		{deployBody, &api.RefusedError{Reasons: []string{"t.yaml:1:1: error CW001: one", "two"}}, 400, `{"errors":["t.yaml:1:1: error CW001: one","two"]}`},
		{deployBody, fmt.Errorf("%w: job x has it", api.ErrNameExists), 409, "the name is taken: job x has it"},
		{deployBody, api.ErrNoLeader, 503, "no leader"},
	} {
		refusal = c.refusal
		answer, body := ask(t, s, http.MethodPost, "/cutwater/v1/jobs", c.body, "Content-Type", "application/json")
		if answer.StatusCode != c.status || !strings.Contains(body, c.want) || !strings.HasPrefix(body, `{"errors":[`) {
			t.Errorf("%.60s: %d %.300s, want %d with %q", c.body, answer.StatusCode, body, c.status, c.want)
		}
	}
	if got := b.Asked(); len(got) != 0 {
		t.Errorf("the backend was asked %v", got)
	}
}

// A body that does not say how long it is is read only as far as the limit.
func TestEndlessBody(t *testing.T) {
	s := serve(t, apitest.NewBackend(), api.Options{})
	body := io.MultiReader(strings.NewReader(`{"topology":{"text":"`), io.LimitReader(zeros{}, 100<<20))
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/cutwater/v1/jobs", body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := s.Client().Do(r)
	if err != nil {
		return // the server closed the connection before the body was sent
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("status %d", answer.StatusCode)
	}
}

// zeros is text without end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}

// Whatever comes as a body, the handler answers: it deploys what is whole, and says
// why not to everything else.
func FuzzDeploy(f *testing.F) {
	f.Add([]byte(deployBody))
	f.Add([]byte(`{"topology":{"file":"/t","text":"\ud800"}}`))
	f.Add([]byte(`{}`))
	f.Add([]byte("\xff"))
	b := apitest.NewBackend()
	handler := api.New(api.Options{Backend: b})
	f.Fuzz(func(t *testing.T, body []byte) {
		before := len(b.Asked())
		rec := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, "http://localhost/cutwater/v1/jobs", strings.NewReader(string(body)))
		r.Header.Set("Content-Type", "application/json")
		handler.ServeHTTP(rec, r)
		deployed := len(b.Asked()) - before
		var answer struct {
			Job    string
			Errors []string
		}
		if err := json.Unmarshal(rec.Body.Bytes(), &answer); err != nil {
			t.Fatalf("%d %s: %v", rec.Code, rec.Body, err)
		}
		switch {
		case rec.Code == http.StatusCreated && answer.Job != "" && deployed == 1:
		case rec.Code == http.StatusBadRequest && len(answer.Errors) == 1 && deployed == 0:
		default:
			t.Fatalf("%d %s, %d jobs were deployed", rec.Code, rec.Body, deployed)
		}
	})
}

// Events come one a line; a follower gets what happens later, until the server shuts
// down.
func TestEvents(t *testing.T) {
	b := apitest.NewBackend()
	b.Happen(api.Event{Kind: "A", Text: "first"})
	b.Happen(api.Event{Kind: "B", Job: apitest.Running, Text: "second"})
	s := serve(t, b, api.Options{})
	answer, body := ask(t, s, http.MethodGet, "/cutwater/v1/events?from=2", "")
	if want := `{"number":2,"at_ms":0,"node":"","job":"` + apitest.Running + `","kind":"B","text":"second"}` + "\n"; body != want || answer.Header.Get("Content-Type") != "application/x-ndjson" {
		t.Errorf("%v %s", answer.Header, body)
	}
	if _, body := ask(t, s, http.MethodGet, "/cutwater/v1/events?job="+apitest.Finished, ""); body != "" {
		t.Errorf("events of another job: %s", body)
	}
	for _, query := range []string{"from=x", "from=-1", "follow=maybe", "job=flights"} {
		if answer, body := ask(t, s, http.MethodGet, "/cutwater/v1/events?"+query, ""); answer.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %d %s", query, answer.StatusCode, body)
		}
	}

	following, err := s.Client().Get(s.URL + "/cutwater/v1/events?follow=true")
	if err != nil {
		t.Fatal(err)
	}
	defer following.Body.Close()
	lines := bufio.NewReader(following.Body)
	next := func() string {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("%v behind %q", err, line)
		}
		return line
	}
	next()
	next()
	b.Happen(api.Event{Kind: "C", Text: "third"})
	if line := next(); !strings.Contains(line, `"number":3`) {
		t.Errorf("followed %s", line)
	}
	if err := s.Config.Shutdown(t.Context()); err != nil {
		t.Errorf("the server waits for the stream: %v", err)
	}
	if rest, err := io.ReadAll(lines); err != nil || len(rest) != 0 {
		t.Errorf("behind the end: %q, %v", rest, err)
	}
}

// An error behind the first event is the last line.
func TestEventsFail(t *testing.T) {
	b := apitest.NewBackend()
	b.Failure = errors.New("the log is gone")
	s := serve(t, b, api.Options{})
	if answer, body := ask(t, s, http.MethodGet, "/cutwater/v1/events", ""); answer.StatusCode != http.StatusInternalServerError || body != `{"errors":["the log is gone"]}` {
		t.Errorf("%d %s", answer.StatusCode, body)
	}
	b.Happen(api.Event{Kind: "A"})
	answer, body := ask(t, s, http.MethodGet, "/cutwater/v1/events", "")
	if lines := strings.Split(body, "\n"); answer.StatusCode != http.StatusOK || len(lines) != 3 || lines[1] != `{"errors":["the log is gone"]}` {
		t.Errorf("%d %s", answer.StatusCode, body)
	}
}

// More followers than a node bears are refused, and a place is free again when one
// goes.
func TestStreamsAreBounded(t *testing.T) {
	s := serve(t, apitest.NewBackend(), api.Options{})
	var open []*http.Response
	defer func() {
		for _, r := range open {
			r.Body.Close()
		}
	}()
	for {
		r, err := s.Client().Get(s.URL + "/cutwater/v1/events?follow=true")
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, r)
		if r.StatusCode == http.StatusServiceUnavailable {
			break
		}
		if len(open) > 1000 {
			t.Fatal("1000 streams are open")
		}
	}
	if len(open) != 65 {
		t.Errorf("%d streams were accepted", len(open)-1)
	}
}

// A node that cannot serve says why, and lives all the same.
func TestReady(t *testing.T) {
	b := apitest.NewBackend()
	s := serve(t, b, api.Options{})
	if answer, body := ask(t, s, http.MethodGet, "/cutwater/v1/ready", ""); answer.StatusCode != http.StatusOK || body != `{"status":"ready"}` {
		t.Errorf("%d %s", answer.StatusCode, body)
	}
	b.NotReady = errors.New("no voter has a majority")
	if answer, body := ask(t, s, http.MethodGet, "/cutwater/v1/ready", ""); answer.StatusCode != http.StatusServiceUnavailable || body != `{"errors":["no voter has a majority"]}` {
		t.Errorf("%d %s", answer.StatusCode, body)
	}
	if answer, _ := ask(t, s, http.MethodGet, "/cutwater/v1/health", ""); answer.StatusCode != http.StatusOK {
		t.Errorf("health: %d", answer.StatusCode)
	}
}

// panicking is a backend with a fault.
type panicking struct{ *apitest.Backend }

func (panicking) Ready() error { panic("boom") }

// A panic is one failed answer, and the next request is served.
func TestPanic(t *testing.T) {
	s := serve(t, panicking{apitest.NewBackend()}, api.Options{})
	for range 2 {
		if answer, body := ask(t, s, http.MethodGet, "/cutwater/v1/ready", ""); answer.StatusCode != http.StatusInternalServerError || !strings.Contains(body, "its log says why") || strings.Contains(body, "boom") {
			t.Errorf("%d %s", answer.StatusCode, body)
		}
	}
}

// Peers that send slowly, endlessly or garbage lose their connection, and others are
// served meanwhile. One connection too many is closed.
func TestConnectionsAreBounded(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := api.Server(api.New(api.Options{Backend: apitest.NewBackend()}), nil)
	if server.ReadHeaderTimeout == 0 || server.ReadTimeout == 0 || server.WriteTimeout == 0 || server.IdleTimeout == 0 || server.MaxHeaderBytes == 0 {
		t.Errorf("a limit is missing: %+v", server)
	}
	server.ReadHeaderTimeout = 50 * time.Millisecond
	done := make(chan error)
	go func() { done <- server.Serve(api.Limit(listener, 4)) }()
	dial := func(send string) net.Conn {
		c, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, send) // it may be closed already
		return c
	}
	closed := func(what string, c net.Conn) {
		t.Helper()
		defer c.Close()
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
		var timeout net.Error
		if _, err := io.Copy(io.Discard, c); errors.As(err, &timeout) && timeout.Timeout() {
			t.Errorf("%s: the connection is still open", what)
		}
	}
	slow := dial("GET /cutwater/v1/hea")
	garbage := dial("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n")
	endless := dial("GET / HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 1<<20))
	if r, err := http.Get("http://" + listener.Addr().String() + "/cutwater/v1/health"); err != nil || r.StatusCode != http.StatusOK {
		t.Errorf("others are not served: %v", err)
	} else {
		r.Body.Close()
	}
	closed("slow", slow)
	closed("garbage", garbage)
	closed("endless", endless)
	http.DefaultClient.CloseIdleConnections()
	// The places of those that have gone are free again, and no others.
	var held []net.Conn
	for len(held) < 4 {
		c := dial("GET /cutwater/v1/events?follow=true HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
			c.Close() // the server has not noticed yet that another one has gone
			continue
		}
		held = append(held, c)
	}
	closed("one too many", dial(""))
	if err := server.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
	for _, c := range held {
		c.Close()
	}
}
