package api

import (
	"context"
	"errors"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"cutwater/messages"
	"cutwater/protocol/metadata"
)

// gathering makes metrics of samples that come in any order.
type gathering struct {
	list []Metric
	at   map[string]int
}

func (g *gathering) add(kind MetricKind, name, help string, value float64, labels ...Label) {
	if g.at == nil {
		g.at = map[string]int{}
	}
	i, ok := g.at[name]
	if !ok {
		i = len(g.list)
		g.at[name] = i
		g.list = append(g.list, Metric{Name: name, Help: help, Kind: kind})
	}
	g.list[i].Samples = append(g.list[i].Samples, Sample{labels, value})
}

// ownMetrics are those of the process and of this API.
func (c *call) ownMetrics() []Metric {
	g := &gathering{}
	self := c.Backend.Self()
	used, committed := heap()
	g.add(Gauge, "cutwater_build_info", "Always 1; the labels name what was built.", 1,
		Label{"version", c.Version}, Label{"revision", c.Revision}, Label{"goversion", runtime.Version()})
	g.add(Gauge, "cutwater_node_ready", "1 if the node can serve, else 0.", truth(c.Backend.Ready() == nil), Label{"node", self.ID})
	g.add(Gauge, "cutwater_node_start_time_seconds", "When the node started, in seconds since 1970.", float64(self.StartedMs)/1000, Label{"node", self.ID})
	for _, s := range self.Sources {
		g.add(Gauge, "cutwater_discovery_failing", "1 if a source of addresses of other nodes has a problem, which GET /cutwater/v1/nodes names, else 0.",
			truth(s.Error != ""), Label{"node", self.ID}, Label{"source", s.Name})
	}
	g.add(Gauge, "cutwater_node_heap_used_bytes", "Bytes of objects in the heap.", float64(used))
	g.add(Gauge, "cutwater_node_heap_committed_bytes", "Bytes of the heap.", float64(committed))
	g.add(Gauge, "cutwater_node_goroutines", "Goroutines of the process.", float64(runtime.NumGoroutine()))
	g.add(Counter, "cutwater_api_refused_tokens_total", "Requests without the right token.", float64(c.guard.refused.Load()))
	g.add(Gauge, "cutwater_api_event_streams", "Streams of events that are open.", float64(c.streams.Load()))
	for class := range c.answered {
		if class >= 2 {
			g.add(Counter, "cutwater_api_requests_total", "Requests by the class of their status.", float64(c.answered[class].Load()),
				Label{"class", strconv.Itoa(class) + "xx"})
		}
	}
	return g.list
}

// jobMetrics are those of the jobs that this node coordinates; and of the cluster,
// if it leads it: so that nothing is counted twice where all nodes are asked.
func (c *call) jobMetrics() []Metric {
	g := &gathering{}
	self := c.Backend.Self()
	host, _, _ := net.SplitHostPort(self.HTTP)
	if self.Leader {
		c.clusterMetrics(g, host)
	}
	jobs := c.coordinated(self)
	views, errs := make([]*messages.JobView, len(jobs)), make([]error, len(jobs))
	var wg sync.WaitGroup
	slots := make(chan struct{}, maxAsked)
	for i, id := range jobs {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			views[i], errs[i] = c.view(c.ctx, id, 0)
		})
	}
	wg.Wait()
	for i, id := range jobs {
		if errors.Is(errs[i], ErrNoCoordinator) || errors.Is(errs[i], ErrUnknownJob) {
			continue // it has ended or gone elsewhere
		}
		g.add(Gauge, "cutwater_job_answers", "1 if the job's coordinator answers, else 0.", truth(errs[i] == nil), Label{"job_id", id})
		if errs[i] == nil {
			jobMetricsOf(g, views[i], host)
		}
	}
	return g.list
}

// coordinated are the ids of the jobs that this node coordinates, as their records
// say; where those cannot be read, as the node says.
func (c *call) coordinated(self Node) []string {
	ctx, cancel := context.WithTimeout(c.ctx, viewTimeout)
	defer cancel()
	records, err := c.Backend.Jobs(ctx)
	if err != nil {
		return self.Jobs
	}
	var jobs []string
	for _, r := range records {
		if node, _, _ := strings.Cut(r.Coordinator, "|"); node == self.Name && !metadata.Ended(r.Status) {
			jobs = append(jobs, r.Job)
		}
	}
	return jobs
}

func (c *call) clusterMetrics(g *gathering, host string) {
	nodes, err := c.alive()
	if err != nil {
		return
	}
	slots, free := 0, 0
	for _, n := range nodes {
		slots += n.SlotsTotal
		free += n.SlotsFree
	}
	at := Label{"host", host}
	g.add(Gauge, "flink_jobmanager_numRegisteredTaskManagers", "Nodes that are alive.", float64(len(nodes)), at)
	g.add(Gauge, "flink_jobmanager_taskSlotsTotal", "Slots of all nodes.", float64(slots), at)
	g.add(Gauge, "flink_jobmanager_taskSlotsAvailable", "Slots that are not in use.", float64(free), at)
}

