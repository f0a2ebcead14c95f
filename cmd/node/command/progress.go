package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"

	"cutwater/messages"
	"cutwater/node"
	"cutwater/protocol"
	"cutwater/protocol/checkpoint"
	"cutwater/protocol/job"
	"cutwater/protocol/restore"
)

// redrawEvery is how often the live line changes.
const redrawEvery = 200 * time.Millisecond

// progress shows how a job is doing: one live line on a terminal, else one line
// per event. All methods may be called by any goroutine.
type progress struct {
	mu       sync.Mutex
	out      io.Writer
	live     bool
	json     bool
	start    time.Time
	drawn    time.Time
	sources  map[string]*messages.SourceProgress // by task
	last     *checkpoint.CheckpointStats
	stats    checkpoint.Statistics
	restarts int
}

func newProgress(out io.Writer, asJSON bool) *progress {
	f, isFile := out.(*os.File)
	return &progress{out: out, json: asJSON, start: time.Now(), sources: map[string]*messages.SourceProgress{},
		live: isFile && term.IsTerminal(int(f.Fd()))}
}

// event prints what a person wants to know about.
func (p *progress) event(e protocol.Event) {
	switch e := e.(type) {
	case job.StatusChanged:
		if e.To == messages.JobStatus_RESTARTING {
			p.mu.Lock()
			p.restarts++
			p.mu.Unlock()
		}
	case job.Restoring, job.StartingEmpty, job.Unreadable, job.RestartDelayed, job.NodeLost, job.StoreUnavailable:
	case checkpoint.Completed:
		if p.live {
			return // it is in the live line
		}
	case checkpoint.Aborted:
	default:
		return
	}
	p.note(e.String())
}

// note prints a line, above the live line.
func (p *progress) note(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.live {
		fmt.Fprint(p.out, "\r\033[K")
	}
	fmt.Fprintf(p.out, "%s %s\n", time.Now().Format("15:04:05.000"), line)
}

// source takes in what a source task has read.
func (p *progress) source(s *messages.SourceProgress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sources[fmt.Sprintf("%s/%d", s.Uid, s.Task.GetSubtask())] = s
	p.draw()
}

// look takes in the statistics of the coordinator.
func (p *progress) look(m *job.Master) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); now.Sub(p.drawn) < redrawEvery && !m.Done() {
		return
	}
	p.stats = m.Stats()
	p.last = p.stats.LatestCompleted
	p.draw()
}

// draw renews the live line. The caller holds mu.
func (p *progress) draw() {
	now := time.Now()
	if !p.live || now.Sub(p.drawn) < redrawEvery {
		return
	}
	p.drawn = now
	records, bytes := p.read()
	line := fmt.Sprintf("%d records, %.0f/s, %.1f MB read", records, float64(records)/now.Sub(p.start).Seconds(), float64(bytes)/1e6)
	if c := p.last; c != nil {
		line += fmt.Sprintf(", checkpoint %d: %d ms, %d bytes", c.Checkpoint, c.DurationMs(), c.StateBytes)
	}
	fmt.Fprintf(p.out, "\r\033[K%s", line)
}

func (p *progress) read() (records, bytes uint64) {
	for _, s := range p.sources { // sums do not depend on the order
		records += s.Records
		bytes += s.Bytes
	}
	return records, bytes
}

// summary is what is printed at the end.
type summary struct {
	Job         string `json:"job"`
	Status      string `json:"status"`
	Seconds     string `json:"seconds"`
	Records     uint64 `json:"records"`
	Checkpoints int    `json:"checkpoints"`
	Failed      int    `json:"failed_checkpoints"`
	Restarts    int    `json:"restarts"`
}

func (p *progress) summary(out io.Writer, id string, j *node.Job) {
	p.mu.Lock()
	defer p.mu.Unlock()
	records, _ := p.read()
	s := summary{Job: id, Status: j.Status().String(), Seconds: fmt.Sprintf("%.2f", time.Since(p.start).Seconds()),
		Records: records, Checkpoints: p.stats.Counts.Completed, Failed: p.stats.Counts.Failed, Restarts: p.restarts}
	if p.live {
		fmt.Fprint(p.out, "\r\033[K")
	}
	if p.json {
		_ = json.NewEncoder(out).Encode(s) // the terminal's end is nobody's concern
		return
	}
	fmt.Fprintf(p.out, "job %s %s after %s s: %d records read by this run, %d checkpoints completed, %d failed, %d restarts\n",
		s.Job, s.Status, s.Seconds, s.Records, s.Checkpoints, s.Failed, s.Restarts)
}

// refusedToStart: the state does not fit the topology.
func refusedToStart(err error) bool {
	var refused *restore.RefusedError
	return errors.As(err, &refused)
}
