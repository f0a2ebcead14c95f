package api

import (
	"cmp"
	"net"
	"net/http"
	"runtime/metrics"
	"strconv"

	"cutwater/messages"
)

// flinkVersion is the release whose API this is, with what clients of 1.20 need
// beside it. Tools read the first three numbers.
const flinkVersion = "2.0.0"

// clusterRoutes are Flink's about the cluster.
func clusterRoutes() []route {
	return []route{
		get("/config", "How the web page shows this cluster.", (*call).config),
		get("/overview", "Counts of nodes, slots and jobs.", (*call).overview),
		get("/taskmanagers", "The nodes that are alive.", (*call).taskManagers),
		get("/taskmanagers/{node}", "One node.", (*call).taskManager),
	}
}

// Dashboard is Flink's DashboardConfiguration.
type Dashboard struct {
	RefreshIntervalMs int64             `json:"refresh-interval"`
	TimezoneName      string            `json:"timezone-name"`
	TimezoneOffsetMs  int64             `json:"timezone-offset"`
	FlinkVersion      string            `json:"flink-version"`
	FlinkRevision     string            `json:"flink-revision"`
	Features          DashboardFeatures `json:"features"`
}

// DashboardFeatures are what the web page offers.
type DashboardFeatures struct {
	Submit  bool `json:"web-submit"`
	Cancel  bool `json:"web-cancel"`
	Rescale bool `json:"web-rescale"`
	History bool `json:"web-history"`
}

func (c *call) config() (Dashboard, error) {
	zone, seconds := c.Now().Zone()
	return Dashboard{
		RefreshIntervalMs: 3000, TimezoneName: zone, TimezoneOffsetMs: int64(seconds) * 1000,
		FlinkVersion: c.flinkVersion(), FlinkRevision: c.Revision, Features: DashboardFeatures{Cancel: true},
	}, nil
}

func (h *handler) flinkVersion() string { return flinkVersion + " (cutwater " + h.Version + ")" }

// Overview is Flink's ClusterOverview.
type Overview struct {
	TaskManagers   int    `json:"taskmanagers"`
	SlotsTotal     int    `json:"slots-total"`
	SlotsAvailable int    `json:"slots-available"`
	JobsRunning    int    `json:"jobs-running"`
	JobsFinished   int    `json:"jobs-finished"`
	JobsCancelled  int    `json:"jobs-cancelled"`
	JobsFailed     int    `json:"jobs-failed"`
	FlinkVersion   string `json:"flink-version"`
	FlinkCommit    string `json:"flink-commit"`
}

func (c *call) overview() (Overview, error) {
	o := Overview{FlinkVersion: c.flinkVersion(), FlinkCommit: c.Revision}
	nodes, err := c.alive()
	if err != nil {
		return o, err
	}
	for _, n := range nodes {
		o.TaskManagers++
		o.SlotsTotal += n.SlotsTotal
		o.SlotsAvailable += n.SlotsFree
	}
	jobs, err := c.Backend.Jobs(c.ctx)
	for _, j := range jobs {
		switch j.Status {
		case messages.JobStatus_FINISHED:
			o.JobsFinished++
		case messages.JobStatus_CANCELED:
			o.JobsCancelled++
		case messages.JobStatus_FAILED:
			o.JobsFailed++
		case messages.JobStatus_SUSPENDED:
		default:
			o.JobsRunning++
		}
	}
	return o, err
}

func (c *call) alive() ([]Node, error) {
	nodes, err := c.Backend.Nodes(c.ctx)
	var alive []Node
	for _, n := range nodes {
		if n.Alive {
			alive = append(alive, n)
		}
	}
	return alive, err
}

// TaskManagers is Flink's TaskManagersInfo.
type TaskManagers struct {
	TaskManagers []TaskManager `json:"taskmanagers"`
}

// TaskManager is Flink's TaskManagerInfo. A node does not divide its memory as Flink
// does, so those parts are 0.
type TaskManager struct {
	ID       string `json:"id"`
	Path     string `json:"path"`
	DataPort int    `json:"dataPort"`
	JmxPort  int    `json:"jmxPort"`
	// LastHeartbeatMs is when the node was last heard of, whatever Flink calls it.
	LastHeartbeatMs int64         `json:"timeSinceLastHeartbeat"`
	Slots           int           `json:"slotsNumber"`
	FreeSlots       int           `json:"freeSlots"`
	TotalResource   Resource      `json:"totalResource"`
	FreeResource    Resource      `json:"freeResource"`
	Hardware        Hardware      `json:"hardware"`
	Memory          MemoryProfile `json:"memoryConfiguration"`
}

// Resource is Flink's ResourceProfileInfo; memory is in MiB.
type Resource struct {
	CPUs        Double `json:"cpuCores"`
	TaskHeap    int64  `json:"taskHeapMemory"`
	TaskOffHeap int64  `json:"taskOffHeapMemory"`
	Managed     int64  `json:"managedMemory"`
	Network     int64  `json:"networkMemory"`
}

// Hardware is Flink's HardwareDescription; memory is in bytes.
type Hardware struct {
	CPUs     int   `json:"cpuCores"`
	Physical int64 `json:"physicalMemory"`
	Free     int64 `json:"freeMemory"`
	Managed  int64 `json:"managedMemory"`
}

