package chaos

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	readmeBegin = "<!-- These commands are run by a test: begin. -->\n```sh\n"
	readmeEnd   = "```\n<!-- These commands are run by a test: end. -->"
)

// The README's commands, as they are: three nodes, a job, kill -9 of a node, and then
// of the leader's while the job runs. The result is exact.
func TestReadme(t *testing.T) {
	if testing.Short() {
		t.Skip("a cluster of processes, half a minute")
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, begins := strings.Cut(string(readme), readmeBegin)
	script, _, ends := strings.Cut(rest, readmeEnd)
	if !begins || !ends {
		t.Fatal("README.md has no commands between the two marks")
	}
	dir := t.TempDir()
	for _, file := range []string{"flights.csv", "cluster.yaml", "expected/daily.csv"} {
		content, err := os.ReadFile(filepath.Join("../../examples/flights", file))
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, "examples/flights", file)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// Each command is traced with its time; behind the script: how the job stands.
	script = "PS4='+ $EPOCHREALTIME '\n" + script + "\ncutwater jobs --all -o json --addr $other >jobs.json\n"
	stdout, trace := runScript(t, dir, script)
	if !strings.HasSuffix(stdout, "\nexact\n") {
		t.Fatalf("the result is not exact:\n%s\n%s", stdout, trace)
	}
	var jobs []struct {
		Status string
		Since  time.Time
	}
	text, err := os.ReadFile(filepath.Join(dir, "jobs.json"))
	if err == nil {
		err = json.Unmarshal(text, &jobs)
	}
	if err != nil || len(jobs) != 1 || jobs[0].Status != "FINISHED" {
		t.Fatalf("the jobs: %v\n%s", err, text)
	}
	if last := lastKill(t, trace); !last.Before(jobs[0].Since) {
		t.Errorf("the leader was killed at %v, when the job had ended at %v: that proves nothing", last, jobs[0].Since)
	}
}

// runScript runs commands in a folder. The nodes that they start end with it.
func runScript(t *testing.T, dir, script string) (stdout, trace string) {
	t.Helper()
	file, err := command()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Symlink(file, filepath.Join(bin, "cutwater")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	var out, errors bytes.Buffer
	c := exec.CommandContext(ctx, "bash", "-x", "-c", script)
	c.Dir, c.Stdout, c.Stderr = dir, &out, &errors
	c.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "CUTWATER_CLUSTER=readme-"+rand.Text())
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	group := func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.Cancel, c.WaitDelay = group, time.Second // the nodes hold the pipes open
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	err = c.Wait()
	_ = group() // the nodes go on without the script
	if c.ProcessState.ExitCode() != 0 {
		t.Fatalf("the commands: %v\n%s\n%s", err, out.String(), errors.String())
	}
	return out.String(), errors.String()
}

// lastKill is when the trace says that the last node was killed.
func lastKill(t *testing.T, trace string) (at time.Time) {
	t.Helper()
	kills := 0
	for line := range strings.Lines(trace) {
		if fields := strings.Fields(line); len(fields) == 5 && fields[2] == "kill" {
			seconds, err := strconv.ParseFloat(fields[1], 64)
			if err != nil {
				t.Fatal(err)
			}
			at = time.UnixMicro(int64(seconds * 1e6))
			kills++
		}
	}
	if kills != 2 {
		t.Fatalf("%d nodes were killed, want 2\n%s", kills, trace)
	}
	return at
}
