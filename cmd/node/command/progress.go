package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"cutwater/messages"
	"cutwater/node"
	"cutwater/protocol"
	"cutwater/protocol/checkpoint"
	"cutwater/protocol/job"
)

// redrawEvery is how often the live line changes.
const redrawEvery = 200 * time.Millisecond

// repeatEvery is how often a state that lasts is said again.
const repeatEvery = 10 * time.Second

// stuckAfter is how many restarts for one cause, without a checkpoint between them,
// are worth a word.
const stuckAfter = 5

// progress shows on standard error how a job is doing: one line per event, and on
// a terminal a live line below them. All methods may be called by any goroutine.
type progress struct {
	out io.Writer
	// width is that of the terminal, 0 if out is none.
	width func() int
	now   func() time.Time
	start time.Time
	// panics is told the stack of a coordinator's panic and returns where it is
	// kept, or "".
	panics func(e node.CoordinatorFallen) (where string)

	mu       sync.Mutex
	drawn    time.Time
	looked   time.Time
	status   messages.JobStatus
	input    input
	percent  float64 // of the input that was read, if known
	known    bool
	stats    checkpoint.Statistics
	restarts int
	// cause is why the attempt failed; shown are the panics whose stack was
	// printed.
	cause string
	part  string // which tasks restart, if not all
	shown map[string]bool
	// alike counts the restarts because of causeBefore since the last checkpoint.
	alike       int
	causeBefore string
	// counts of TaskEvents by kind, and the operators for which one was printed.
	counts map[string]uint64
	told   map[string]bool
	// unavailable is when it was last said that the metadata store does not answer.
	unavailable time.Time
	// drop are the uids of --drop-state that nothing was said about yet.
	drop []string
	// notStarted is what was said last about a checkpoint that was not started, and
	// when; lastFailure why the newest one that failed did.
	notStarted   string
	notStartedAt time.Time
	lastFailure  string
	// givenUp: the coordinator panicked too often.
	givenUp bool
}

func newProgress(out io.Writer) *progress {
	p := &progress{out: out, now: time.Now, width: func() int { return 0 },
		panics: func(node.CoordinatorFallen) string { return "" },
		shown:  map[string]bool{}, counts: map[string]uint64{}, told: map[string]bool{}}
	p.start = p.now()
	if isTerminal(out) {
		f := out.(*os.File)
		p.width = func() int {
			if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 1 {
				return w
			}
			return 80
		}
	}
	return p
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// plain says one line per event on a terminal, too: something else writes to it,
// which a live line would be in the way of.
func (p *progress) plain() { p.width = func() int { return 0 } }

// end removes the live line; nothing is said any more.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	p.out = io.Discard
}

// event prints what a person wants to know about.
func (p *progress) event(e protocol.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := e.(type) {
	case job.StatusChanged:
		p.status = e.To
		switch e.To {
		case messages.JobStatus_FAILING:
			p.cause, p.part = e.Cause, "" // printed with what happens next
		case messages.JobStatus_RESTARTING:
		default:
			p.print("job " + e.To.String())
		}
	case job.RegionFailed:
		p.cause, p.part = e.Cause, fmt.Sprintf("; of %d tasks %d restart, and the others go on", e.Of, e.Tasks)
	case job.RestartDelayed:
		p.restarts++
		p.print(fmt.Sprintf("restart %d in %d ms, because %s%s", p.restarts, e.DelayMs, p.cause, p.part))
		p.stuck()
	case checkpoint.Completed:
		p.alike = 0
		p.completed(e)
	case checkpoint.Aborted:
		outcome := "aborted"
		if e.Failed {
			outcome = "failed"
		}
		p.print(fmt.Sprintf("checkpoint %d %s: %s", e.Checkpoint, outcome, cause(e.Reason, e.Cause)))
		if e.Failed {
			p.lastFailure = cause(e.Reason, e.Cause)
		}
	case checkpoint.RequestFailed:
		p.requestFailed(e)
	case node.TaskEvent:
		p.taskEvent(e)
	case node.CoordinatorFallen:
		p.fallen(e)
	case job.StoreUnavailable: // asked again twice a second
		if now := p.now(); now.Sub(p.unavailable) >= repeatEvery {
			p.unavailable = now
			p.print(e.String())
		}
	case job.Swept:
		if e.Files > 0 {
			p.print(e.String())
		}
	case job.Restoring:
		p.print(e.String())
		p.dropped(e.Holds)
	case job.StartingEmpty:
		p.print(e.String())
		p.dropped(nil)
	case job.Unreadable, job.NodeLost, job.SweepFailed, job.Adopted, job.NotAdopted,
		checkpoint.OutcomeUnknown, checkpoint.DiscardFailed, checkpoint.ForgetFailed:
		p.print(e.String())
	}
}

// stuck says, once, that the job restarts again and again for one cause and gets no
// further.
func (p *progress) stuck() {
	if p.cause != p.causeBefore {
		p.causeBefore, p.alike = p.cause, 0
	}
	if p.alike++; p.alike == stuckAfter {
		p.print(fmt.Sprintf("restarted %d times for this cause without a new checkpoint: it may not pass by itself; Ctrl-C suspends the job, and when the cause is mended the same command goes on", p.alike))
	}
}

// completed: on a terminal the live line shows it.
func (p *progress) completed(e checkpoint.Completed) {
	if p.width() > 0 {
		return
	}
	line := fmt.Sprintf("checkpoint %d completed after %d ms, %s", e.Checkpoint, e.DurationMs, size(e.StateBytes))
	if p.known {
		line += fmt.Sprintf(", %.0f%% of the input read", p.percent)
	}
	p.print(line)
}