// MemoryProfile is Flink's TaskExecutorMemoryConfiguration, in bytes.
type MemoryProfile struct {
	FrameworkHeap    int64 `json:"frameworkHeap"`
	TaskHeap         int64 `json:"taskHeap"`
	FrameworkOffHeap int64 `json:"frameworkOffHeap"`
	TaskOffHeap      int64 `json:"taskOffHeap"`
	Network          int64 `json:"networkMemory"`
	Managed          int64 `json:"managedMemory"`
	Metaspace        int64 `json:"jvmMetaspace"`
	Overhead         int64 `json:"jvmOverhead"`
	TotalFlink       int64 `json:"totalFlinkMemory"`
	TotalProcess     int64 `json:"totalProcessMemory"`
}

func taskManagerOf(n Node) TaskManager {
	_, port, _ := net.SplitHostPort(n.Data)
	dataPort, _ := strconv.Atoi(port) // -1 below where there is none
	if port == "" {
		dataPort = -1
	}
	return TaskManager{
		ID: n.Name, Path: cmp.Or(n.Control, n.Name), DataPort: dataPort, JmxPort: -1, LastHeartbeatMs: n.SeenMs,
		Slots: n.SlotsTotal, FreeSlots: n.SlotsFree, TotalResource: Resource{CPUs: Double(n.CPUs)},
		Hardware: Hardware{CPUs: n.CPUs, Physical: n.MemoryBytes},
		Memory:   MemoryProfile{TotalProcess: n.MemoryBytes},
	}
}

func (c *call) taskManagers() (TaskManagers, error) {
	nodes, err := c.alive()
	all := TaskManagers{[]TaskManager{}}
	for _, n := range nodes {
		all.TaskManagers = append(all.TaskManagers, taskManagerOf(n))
	}
	return all, err
}

// TaskManagerDetails is Flink's TaskManagerDetailsInfo.
type TaskManagerDetails struct {
	TaskManager
	AllocatedSlots []AllocatedSlot    `json:"allocatedSlots"`
	Metrics        TaskManagerMetrics `json:"metrics"`
}

// AllocatedSlot is Flink's SlotInfo.
type AllocatedSlot struct {
	Job      string   `json:"jobId"`
	Resource Resource `json:"resource"`
}

// TaskManagerMetrics is Flink's TaskManagerMetricsInfo. What a JVM has and a node
// has not is 0.
type TaskManagerMetrics struct {
	HeapUsed          int64              `json:"heapUsed"`
	HeapCommitted     int64              `json:"heapCommitted"`
	HeapMax           int64              `json:"heapMax"`
	NonHeapUsed       int64              `json:"nonHeapUsed"`
	NonHeapCommitted  int64              `json:"nonHeapCommitted"`
	NonHeapMax        int64              `json:"nonHeapMax"`
	DirectCount       int64              `json:"directCount"`
	DirectUsed        int64              `json:"directUsed"`
	DirectMax         int64              `json:"directMax"`
	MappedCount       int64              `json:"mappedCount"`
	MappedUsed        int64              `json:"mappedUsed"`
	MappedMax         int64              `json:"mappedMax"`
	SegmentsAvailable int64              `json:"nettyShuffleMemorySegmentsAvailable"`
	SegmentsUsed      int64              `json:"nettyShuffleMemorySegmentsUsed"`
	SegmentsTotal     int64              `json:"nettyShuffleMemorySegmentsTotal"`
	ShuffleAvailable  int64              `json:"nettyShuffleMemoryAvailable"`
	ShuffleUsed       int64              `json:"nettyShuffleMemoryUsed"`
	ShuffleTotal      int64              `json:"nettyShuffleMemoryTotal"`
	OldAvailable      int64              `json:"memorySegmentsAvailable"`
	OldTotal          int64              `json:"memorySegmentsTotal"`
	Collectors        []GarbageCollector `json:"garbageCollectors"`
}

// GarbageCollector is Flink's GarbageCollectorInfo; the time is in ms.
type GarbageCollector struct {
	Name  string `json:"name"`
	Count int64  `json:"count"`
	Time  int64  `json:"time"`
}

func (c *call) taskManager() (TaskManagerDetails, error) {
	nodes, err := c.alive()
	if err != nil {
		return TaskManagerDetails{}, err
	}
	for _, n := range nodes {
		if id := c.params["node"]; n.Name != id && n.ID != id {
			continue
		}
		d := TaskManagerDetails{TaskManager: taskManagerOf(n), AllocatedSlots: []AllocatedSlot{}}
		d.Metrics.Collectors = []GarbageCollector{}
		if n.Name == c.Backend.Self().Name {
			d.Metrics.HeapUsed, d.Metrics.HeapCommitted = heap()
			d.Metrics.HeapMax = n.MemoryBytes
		}
		return d, nil
	}
	return TaskManagerDetails{}, refuse(http.StatusNotFound, "there is no living node %q; GET /taskmanagers lists them", c.params["node"])
}

// heap returns the bytes of live and garbage objects, and of the heap in all.
func heap() (used, committed int64) {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}}
	metrics.Read(s)
	used = int64(s[0].Value.Uint64())
	return used, used + int64(s[1].Value.Uint64())
}
