package main

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"cutwater/storage/failpoint"
)

const example = "../../examples/flights"

// columns are those that the expected file has.
var columns = []string{"origin", "window_start", "flights", "delayed", "total_delay", "worst_delay"}

// build compiles the command with tags; without any the test binary is the command,
// see TestMain.
func build(t *testing.T, tags string) string {
	t.Helper()
	if tags == "" {
		binary, err := exec.LookPath("cutwater")
		if err != nil {
			t.Fatal(err)
		}
		return binary
	}
	binary := filepath.Join(t.TempDir(), "cutwater")
	c := exec.Command("go", "build", "-tags", tags, "-o", binary, ".")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return binary
}

// flights copies the example and edits its topology.
func flights(t *testing.T, edits ...string) (topology string) {
	t.Helper()
	dir := t.TempDir()
	data, err := os.ReadFile(filepath.Join(example, "flights.csv"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(example, "topology.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	edited := string(text)
	for i := 0; i+1 < len(edits); i += 2 {
		if !strings.Contains(edited, edits[i]) {
			t.Fatalf("the example has no %q to replace", edits[i])
		}
		edited = strings.Replace(edited, edits[i], edits[i+1], 1)
	}
	topology = filepath.Join(dir, "topology.yaml")
	for name, content := range map[string][]byte{"flights.csv": data, "topology.yaml": []byte(edited)} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return topology
}

// slow is a rate at which the example's 20,000 rows take minutes: what a test does
// to the running job comes before its end, however busy the machine is. hurry lets
// the next run have its end.
const slow = "        rate: 100\n"

func hurry(t *testing.T, topology string) {
	t.Helper()
	text, err := os.ReadFile(topology)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(topology, bytes.Replace(text, []byte(slow), nil, 1), 0o644); err != nil {
		t.Fatal(err)
	}
}

// source adds options to the example's source.
func source(options string) []string {
	return []string{"format: csv\n        schema", "format: csv\n" + options + "        schema"}
}

// rows reads whole CSV files and returns the shared columns of every row, sorted.
func rows(t *testing.T, paths ...string) []string {
	t.Helper()
	var all []string
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		records, err := csv.NewReader(f).ReadAll()
		f.Close()
		if err != nil || len(records) == 0 {
			t.Fatalf("%s is not a whole CSV file: %v", path, err)
		}
		for _, r := range records[1:] {
			var cells []string
			for _, c := range columns {
				cells = append(cells, r[slices.Index(records[0], c)])
			}
			all = append(all, strings.Join(cells, ","))
		}
	}
	slices.Sort(all)
	return all
}

// visible reads what a reader of the output folder sees at this moment.
func visible(t *testing.T, topology string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(filepath.Dir(topology), "out/daily/part-*"))
	if err != nil {
		t.Fatal(err)
	}
	return rows(t, paths...)
}

// checkExact compares the output with the expected file.
func checkExact(t *testing.T, topology string) {
	t.Helper()
	got, want := visible(t, topology), rows(t, filepath.Join(example, "expected/daily.csv"))
	if !slices.Equal(got, want) {
		t.Fatalf("%d rows, want %d; they differ", len(got), len(want))
	}
}

// checkSubset: whatever is visible belongs to the expected result, once.
func checkSubset(t *testing.T, topology string) {
	t.Helper()
	got, want := visible(t, topology), rows(t, filepath.Join(example, "expected/daily.csv"))
	for i, r := range got {
		if i > 0 && got[i-1] == r {
			t.Fatalf("row %s is visible twice", r)
		}
		if _, ok := slices.BinarySearch(want, r); !ok {
			t.Fatalf("row %s is visible and not in the result", r)
		}
	}
}

// checkNoOrphans: a job that has finished keeps no checkpoint, so no file may be left
// in the checkpoint directory, of whichever run.
func checkNoOrphans(t *testing.T, topology string) {
	t.Helper()
	checkpoints, err := filepath.Glob(filepath.Join(filepath.Dir(topology), ".cutwater/*/checkpoints"))
	if err != nil || len(checkpoints) != 1 {
		t.Fatalf("checkpoint directories: %v, %v", checkpoints, err)
	}
	err = filepath.WalkDir(checkpoints[0], func(path string, d fs.DirEntry, err error) error {
		if err == nil && (!d.IsDir() || strings.HasPrefix(d.Name(), "chk-")) {
			t.Errorf("left behind: %s", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func run(t *testing.T, binary string, args ...string) (code int, stderr string) {
	t.Helper()
	var b bytes.Buffer
	c := exec.Command(binary, args...)
	c.Stderr = &b
	err := c.Run()
	if _, isExit := err.(*exec.ExitError); err != nil && !isExit {
		t.Fatal(err)
	}
	return c.ProcessState.ExitCode(), b.String()
}

// output is what a running command says on standard error.
type output struct{ scanner *bufio.Scanner }

// start runs the job in the background.
func start(t *testing.T, binary, topology string) (*exec.Cmd, output) {
	t.Helper()
	c := exec.Command(binary, "run", topology)
	stderr, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return c, output{bufio.NewScanner(stderr)}
}

// until reads to the first line with the word in it, which must come.
func (o output) until(t *testing.T, word string) {
	t.Helper()
	var b strings.Builder
	for o.scanner.Scan() {
		if strings.Contains(o.scanner.Text(), word) {
			return
		}
		b.WriteString(o.scanner.Text() + "\n")
	}
	t.Fatalf("the command ended and never said %q:\n%s", word, b.String())
}

// rest reads to the end.
func (o output) rest() string {
	var b strings.Builder
	for o.scanner.Scan() {
		b.WriteString(o.scanner.Text() + "\n")
	}
	return b.String()
}

// The flights job is exact at several parallelisms and split sizes, on both
// backends, and a second run of a finished job changes nothing.
func TestFlights(t *testing.T) {
	binary := build(t, "")
	for _, p := range []string{"1", "2", "4"} {
		for _, split := range []string{"", "        split-size: 64KiB\n"} {
			for _, backend := range []string{"heap", "bolt"} {
				flightsExact(t, binary, p, flights(t, append(source(split), "backend: heap", "backend: "+backend)...))
			}
		}
	}
}

// flightsExact runs a topology twice: the second run finds the job finished.
func flightsExact(t *testing.T, binary, parallelism, topology string) {
	t.Helper()
	for range 2 {
		if code, stderr := run(t, binary, "run", topology, "--parallelism", parallelism); code != 0 || !strings.Contains(stderr, " 0 restarts") && !strings.Contains(stderr, "finished already") {
			t.Fatalf("exit code %d\n%s", code, stderr)
		}
		checkExact(t, topology)
	}
}

// killAfter runs the job and kills it with -9 after delay from the first line that
// has the word in it, if it has not ended before.
func killAfter(t *testing.T, binary, topology, word string, delay time.Duration) {
	t.Helper()
	c, lines := start(t, binary, topology)
	seen := false
	for !seen && lines.scanner.Scan() {
		seen = strings.Contains(lines.scanner.Text(), word)
	}
	if seen {
		time.Sleep(delay)
	}
	_ = c.Process.Signal(syscall.SIGKILL) // it may have ended
	for lines.scanner.Scan() {
	}
	_ = c.Wait() // killed
	checkSubset(t, topology)
}

// Killed -9 at random moments, ten times early and ten times soon after its first
// new checkpoint, the job ends with the exact result and never shows a row twice
// or a row of an incomplete checkpoint.
func TestKill(t *testing.T) {
	binary := build(t, "")
	kills := 10
	if testing.Short() {
		kills = 2
	}
	rng := rand.New(rand.NewPCG(7, 7))
	topology := flights(t, append(source("        rate: 2000\n        split-size: 64KiB\n"), "interval: 1s", "interval: 100ms")...)
	for range kills {
		killAfter(t, binary, topology, "RUNNING", time.Duration(50+rng.IntN(550))*time.Millisecond)
		killAfter(t, binary, topology, "completed", time.Duration(rng.IntN(200))*time.Millisecond)
	}
	if code, stderr := run(t, binary, "run", topology); code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	checkExact(t, topology)
	checkNoOrphans(t, topology)
}

// Killed at every named place between a written segment and a synced commit, the
// job ends with the exact result. No state is inline, so every checkpoint passes
// every place.
func TestKillAtFailpoints(t *testing.T) {
	binary := build(t, "failpoints")
	for _, name := range failpoint.Names() {
		t.Run(string(name), func(t *testing.T) {
			topology := flights(t, append(source("        rate: 40000\n        split-size: 64KiB\n"), "interval: 1s", "interval: 100ms, inline-threshold: 0B")...)
			killed := 0
			for _, hit := range []int{1, 2, 5} {
				c := exec.Command(binary, "run", topology)
				c.Env = append(os.Environ(), fmt.Sprintf("CUTWATER_FAILPOINT=%s:%d", name, hit))
				if c.Run() != nil {
					killed++
				}
				checkSubset(t, topology)
			}
			if killed == 0 {
				t.Fatal("no run was killed: the place is never passed")
			}
			if code, stderr := run(t, binary, "run", topology); code != 0 {
				t.Fatalf("exit code %d\n%s", code, stderr)
			}
			checkExact(t, topology)
			checkNoOrphans(t, topology)
		})
	}
}

// SIGTERM takes a last checkpoint and suspends; the same command resumes there.
func TestSuspend(t *testing.T) {
	binary := build(t, "")
	topology := flights(t, append(source(slow), "interval: 1s", "interval: 1h")...)
	c, lines := start(t, binary, topology)
	lines.until(t, "RUNNING")
	time.Sleep(200 * time.Millisecond)
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	text := lines.rest()
	if err := c.Wait(); err != nil || !strings.Contains(text, "suspended; the same command resumes from checkpoint 1\n") || !strings.Contains(text, " SUSPENDED after ") {
		t.Fatalf("suspending: %v\n%s", err, text)
	}
	hurry(t, topology)
	code, text := run(t, binary, "run", topology)
	if code != 0 || !strings.Contains(text, "restoring checkpoint 1\n") {
		t.Fatalf("exit code %d, and it must say that it restores\n%s", code, text)
	}
	checkExact(t, topology)
}

// Suspended at random moments of a job that takes a checkpoint after the other, so
// that the signal often comes in the middle of one, the job goes on each time and
// ends with the exact result.
func TestSuspendDuringCheckpoint(t *testing.T) {
	binary := build(t, "")
	topology := flights(t, append(source(slow+"        split-size: 64KiB\n"), "interval: 1s", "interval: 10ms, inline-threshold: 0B")...)
	rng := rand.New(rand.NewPCG(9, 9))
	for range 8 {
		c, lines := start(t, binary, topology)
		lines.until(t, "RUNNING")
		time.Sleep(time.Duration(rng.IntN(60)) * time.Millisecond)
		if err := c.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		text := lines.rest()
		if err := c.Wait(); err != nil || !strings.Contains(text, "suspended; the same command resumes") {
			t.Fatalf("suspending: %v\n%s", err, text)
		}
		checkSubset(t, topology)
	}
	hurry(t, topology)
	if code, stderr := run(t, binary, "run", topology); code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	checkExact(t, topology)
}

// A second signal does not wait for the last checkpoint; the job goes on from the
// one before.
func TestStopAtOnce(t *testing.T) {
	binary := build(t, "")
	topology := flights(t, append(source(slow), "interval: 1s", "interval: 1h")...)
	c, lines := start(t, binary, topology)
	lines.until(t, "RUNNING")
	for range 2 {
		if err := c.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
	}
	text := lines.rest()
	_ = c.Wait() // looked at below
	switch code := c.ProcessState.ExitCode(); {
	case code == 1 && strings.Contains(text, "error: stopped at once; the same command resumes"):
	case code == 0 && strings.Contains(text, "suspended"): // it was faster than the second signal
	default:
		t.Fatalf("exit code %d\n%s", code, text)
	}
	hurry(t, topology)
	if code, stderr := run(t, binary, "run", topology); code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	checkExact(t, topology)
}

// Where files may not grow, as on a full disk, the sink's task fails with the reason
// and nothing half-written is visible; with room again the same command ends with
// the exact result.
func TestFullDisk(t *testing.T) {
	binary := build(t, "")
	topology := flights(t, "interval: 1s", "interval: 1h", "strategy: exponential-delay", "strategy: fixed-delay, attempts: 1, delay: 10ms")
	// In blocks of 512 bytes: enough for the metadata store, not for a file of output.
	code, stderr := run(t, "sh", "-c", "ulimit -f 128; exec "+binary+" run "+topology)
	if code != 6 || !strings.Contains(stderr, "restart 1 in 10 ms, because operator \"out\" failed") || !strings.Contains(stderr, "file too large: look at the disk") {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	if rows := visible(t, topology); len(rows) > 0 {
		t.Fatalf("%d rows are visible", len(rows))
	}
	if code, stderr := run(t, binary, "run", topology); code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	checkExact(t, topology)
}

// Two processes on one data directory: the second one is refused.
func TestTwoProcesses(t *testing.T) {
	binary := build(t, "")
	topology := flights(t, source(slow)...)
	c, lines := start(t, binary, topology)
	lines.until(t, "RUNNING")
	code, text := run(t, binary, "run", topology)
	_ = c.Process.Kill()
	_ = c.Wait() // killed
	if code != 4 || !strings.Contains(text, "another process") {
		t.Fatalf("exit code %d, want 4\n%s", code, text)
	}
}
