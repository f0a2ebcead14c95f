package dispatch

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"cutwater/messages"
	"cutwater/protocol"
	"cutwater/protocol/metadata"
)

const (
	// tickMs is how often the jobs are read, and the deadlines looked at.
	tickMs = 500
	// readPatienceMs is how long the metadata store may take to read the jobs
	// before it is asked again.
	readPatienceMs = 5000
	// silenceMs is how long a coordinator may be silent until its slots are taken
	// back and it is ordered again.
	silenceMs = 10_000
)

const tickTimer = "dispatch/tick"

// Node is a living node.
type Node struct {
	// Name is the name of one start of the node, as in addresses.
	Name string
	// Slots is how many it offers.
	Slots int
	// Leaving: it is about to stop. It offers no slots, and gets no coordinator.
	Leaving bool
}

// AgentAddress is where the agent of a node is reached.
func AgentAddress(node string) protocol.Address { return protocol.Address(node + "|agent") }

// Address is where the dispatcher of a node is reached.
func Address(node string) protocol.Address { return protocol.Address(node + "|dispatcher") }

func taskManagerAddress(node string) protocol.Address { return protocol.Address(node + "|taskmanager") }

// nodeOf is the node in an address, or nothing in an empty one.
func nodeOf(address string) string {
	node, _, _ := strings.Cut(address, "|")
	return node
}

// Dispatcher decides for one leadership. It is used by one goroutine.
type Dispatcher struct {
	self       protocol.Address
	term       uint64
	eff        protocol.Effects
	ops        protocol.Ops
	generation uint64 // of the timer
	nowMs      int64  // of the running step
	elapsedMs  int64  // since Start, as steps saw it: see begin

	nodes []Node          // alive, by name
	lost  map[string]bool // those that SetNodes still lists and NodeLost has ended
	over  map[string]bool // those that NodeLost has ended, listed or not

	jobs      []*job              // that have not ended, by id
	claims    []*job              // those of them that asked for slots, in the order of first requests
	inquiries map[string]*inquiry // of the living nodes, by name
	learned   bool                // Granting was said
	offers    uint64              // the number of the newest one
	stale     uint64              // messages of jobs, epochs, terms and readings that are over

	revision uint64 // up to which the jobs were read
	reading  uint64 // the operation that reads the jobs; 0: none does
	askedMs  int64  // when it began
	again    bool   // a job has changed since then
	read     bool   // one has succeeded
	readMs   int64  // when the last that has began
	unread   bool   // the last one failed
}

// job is what the dispatcher knows of a job that has not ended.
type job struct {
	id       string
	recorded bool // else its coordinator alone has spoken of it
	// The newest epoch, and its coordinator's node or nothing.
	epoch       uint64
	coordinator string
	heardMs     int64                 // when that was last heard, or first heard of
	gone        bool                  // its node lived, and does not any more
	deployed    []*messages.NodeSlots // in which its tasks run, by the record
	search      search
	claim       *claim
}

// New returns the Dispatcher of one leadership, which is reached at self. Terms grow
// from each leadership to the next, wherever that is.
func New(self protocol.Address, term uint64) *Dispatcher {
	return &Dispatcher{self: self, term: term, inquiries: make(map[string]*inquiry), lost: make(map[string]bool), over: make(map[string]bool)}
}

// Start begins; it is called once, before any Step, with the nodes that live.
func (d *Dispatcher) Start(nowMs int64, nodes []Node) *protocol.Effects {
	d.nowMs = nowMs
	d.eff.Reset()
	d.setNodes(nodes)
	if d.reading == 0 {
		d.readJobs()
	}
	d.arm()
	return &d.eff
}

// Step handles one message. The effects are valid until the next Step; Fail is
// never set.
func (d *Dispatcher) Step(nowMs int64, message proto.Message) *protocol.Effects {
	d.begin(nowMs)
	switch m := message.(type) {
	case *messages.WorkDone:
		d.workDone(m)
	case *messages.TimerFired:
		d.timerFired(m)
	case *messages.JobsChanged:
		d.jobsChanged()
	case *messages.SlotRequest:
		d.slotRequest(m)
	case *messages.SlotInquiryAnswer:
		d.inquiryAnswered(m)
	case *messages.CoordinatorRefused:
		d.coordinatorRefused(m)
	case *messages.NodeLost:
		d.nodeLost(m)
	case *messages.Heartbeat:
		d.orphaned(m)
	default:
		d.stale++
	}
	return &d.eff
}

