package api_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"cutwater/api"
	"cutwater/api/apitest"
	"cutwater/messages"
	"cutwater/protocol"
	"cutwater/protocol/job"
	"cutwater/testkit"
)

// interval is that of the checkpoints of all jobs here.
const interval = time.Second

const ticks = `
name: ticks
parallelism: 3
checkpointing: {interval: 1s, timeout: 20s}
operators:
  - {uid: in, parallelism: 1, source: {datagen: {rate: 100, schema: {n: int}}}}
  - {uid: sums, input: in, key-by: n, aggregate: {sum: sum(n)}}
  - {uid: out, input: sums, sink: {file: {path: out, format: csv}}}
`

// plantedFault is something that goes wrong in a job on three nodes, and how it is named
// there. In texts each N stands for a number, NODE for one of the nodes.
type plantedFault struct {
	name string
	// change changes the topology: texts, and what stands for them.
	change []string
	begin  func(p *planted)
	end    func(p *planted)
	status string // what the job waits for, or its clocks
	orElse string // what it waits for if a command was under way; may be empty
	event  string // the end of one line
	metric string // without the labels that all have
}

// faults are the faults of the design, but for the seed that is dead: that is none of a
// job.
var faults = []plantedFault{
	{
		name:   "lost acknowledgement",
		begin:  func(p *planted) { p.World().Lose(to[*messages.AcknowledgeCheckpoint]("coordinator/")) },
		end:    func(p *planted) { p.World().Lose(nil) },
		status: `checkpoint N is under way for N ms: N of N tasks have not acknowledged it; the first is sums-N/N on node NODE (operators [sums out]): it has done its part, and its acknowledgement was lost`,
		event:  `late: checkpoint N is under way for N ms: N of N tasks have not acknowledged it; the first is sums-N/N on node NODE (operators [sums out]): it has done its part, and its acknowledgement was lost`,
		metric: `cutwater_job_waits_for{cause="acknowledgement"} N`,
	},
	{
		name: "storage that hangs at a task's state",
		begin: func(p *planted) {
			p.World().Hang(func(_ *testkit.Node, work string) bool { return strings.HasPrefix(work, "checkpoint ") })
		},
		end:    func(p *planted) { p.World().Hang(nil) },
		status: `checkpoint N is under way for N ms: N of N tasks have not acknowledged it; the first is in-N/N on node NODE (operators [in]): its state is being written to the checkpoint storage`,
		event:  `late: checkpoint N is under way for N ms: N of N tasks have not acknowledged it; the first is in-N/N on node NODE (operators [in]): its state is being written to the checkpoint storage`,
		metric: `cutwater_job_waits_for{cause="storage"} N`,
	},
	{
		name: "storage that hangs at the metadata of a checkpoint",
		begin: func(p *planted) {
			p.World().Hang(func(_ *testkit.Node, work string) bool { return work == "*messages.WriteMetadata" })
		},
		end:    func(p *planted) { p.World().Hang(nil) },
		status: `checkpoint N is under way for N ms: the storage has not written its _metadata`,
		event:  `late: checkpoint N is under way for N ms: the storage has not written its _metadata`,
		metric: `cutwater_job_waits_for{cause="storage"} N`,
	},
	{
		name:   "stuck sink",
		begin:  func(p *planted) { p.World().Hang(func(_ *testkit.Node, work string) bool { return work == "out" }) },
		end:    func(p *planted) { p.World().Hang(nil) },
		status: `N of N tasks wait; the first is sums-N/N on node NODE: out has had no answer for N ms`,
		event:  `task sums-N/N out unanswered: it is under way for N ms, and what it waits for has not answered`,
		metric: `cutwater_job_waits_for{cause="operator"} N`,
	},
	{
		name:   "lost majority of the voters",
		change: []string{"parallelism: 3", "parallelism: 1"},
		begin: func(p *planted) {
			p.until("completed") // the next one has no id then
			p.Isolate("a", true)
			p.Isolate("b", true)
		},
		end: func(p *planted) {
			p.Isolate("a", false)
			p.Isolate("b", false)
		},
		status: `no checkpoint was started: metadata: the store is not available now`,
		orElse: `the metadata store has not answered for N ms: the allocation of a checkpoint id: leadership was lost while the command was being replicated`,
		event:  `request failed CHECKPOINT TRIGGER_CHECKPOINT_FAILURE: metadata: the store is not available now`,
		metric: `cutwater_job_waits_for{cause="metadata"} N`,
	},
	{
		name:   "full disk",
		begin:  func(p *planted) { p.World().DiskFull(true) },
		end:    func(p *planted) { p.World().DiskFull(false) },
		status: `space on a disk: operator "out" failed in task sums-N/N on node NODE: operator: task must be restored: sink "out" could not prepare checkpoint N: file sink "out": make the file /job/out/.cutwater/N/out-N-N-N-N-N: write /job/out/.cutwater/N/out-N-N-N-N-N: no space left on device: look at the disk; the job restarts from its last checkpoint`,
		event:  `job RUNNING -> FAILING: operator "out" failed in task sums-N/N on node NODE: operator: task must be restored: sink "out" could not prepare checkpoint N: file sink "out": make the file /job/out/.cutwater/N/out-N-N-N-N-N: write /job/out/.cutwater/N/out-N-N-N-N-N: no space left on device: look at the disk; the job restarts from its last checkpoint`,
		metric: `cutwater_job_waits_for{cause="space"} N`,
	},
	{
		name: "missing slots",
		begin: func(p *planted) {
			p.first, p.job = p.job, p.DeployText(strings.NewReplacer("name: ticks", "name: more", "parallelism: 3", "parallelism: 12", "path: out", "path: more").Replace(ticks))
		},
		end:    func(p *planted) { p.first.Cancel() },
		status: `the job needs N slots and has N: N free of N slots on N nodes; start another node, end another job, or lower the parallelism`,
		event:  `waiting for slots: the job needs N slots and has N: N free of N slots on N nodes; start another node, end another job, or lower the parallelism`,
		metric: `cutwater_job_waits_for{cause="slots"} N`,
	},
	{
		name:   "skewed clock",
		begin:  func(p *planted) { p.others(func(n *testkit.Node) { n.SetClock(3_600_000) }) },
		end:    func(p *planted) { p.others(func(n *testkit.Node) { n.SetClock(0) }) },
		status: `the clock of node NODE is N ms ahead of this node's; nothing but what people read depends on it; set it`,
		event:  `the clock of node NODE is N ms ahead of this node's; nothing but what people read depends on it; set it`,
		metric: `cutwater_job_clock_ahead_ms{tm_id="NODE"} N.N+N`,
	},
	{
		name: "slow task",
		begin: func(p *planted) {
			p.World().Lose(func(a protocol.Address, _ proto.Message) bool { return strings.Contains(string(a), "|task/") })
		},
		end:    func(p *planted) { p.World().Lose(nil) },
		status: `checkpoint N is under way for N ms: N of N tasks have not acknowledged it; the first is sums-N/N on node NODE (operators [sums out]): it does not answer, so it is busy with a record or in a call of an operator, or its node does not reach this one`,
		event:  `late: checkpoint N is under way for N ms: N of N tasks have not acknowledged it; the first is sums-N/N on node NODE (operators [sums out]): it does not answer, so it is busy with a record or in a call of an operator, or its node does not reach this one`,
		metric: `cutwater_job_waits_for{cause="task"} N`,
	},
	{
		name:   "blocked credit",
		change: []string{"rate: 100", "rate: 2000"},
		begin:  func(p *planted) { p.World().Lose(to[*messages.Credit]("task/")) },
		end:    func(p *planted) { p.World().Lose(nil) },
		status: `N of N tasks wait; the first is in-N/N on node NODE: NODE|task/N/sums-N/N/N has taken nothing from it for N ms`,
		event:  `task in-N/N in blocked: for N ms there was no room for its output, and nothing was taken by NODE|task/N/sums-N/N/N: that task is busy, or gives no credit`,
		metric: `cutwater_job_waits_for{cause="credit"} N`,
	},
}

