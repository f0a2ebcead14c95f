package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"path/filepath"
	"reflect"
	"unicode/utf8"

	"cutwater/messages"
)

// ownRoutes are those that Flink has not.
func ownRoutes() []route {
	deploy := change(http.MethodPost, "/jobs", "Register a topology as a job; its coordinator starts behind that.", http.StatusCreated, (*call).deploy)
	deploy.body, deploy.maxBody = reflect.TypeFor[DeployRequest](), maxDeployBody
	health := get("/health", "Whether the process answers; asks for no token.", func(*call) (Health, error) { return Health{"ok"}, nil })
	health.open = true
	ready := get("/ready", "Whether the node can serve now; 503 with the reason if it cannot. It asks for no token.", (*call).ready)
	ready.open = true
	return []route{
		get("/jobs", "What the records of all jobs say, oldest first.", (*call).jobRecords),
		deploy,
		get("/jobs/{job}", "What the record of a job says.", (*call).jobRecord),
		get("/jobs/{job}/view", "All that the job's coordinator says of it.", (*call).jobView).
			with(parameter{"checkpoint", "integer", "The checkpoint whose subtasks are wanted; none by default."}),
		get("/nodes", "The nodes of the cluster.", (*call).nodes),
		eventsRoute(),
		health,
		ready,
		{method: http.MethodGet, path: "/openapi.json", doc: "This document.", status: http.StatusOK, maxBody: maxBody, content: jsonType,
			serve: (*call).openAPI},
	}
}

// Job is what the record of a job says.
type Job struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Status      string `json:"status"`
	Incarnation uint64 `json:"incarnation"`
	Epoch       uint64 `json:"epoch"`
	// Coordinator is the address of the actor that leads it.
	Coordinator string `json:"coordinator"`
	CreatedMs   int64  `json:"created_ms"`
	// ChangedMs is when the status last changed.
	ChangedMs int64 `json:"changed_ms"`
	// Failure is why it failed; empty if it did not.
	Failure string `json:"failure"`
	// Completed is the newest checkpoint that it can be restored from, 0 for none.
	Completed uint64 `json:"completed_checkpoint"`
}

func jobOf(r *messages.JobRecord) Job {
	j := Job{ID: r.Job, Name: r.Name, Status: statusName(r.Status), Incarnation: r.Incarnation, Epoch: r.Epoch, Coordinator: r.Coordinator,
		CreatedMs: r.CreatedMs, ChangedMs: r.ChangedMs, Failure: r.Failure}
	if n := len(r.Completed); n > 0 {
		j.Completed = r.Completed[n-1].Checkpoint
	}
	return j
}

// Jobs are the records of all jobs.
type Jobs struct {
	Jobs []Job `json:"jobs"`
}

func (c *call) jobRecords() (Jobs, error) {
	records, err := c.Backend.Jobs(c.ctx)
	all := Jobs{[]Job{}}
	for _, r := range byAge(records) {
		all.Jobs = append(all.Jobs, jobOf(r))
	}
	return all, err
}

func (c *call) jobRecord() (Job, error) {
	id, err := jobID(c.params["job"])
	if err != nil {
		return Job{}, err
	}
	record, err := c.Backend.Job(c.ctx, id)
	if err != nil {
		return Job{}, unknown(id, err)
	}
	return jobOf(record), nil
}

func (c *call) jobView() (*messages.JobView, error) {
	checkpoint, err := c.count("checkpoint", 0)
	if err != nil {
		return nil, err
	}
	s, err := c.job(checkpoint)
	if err != nil {
		return nil, err
	}
	return s.view, nil
}

// Nodes are the nodes of the cluster.
type Nodes struct {
	Nodes []Node `json:"nodes"`
}

func (c *call) nodes() (Nodes, error) {
	nodes, err := c.Backend.Nodes(c.ctx)
	all := Nodes{[]Node{}}
	for _, n := range nodes {
		if n.Jobs == nil {
			n.Jobs = []string{}
		}
		if n.Sources == nil {
			n.Sources = []NodeSource{}
		}
		all.Nodes = append(all.Nodes, n)
	}
	return all, err
}

// Health is the answer of a process that lives.
type Health struct {
	Status string `json:"status"`
}

func (c *call) ready() (Health, error) {
	if err := c.Backend.Ready(); err != nil {
		return Health{}, refuse(http.StatusServiceUnavailable, "%v", err)
	}
	return Health{"ready"}, nil
}

func (c *call) openAPI() error {
	c.w.Header().Set("Content-Type", jsonType)
	_, _ = c.w.Write(c.document())
	return nil
}

// DeployRequest is the body that deploys a topology.
type DeployRequest struct {
	Topology Topology      `json:"topology"`
	Options  DeployOptions `json:"options"`
}

// Topology is a topology file with all that it needs from the machine that it was
// read on.
type Topology struct {
	// File is the absolute path that it was read from, for messages, and because
	// relative paths in it refer to its folder.
	File string `json:"file"`
	Text string `json:"text"`
	// Variables are the values of the variables that the text mentions and that are
	// set.
	Variables map[string]string `json:"variables"`
}

// Deployed names the job of a topology.
type Deployed struct {
	Job string `json:"job"`
}

func (c *call) deploy() (Deployed, error) {
	if media, _, _ := mime.ParseMediaType(c.r.Header.Get("Content-Type")); media != "application/json" {
		return Deployed{}, refuse(http.StatusUnsupportedMediaType, "the body must be JSON, and Content-Type must say application/json")
	}
	body, err := io.ReadAll(c.r.Body)
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return Deployed{}, tooLarge(large.Limit)
	case err != nil:
		return Deployed{}, refuse(http.StatusBadRequest, "the body cannot be read: %v", err)
	}
	request, err := decodeDeploy(body)
	if err != nil {
		return Deployed{}, refuse(http.StatusBadRequest, "%v", err)
	}
	t := request.Topology
	job, err := c.Backend.Deploy(c.ctx, &messages.TopologySource{File: t.File, Text: []byte(t.Text), Variables: t.Variables}, request.Options)
	if err != nil {
		return Deployed{}, err
	}
	c.w.Header().Set("Location", "/cutwater/v1/jobs/"+job)
	return Deployed{job}, nil
}

// decodeDeploy reads a body strictly: what is misspelt must not be left out in
// silence.
func decodeDeploy(body []byte) (*DeployRequest, error) {
	if !utf8.Valid(body) {
		return nil, errors.New("the body is not UTF-8 text")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	r := &DeployRequest{}
	if err := d.Decode(r); err != nil {
		return nil, fmt.Errorf("the body is not as GET /cutwater/v1/openapi.json describes it: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("the body has something behind its JSON value")
	}
	switch {
	case r.Topology.Text == "":
		return nil, errors.New("topology.text is missing: it is the content of the topology file")
	case !filepath.IsAbs(r.Topology.File):
		return nil, fmt.Errorf("topology.file is %q and must be an absolute path: relative paths in the topology refer to its folder", r.Topology.File)
	}
	return r, nil
}
