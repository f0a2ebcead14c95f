package apitest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// required are the members that Flink's Java client refuses to miss, by route, each
// with its type: int, number (or "NaN"), string, bool, object, array. A path goes
// into objects by ".", into every element of an array by "[]" and into every value
// of a map by "*". Behind "?" comes what may be missing or null, but has a type.
// JOB stands for the job that is checked, VERTEX, CHECKPOINT and NODE for one that it
// has.
var required = []struct{ route, members string }{
	{"/config", `refresh-interval int, timezone-name string, timezone-offset int, flink-version string, flink-revision string,
		features.web-submit bool, features.web-cancel bool, features.web-rescale bool, features.web-history bool`},
	{"/overview", `taskmanagers int, slots-total int, slots-available int, jobs-running int, jobs-finished int, jobs-cancelled int, jobs-failed int,
		flink-version string, flink-commit string`},
	{"/jobs", `jobs array, jobs[].id string, jobs[].status string`},
	{"/jobs/overview", `jobs array, jobs[].jid string, jobs[].name string, jobs[].start-time int, jobs[].end-time int, jobs[].duration int,
		jobs[].state string, jobs[].last-modification int, jobs[].tasks.total int, jobs[].tasks.created int, jobs[].tasks.scheduled int,
		jobs[].tasks.deploying int, jobs[].tasks.running int, jobs[].tasks.finished int, jobs[].tasks.canceling int, jobs[].tasks.canceled int,
		jobs[].tasks.failed int, jobs[].tasks.reconciling int, jobs[].tasks.initializing int`},
	{"/jobs/JOB", `jid string, name string, isStoppable bool, state string, job-type string, start-time int, end-time int, duration int, now int,
		maxParallelism int, timestamps object, timestamps.* int, status-counts object, status-counts.* int, plan object, vertices array,
		vertices[].id string, vertices[].slotSharingGroupId string, vertices[].name string, vertices[].maxParallelism int,
		vertices[].parallelism int, vertices[].status string, vertices[].start-time int, vertices[].end-time int, vertices[].duration int,
		vertices[].tasks object, vertices[].tasks.* int,
		vertices[].metrics.read-bytes int, vertices[].metrics.read-bytes-complete bool, vertices[].metrics.write-bytes int,
		vertices[].metrics.write-bytes-complete bool, vertices[].metrics.read-records int, vertices[].metrics.read-records-complete bool,
		vertices[].metrics.write-records int, vertices[].metrics.write-records-complete bool,
		vertices[].metrics.accumulated-backpressured-time int, vertices[].metrics.accumulated-idle-time int,
		vertices[].metrics.accumulated-busy-time number`},
	{"/jobs/JOB/plan", `plan object, plan.jid string, plan.name string, plan.type string, plan.nodes array, plan.nodes[].id string,
		plan.nodes[].parallelism int, plan.nodes[].operator string, plan.nodes[].operator_strategy string, plan.nodes[].description string,
		plan.nodes[].optimizer_properties object, ?plan.nodes[].inputs array, ?plan.nodes[].inputs[].num int, ?plan.nodes[].inputs[].id string,
		?plan.nodes[].inputs[].ship_strategy string, ?plan.nodes[].inputs[].exchange string`},
	{"/jobs/JOB/config", `jid string, name string, execution-config.restart-strategy string, execution-config.job-parallelism int,
		execution-config.object-reuse-mode bool, execution-config.user-config object, execution-config.execution-mode string`},
	{"/jobs/JOB/status", `status string`},
	{"/jobs/JOB/exceptions", `?root-exception string, ?timestamp int, all-exceptions array, truncated bool, exceptionHistory.truncated bool,
		exceptionHistory.entries array, exceptionHistory.entries[].exceptionName string, exceptionHistory.entries[].stacktrace string,
		exceptionHistory.entries[].timestamp int, exceptionHistory.entries[].failureLabels object, ?exceptionHistory.entries[].taskName string,
		?exceptionHistory.entries[].endpoint string, ?exceptionHistory.entries[].taskManagerId string,
		exceptionHistory.entries[].concurrentExceptions array`},
	{"/jobs/JOB/execution-result", `status.id string, ?job-execution-result.id string, ?job-execution-result.application-status string,
		?job-execution-result.accumulator-results object, ?job-execution-result.net-runtime int`},
	{"/jobs/JOB/checkpoints", `counts.restored int, counts.total int, counts.in_progress int, counts.completed int, counts.failed int,
		` + stats("summary", "checkpointed_size", "state_size", "end_to_end_duration", "alignment_buffered", "processed_data", "persisted_data") + `,
		latest object, ?latest.restored.id int, ?latest.restored.restore_timestamp int, ?latest.restored.is_savepoint bool,
		?latest.restored.external_path string, history array, ` + checkpointMembers("history[].") + `,
		` + optional(checkpointMembers("latest.completed.")) + `, ` + optional(checkpointMembers("latest.savepoint.")) + `,
		` + optional(checkpointMembers("latest.failed."))},
	{"/jobs/JOB/checkpoints/config", `mode string, interval int, timeout int, min_pause int, max_concurrent int, externalization.enabled bool,
		externalization.delete_on_cancellation bool, state_backend string, checkpoint_storage string, unaligned_checkpoints bool,
		tolerable_failed_checkpoints int, aligned_checkpoint_timeout int, checkpoints_after_tasks_finish bool, state_changelog_enabled bool,
		changelog_periodic_materialization_interval int`},
	{"/jobs/JOB/checkpoints/details/CHECKPOINT", checkpointMembers("")},
	{"/jobs/JOB/checkpoints/details/CHECKPOINT/subtasks/VERTEX", partMembers("") + `,
		` + stats("summary", "checkpointed_size", "state_size", "end_to_end_duration", "start_delay") + `,
		` + stats("summary.checkpoint_duration", "sync", "async") + `, ` + stats("summary.alignment", "buffered", "processed", "persisted", "duration") + `,
		subtasks array, subtasks[].className string, subtasks[].index int, subtasks[].status string, ?subtasks[].ack_timestamp int,
		?subtasks[].end_to_end_duration int, ?subtasks[].checkpointed_size int, ?subtasks[].state_size int, ?subtasks[].checkpoint.sync int,
		?subtasks[].checkpoint.async int, ?subtasks[].alignment.buffered int, ?subtasks[].alignment.processed int,
		?subtasks[].alignment.persisted int, ?subtasks[].alignment.duration int, ?subtasks[].start_delay int,
		?subtasks[].unaligned_checkpoint bool, ?subtasks[].aborted bool`},
	{"/taskmanagers", `taskmanagers array, ` + nodeMembers("taskmanagers[].")},
	{"/taskmanagers/NODE", nodeMembers("") + `, allocatedSlots array, metrics.heapUsed int, metrics.heapCommitted int, metrics.heapMax int,
		metrics.nonHeapUsed int, metrics.nonHeapCommitted int, metrics.nonHeapMax int, metrics.directCount int, metrics.directUsed int,
		metrics.directMax int, metrics.mappedCount int, metrics.mappedUsed int, metrics.mappedMax int,
		metrics.nettyShuffleMemorySegmentsAvailable int, metrics.nettyShuffleMemorySegmentsUsed int, metrics.nettyShuffleMemorySegmentsTotal int,
		metrics.nettyShuffleMemoryAvailable int, metrics.nettyShuffleMemoryUsed int, metrics.nettyShuffleMemoryTotal int,
		metrics.memorySegmentsAvailable int, metrics.memorySegmentsTotal int, metrics.garbageCollectors array`},
}

