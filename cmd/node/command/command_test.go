package command

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"cutwater/messages"
	"cutwater/node"
	"cutwater/protocol/checkpoint"
	"cutwater/protocol/job"
	"cutwater/protocol/restore"
	"cutwater/storage"
	"cutwater/topology"
)

// The end of a job has the exit code of the design.
func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		status              messages.JobStatus
		failure             error
		interrupted, gaveUp bool
		want                int
	}{
		{status: messages.JobStatus_FINISHED, want: exitOK},
		{status: messages.JobStatus_FINISHED, failure: errors.New("of an attempt before"), want: exitOK},
		{status: messages.JobStatus_SUSPENDED, interrupted: true, want: exitOK},
		{status: messages.JobStatus_SUSPENDED, want: exitFailed},
		{status: messages.JobStatus_RUNNING, failure: fmt.Errorf("x: %w", job.ErrFenced), want: exitConflict},
		{status: messages.JobStatus_FAILED, failure: fmt.Errorf("%w: x", job.ErrStoreUnavailable), want: exitError},
		{status: messages.JobStatus_FAILED, failure: &restore.RefusedError{}, want: exitRejected},
		{status: messages.JobStatus_FAILED, failure: errors.New("a record"), want: exitFailed},
		{status: messages.JobStatus_FAILED, failure: errors.New("an assertion"), gaveUp: true, want: exitError},
	} {
		got := exitOK
		if err := verdict(c.status, c.failure, c.interrupted, c.gaveUp); err != nil {
			got = err.(*codedError).code
		}
		if got != c.want {
			t.Errorf("%v %v: exit code %d, want %d", c.status, c.failure, got, c.want)
		}
	}
	for err, want := range map[error]int{storage.ErrMissing: exitNotFound, &restore.RefusedError{}: exitRejected, storage.ErrCorrupt: exitError} {
		if got := cannotRestore("p", err).(*codedError).code; got != want {
			t.Errorf("%v: exit code %d, want %d", err, got, want)
		}
	}
}

// fakeJob ends when it is told to.
type fakeJob struct {
	done      chan struct{}
	suspended int
	end       bool // Suspend ends it
}

func (j *fakeJob) Wait() <-chan struct{} { return j.done }
func (j *fakeJob) Suspend() {
	if j.suspended++; j.end {
		close(j.done)
	}
}

// The first signal suspends and waits, the second does not.
func TestWait(t *testing.T) {
	p := newProgress(&bytes.Buffer{})
	signals := make(chan os.Signal, 2)
	signals <- os.Interrupt
	j := &fakeJob{done: make(chan struct{}), end: true}
	if interrupted, err := wait(j, signals, p); !interrupted || err != nil || j.suspended != 1 {
		t.Errorf("one signal: %v %v, suspended %d times", interrupted, err, j.suspended)
	}
	signals <- os.Interrupt
	signals <- os.Interrupt
	j = &fakeJob{done: make(chan struct{})}
	if _, err := wait(j, signals, p); !errors.Is(err, errAtOnce) || j.suspended != 1 {
		t.Errorf("two signals: %v, suspended %d times", err, j.suspended)
	}
}

// clock is a progress with a clock that stands, on a terminal of that width.
func clock(width int) (*progress, *bytes.Buffer, *time.Time) {
	out, now := &bytes.Buffer{}, time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	p := newProgress(out)
	p.now, p.width = func() time.Time { return now }, func() int { return width }
	p.start = now
	return p, out, &now
}

func read(attempt, subtask uint32, records, bytes, remaining uint64) *messages.SourceProgress {
	return &messages.SourceProgress{Fence: &messages.Fence{Attempt: attempt}, Uid: "in", Task: &messages.TaskId{Subtask: subtask},
		Records: records, Bytes: bytes, RemainingBytes: remaining}
}

