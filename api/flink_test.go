package api_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"cutwater/api"
	"cutwater/api/apitest"
	"cutwater/internal/leak"
)

// Nothing that a test starts outlives it.
func TestMain(m *testing.M) { leak.VerifyTestMain(m) }

// serve starts a server of the backend.
func serve(t *testing.T, b api.Backend, o api.Options) *httptest.Server {
	t.Helper()
	o.Backend, o.Version, o.Revision = b, "1.2.3", "abcdef"
	s := httptest.NewUnstartedServer(nil)
	s.Config = api.Server(api.New(o), o.Log)
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// ask sends a request and returns the status and the body.
func ask(t *testing.T, s *httptest.Server, method, path, body string, header ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
	}
	answer, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, string(text)
}

// Every member that Flink's clients refuse to miss is in every answer, for a job of
// each kind: one that runs, those that have ended, one that has no coordinator yet.
func TestFlinkMembers(t *testing.T) {
	s := serve(t, apitest.Sample(), api.Options{})
	f := apitest.Flink{Base: s.URL, Client: s.Client()}
	for job, least := range map[string]int{apitest.Running: 39, apitest.Finished: 39, apitest.Failed: 35, apitest.Created: 35} {
		if seen := f.Check(t, job); seen < least {
			t.Errorf("job %s: only %d answers were checked", job, seen)
		}
	}
}

// The check fails where a member is missing, has another type or form: else the test
// above would prove nothing.
func TestCheckFindsWhatIsWrong(t *testing.T) {
	b := apitest.Sample()
	good := api.New(api.Options{Backend: b, Version: "1.2.3"})
	for what, spoil := range map[string]func(string) string{
		"a member is missing":     func(body string) string { return strings.ReplaceAll(body, `"end-time"`, `"end-tame"`) },
		"a number is text":        func(body string) string { return strings.ReplaceAll(body, `"duration":`, `"duration":"","x":`) },
		"a nested one is missing": func(body string) string { return strings.ReplaceAll(body, `"p999"`, `"p99999"`) },
		"null for a number": func(body string) string {
			return strings.ReplaceAll(body, `"accumulated-busy-time":"NaN"`, `"accumulated-busy-time":null`)
		},
		"more than errors":        func(body string) string { return strings.ReplaceAll(body, `{"errors"`, `{"status":404,"errors"`) },
		"a form lacks its member": func(body string) string { return strings.ReplaceAll(body, `"discarded"`, `"thrown"`) },
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			rec := httptest.NewRecorder()
			good.ServeHTTP(rec, r)
			w.Header().Set("Content-Type", rec.Header().Get("Content-Type"))
			w.WriteHeader(rec.Code)
			_, _ = io.WriteString(w, spoil(rec.Body.String()))
		}))
		silent := &recorder{TB: t}
		apitest.Flink{Base: s.URL, Client: s.Client()}.Check(silent, apitest.Running)
		s.Close()
		if silent.errors == 0 {
			t.Errorf("%s: nothing was found", what)
		}
	}
}

// recorder counts errors instead of failing.
type recorder struct {
	testing.TB
	errors int
}

func (r *recorder) Errorf(string, ...any) { r.errors++ }