func stats(at string, names ...string) string {
	var all []string
	for _, name := range names {
		for _, member := range []string{"min int", "max int", "avg int", "p50 number", "p90 number", "p95 number", "p99 number", "p999 number"} {
			all = append(all, at+"."+name+"."+member)
		}
	}
	return strings.Join(all, ", ")
}

func under(prefix, members string) string {
	all := strings.Split(members, ",")
	for i, m := range all {
		m = strings.TrimSpace(m)
		if rest, ok := strings.CutPrefix(m, "?"); ok {
			all[i] = "?" + prefix + rest
		} else {
			all[i] = prefix + m
		}
	}
	return strings.Join(all, ", ")
}

func optional(members string) string {
	all := strings.Split(members, ", ")
	for i, m := range all {
		all[i] = "?" + strings.TrimPrefix(m, "?")
	}
	return strings.Join(all, ", ")
}

func partMembers(prefix string) string {
	return under(prefix, `id int, status string, latest_ack_timestamp int, checkpointed_size int, state_size int, end_to_end_duration int,
		alignment_buffered int, processed_data int, persisted_data int, num_subtasks int, num_acknowledged_subtasks int`)
}

func checkpointMembers(prefix string) string {
	return under(prefix, `className string, is_savepoint bool, ?savepointFormat string, trigger_timestamp int, checkpoint_type string, tasks object,
		?external_path string, ?discarded bool, ?failure_timestamp int, ?failure_message string`) + ", " + partMembers(prefix) + ", " + partMembers(prefix+"tasks.*.")
}