// Nothing waits in silence, and no alarm stays: within three intervals of checkpoints a
// status, an event and a metric name the cause, word for word, and when it has gone
// neither status nor metric do. docs/runbook.md has an entry for each word.
func TestPlanted(t *testing.T) {
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			p := plant(t, f.change...)
			f.begin(p)
			p.awaits("named", 3*interval, func(seen sight) bool {
				return (seen.status == f.status || f.orElse != "" && seen.status == f.orElse) && slices.Contains(seen.events, f.event) && slices.Contains(seen.metrics, f.metric)
			}, f)
			f.end(p)
			p.awaits("forgotten", time.Minute, func(seen sight) bool {
				return seen.status == "" && len(seen.metrics) == 0 && seen.running
			}, f)
		})
	}
}

// planted is a job on three nodes with checkpoints each second.
type planted struct {
	*testkit.Cluster
	t          *testing.T
	job, first *testkit.ClusterJob
	from       int // events before the fault
}

// plant runs the job until its first checkpoints are complete, and the next one begins.
func plant(t *testing.T, change ...string) *planted {
	t.Helper()
	c := testkit.NewCluster(t, 5, "a", "b", "c")
	p := &planted{Cluster: c, t: t, job: c.DeployText(strings.NewReplacer(change...).Replace(ticks))}
	p.job.Wait(messages.JobStatus_RUNNING)
	c.Run(3 * interval)
	if v := p.job.View(); v.GetWaiting() != "" || v.GetCheckpoints().GetCounts().GetCompleted() < 2 {
		t.Fatalf("before anything is planted the job waits for %q, with %v", v.GetWaiting(), v.GetCheckpoints().GetCounts())
	}
	p.from = len(c.Events())
	p.until("triggered")
	return p
}

