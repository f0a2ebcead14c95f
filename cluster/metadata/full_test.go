//go:build linux

package metadata_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"cutwater/cluster/metadata"
	"cutwater/cluster/metadata/metadatatest"
	"cutwater/messages"
)

// TestFull: a first start on a full disk leaves nothing that the next one could
// take for a store; later, commands fail with an error that says so and are not
// applied; when there is room again the store goes on. It runs in a process of its
// own, whose files may not grow.
func TestFull(t *testing.T) {
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), "METADATA_TEST_FULL="+filepath.Join(t.TempDir(), "metadata.db"))
	out, err := c.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "PASSED") {
		t.Fatalf("%v\n%s", err, out)
	}
}

// fillUp is the process of TestFull.
func fillUp(path string) {
	check := func(ok bool, what ...any) {
		if !ok {
			println("FAILED")
			panic(fmt.Sprint(what...))
		}
	}
	signal.Ignore(unix.SIGXFSZ)
	var limit unix.Rlimit
	check(unix.Getrlimit(unix.RLIMIT_FSIZE, &limit) == nil, "getrlimit")

	// Wherever the first start runs out of space, it leaves nothing.
	for size := uint64(0); ; size += 1 << 12 {
		full := limit
		full.Cur = size
		check(unix.Setrlimit(unix.RLIMIT_FSIZE, &full) == nil, "setrlimit")
		first, err := metadata.OpenLocal(path, metadata.LocalOptions{})
		check(unix.Setrlimit(unix.RLIMIT_FSIZE, &limit) == nil, "setrlimit back")
		left, readErr := os.ReadDir(filepath.Dir(path))
		check(readErr == nil, "readdir", readErr)
		if err == nil {
			check(size > 0, "a store in no space")
			check(first.Close() == nil && os.Remove(path) == nil, "start over")
			break
		}
		check(strings.Contains(err.Error(), "file too large; free disk space") && !errors.Is(err, metadata.ErrCorrupt), "a first start in", size, err)
		check(len(left) == 0, "a first start left", left)
	}

	// A first start that was killed leaves what the next one does not take.
	check(os.WriteFile(path+".new", []byte("half"), 0o600) == nil, "half a store")
	s, err := metadata.OpenLocal(path, metadata.LocalOptions{})
	check(err == nil, "open", err)
	ctx := context.Background()
	propose := func(c *messages.MetadataCommand) (*messages.MetadataResult, error) { return s.Propose(ctx, c) }
	_, err = propose(metadatatest.Register(metadatatest.Job))
	check(err == nil, "register", err)
	info, err := os.Stat(path)
	check(err == nil, "stat", err)
	full := limit
	full.Cur = uint64(info.Size())
	check(unix.Setrlimit(unix.RLIMIT_FSIZE, &full) == nil, "setrlimit")

	big := metadatatest.Register(metadatatest.Job)
	big.GetRegisterJob().Graph.Name = strings.Repeat("x", 4<<20)
	_, err = propose(big)
	check(err != nil && strings.Contains(err.Error(), path) && strings.Contains(err.Error(), "disk"), "a full disk", err)
	var errno syscall.Errno
	check(errors.As(err, &errno), "a full disk is no failure of input and output", err)
	r, err := s.Job(ctx, metadatatest.Job)
	check(err == nil && r.Graph.Name == "test", "the failed command was applied", err)

	check(unix.Setrlimit(unix.RLIMIT_FSIZE, &limit) == nil, "setrlimit back")
	a, err := propose(big)
	check(err == nil && a.Outcome == messages.MetadataOutcome_APPLIED && a.Index == 2, "with room again", err, a)
	check(s.Close() == nil, "close")
	s, err = metadata.OpenLocal(path, metadata.LocalOptions{})
	check(err == nil, "reopen", err)
	r, err = s.Job(ctx, metadatatest.Job)
	check(err == nil && len(r.Graph.Name) == 4<<20, "reopened", err)
	check(s.Close() == nil, "close")
	println("PASSED")
}

func init() {
	if path := os.Getenv("METADATA_TEST_FULL"); path != "" {
		fillUp(path)
		os.Exit(0)
	}
}
