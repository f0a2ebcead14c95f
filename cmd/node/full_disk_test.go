//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// From the moment on at which no file of the process may grow, nor be written at
// all, nothing can be recorded. One signal ends the run soon all the same, with the
// reason and an exit code; with room again the job ends with the exact result.
func TestSuspendOnFullDisk(t *testing.T) {
	binary := build(t, "")
	topology := flights(t, append(source("        rate: 2000\n        split-size: 64KiB\n"), "interval: 1s", "interval: 100ms")...)
	c, lines := start(t, binary, topology)
	lines.until(t, "completed")
	if err := unix.Prlimit(c.Process.Pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 1, Max: 1}, nil); err != nil {
		t.Fatal(err)
	}
	lines.until(t, "no checkpoint was started: ") // the log of ids cannot grow
	lines.until(t, "restart")                     // so the job fails
	signalled := time.Now()
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	text := lines.rest()
	_ = c.Wait() // looked at below
	if code := c.ProcessState.ExitCode(); code != 1 || !strings.Contains(text, "error: the metadata store does not answer") || !strings.Contains(text, "free disk space") {
		t.Fatalf("exit code %d\n%s", code, text)
	}
	if took := time.Since(signalled); took > 30*time.Second {
		t.Fatalf("it took %s", took)
	}
	checkSubset(t, topology)
	if code, stderr := run(t, binary, "run", topology); code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	checkExact(t, topology)
}

// A first start with hardly any room on the disk fails and says why; the next one,
// with room, is a first start again.
func TestFirstStartOnFullDisk(t *testing.T) {
	binary := build(t, "")
	for _, blocks := range []string{"0", "8", "16", "24"} { // of 512 bytes
		topology := flights(t)
		c := exec.Command("sh", "-c", "ulimit -f "+blocks+"; exec "+binary+" run "+topology)
		text, err := c.CombinedOutput()
		if code := c.ProcessState.ExitCode(); err == nil || code != 1 || !strings.Contains(string(text), "metadata.db cannot be made") {
			t.Fatalf("in %s blocks: exit code %d\n%s", blocks, code, text)
		}
		if left, _ := filepath.Glob(filepath.Join(filepath.Dir(topology), ".cutwater", "*", "metadata*")); len(left) > 0 {
			t.Fatalf("in %s blocks: it left %v", blocks, left)
		}
		if code, stderr := run(t, binary, "run", topology); code != 0 {
			t.Fatalf("exit code %d\n%s", code, stderr)
		}
		checkExact(t, topology)
		if err := os.RemoveAll(filepath.Dir(topology)); err != nil {
			t.Fatal(err)
		}
	}
}