func nodeMembers(prefix string) string {
	return under(prefix, `id string, path string, dataPort int, jmxPort int, timeSinceLastHeartbeat int, slotsNumber int, freeSlots int,
		totalResource.cpuCores number, totalResource.taskHeapMemory int, totalResource.taskOffHeapMemory int, totalResource.managedMemory int,
		totalResource.networkMemory int, freeResource.cpuCores number, freeResource.taskHeapMemory int, freeResource.taskOffHeapMemory int,
		freeResource.managedMemory int, freeResource.networkMemory int, hardware.cpuCores int, hardware.physicalMemory int,
		hardware.freeMemory int, hardware.managedMemory int, memoryConfiguration object`)
}

// Flink checks a server by the rules of Flink's clients: each route with its
// required members, under /v1 and without, with the body that the Java client sends
// along, and answers that say no. The job is one that takes checkpoints; what can be
// asked only of a checkpoint is left out where it has none.
type Flink struct {
	// Base is the server, as http://host:port.
	Base string
	// Token is sent with every request, if set.
	Token string
	// Client sends the requests; nil means http.DefaultClient.
	Client *http.Client
}

// Check checks all routes for a job. It returns how many answers it looked at.
func (f Flink) Check(t testing.TB, job string) int {
	t.Helper()
	if f.Client == nil {
		f.Client = http.DefaultClient
	}
	words := strings.NewReplacer(
		"JOB", job,
		"VERTEX", first(f.get(t, "/jobs/"+job), "vertices", "id"),
		"CHECKPOINT", first(f.get(t, "/jobs/"+job+"/checkpoints"), "history", "id"),
		"NODE", first(f.get(t, "/taskmanagers"), "taskmanagers", "id"))
	seen := 0
	for _, row := range required {
		route := words.Replace(row.route)
		if strings.Contains(route, "//") || strings.HasSuffix(route, "/") {
			continue // there is none to ask for
		}
		for _, prefix := range []string{"", "/v1"} {
			answer := f.get(t, prefix+route)
			for _, m := range strings.Split(row.members, ",") {
				path, kind, _ := strings.Cut(strings.TrimSpace(m), " ")
				path, may := strings.CutPrefix(path, "?")
				if problem := check(answer, path, kind, may); problem != "" {
					t.Errorf("GET %s%s: %s: %s", prefix, row.route, path, problem)
				}
			}
			f.forms(t, prefix+row.route, answer)
			seen++
		}
	}
	for _, no := range []struct {
		method, path string
		status       int
	}{
		{http.MethodGet, "/v1/no/such/route", http.StatusNotFound},
		{http.MethodGet, "/v1/jobs/ffffffffffffffffffffffffffffffff", http.StatusNotFound},
		{http.MethodGet, "/v1/jobs/xyz", http.StatusBadRequest},
		{http.MethodGet, "/v1/jobs/" + job + "/checkpoints/details/999999999", http.StatusNotFound},
		{http.MethodPatch, "/v1/jobs/" + job + "?mode=stop", http.StatusPermanentRedirect},
		{http.MethodPatch, "/v1/jobs/" + job + "?mode=strange", http.StatusBadRequest},
		{http.MethodDelete, "/v1/jobs/" + job, http.StatusMethodNotAllowed},
	} {
		status, body := f.send(t, no.method, no.path)
		var failure map[string][]string
		if err := json.Unmarshal(body, &failure); err != nil || len(failure) != 1 || len(failure["errors"]) == 0 || failure["errors"][0] == "" {
			t.Errorf("%s %s: the body %s is not {\"errors\":[...]} alone: %v", no.method, no.path, body, err)
		}
		if status != no.status {
			t.Errorf("%s %s: status %d, want %d: %s", no.method, no.path, status, no.status, body)
		}
		seen++
	}
	return seen
}

