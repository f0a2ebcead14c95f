package api_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"cutwater/api"
	"cutwater/api/apitest"
)

const token = "the-token-of-the-cluster"

// Without the right token nothing is answered but health: not even which routes there
// are.
func TestToken(t *testing.T) {
	s := serve(t, apitest.Sample(), api.Options{Token: token})
	for _, path := range []string{"/v1/jobs", "/metrics", "/cutwater/v1/openapi.json", "/cutwater/v1/events", "/no/such/route"} {
		answer, body := ask(t, s, http.MethodGet, path, "")
		if answer.StatusCode != http.StatusUnauthorized || answer.Header.Get("WWW-Authenticate") == "" || !strings.HasPrefix(body, `{"errors":["`) {
			t.Errorf("GET %s without a token: %d %v %s", path, answer.StatusCode, answer.Header, body)
		}
	}
	for _, header := range []string{"Bearer wrong", "Bearer " + token[:5], "Bearer " + token + "x", "Basic " + token, token} {
		if answer, _ := ask(t, s, http.MethodPatch, "/v1/jobs/"+apitest.Running, "{}", "Authorization", header); answer.StatusCode != http.StatusUnauthorized && answer.StatusCode != http.StatusTooManyRequests {
			t.Errorf("Authorization: %s was answered with %d", header, answer.StatusCode)
		}
	}
	if answer, _ := ask(t, s, http.MethodGet, "/cutwater/v1/health", ""); answer.StatusCode != http.StatusOK {
		t.Errorf("health: %d", answer.StatusCode)
	}
	for _, header := range []string{"Bearer " + token, "bearer " + token} {
		if answer, body := ask(t, s, http.MethodGet, "/v1/jobs", "", "Authorization", header, "Host", "node-1.example"); answer.StatusCode != http.StatusOK {
			t.Errorf("with the token: %d %s", answer.StatusCode, body)
		}
	}
	f := apitest.Flink{Base: s.URL, Client: s.Client(), Token: token}
	f.Check(t, apitest.Running)
}

// A peer with a wrong token is logged once, then told to wait; who has the token is
// answered all the time, also from the same address.
func TestRefusalsAreBounded(t *testing.T) {
	var log bytes.Buffer
	now := time.Unix(1_700_000_000, 0)
	s := serve(t, apitest.Sample(), api.Options{Token: token, Log: slog.New(slog.NewTextHandler(&log, nil)), Now: func() time.Time { return now }})
	refused := map[int]int{}
	for range 20 {
		answer, _ := ask(t, s, http.MethodGet, "/v1/jobs", "", "Authorization", "Bearer wrong")
		refused[answer.StatusCode]++
		if answer.StatusCode == http.StatusTooManyRequests && (!answer.Close || answer.Header.Get("Retry-After") == "") {
			t.Errorf("429 leaves the connection open: %v", answer.Header)
		}
	}
	if refused[http.StatusUnauthorized] != 10 || refused[http.StatusTooManyRequests] != 10 {
		t.Errorf("refused %v", refused)
	}
	if answer, _ := ask(t, s, http.MethodGet, "/v1/jobs", "", "Authorization", "Bearer "+token); answer.StatusCode != http.StatusOK {
		t.Errorf("with the token: %d", answer.StatusCode)
	}
	now = now.Add(time.Minute)
	if answer, _ := ask(t, s, http.MethodGet, "/v1/jobs", "", "Authorization", "Bearer wrong"); answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("a minute later: %d", answer.StatusCode)
	}
	_, metrics := ask(t, s, http.MethodGet, "/metrics", "", "Authorization", "Bearer "+token)
	if !strings.Contains(metrics, "\ncutwater_api_refused_tokens_total 21\n") {
		t.Errorf("the refusals were not counted:\n%s", metrics)
	}
	if lines := strings.Count(log.String(), "\n"); lines != 1 || !strings.Contains(log.String(), "127.0.0.1") || strings.Contains(log.String(), "wrong,") {
		t.Errorf("logged %d lines:\n%s", lines, log.String())
	}
}

// Without a token a web page cannot reach the node under a name of its own, nor
// change anything through the user's browser.
func TestPagesOfOthers(t *testing.T) {
	b := apitest.Sample()
	s := serve(t, b, api.Options{})
	for host, status := range map[string]int{
		"evil.example": http.StatusForbidden, "evil.example:8081": http.StatusForbidden, "10.1.2.3": http.StatusForbidden,
		"localhost:1": http.StatusOK, "127.0.0.1": http.StatusOK, "[::1]:99": http.StatusOK, "LOCALHOST": http.StatusOK,
	} {
		if answer, body := ask(t, s, http.MethodGet, "/v1/jobs", "", "Host", host); answer.StatusCode != status {
			t.Errorf("Host %s: %d %s", host, answer.StatusCode, body)
		}
	}
	for _, c := range []struct {
		method, path string
		header       []string
		status       int
	}{
		{http.MethodGet, "/jobs/" + apitest.Running + "/yarn-cancel", []string{"Sec-Fetch-Site", "cross-site"}, http.StatusForbidden},
		{http.MethodGet, "/jobs/" + apitest.Running + "/yarn-cancel", []string{"Sec-Fetch-Site", "same-site"}, http.StatusForbidden},
		{http.MethodPatch, "/jobs/" + apitest.Running, []string{"Origin", "http://evil.example"}, http.StatusForbidden},
		{http.MethodPatch, "/jobs/" + apitest.Running, []string{"Origin", "null"}, http.StatusForbidden},
		{http.MethodPost, "/cutwater/v1/jobs", []string{"Content-Type", "text/plain"}, http.StatusUnsupportedMediaType},
		{http.MethodGet, "/jobs/" + apitest.Running, []string{"Sec-Fetch-Site", "cross-site"}, http.StatusOK},
		{http.MethodPatch, "/jobs/" + apitest.Running, []string{"Sec-Fetch-Site", "same-origin", "Origin", s.URL}, http.StatusAccepted},
	} {
		if answer, body := ask(t, s, c.method, c.path, "{}", c.header...); answer.StatusCode != c.status {
			t.Errorf("%s %s %v: %d %s", c.method, c.path, c.header, answer.StatusCode, body)
		}
	}
	if got := b.Asked(); len(got) != 1 {
		t.Errorf("the backend was asked %v", got)
	}
}
