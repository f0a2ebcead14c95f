package api

import (
	"context"
	"errors"
	"iter"
	"strings"

	"cutwater/messages"
)

// Backend is what the API asks: one node, which asks the others by messages where
// it must, so that every node answers everything. It is safe for concurrent use,
// and every method but Events returns when its context is done.
//
// The errors of this package decide the status of the answer; any other error is
// answered with 500 and its sentence. What is wrapped around them is for people.
type Backend interface {
	// Self is this node, perhaps without Jobs. It does not block.
	Self() Node
	// Nodes are the nodes that seem to be alive and the voters that do not, this
	// one included, ordered by id.
	Nodes(ctx context.Context) ([]Node, error)
	// Ready tells why this node cannot serve now, or nil. It does not block.
	Ready() error

	// Jobs are the records of all jobs. The records are not changed.
	Jobs(ctx context.Context) ([]*messages.JobRecord, error)
	// Job is the record of a job, linearizably. Errors: ErrUnknownJob, ErrNoLeader.
	Job(ctx context.Context, job string) (*messages.JobRecord, error)
	// View is how a job stands now, as its coordinator says, wherever it runs, with
	// the subtasks of one checkpoint of its history, or of none if it is 0. Of a job
	// that has ended it is the last view, where the backend still has it. Errors:
	// ErrUnknownJob, ErrNoCoordinator, ErrNoLeader.
	View(ctx context.Context, job string, checkpoint uint64) (*messages.JobView, error)

	// Deploy registers a job, durably, and returns its id; its coordinator starts
	// behind that. Errors: *RefusedError, ErrNameExists, ErrNoLeader.
	Deploy(ctx context.Context, topology *messages.TopologySource, o DeployOptions) (job string, err error)
	// Cancel asks for the end of a job and does not wait for it. Errors:
	// ErrUnknownJob, ErrEnded, ErrNoCoordinator, ErrNoLeader.
	Cancel(ctx context.Context, job string) error

	// Events yields what happened since, oldest first. It ends behind the newest
	// event, or with Follow when ctx is done; an error ends it, too.
	Events(ctx context.Context, o EventOptions) iter.Seq2[Event, error]
	// Metrics are this node's own, beside those that the API derives from the views
	// of the jobs that it coordinates. It does not block.
	Metrics() []Metric
}

// Node is a node of the cluster.
type Node struct {
	// ID is 32 lower-case hexadecimal digits, for the life of the data folder; Name
	// is that of this start, as in addresses of actors.
	ID   string `json:"id"`
	Name string `json:"name"`
	// Addresses are host:port, empty where there is none.
	Gossip  string `json:"gossip_address"`
	Control string `json:"control_address"`
	Data    string `json:"data_address"`
	HTTP    string `json:"http_address"`
	Zone    string `json:"zone"`
	Version string `json:"version"`
	// Voter: it has a vote in the metadata log. Leader: it leads that log now.
	Voter  bool `json:"voter"`
	Leader bool `json:"leader"`
	// Alive is what gossip says. Leaving: it is about to go of its own will.
	Alive   bool `json:"alive"`
	Leaving bool `json:"leaving"`
	// Slots, in all and not in use.
	SlotsTotal int `json:"slots_total"`
	SlotsFree  int `json:"slots_free"`
	// Jobs are the ids of those that it coordinates.
	Jobs []string `json:"jobs"`
	// StartedMs is when it started, SeenMs when it was last heard of, by the clock of
	// the node that answers; 0 if that is not known.
	StartedMs int64 `json:"started_ms"`
	SeenMs    int64 `json:"seen_ms"`
	// CPUs and MemoryBytes are those of its machine, 0 if that is not known.
	CPUs        int   `json:"cpus"`
	MemoryBytes int64 `json:"memory_bytes"`
	// Sources are where the node that answers looks for others; of others it is not
	// known.
	Sources []NodeSource `json:"sources"`
}

// NodeSource is a source of addresses, such as a seed.
type NodeSource struct {
	Name string `json:"name"`
	// Addresses is how many it last reported, Failed how many of them could not be
	// joined.
	Addresses int `json:"addresses"`
	Failed    int `json:"failed"`
	// Error is what is wrong with it, or with one of them; empty if nothing is.
	Error string `json:"error"`
}

// DeployOptions change how a topology is deployed; the zero value changes nothing.
type DeployOptions struct {
	// Parallelism is the job's, instead of the file's; 0 means the file's.
	Parallelism uint32 `json:"parallelism"`
	// Restore is the folder of the checkpoint or savepoint to start from, as all
	// nodes see it.
	Restore string `json:"restore"`
	// DropState are uids whose state in it is given up.
	DropState []string `json:"drop_state"`
}

// EventOptions choose events.
type EventOptions struct {
	// From is the number of the first event that is wanted, 0 for all that are kept.
	From uint64
	// Job is the only job whose events are wanted; empty means all events.
	Job string
	// Follow waits for more.
	Follow bool
}

// Event is something that happened, for people.
type Event struct {
	// Number grows with each event of the node that answers.
	Number uint64 `json:"number"`
	AtMs   int64  `json:"at_ms"`
	Node   string `json:"node"`
	// Job is the id of the job that it is about, or empty.
	Job string `json:"job"`
	// Kind is one word, such as "StatusChanged"; Text is one line.
	Kind string `json:"kind"`
	Text string `json:"text"`
}

// Errors of a Backend.
var (
	// ErrUnknownJob: there is no job of this id. Answered with 404.
	ErrUnknownJob = errors.New("there is no such job")
	// ErrNoCoordinator: nobody coordinates the job now; it has ended, or a
	// coordinator is about to start. Where the record does not say enough, answered
	// with 503.
	ErrNoCoordinator = errors.New("nobody coordinates the job now")
	// ErrNameExists: a living job has the name. Answered with 409.
	ErrNameExists = errors.New("the name is taken")
	// ErrEnded: the job has ended. Answered with 409.
	ErrEnded = errors.New("the job has ended")
	// ErrNoLeader: the metadata log has no leader now. Answered with 503.
	ErrNoLeader = errors.New("the cluster has no leader now")
)

// RefusedError: a topology cannot be deployed. Answered with 400.
type RefusedError struct {
	// Reasons are everything that is wrong, one text for each finding.
	Reasons []string
}

// Error joins the reasons.
func (e *RefusedError) Error() string { return strings.Join(e.Reasons, "\n") }