// SetNodes says which nodes live. The slice is copied.
func (d *Dispatcher) SetNodes(nowMs int64, nodes []Node) *protocol.Effects {
	d.begin(nowMs)
	d.setNodes(nodes)
	return &d.eff
}

// String describes the Dispatcher in one line.
func (d *Dispatcher) String() string {
	phase := "granting"
	if d.unheard() != "" {
		phase = "learning"
	}
	return fmt.Sprintf("dispatcher phase=%s nodes=%d jobs=%d claims=%d stale=%d", phase, len(d.nodes), len(d.jobs), len(d.claims), d.stale)
}

func (d *Dispatcher) begin(nowMs int64) {
	d.eff.Reset()
	// A clock that jumps further was set, or the machine slept: nobody is late
	// because of that.
	d.elapsedMs += min(max(nowMs-d.nowMs, 0), 2*tickMs)
	d.nowMs = nowMs
}

func (d *Dispatcher) arm() {
	d.generation++
	d.eff.Timers = append(d.eff.Timers, protocol.Timer{Key: tickTimer, Generation: d.generation, DelayMs: tickMs})
}

// timerFired looks at everything that time changes.
func (d *Dispatcher) timerFired(t *messages.TimerFired) {
	if t.Key != tickTimer || t.Generation != d.generation {
		return
	}
	d.arm()
	if d.reading == 0 || d.elapsedMs-d.askedMs >= readPatienceMs {
		d.readJobs()
	}
	d.inquire()
	d.releaseSilent()
	d.allocate(nil)
	d.coordinate()
}

// jobsChanged reads the jobs at once, or again if they are being read: that may have
// missed the change.
func (d *Dispatcher) jobsChanged() {
	if d.reading != 0 {
		d.again = true
		return
	}
	d.readJobs()
}

// readJobs asks the metadata store which jobs have changed.
func (d *Dispatcher) readJobs() {
	d.reading, d.askedMs, d.again = d.ops.Next(), d.elapsedMs, false
	d.eff.Work = append(d.eff.Work, protocol.Work{Op: d.reading, Task: &messages.ReadJobs{Since: d.revision}})
}

// workDone takes the jobs in.
func (d *Dispatcher) workDone(w *messages.WorkDone) {
	if w.Op != d.reading {
		d.stale++ // it was given up
		return
	}
	d.reading = 0
	if w.Failure != "" {
		if !d.unread {
			d.event(JobsUnread{Failure: w.Failure})
		}
		d.unread = true
		return
	}
	d.unread = false
	for _, r := range w.GetJobsRead().GetJobs() {
		d.record(r)
	}
	d.read, d.readMs, d.revision = true, d.askedMs, w.GetJobsRead().GetRevision()
	if d.again {
		d.readJobs()
	}
	d.allocate(nil)
	d.coordinate()
}

// record takes in what the metadata store knows of a job. A coordinator may have said
// more by itself.
func (d *Dispatcher) record(r *messages.JobRecord) {
	i, known := d.find(r.Job)
	if !known {
		if !metadata.Ended(r.Status) {
			j := &job{id: r.Job, recorded: true, deployed: deployedAt(r)}
			d.coordinatedBy(j, r.Epoch, nodeOf(r.Coordinator))
			d.jobs = slices.Insert(d.jobs, i, j)
		}
		return
	}
	j := d.jobs[i]
	j.recorded, j.deployed = true, deployedAt(r)
	switch {
	case r.Epoch < j.epoch:
	case metadata.Ended(r.Status):
		d.release(j, "it ended as "+r.Status.String())
		d.jobs = slices.Delete(d.jobs, i, i+1)
	case r.Epoch != j.epoch || nodeOf(r.Coordinator) != j.coordinator:
		d.coordinatedBy(j, r.Epoch, nodeOf(r.Coordinator))
	}
}

// coordinatedBy says who coordinates the job from now on. What was ordered before is
// void.
func (d *Dispatcher) coordinatedBy(j *job, epoch uint64, node string) {
	j.epoch, j.coordinator, j.heardMs, j.gone, j.search = epoch, node, d.elapsedMs, d.over[node], search{}
}

func (d *Dispatcher) find(id string) (int, bool) {
	return slices.BinarySearchFunc(d.jobs, id, func(j *job, id string) int { return strings.Compare(j.id, id) })
}

func (d *Dispatcher) event(e protocol.Event) { d.eff.Events = append(d.eff.Events, e) }

func (d *Dispatcher) send(to protocol.Address, m proto.Message) {
	d.eff.Send = append(d.eff.Send, protocol.Send{To: to, Message: m})
}