// until lets time pass until an event has that in it.
func (p *planted) until(what string) {
	for !slices.ContainsFunc(p.Events()[p.from:], func(e string) bool { return strings.Contains(e, what) }) {
		p.Run(10 * time.Millisecond)
	}
}

// others does it to the nodes that do not coordinate the job.
func (p *planted) others(f func(*testkit.Node)) {
	for _, n := range p.World().Nodes() {
		if n.ID != p.job.Coordinator() {
			f(n)
		}
	}
}

// sight is what people and alarms see.
type sight struct {
	status  string
	events  []string // since the fault was planted
	metrics []string // of causes, and of clocks
	running bool
}

func (p *planted) look() sight {
	v := p.job.View()
	if v == nil {
		return sight{}
	}
	s := sight{status: v.Waiting, running: v.Status == messages.JobStatus_RUNNING}
	for _, c := range v.Clocks {
		s.status = job.ClockSkewed{Node: c.Node, AheadMs: c.AheadMs}.String()
	}
	s.status = normal(s.status)
	for _, e := range p.Events()[p.from:] {
		_, what, _ := strings.Cut(e, ": ")
		s.events = append(s.events, normal(what))
	}
	b := apitest.NewBackend()
	b.Records = []*messages.JobRecord{{Job: v.Job, Status: v.Status, Coordinator: b.Node.Name + "|coordinator/" + v.Job}}
	b.Views[v.Job] = v
	answer := httptest.NewRecorder()
	api.New(api.Options{Backend: b}).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "http://127.0.0.1/metrics", nil))
	text := answer.Body.String()
	for line := range strings.Lines(text) {
		name, labels, _ := strings.Cut(strings.TrimSpace(line), `{host="127.0.0.1",job_id="`+v.Job+`",job_name="`+v.Name+`",`)
		if name == "cutwater_job_waits_for" && strings.HasSuffix(labels, " 1") || name == "cutwater_job_clock_ahead_ms" {
			s.metrics = append(s.metrics, name+"{"+normal(labels))
		}
	}
	return s
}

var digits = regexp.MustCompile(`\b[0-9a-f]*[0-9]+[0-9a-f]*\b`)

// nodeName is a start of one of the nodes.
var nodeName = regexp.MustCompile(`\b[abc]\.N\b`)

// normal puts N for numbers and for ids, and NODE for nodes: which one it is depends on
// chance.
func normal(s string) string {
	return nodeName.ReplaceAllString(digits.ReplaceAllString(s, "N"), "NODE")
}

// awaits lets time pass until it is so.
func (p *planted) awaits(what string, limit time.Duration, is func(sight) bool, f plantedFault) {
	p.t.Helper()
	const look = 250 * time.Millisecond
	var seen sight
	for waited := time.Duration(0); waited < limit; waited += look {
		p.Run(look)
		if seen = p.look(); is(seen) {
			return
		}
	}
	p.t.Fatalf("it is not %s within %v.\nstatus:  %s\nwanted:  %s\nmetrics: %q\nwanted:  %q\nevent wanted: %s\nevents:\n  %s", what, limit,
		seen.status, f.status, seen.metrics, f.metric, f.event, strings.Join(seen.events, "\n  "))
}

// to matches the messages of a type to an address that has that in it.
func to[M proto.Message](part string) func(protocol.Address, proto.Message) bool {
	return func(a protocol.Address, m proto.Message) bool {
		_, is := m.(M)
		return is && strings.Contains(string(a), part)
	}
}

// The runbook has an entry for each cause that a metric can name.
func TestRunbookNamesCauses(t *testing.T) {
	text, err := os.ReadFile("../docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Values(messages.WaitCause_name)) {
		cause := strings.ToLower(strings.TrimPrefix(name, "WAIT_"))
		if name != messages.WaitCause_WAIT_CAUSE_UNSPECIFIED.String() && !strings.Contains(string(text), "\n| `"+cause+"` |") {
			t.Errorf("docs/runbook.md has no row for the cause %s of cutwater_job_waits_for", cause)
		}
	}
	for _, metric := range []string{"cutwater_job_clock_ahead_ms", "cutwater_job_waits", "cutwater_discovery_failing"} {
		if !strings.Contains(string(text), "| `"+metric+"` |") {
			t.Errorf("docs/runbook.md has no row for the alarm %s", metric)
		}
	}
}
