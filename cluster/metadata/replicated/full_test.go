//go:build linux

package replicated

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"cutwater/cluster/metadata"
	"cutwater/cluster/metadata/metadatatest"
	"cutwater/messages"
)

// TestFull: on a full disk a command has an unknown outcome or is refused, the node
// lives, and when there is room again it leads and goes on, with nothing doubled. It
// runs in a process of its own, whose files may not grow.
func TestFull(t *testing.T) {
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), "REPLICATED_TEST_FULL="+t.TempDir())
	out, err := c.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "PASSED") {
		t.Fatalf("%v\n%s", err, out)
	}
}

// fillUp is the process of TestFull.
func fillUp(dir string) {
	check := func(ok bool, what ...any) {
		if !ok {
			panic(fmt.Sprint(what...))
		}
	}
	signal.Ignore(unix.SIGXFSZ)
	var limit unix.Rlimit
	check(unix.Getrlimit(unix.RLIMIT_FSIZE, &limit) == nil, "getrlimit")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err == nil, "listen", err)
	s, err := Open(Options{NodeID: "a", Dir: dir, Listener: listener, TimeoutMs: 30_000, ElectionTimeoutMs: 50})
	check(err == nil, "open", err)
	ctx := context.Background()
	check(s.Bootstrap(ctx, testCluster) == nil, "bootstrap")
	for _, c := range []*messages.MetadataCommand{metadatatest.Register(metadatatest.Job), metadatatest.StartEpoch(metadatatest.Job)} {
		_, err := s.Propose(ctx, c)
		check(err == nil, "a job", err)
	}
	info, err := os.Stat(filepath.Join(dir, "raft.db"))
	check(err == nil, "stat", err)
	full := limit
	full.Cur = uint64(info.Size())
	check(unix.Setrlimit(unix.RLIMIT_FSIZE, &full) == nil, "setrlimit")

	big := metadatatest.Register(metadatatest.Job)
	big.GetRegisterJob().Graph.Name = strings.Repeat("x", 4<<20)
	unknowns := 0
	for range 3 {
		r, err := s.Propose(ctx, big)
		switch {
		case errors.Is(err, metadata.ErrUnavailable):
		case err == nil && r.Outcome == messages.MetadataOutcome_UNKNOWN:
			unknowns++
			check(strings.Contains(r.Failure, "free disk space"), "the reason", r.Failure)
		default:
			panic(fmt.Sprint("on a full disk: ", r, err))
		}
	}
	check(unknowns > 0, "no command met the full disk")

	check(unix.Setrlimit(unix.RLIMIT_FSIZE, &limit) == nil, "setrlimit back")
	for {
		r, err := s.Propose(ctx, metadatatest.Allocate(metadatatest.Job, 1))
		if err == nil && r.Outcome == messages.MetadataOutcome_APPLIED {
			check(r.Checkpoint == 1, "the first id", r)
			break
		}
		check(errors.Is(err, metadata.ErrUnavailable), "with room again", r, err)
	}
	r, err := s.Job(ctx, metadatatest.Job)
	check(err == nil && r.Graph.Name == "test", "the failed command was applied", err)
	check(s.Close() == nil, "close")
	println("PASSED")
}
