package command

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"cutwater/messages"
	"cutwater/node"
)

// runJSON is the output of run -o json: one object, when the job has ended or was
// suspended. A job that could not be registered prints none.
type runJSON struct {
	Job         string `json:"job"`
	Name        string `json:"name"`
	Incarnation uint64 `json:"incarnation"`
	// Status is a JobStatus, such as FINISHED, SUSPENDED or FAILED.
	Status string `json:"status"`
	// Failure is why it failed, or empty.
	Failure    string `json:"failure"`
	DurationMs int64  `json:"duration_ms"`
	// Records and Bytes were read by this run; those that were read again after a
	// failure count again. Malformed and Late are among the records; Skipped counts
	// those that operators with on-error: skip left out.
	Records     uint64          `json:"records"`
	Bytes       uint64          `json:"bytes"`
	Malformed   uint64          `json:"malformed"`
	Late        uint64          `json:"late"`
	Skipped     uint64          `json:"skipped"`
	Restarts    int             `json:"restarts"`
	Checkpoints checkpointsJSON `json:"checkpoints"`
	// OlderFiles is how many files of earlier incarnations lie in the output
	// folders.
	OlderFiles int `json:"older_files"`
}

// checkpointsJSON counts the checkpoints of this run. Failed counts those too that
// failed before they had an id.
type checkpointsJSON struct {
	Completed int `json:"completed"`
	Failed    int `json:"failed"`
	// LastFailure is why the newest one that failed did, or empty.
	LastFailure string `json:"last_failure"`
	// Last completed in this run; null without one.
	Last *checkpointJSON `json:"last"`
}

type checkpointJSON struct {
	Checkpoint uint64 `json:"checkpoint"`
	DurationMs int64  `json:"duration_ms"`
	StateBytes uint64 `json:"state_bytes"`
}

// summary is how the run went.
func (p *progress) summary(r *messages.JobRecord, status messages.JobStatus, failure error) runJSON {
	p.mu.Lock()
	defer p.mu.Unlock()
	records, bytes, _ := p.input.sums()
	s := runJSON{Job: r.Job, Name: r.Name, Incarnation: r.Incarnation, Status: status.String(),
		DurationMs: p.now().Sub(p.start).Milliseconds(), Records: records, Bytes: bytes,
		Malformed: p.counts[node.Malformed], Late: p.counts[node.Late], Skipped: p.counts[node.Failed], Restarts: p.restarts,
		Checkpoints: checkpointsJSON{Completed: p.stats.Counts.Completed, Failed: p.stats.Counts.Failed, LastFailure: p.lastFailure}}
	if c := p.stats.LatestCompleted; c != nil {
		s.Checkpoints.Last = &checkpointJSON{Checkpoint: c.Checkpoint, DurationMs: c.DurationMs(), StateBytes: c.StateBytes}
	}
	if failure != nil && status != messages.JobStatus_FINISHED {
		s.Failure = failure.Error()
	}
	p.clear()
	return s
}

// print prints the summary for people.
func (s *runJSON) print(out io.Writer) {
	line := fmt.Sprintf("job %s (%s) %s after %.2f s: %s records (%s) read, %s completed, %d failed, %s", s.Name, s.Job, s.Status,
		float64(s.DurationMs)/1000, thousands(s.Records), size(s.Bytes), count(s.Checkpoints.Completed, "checkpoint"), s.Checkpoints.Failed, count(s.Restarts, "restart"))
	if s.Malformed > 0 {
		line += fmt.Sprintf(", %s malformed", thousands(s.Malformed))
	}
	if s.Late > 0 {
		line += fmt.Sprintf(", %s late", thousands(s.Late))
	}
	if s.Skipped > 0 {
		line += fmt.Sprintf(", %s skipped", thousands(s.Skipped))
	}
	fmt.Fprintln(out, line)
}

// suspended says where the same command will resume.
func (p *progress) suspended() {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch c, r := p.stats.LatestCompleted, p.stats.LatestRestored; {
	case c != nil:
		p.print(fmt.Sprintf("suspended; the same command resumes from checkpoint %d", c.Checkpoint))
	case r != nil:
		p.print(fmt.Sprintf("suspended; the same command resumes from checkpoint %d", r.Checkpoint))
	default:
		p.print("suspended before the first checkpoint; the same command starts from the beginning")
	}
}

// kept says from what a failed job can go on.
func (p *progress) kept(process *node.Process, started *messages.JobRecord) {
	record, err := process.Find(context.Background(), started.Name)
	if err != nil || record == nil || record.LastCompleted == 0 {
		return // the job's own failure is printed; there is nothing to add
	}
	paths := checkpoints(record)
	if len(paths) == 0 {
		p.note("no checkpoint was kept; --fresh starts again")
		return
	}
	p.note("when the cause is mended, the same command goes on from " + paths[0])
	if len(paths) > 1 {
		p.note("older checkpoints, for --restore: " + strings.Join(paths[1:], " "))
	}
}

// checkpoints are the folders of a job's checkpoints, newest first; none of a job
// that keeps them with its coordinator.
func checkpoints(r *messages.JobRecord) []string {
	c := r.Settings.GetCheckpointing()
	if c.GetStorage() != "filesystem" {
		return nil
	}
	var paths []string
	for _, completed := range slices.Backward(r.Completed) {
		where := completed.Location
		if !filepath.IsAbs(where) {
			where = filepath.Join(c.Dir, r.Job, where)
		}
		paths = append(paths, where)
	}
	return paths
}

// gaveUp reports that the coordinator panicked too often.
func (p *progress) gaveUp() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.givenUp
}
