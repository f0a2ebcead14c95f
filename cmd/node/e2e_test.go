package main

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
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

// build compiles the command once per tag.
func build(t *testing.T, tags string) string {
	t.Helper()
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

// killer runs the job in slices: each run is killed -9 after delay from the first
// line that has the word in it.
func killer(t *testing.T, binary, topology, word string, delay time.Duration) {
	t.Helper()
	c := exec.Command(binary, "run", topology)
	stderr, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	seen := false
	for s := bufio.NewScanner(stderr); !seen && s.Scan(); {
		seen = strings.Contains(s.Text(), word)
	}
	if seen {
		time.Sleep(delay)
	}
	_ = c.Process.Signal(syscall.SIGKILL) // it may have ended
	_, _ = io.Copy(io.Discard, stderr)
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
		killer(t, binary, topology, "RUNNING", time.Duration(50+rng.IntN(550))*time.Millisecond)
		killer(t, binary, topology, "completed", time.Duration(rng.IntN(200))*time.Millisecond)
	}
	if code, stderr := run(t, binary, "run", topology); code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	checkExact(t, topology)
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
		})
	}
}

// SIGTERM takes a last checkpoint and suspends; the same command resumes there.
func TestSuspend(t *testing.T) {
	binary := build(t, "")
	topology := flights(t, append(source("        rate: 20000\n"), "interval: 1s", "interval: 1h")...)
	c := exec.Command(binary, "run", topology)
	stderr, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	s := bufio.NewScanner(stderr)
	for s.Scan() && !strings.Contains(s.Text(), "RUNNING") {
	}
	time.Sleep(200 * time.Millisecond)
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	var last string
	for s.Scan() {
		last = s.Text()
	}
	if err := c.Wait(); err != nil || !strings.Contains(last, "SUSPENDED") {
		t.Fatalf("suspending: %v, last line %q", err, last)
	}
	code, text := run(t, binary, "run", topology)
	if code != 0 || !strings.Contains(text, "restor") {
		t.Fatalf("exit code %d, and it must say that it restores\n%s", code, text)
	}
	checkExact(t, topology)
}

// Mistakes exit with their code and one clear sentence, without a stack.
func TestMistakes(t *testing.T) {
	binary := build(t, "")
	for _, c := range []struct {
		name string
		args func() []string
		code int
		text string
	}{
		{"no such file", func() []string { return []string{"run", "nowhere.yaml"} }, 1, "cannot be read"},
		{"unknown flag", func() []string { return []string{"run", "--nope", "x"} }, 2, "nope"},
		{"unknown key", func() []string { return []string{"run", flights(t, "key-by: origin", "keyby: origin")} }, 5, "keyby"},
		{"lint", func() []string { return []string{"lint", flights(t, "sum(delay)", "sum(delai)")} }, 5, ""},
		{"missing input", func() []string { return []string{"run", flights(t, "path: flights.csv", "path: gone.csv")} }, 6, "gone.csv"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, stderr := run(t, binary, c.args()...)
			if code != c.code || !strings.Contains(stderr, c.text) || strings.Contains(stderr, "goroutine ") {
				t.Errorf("exit code %d, want %d, with %q in:\n%s", code, c.code, c.text, stderr)
			}
		})
	}
}

// Two processes on one data directory: the second one is refused.
func TestTwoProcesses(t *testing.T) {
	binary := build(t, "")
	topology := flights(t, source("        rate: 2000\n")...)
	c := exec.Command(binary, "run", topology)
	stderr, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	for s := bufio.NewScanner(stderr); s.Scan() && !strings.Contains(s.Text(), "RUNNING"); {
	}
	code, text := run(t, binary, "run", topology)
	_ = c.Process.Kill()
	_ = c.Wait() // killed
	if code != 4 || !strings.Contains(text, "another process") {
		t.Fatalf("exit code %d, want 4\n%s", code, text)
	}
}