// What the web page shows of the job that runs is what its coordinator said.
func TestFlinkValues(t *testing.T) {
	b := apitest.Sample()
	s := serve(t, b, api.Options{})
	job := "/v1/jobs/" + apitest.Running
	for path, wants := range map[string][]string{
		"/v1/config":     {`"flink-version":"2.0.0 (cutwater 1.2.3)"`, `"web-submit":false`, `"web-cancel":true`},
		"/v1/overview":   {`"taskmanagers":2`, `"slots-total":8`, `"slots-available":2`, `"jobs-running":3`, `"jobs-finished":1`, `"jobs-failed":1`},
		job:              {`"state":"RUNNING"`, `"name":"Source: flights"`, `"name":"daily -\u003e out"`, `"read-records":2000,"read-records-complete":true`, `"RUNNING":1700000005000`, `"SUSPENDED":0`},
		job + "/plan":    {`"ship_strategy":"HASH"`, `"description":"daily -\u0026gt; out"`, `"type":"BATCH"`},
		job + "/status":  {`{"status":"RUNNING"}`},
		"/jobs/overview": {`"running":4`},
		job + "/exceptions": {`"exceptionName":"operator \"daily\" failed: \u003cboom\u003e"`, `"taskName":"daily -\u003e out (2/2)"`, `goroutine 1`,
			`"root-exception":"operator`},
		job + "/exceptions?maxExceptions=1": {`"truncated":true`},
		job + "/checkpoints": {`"failed":2`, `"aborted":1`, `"external_path":"/chk/` + apitest.Running + `/chk-8"`, `"checkpoint_type":"UNALIGNED_CHECKPOINT"`,
			`"external_path":"/save/savepoint-000000-6"`, `"failure_message":"CHECKPOINT_EXPIRED: 2 of 4 tasks did not acknowledge"`,
			`"external_path":"/chk/` + apitest.Running + `/chk-3"`, `"p50":"NaN"`},
		job + "/checkpoints/config":                            {`"mode":"exactly_once"`, `"interval":1000`},
		job + "/checkpoints/details/9/subtasks/daily-00000002": {`"className":"completed"`, `"className":"pending"`, `"start_delay":6`, `"num_acknowledged_subtasks":1`},
		"/v1/jobs/" + apitest.Finished + "/execution-result":   {`"application-status":"SUCCEEDED"`, `"id":"COMPLETED"`},
		"/v1/jobs/" + apitest.Failed + "/execution-result":     {`"application-status":"FAILED"`, `"stack-trace":"the disk is full"`},
		"/v1/jobs/" + apitest.Running + "/execution-result":    {`{"status":{"id":"IN_PROGRESS"}}`},
		"/v1/jobs/" + apitest.Finished + "/checkpoints":        {`"completed":2`, `"external_path":"/save/savepoint-2"`, `"external_path":"/chk/` + apitest.Finished + `/chk-1"`},
		job: {`"read-bytes":100000,"read-bytes-complete":true,"write-bytes":60000,"write-bytes-complete":true,"read-records":2000,"read-records-complete":true,"write-records":1800,"write-records-complete":true,"accumulated-backpressured-time":500`,
			`"read-bytes":58000,"read-bytes-complete":true,"write-bytes":0,"write-bytes-complete":true,"read-records":1760,`},
		"/v1/jobs/" + apitest.Finished:                 {`"read-records":0,"read-records-complete":false`, `"status":"FINISHED"`},
		"/v1/jobs/" + strings.ToUpper(apitest.Running): {`"jid":"` + apitest.Running + `"`},
		"/v1/taskmanagers/" + b.Node.Name:              {`"slotsNumber":4`, `"dataPort":7948`},
	} {
		answer, body := ask(t, s, http.MethodGet, path, "")
		if answer.StatusCode != http.StatusOK {
			t.Errorf("GET %s: %d %s", path, answer.StatusCode, body)
		}
		for _, want := range wants {
			if !strings.Contains(body, want) {
				t.Errorf("GET %s: no %s in\n%s", path, want, body)
			}
		}
	}
	if _, body := ask(t, s, http.MethodGet, "/v1/jobs/"+apitest.Unchecked+"/checkpoints/config", ""); !strings.Contains(body, "not enabled") {
		t.Errorf("a job without checkpoints: %s", body)
	}
}

// A job is cancelled by PATCH, and by GET for the web page; one that has ended is
// not, and one that was cancelled says yes again.
func TestCancel(t *testing.T) {
	b := apitest.Sample()
	s := serve(t, b, api.Options{})
	for _, c := range []struct {
		method, path string
		status       int
	}{
		{http.MethodPatch, "/v1/jobs/" + apitest.Running + "?mode=cancel", http.StatusAccepted},
		{http.MethodPatch, "/jobs/" + apitest.Created, http.StatusAccepted},
		{http.MethodGet, "/jobs/" + apitest.Unchecked + "/yarn-cancel", http.StatusAccepted},
		{http.MethodPatch, "/v1/jobs/" + apitest.Finished + "?mode=cancel", http.StatusConflict},
	} {
		answer, body := ask(t, s, c.method, c.path, "{}")
		if answer.StatusCode != c.status || c.status == http.StatusAccepted && body != "{}" {
			t.Errorf("%s %s: %d %s", c.method, c.path, answer.StatusCode, body)
		}
	}
	want := "cancel " + apitest.Running + ", cancel " + apitest.Created + ", cancel " + apitest.Unchecked
	if got := strings.Join(b.Asked(), ", "); got != want {
		t.Errorf("the backend was asked %s, want %s", got, want)
	}
}

// Errors of the backend decide the status, and the sentence reaches the client.
func TestErrorsOfBackend(t *testing.T) {
	for err, status := range map[error]int{
		api.ErrNoLeader:      http.StatusServiceUnavailable,
		api.ErrNameExists:    http.StatusConflict,
		io.ErrUnexpectedEOF:  http.StatusInternalServerError,
		api.ErrNoCoordinator: http.StatusServiceUnavailable,
	} {
		b := apitest.Sample()
		b.Failure = err
		s := serve(t, b, api.Options{})
		answer, body := ask(t, s, http.MethodGet, "/v1/jobs", "")
		var f api.Failure
		if json.Unmarshal([]byte(body), &f) != nil || len(f.Errors) != 1 || f.Errors[0] != err.Error() || answer.StatusCode != status {
			t.Errorf("%v: %d %s", err, answer.StatusCode, body)
		}
	}
}
