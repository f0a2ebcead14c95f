package main

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// built has the binaries of this test run.
var built string

func TestMain(m *testing.M) {
	var err error
	if built, err = os.MkdirTemp("", "process-"); err != nil {
		panic(err)
	}
	code := m.Run()
	if err := os.RemoveAll(built); err != nil {
		panic(err)
	}
	os.Exit(code)
}

// build compiles a main package, once.
func build(t *testing.T, pkg string) (binary string) {
	t.Helper()
	binary = filepath.Join(built, strings.ReplaceAll(pkg, "/", "-"), "program")
	if _, err := os.Stat(binary); err == nil {
		return binary
	}
	if out, err := exec.Command("go", "build", "-o", binary, pkg).CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return binary
}

// workplace copies the example with its input and edits its topology.
func workplace(t *testing.T, edits ...string) (topology string) {
	t.Helper()
	dir := t.TempDir()
	text, err := os.ReadFile("topology.yaml")
	if err != nil {
		t.Fatal(err)
	}
	edited := string(text)
	for i := 0; i < len(edits); i += 2 {
		if !strings.Contains(edited, edits[i]) {
			t.Fatalf("the example has no %q to replace", edits[i])
		}
		edited = strings.Replace(edited, edits[i], edits[i+1], 1)
	}
	input, err := filepath.Abs("../flights/flights.csv")
	if err != nil {
		t.Fatal(err)
	}
	topology = filepath.Join(dir, "topology.yaml")
	if err := os.WriteFile(topology, []byte(strings.Replace(edited, "../flights/flights.csv", input, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	return topology
}

// expected is the worst flight of each origin and day, by a loop over the file.
func expected(t *testing.T) (rows []string) {
	t.Helper()
	f, err := os.Open("../flights/flights.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	type key struct{ origin, day string }
	worst := map[key]flight{}
	for _, r := range all[1:] {
		at, err := time.Parse("2006/01/02 15:04", r[0])
		if err != nil {
			t.Fatal(err)
		}
		delay, err := strconv.ParseInt(r[1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		k, f := key{r[3], at.Format("2006-01-02T00:00:00Z")}, flight{at.UnixMilli(), delay, r[4]}
		if known, ok := worst[k]; !ok || f.worse(&known) {
			worst[k] = f
		}
	}
	for k, f := range worst {
		rows = append(rows, strings.Join([]string{k.origin, k.day, time.UnixMilli(f.DepartureMs).UTC().Format(time.RFC3339), f.Destination, strconv.FormatInt(f.Delay, 10)}, ","))
	}
	slices.Sort(rows)
	return rows
}

// visible are the rows of the output folder, sorted.
func visible(t *testing.T, topology string) (rows []string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(filepath.Dir(topology), "out/worst/part-*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		if lines[0] != "origin,day,departure,destination,delay" {
			t.Fatalf("%s has the header %s", path, lines[0])
		}
		rows = append(rows, lines[1:]...)
	}
	slices.Sort(rows)
	return rows
}

func checkExact(t *testing.T, topology string) {
	t.Helper()
	if got, want := visible(t, topology), expected(t); !slices.Equal(got, want) {
		t.Fatalf("%d rows, want %d; they differ", len(got), len(want))
	}
}

// The program is exact with state and timers at both parallelisms, on both
// backends.
func TestProgram(t *testing.T) {
	binary := build(t, ".")
	for _, parallelism := range []string{"1", "2"} {
		for _, backend := range []string{"heap", "bolt"} {
			t.Run(backend+" x"+parallelism, func(t *testing.T) {
				topology := workplace(t, "backend: heap", "backend: "+backend)
				if out, err := exec.Command(binary, "run", topology, "--parallelism", parallelism).CombinedOutput(); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				checkExact(t, topology)
			})
		}
	}
}

var checkpointDone = regexp.MustCompile(`checkpoint \d+|completed \d+`)

// Killed -9 after some of its checkpoints, the program goes on with state and
// timers and ends exact, on both backends.
func TestProgramKilled(t *testing.T) {
	binary := build(t, ".")
	for _, backend := range []string{"heap", "bolt"} {
		t.Run(backend, func(t *testing.T) {
			topology := workplace(t, "backend: heap", "backend: "+backend, "interval: 1s", "interval: 100ms",
				"format: csv\n        schema", "format: csv\n        rate: 20000\n        split-size: 64KiB\n        schema")
			for range 2 {
				c := exec.Command(binary, "run", topology)
				stderr, err := c.StderrPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := c.Start(); err != nil {
					t.Fatal(err)
				}
				checkpoints := 0
				for s := bufio.NewScanner(stderr); checkpoints < 2 && s.Scan(); {
					if checkpointDone.MatchString(s.Text()) {
						checkpoints++
					}
				}
				if err := c.Process.Kill(); err != nil {
					t.Fatal(err)
				}
				if err := c.Wait(); err == nil {
					t.Fatal("it ended before it was killed")
				}
			}
			var log bytes.Buffer
			c := exec.Command(binary, "run", topology)
			c.Stderr = &log
			if err := c.Run(); err != nil {
				t.Fatalf("%v\n%s", err, &log)
			}
			if !strings.Contains(log.String(), "restor") {
				t.Errorf("the last run was not restored:\n%s", &log)
			}
			checkExact(t, topology)
		})
	}
}

// Lint of the program knows the operator, and finds what does not fit it; plain
// cutwater says that it does not know it and what to do.
func TestLint(t *testing.T) {
	binary := build(t, ".")
	lint := func(binary, topology string) string {
		out, _ := exec.Command(binary, "lint", topology).CombinedOutput() // the text tells
		return string(out)
	}
	for _, c := range []struct {
		edits []string
		want  string
	}{
		{nil, "3 operators, 0 warnings"},
		{[]string{"process: worst-flight", "process: worst-fligt"}, `CW017: this program has no process "worst-fligt"; it has worst-flight; did you mean "worst-flight"?`},
		{[]string{"key-by: origin", "key-by: delay"}, "takes one field of text as the key"},
		{[]string{"distance: int", "distance: int, late: int", " delay: int", " minutes: int"}, `there is no field "delay"; the fields are date, minutes,`},
	} {
		if got := lint(binary, workplace(t, c.edits...)); !strings.Contains(got, c.want) {
			t.Errorf("%v: %s\nwant %s", c.edits, got, c.want)
		}
	}
	plain := build(t, "cutwater/cmd/cutwater")
	if got := lint(plain, workplace(t)); !strings.Contains(got, `this program has no process "worst-flight", nor any other; write a program that registers it`) {
		t.Errorf("plain cutwater: %s", got)
	}
}
