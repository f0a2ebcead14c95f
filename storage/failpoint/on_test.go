//go:build failpoints

package failpoint_test

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"cutwater/storage/failpoint"
)

// The process dies by SIGKILL at the n-th hit of the armed place, and only there.
func TestHitKills(t *testing.T) {
	if os.Getenv("CUTWATER_FAILPOINT") != "" {
		failpoint.Hit(failpoint.CommitSynced)
		failpoint.Hit(failpoint.CommitLinked)
		os.Stdout.WriteString("alive after one\n")
		failpoint.Hit(failpoint.CommitLinked)
		os.Stdout.WriteString("alive after two\n")
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=TestHitKills")
	cmd.Env = append(os.Environ(), "CUTWATER_FAILPOINT=commit-linked:2")
	out, _ := cmd.Output()
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !status.Signaled() || status.Signal() != syscall.SIGKILL {
		t.Errorf("ended with %v, not by SIGKILL", cmd.ProcessState)
	}
	if got := string(out); !strings.Contains(got, "after one") || strings.Contains(got, "after two") {
		t.Errorf("printed %q", got)
	}
}

// A misspelt name refuses to start: a test that kills nothing proves nothing.
func TestUnknownName(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), "CUTWATER_FAILPOINT=comit-linked")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "commit-linked") {
		t.Errorf("ended with %v: %s", err, out)
	}
}
