package api_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cutwater/api"
	"cutwater/api/apitest"
	"cutwater/messages"
)

// slow is a backend whose records or views do not come.
type slow struct {
	*apitest.Backend
	records bool
}

func (s slow) Job(ctx context.Context, job string) (*messages.JobRecord, error) {
	if s.records {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.Backend.Job(ctx, job)
}

func (slow) View(ctx context.Context, _ string, _ uint64) (*messages.JobView, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A coordinator that is silent holds an answer up for 5 s, however many there are of
// them; then the records have to do. Where those do not come either the client is told
// after 30 s to try again.
func TestSilence(t *testing.T) {
	for _, c := range []struct {
		records bool
		path    string
		status  int
		after   time.Duration
		want    string
	}{
		{false, "/v1/jobs/" + apitest.Running, http.StatusOK, 5 * time.Second, `"state":"RUNNING"`},
		{false, "/v1/jobs/overview", http.StatusOK, 5 * time.Second, `"name":"flights"`},
		{false, "/cutwater/v1/jobs/" + apitest.Running + "/view", http.StatusOK, 5 * time.Second, `"waiting":"the job's coordinator does not answer"`},
		{false, "/metrics", http.StatusOK, 5 * time.Second, `cutwater_job_answers{job_id="` + apitest.Running + `"} 0`},
		{true, "/v1/jobs/" + apitest.Running, http.StatusServiceUnavailable, 30 * time.Second, "within 30s; try again"},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := api.New(api.Options{Backend: slow{apitest.Sample(), c.records}})
			rec, began := httptest.NewRecorder(), time.Now()
			h.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "http://localhost"+c.path, nil))
			if took := time.Since(began); rec.Code != c.status || took != c.after || !strings.Contains(rec.Body.String(), c.want) {
				t.Errorf("%s: %d after %v: %s", c.path, rec.Code, took, rec.Body)
			}
		})
	}
}

// The record says how a job ended, also where the last view was made before; the
// view, which others may look at, is not changed.
func TestEndIsOnRecord(t *testing.T) {
	b := apitest.Sample()
	b.Records[0].Status = messages.JobStatus_CANCELED
	s := serve(t, b, api.Options{})
	_, body := ask(t, s, http.MethodGet, "/v1/jobs/"+apitest.Running, "")
	if !strings.Contains(body, `"state":"CANCELED"`) || !strings.Contains(body, `"end-time":1700000005000`) || !strings.Contains(body, `"read-records":2000`) {
		t.Error(body)
	}
	if b.Views[apitest.Running].Status != messages.JobStatus_RUNNING {
		t.Error("the backend's view was changed")
	}
}