// forms checks what depends on the value of another member.
func (f Flink) forms(t testing.TB, route string, answer any) {
	t.Helper()
	each(answer, func(o map[string]any) {
		var must []string
		switch o["className"] {
		case "completed":
			if must = []string{"discarded"}; o["index"] != nil {
				must = []string{"ack_timestamp", "checkpoint", "alignment", "start_delay", "unaligned_checkpoint", "aborted"}
			}
		case "failed":
			must = []string{"failure_timestamp"}
		}
		for _, m := range must {
			if o[m] == nil {
				t.Errorf("GET %s: an object with className %v has no %s", route, o["className"], m)
			}
		}
	})
	if history, ok := walk(answer, "history").([]any); ok {
		ids := make([]float64, len(history))
		for i, h := range history {
			ids[i], _ = walk(h, "id").(float64)
		}
		if !slices.IsSortedFunc(ids, func(a, b float64) int { return int(b - a) }) {
			t.Errorf("GET %s: the history is not newest first: %v", route, ids)
		}
	}
}

// get asks as the Java client does, and returns what JSON came with status 200.
func (f Flink) get(t testing.TB, path string) any {
	t.Helper()
	status, body := f.send(t, http.MethodGet, path)
	var answer any
	if err := json.Unmarshal(body, &answer); err != nil || status != http.StatusOK {
		t.Errorf("GET %s: status %d, %v, body %s", path, status, err, body)
	}
	return answer
}

func (f Flink) send(t testing.TB, method, path string) (status int, body []byte) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, f.Base+path, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json; charset=UTF-8")
	r.Close = true
	if f.Token != "" {
		r.Header.Set("Authorization", "Bearer "+f.Token)
	}
	client := *f.Client
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if body, err = io.ReadAll(answer.Body); err != nil {
		t.Fatal(err)
	}
	if kind := answer.Header.Get("Content-Type"); kind != "application/json; charset=UTF-8" {
		t.Errorf("%s %s: Content-Type %q", method, path, kind)
	}
	return answer.StatusCode, body
}

// check returns what is wrong with a member, or "".
func check(v any, path, kind string, may bool) string {
	if path == "" {
		return ofKind(v, kind, may)
	}
	step, rest, _ := strings.Cut(path, ".")
	if v == nil && may {
		return ""
	}
	if list, ok := strings.CutSuffix(step, "[]"); ok {
		v = walk(v, list)
		elements, isList := v.([]any)
		if !isList {
			return ofKind(v, "array", may)
		}
		for _, e := range elements {
			if problem := check(e, rest, kind, may); problem != "" {
				return problem
			}
		}
		return ""
	}
	o, isObject := v.(map[string]any)
	if !isObject {
		return fmt.Sprintf("it is in %v, which is no object", v)
	}
	if step == "*" {
		for _, e := range o {
			if problem := check(e, rest, kind, may); problem != "" {
				return problem
			}
		}
		return ""
	}
	return check(o[step], rest, kind, may)
}

func ofKind(v any, kind string, may bool) string {
	if v == nil && may {
		return ""
	}
	ok := false
	switch kind {
	case "int":
		n, isNumber := v.(float64)
		ok = isNumber && n == float64(int64(n))
	case "number":
		_, ok = v.(float64)
		ok = ok || v == "NaN"
	case "string":
		_, ok = v.(string)
	case "bool":
		_, ok = v.(bool)
	case "object":
		_, ok = v.(map[string]any)
	case "array":
		_, ok = v.([]any)
	}
	if ok {
		return ""
	}
	return fmt.Sprintf("it is %v, want %s", v, kind)
}

// walk returns a member of an object, or nil.
func walk(v any, name string) any {
	o, _ := v.(map[string]any)
	return o[name]
}

// first returns a member of the first element of a list, as text.
func first(v any, list, name string) string {
	elements, _ := walk(v, list).([]any)
	if len(elements) == 0 || walk(elements[0], name) == nil {
		return ""
	}
	if n, ok := walk(elements[0], name).(float64); ok {
		return strconv.FormatFloat(n, 'f', -1, 64)
	}
	return fmt.Sprint(walk(elements[0], name))
}

// each calls f for every object in v.
func each(v any, f func(map[string]any)) {
	switch v := v.(type) {
	case map[string]any:
		f(v)
		for _, e := range v {
			each(e, f)
		}
	case []any:
		for _, e := range v {
			each(e, f)
		}
	}
}