// A job that restarts again and again for one cause, without a checkpoint between, is
// said to be stuck, once; another cause or a checkpoint begins the count anew.
func TestStuck(t *testing.T) {
	p, out, _ := clock(0)
	restart := func(n int, cause string) {
		for range n {
			p.event(job.StatusChanged{To: messages.JobStatus_FAILING, Cause: cause})
			p.event(job.RestartDelayed{})
		}
	}
	said := func() int { return strings.Count(out.String(), "5 times for this cause without a new checkpoint") }
	restart(stuckAfter-1, "no connection")
	p.event(checkpoint.Completed{Checkpoint: 1})
	restart(stuckAfter-1, "no connection")
	restart(stuckAfter-1, "it broke")
	if said() != 0 {
		t.Fatalf("too early:\n%s", out)
	}
	restart(3*stuckAfter, "it broke")
	if said() != 1 {
		t.Errorf("said %d times:\n%s", said(), out)
	}
}

// Events are said in words: each restart with its number, delay and cause, and of
// malformed records the first.
func TestEvents(t *testing.T) {
	p, out, now := clock(0)
	p.event(job.StatusChanged{To: messages.JobStatus_RUNNING})
	p.event(checkpoint.Completed{Checkpoint: 1, DurationMs: 7, StateBytes: 1234})
	for n := range 2 {
		p.event(job.StatusChanged{To: messages.JobStatus_FAILING, Cause: "it broke"})
		p.event(job.StatusChanged{To: messages.JobStatus_RESTARTING})
		p.event(job.RestartDelayed{DelayMs: int64(50 * n)})
	}
	for range 3 {
		p.event(node.TaskEvent{Uid: "in", Kind: node.Malformed, Detail: "f.csv:3: bad"})
		p.event(job.StoreUnavailable{What: "StartEpoch", Failure: "full"})
	}
	*now = now.Add(repeatEvery)
	p.event(job.StoreUnavailable{What: "StartEpoch", Failure: "full"})
	p.event(checkpoint.RequestFailed{Reason: messages.FailureReason_CHECKPOINT_COORDINATOR_SUSPEND})
	for range 2 { // the second says nothing new
		p.event(checkpoint.RequestFailed{Reason: messages.FailureReason_IO_EXCEPTION, Cause: "no space left", Failed: true})
	}
	p.event(job.Swept{})
	p.event(job.Swept{Files: 3, Bytes: 4096})
	p.event(job.SweepFailed{Failure: "full"})
	where := ""
	p.panics = func(e node.CoordinatorFallen) string { where = e.Stack; return "panic.log" }
	p.event(node.CoordinatorFallen{Job: "j", Life: 4, Cause: "a broken assertion", Stack: "goroutine 1", GivenUp: true})
	want := `12:00:00.000 job RUNNING
12:00:00.000 checkpoint 1 completed after 7 ms, 1.2 kB
12:00:00.000 restart 1 in 0 ms, because it broke
12:00:00.000 restart 2 in 50 ms, because it broke
12:00:00.000 operator "in": malformed record: f.csv:3: bad; further ones are only counted
12:00:00.000 the metadata store did not answer StartEpoch: full
12:00:10.000 the metadata store did not answer StartEpoch: full
12:00:10.000 no checkpoint was started: IO_EXCEPTION: no space left
12:00:10.000 swept 3 files of ended attempts, 4096 bytes
12:00:10.000 files of ended attempts are left: full
12:00:10.000 coordinator 4 of job j failed: a broken assertion; the job is given up; the stack is in panic.log
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
	if where != "goroutine 1" || !p.gaveUp() {
		t.Errorf("the stack %q was kept, given up: %v", where, p.gaveUp())
	}
	s := p.summary(&messages.JobRecord{Job: "j", Name: "n", Incarnation: 2}, messages.JobStatus_FAILED, errors.New("it broke"))
	if s.Malformed != 3 || s.Restarts != 2 || s.Failure != "it broke" || s.Incarnation != 2 || s.DurationMs != 10000 {
		t.Errorf("summary %+v", s)
	}
}

// At the end the live line goes, and nothing more is drawn behind the command's last
// words.
func TestEnd(t *testing.T) {
	p, out, now := clock(80)
	p.draw(*now)
	if !strings.HasSuffix(out.String(), "0 records  0/s") {
		t.Fatalf("%q", out)
	}
	p.end()
	p.note("too late")
	*now = now.Add(time.Minute)
	p.draw(*now)
	if !strings.HasSuffix(out.String(), "0 records  0/s\r\033[K") {
		t.Errorf("%q", out)
	}
}

// Rows on the terminal and a live line would be mixed.
func TestPrintsRows(t *testing.T) {
	for sink, want := range map[string]bool{"{stdout: {}}": true, "{blackhole: {}}": false} {
		text := "name: a\noperators:\n  - {uid: in, source: {datagen: {schema: {n: int}, rows: 1}}}\n  - {uid: out, input: in, sink: " + sink + "}\n"
		top, err := topology.Load("a.yaml", []byte(text), connectors(), os.LookupEnv)
		if err != nil {
			t.Fatal(err)
		}
		if got := printsRows(top); got != want {
			t.Errorf("%s: %t", sink, got)
		}
	}
	p, out, now := clock(80)
	p.plain()
	p.event(checkpoint.Completed{Checkpoint: 7})
	p.draw(*now)
	if got := out.String(); !strings.Contains(got, "checkpoint 7 completed") || strings.Contains(got, "\r") {
		t.Errorf("%q", got)
	}
}

// The live line has percent, records, speed and the last checkpoint, and is cut at
// the width of the terminal. What failed attempts read counts, and is not added
// to what is left.
func TestLiveLine(t *testing.T) {
	before, _, at := clock(80)
	if got, want := before.line(*at), "0 records  0/s"; got != want {
		t.Errorf("before the job runs: got %q, want %q", got, want)
	}
	p, out, now := clock(80)
	p.status = messages.JobStatus_RUNNING
	p.stats.LatestCompleted = &checkpoint.CheckpointStats{Checkpoint: 3, Status: checkpoint.StatusCompleted, EndedMs: 8, StateBytes: 531}
	p.source(read(1, 0, 1000, 100, 0))
	p.source(read(2, 0, 1000, 100, 50))
	p.source(read(2, 1, 3000, 300, 150))
	p.source(read(1, 0, 9999, 999, 0)) // of the attempt before, late
	p.percent, p.known = p.input.percent(1000, 300)
	p.input.rate(*now)
	*now = now.Add(rateWindow)
	p.source(read(2, 1, 7000, 300, 150))
	p.draw(*now)
	if got, want := out.String(), "\r\033[K50.0%  9,000 records  2,000/s  checkpoint 3 (8 ms, 531 B)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	out.Reset()
	p.width = func() int { return 11 }
	*now = now.Add(redrawEvery)
	p.draw(*now)
	if got, want := out.String(), "\r\033[K50.0%  9,0"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, known := p.input.percent(0, 0); known {
		t.Error("the percentage of an input without a size is known")
	}
}

// Numbers for people, patterns for a shell, and the part of a stack that is the
// user's.
func TestWords(t *testing.T) {
	for got, want := range map[string]string{
		count(1, "file"): "1 file", count(20000, "file"): "20,000 files", thousands(999): "999", thousands(1234567): "1,234,567",
		size(999): "999 B", size(1000): "1.0 kB", size(999_949): "999.9 kB", size(999_999): "1.0 MB", size(5e15): "5000.0 TB",
		shellWords([]string{"/a b/part-1-*", "/c/$d-*"}): `/a\ b/part-1-* /c/\$d-*`,
		userFrames("goroutine 7 [running]:\nx()\n\tx.go:1\npanic({0x1})\n\tpanic.go:2\nmain.f()\n\tf.go:3\ncutwater/actors/task.g()\n\tg.go:4\n"): "main.f()\n\tf.go:3",
		userFrames("no panic"): "no panic",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if out := (&bytes.Buffer{}); Main([]string{"lint", "--output", "xml", "x"}, out, out) != exitUsage || !strings.Contains(out.String(), "`cutwater lint --help`") {
		t.Errorf("an unknown format: %s", out)
	}
}