func jobMetricsOf(g *gathering, v *messages.JobView, host string) {
	job := []Label{{"host", host}, {"job_id", v.Job}, {"job_name", v.Name}}
	gauge := func(name, help string, value float64) { g.add(Gauge, name, help, value, job...) }
	n, last := v.Checkpoints.GetCounts(), v.Checkpoints.GetLatestCompleted()
	const prefix = "flink_jobmanager_job_"
	gauge(prefix+"numberOfCompletedCheckpoints", "Checkpoints that completed.", float64(n.GetCompleted()))
	gauge(prefix+"numberOfFailedCheckpoints", "Checkpoints that failed.", float64(n.GetFailed()))
	gauge(prefix+"numberOfInProgressCheckpoints", "Checkpoints that are being taken.", float64(n.GetInProgress()))
	gauge(prefix+"totalNumberOfCheckpoints", "Checkpoints in all.", float64(n.GetTotal()))
	gauge(prefix+"numRestarts", "Restarts of the job under this coordinator.", float64(v.Restarts))
	if last != nil {
		gauge(prefix+"lastCheckpointDuration", "Duration of the last completed checkpoint, in ms.", float64(last.DurationMs))
		gauge(prefix+"lastCheckpointSize", "Bytes that it wrote.", float64(last.Sums.GetCheckpointBytes()))
		gauge(prefix+"lastCheckpointFullSize", "Bytes that it holds.", float64(last.Sums.GetStateBytes()))
		gauge(prefix+"lastCompletedCheckpointId", "Its id.", float64(last.Checkpoint))
	}
	uptime := int64(0)
	for _, t := range v.StatusTimes {
		if t.Status == messages.JobStatus_RUNNING && v.Status == messages.JobStatus_RUNNING {
			uptime = max(0, v.NowMs-t.AtMs)
		}
	}
	gauge(prefix+"uptime", "How long the job has been running, in ms; 0 if it does not run.", float64(uptime))
	gauge("cutwater_job_aborted_checkpoints", "Checkpoints that were given up because nobody needed them.", float64(n.GetAborted()))
	gauge("cutwater_job_epoch", "The epoch of the job's coordinator.", float64(v.Epoch))
	gauge("cutwater_job_stale_messages", "Messages that were dropped because they belong to another life of the job.", float64(v.Stale))
	gauge("cutwater_job_waits", "1 if the job waits for something, which its view names, else 0.", truth(v.Waiting != ""))
	var local, remote uint64
	for _, t := range v.Tasks {
		local += t.Report.GetRestoredLocalBytes()
		remote += t.Report.GetRestoredRemoteBytes()
	}
	gauge("cutwater_job_restored_local_bytes", "Bytes of keyed state that the tasks of this attempt restored from copies on their nodes.", float64(local))
	gauge("cutwater_job_restored_remote_bytes", "Bytes of keyed state that they restored from the checkpoint directory.", float64(remote))
	for s := messages.JobStatus_CREATED; s <= messages.JobStatus_SUSPENDED; s++ {
		g.add(Gauge, "cutwater_job_status", "1 for the status of the job, 0 for all others.", truth(s == v.Status),
			append(job[:len(job):len(job)], Label{"status", statusName(s)})...)
	}
	for cause := messages.WaitCause_WAIT_METADATA; int(cause) < len(messages.WaitCause_name); cause++ {
		g.add(Gauge, "cutwater_job_waits_for", "1 for what the job waits for, 0 for all else.", truth(cause == v.Cause),
			append(job[:len(job):len(job)], Label{"cause", causeName(cause)})...)
	}
	for _, c := range v.Clocks {
		g.add(Gauge, "cutwater_job_clock_ahead_ms", "What the clock of a node is ahead of that of the job's coordinator; there if it is off.", float64(c.AheadMs),
			append(job[:len(job):len(job)], Label{"tm_id", c.Node})...)
	}
	taskMetrics(g, v, host)
}

// causeName is a cause as a label: metadata, slots, acknowledgement, and so on.
func causeName(c messages.WaitCause) string {
	return strings.ToLower(strings.TrimPrefix(c.String(), "WAIT_"))
}

// taskMetrics are what the tasks have done in this attempt.
func taskMetrics(g *gathering, v *messages.JobView, host string) {
	const prefix = "flink_taskmanager_job_task_"
	for _, vertex := range v.Plan.GetVertices() {
		for _, t := range v.Tasks {
			if t.Task.GetVertex() != vertex.Id {
				continue
			}
			labels := []Label{{"host", host}, {"tm_id", t.Node}, {"job_id", v.Job}, {"job_name", v.Name}, {"task_id", flinkID(vertex.Id)},
				{"task_name", vertexName(vertex)}, {"subtask_index", strconv.Itoa(int(t.Task.GetSubtask()))}}
			var m IOMetrics
			m.add(vertex, t)
			g.add(Gauge, prefix+"numRecordsIn", "Records that a task took in, or read, in this attempt.", float64(m.ReadRecords), labels...)
			g.add(Gauge, prefix+"numBytesIn", "Bytes that a task took in, or read, in this attempt.", float64(m.ReadBytes), labels...)
			g.add(Gauge, prefix+"numRecordsOut", "Records that a task sent to others in this attempt.", float64(m.WriteRecords), labels...)
			g.add(Gauge, prefix+"numBytesOut", "Bytes that a task sent to others in this attempt.", float64(m.WriteBytes), labels...)
			g.add(Gauge, prefix+"accumulateBackPressuredTimeMs", "How long some output of a task had no room in this attempt, in ms.", float64(m.BackPressuredMs), labels...)
			if vertex.Source {
				g.add(Gauge, "cutwater_source_remaining_bytes", "Bytes that are left of the splits that the task has.", float64(t.RemainingBytes), labels...)
			}
		}
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
