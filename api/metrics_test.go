package api_test

import (
	"net/http"
	"strings"
	"testing"

	"cutwater/api"
	"cutwater/api/apitest"
	"cutwater/messages"
)

// /metrics is in Prometheus' format, with Flink's names where Flink has them, for the
// jobs that this node coordinates; the node's own metrics are among them.
func TestMetrics(t *testing.T) {
	b := apitest.Sample()
	b.Node.Jobs = nil // the records say it
	silent, elsewhere := strings.Repeat("c", 32), strings.Repeat("e", 32)
	for job, node := range map[string]string{silent: b.Node.Name, elsewhere: "other.1"} {
		b.Records = append(b.Records, &messages.JobRecord{Job: job, Status: messages.JobStatus_RUNNING, Coordinator: node + "|coordinator/" + job})
	}
	b.OwnMetrics = []api.Metric{{Name: "cutwater_transport_dropped_total", Help: "Messages.", Kind: api.Counter, Samples: []api.Sample{{Value: 5}}}}
	s := serve(t, b, api.Options{})
	answer, text := ask(t, s, http.MethodGet, "/metrics", "")
	if kind := answer.Header.Get("Content-Type"); kind != "text/plain; version=0.0.4; charset=utf-8" {
		t.Errorf("Content-Type %q", kind)
	}
	if problem := api.FormatProblem(text); problem != "" {
		t.Error(problem)
	}
	job := `{host="127.0.0.1",job_id="` + apitest.Running + `",job_name="flights"`
	for _, want := range []string{
		"flink_jobmanager_job_numberOfCompletedCheckpoints" + job + "} 6",
		"flink_jobmanager_job_lastCheckpointDuration" + job + "} 60",
		"flink_jobmanager_job_numRestarts" + job + "} 1",
		"flink_jobmanager_job_uptime" + job + "} 55000",
		"cutwater_job_status" + job + `,status="RUNNING"} 1`,
		"cutwater_job_status" + job + `,status="FAILED"} 0`,
		`flink_taskmanager_job_task_numRecordsIn{host="127.0.0.1",tm_id="` + b.Node.Name + `",job_id="` + apitest.Running + `"`,
		`flink_taskmanager_job_task_numRecordsOut{host="127.0.0.1",tm_id="` + b.Node.Name + `",job_id="` + apitest.Running + `"`,
		"cutwater_job_waits_for" + job + `,cause="slots"} 0`,
		"cutwater_job_restored_local_bytes" + job + "} 600",
		"cutwater_job_restored_remote_bytes" + job + "} 40",
		"flink_jobmanager_taskSlotsTotal{host=\"127.0.0.1\"} 8",
		"cutwater_transport_dropped_total 5",
		`cutwater_job_answers{job_id="` + apitest.Unchecked + `"} 1`,
		`cutwater_build_info{version="1.2.3",revision="abcdef"`,
	} {
		if !strings.Contains(text, "\n"+want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	if strings.Contains(text, silent) || strings.Contains(text, elsewhere) || strings.Contains(text, apitest.Finished) {
		t.Error("there are metrics of jobs that nobody coordinates here")
	}
	b.Failure, b.Node.Jobs = api.ErrNoLeader, []string{apitest.Running}
	if _, text := ask(t, s, http.MethodGet, "/metrics", ""); !strings.Contains(text, `cutwater_job_answers{job_id="`+apitest.Running+`"} 0`) {
		t.Errorf("without a leader the node does not say which of its jobs it cannot ask:\n%s", text)
	}
	b.Failure, b.Node.Leader = nil, false
	if _, text := ask(t, s, http.MethodGet, "/metrics", ""); strings.Contains(text, "taskSlotsTotal") {
		t.Error("a node that does not lead counts the slots of the cluster, too")
	}
}