// requestFailed: a request that is repeated and fails each time in the same way is
// said again only now and then. That one ends with its job says nothing.
func (p *progress) requestFailed(e checkpoint.RequestFailed) {
	if !e.Failed {
		return
	}
	p.lastFailure = cause(e.Reason, e.Cause)
	line := "no checkpoint was started: " + p.lastFailure
	if now := p.now(); line != p.notStarted || now.Sub(p.notStartedAt) >= repeatEvery {
		p.notStarted, p.notStartedAt = line, now
		p.print(line)
	}
}

// dropped says once which uids were to be dropped whose state the checkpoint does
// not hold: a misspelt one would otherwise go unnoticed. Without a checkpoint there
// is none.
func (p *progress) dropped(holds []string) {
	for _, uid := range p.drop {
		if slices.Contains(holds, uid) {
			continue
		}
		what := "it has no state at all"
		if len(holds) > 0 {
			what = "it has that of " + strings.Join(holds, ", ")
		}
		p.print(fmt.Sprintf("warning: --drop-state %s drops nothing: what the job starts from has no state of that uid; %s", uid, what))
	}
	p.drop = nil
}

// taskEvent counts, and prints the first of an operator.
func (p *progress) taskEvent(e node.TaskEvent) {
	p.counts[e.Kind]++
	first := !p.told[e.Kind+"/"+e.Uid]
	p.told[e.Kind+"/"+e.Uid] = true
	switch {
	case e.Kind == node.CommitRetry:
		p.print(fmt.Sprintf("sink %q tries its commit again: %s", e.Uid, e.Detail))
	case first && e.Kind == node.Malformed:
		p.print(fmt.Sprintf("operator %q: malformed record: %s; further ones are only counted", e.Uid, e.Detail))
	case first && e.Kind == node.Failed:
		p.print(fmt.Sprintf("operator %q: a record is left out: %s; further ones are only counted", e.Uid, e.Detail))
	case first && e.Kind == node.Late:
		p.print(fmt.Sprintf("operator %q: a record came too late for its windows; further ones are only counted", e.Uid))
	}
}

func (p *progress) fallen(e node.CoordinatorFallen) {
	line := e.String()
	if where := p.panics(e); where != "" {
		line += "; the stack is in " + where
	}
	p.givenUp = p.givenUp || e.GivenUp
	p.print(line)
}

// cause is why a checkpoint did not complete: the reason's name, and what is behind it.
func cause(reason messages.FailureReason, detail string) string {
	if detail == "" {
		return reason.String()
	}
	return reason.String() + ": " + detail
}

// note prints a line.
func (p *progress) note(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.print(line)
}

// print prints a line above the live line. The caller holds mu.
func (p *progress) print(line string) {
	p.clear()
	fmt.Fprintf(p.out, "%s %s\n", p.now().Format("15:04:05.000"), line)
	p.drawn = time.Time{}
}

func (p *progress) clear() {
	if p.width() > 0 {
		fmt.Fprint(p.out, "\r\033[K")
	}
}

// source takes in what a source task has read.
func (p *progress) source(s *messages.SourceProgress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.input.report(s)
}

// look takes in how the coordinator stands.
func (p *progress) look(m *job.Master) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stack(m.Failure())
	if now := p.now(); now.Sub(p.looked) >= redrawEvery || m.Done() {
		p.looked = now
		p.stats = m.Stats()
		p.percent, p.known = p.input.percent(m.Input())
		p.draw(now)
	}
}

// stack prints the stack of a panic in user code, once.
func (p *progress) stack(failure error) {
	var failed *job.TaskFailedError
	stack := job.Stack(failure)
	if stack == "" || !errors.As(failure, &failed) {
		return
	}
	what := fmt.Sprintf("operator %q: %s", failed.Failure.GetUid(), failed.Failure.GetMessage())
	if p.shown[what] {
		return
	}
	p.shown[what] = true
	p.print(what + "\n  " + strings.ReplaceAll(strings.TrimSpace(userFrames(stack)), "\n", "\n  "))
}

// draw renews the live line. The caller holds mu.
func (p *progress) draw(now time.Time) {
	width := p.width()
	if width == 0 || now.Sub(p.drawn) < redrawEvery {
		return
	}
	p.drawn = now
	line := []rune(p.line(now))
	fmt.Fprintf(p.out, "\r\033[K%s", string(line[:min(len(line), width-1)]))
}

// line is the live line.
func (p *progress) line(now time.Time) string {
	records, _, _ := p.input.sums()
	var parts []string
	if p.status != messages.JobStatus_RUNNING && p.status != messages.JobStatus_JOB_STATUS_UNSPECIFIED { // which is before the first
		parts = append(parts, p.status.String())
	}
	if p.known {
		parts = append(parts, fmt.Sprintf("%.1f%%", p.percent))
	}
	parts = append(parts, thousands(records)+" records", thousands(uint64(p.input.rate(now)))+"/s")
	if c := p.stats.LatestCompleted; c != nil {
		parts = append(parts, fmt.Sprintf("checkpoint %d (%d ms, %s)", c.Checkpoint, c.DurationMs(), size(c.StateBytes)))
	}
	if p.restarts > 0 {
		parts = append(parts, count(p.restarts, "restart"))
	}
	return strings.Join(parts, "  ")
}
