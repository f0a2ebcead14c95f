//go:build failpoints

package filesink_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/protobuf/proto"

	"cutwater/connector/filesink"
	"cutwater/messages"
	"cutwater/storage/failpoint"
	"cutwater/storage/vfs"
	"cutwater/stream"
)

// A process that dies by SIGKILL between the steps of a prepare and a commit
// leaves what the next one completes: each row is in the folder once.
func TestKilled(t *testing.T) {
	if base := os.Getenv("FILESINK_TEST_DIR"); base != "" {
		s, c := killed(t, base, 1)
		must(t, s.Start(t.Context(), c, nil))
		part := prepared(t, s, c, 1, 5)
		b, err := proto.Marshal(part)
		must(t, err)
		must(t, vfs.WriteFile(vfs.OS(), filepath.Join(base, "state"), b))
		must(t, s.Commit(t.Context(), c, part))
		return
	}
	for _, name := range []failpoint.Name{failpoint.SinkPrepared, failpoint.CommitLinked, failpoint.CommitSynced} {
		t.Run(string(name), func(t *testing.T) {
			base := t.TempDir()
			cmd := exec.Command(os.Args[0], "-test.run=^TestKilled$")
			cmd.Env = append(os.Environ(), "FILESINK_TEST_DIR="+base, "CUTWATER_FAILPOINT="+string(name))
			out, _ := cmd.CombinedOutput()
			if status := cmd.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGKILL {
				t.Fatalf("ended with %v: %s", cmd.ProcessState, out)
			}
			s, c := killed(t, base, 2)
			if b, err := os.ReadFile(filepath.Join(base, "state")); err == nil {
				part := &messages.Committable{}
				must(t, proto.Unmarshal(b, part))
				must(t, s.Start(t.Context(), c, []*messages.Committable{part}))
				must(t, s.Sweep(t.Context(), c, []*messages.Committable{part}))
				must(t, s.Commit(t.Context(), c, part))
			} else {
				// It died before the checkpoint: the rows come again.
				must(t, s.Start(t.Context(), c, nil))
				must(t, s.Sweep(t.Context(), c, nil))
				must(t, s.Commit(t.Context(), c, prepared(t, s, c, 1, 5)))
			}
			files, err := filepath.Glob(filepath.Join(base, "out", "part-*"))
			must(t, err)
			if len(files) != 1 {
				t.Fatalf("files are %q", files)
			}
			content, err := os.ReadFile(files[0])
			must(t, err)
			if rows := strings.Count(string(content), "{\"n\":"); rows != 5 {
				t.Errorf("%d rows are visible, want 5", rows)
			}
			if pending, err := filepath.Glob(filepath.Join(base, "out", ".cutwater", "*", "*")); err != nil || len(pending) != 0 {
				t.Errorf("pending are %q, %v", pending, err)
			}
		})
	}
}

func killed(t *testing.T, base string, attempt uint32) (*filesink.Sink, stream.SinkContext) {
	s, err := filesink.New(filesink.Config{Dir: filepath.Join(base, "out"), Format: filesink.JSONL, Schema: schema})
	must(t, err)
	return s, at(vfs.OS(), job, "out", attempt)
}
