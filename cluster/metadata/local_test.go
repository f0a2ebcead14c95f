package metadata_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"cutwater/cluster/metadata"
	"cutwater/cluster/metadata/metadatatest"
	"cutwater/internal/leak"
	"cutwater/messages"
)

func TestMain(m *testing.M) {
	if path := os.Getenv("METADATA_TEST_KILL"); path != "" {
		proposeUntilKilled(path)
		return
	}
	leak.VerifyTestMain(m)
}

// TestLocal: the log in a file is a store, with and without compaction on the way.
func TestLocal(t *testing.T) {
	for name, every := range map[string]int{"log": 0, "snapshots": 3} {
		t.Run(name, func(t *testing.T) {
			var path string
			again := func(t *testing.T) metadata.Store {
				s, err := metadata.OpenLocal(path, metadata.LocalOptions{SnapshotEvery: every})
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			metadatatest.Run(t, func(t *testing.T) metadata.Store {
				path = filepath.Join(t.TempDir(), "metadata.db")
				return again(t)
			}, again)
		})
	}
}

// TestLocked: a second process, or a second opening, is refused and told why.
func TestLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "metadata.db")
	s := open(t, path)
	_, err := metadata.OpenLocal(path, metadata.LocalOptions{LockTimeoutMs: 1})
	if !errors.Is(err, metadata.ErrLocked) || !strings.Contains(err.Error(), path) {
		t.Fatalf("the second opening: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := open(t, path).Close(); err != nil {
		t.Fatal(err)
	}
}

// TestGap: a command that is missing from the log is noticed, and so is one that
// stands under another index.
func TestGap(t *testing.T) {
	for name, spoil := range map[string]func(b *bolt.Bucket) error{
		"missing": func(b *bolt.Bucket) error { return b.Delete([]byte{0, 0, 0, 0, 0, 0, 0, 1}) },
		"moved": func(b *bolt.Bucket) error {
			return b.Put([]byte{0, 0, 0, 0, 0, 0, 0, 2}, b.Get([]byte{0, 0, 0, 0, 0, 0, 0, 1}))
		},
		"short": func(b *bolt.Bucket) error { return b.Put([]byte{0, 0, 0, 0, 0, 0, 0, 2}, []byte{1}) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "metadata.db")
			s := open(t, path)
			for _, c := range []*messages.MetadataCommand{metadatatest.Register(metadatatest.Job), metadatatest.StartEpoch(metadatatest.Job)} {
				if _, err := s.Propose(context.Background(), c); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			edit(t, path, "log", spoil)
			if _, err := metadata.OpenLocal(path, metadata.LocalOptions{}); !errors.Is(err, metadata.ErrCorrupt) {
				t.Fatalf("opened: %v", err)
			}
		})
	}
}

// TestNewerFormat: a file of a newer version is left alone.
func TestNewerFormat(t *testing.T) {
	path := filepath.Join(t.TempDir(), "metadata.db")
	if err := open(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	edit(t, path, "format", func(b *bolt.Bucket) error { return b.Put([]byte("version"), []byte{9}) })
	if _, err := metadata.OpenLocal(path, metadata.LocalOptions{}); !errors.Is(err, metadata.ErrNewerFormat) {
		t.Fatalf("opened: %v", err)
	}
}

// TestNoDirectory: the error of the file system comes through.
func TestNoDirectory(t *testing.T) {
	_, err := metadata.OpenLocal(filepath.Join(t.TempDir(), "missing", "metadata.db"), metadata.LocalOptions{})
	if !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("opened: %v", err)
	}
}

// TestContext: a command whose caller does not wait has an unknown outcome, or
// was never handed over.
func TestContext(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "metadata.db"))
	defer s.Close()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r, err := s.Propose(ctx, metadatatest.Register(metadatatest.Job))
	if err == nil && r.Outcome != messages.MetadataOutcome_UNKNOWN && r.Outcome != messages.MetadataOutcome_APPLIED {
		t.Fatalf("answered %v", r)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

// TestInvalidCommand: a command that cannot be encoded is refused and does not
// spoil those beside it.
func TestInvalidCommand(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "metadata.db"))
	defer s.Close()
	if _, err := s.Propose(context.Background(), metadatatest.StartEpoch("\xff")); err == nil {
		t.Fatal("a job id that is not UTF-8 was accepted")
	}
	if r, err := s.Propose(context.Background(), metadatatest.Register(metadatatest.Job)); err != nil || r.Outcome != messages.MetadataOutcome_APPLIED {
		t.Fatalf("the next command: %v, %v", r, err)
	}
}

// TestKill: a process that is killed while it proposes loses nothing that was
// answered.
func TestKill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "metadata.db")
	answered := uint64(0)
	for round := range 3 {
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), "METADATA_TEST_KILL="+path)
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 1)
		for range 20 + 30*round {
			if _, err := out.Read(buf); err != nil {
				t.Fatal(err)
			}
			answered++
		}
		if err := c.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		// Each byte that still comes is an answer.
		for {
			if n, err := out.Read(buf); err != nil || n == 0 {
				break
			}
			answered++
		}
		_ = c.Wait() // it was killed
		s := open(t, path)
		r, err := s.Job(context.Background(), metadatatest.Job)
		if err != nil {
			t.Fatal(err)
		}
		if r.LastCheckpoint < answered {
			t.Fatalf("%d ids were answered, but the log knows %d", answered, r.LastCheckpoint)
		}
		answered = r.LastCheckpoint
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// proposeUntilKilled writes one byte for each answered allocation.
func proposeUntilKilled(path string) {
	s, err := metadata.OpenLocal(path, metadata.LocalOptions{SnapshotEvery: 7, LockTimeoutMs: 5000})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	if _, err := s.Propose(ctx, metadatatest.Register(metadatatest.Job)); err != nil {
		panic(err)
	}
	r, err := s.Propose(ctx, metadatatest.StartEpoch(metadatatest.Job))
	if err != nil {
		panic(err)
	}
	for {
		a, err := s.Propose(ctx, metadatatest.Allocate(metadatatest.Job, r.Epoch))
		if err != nil || a.Outcome != messages.MetadataOutcome_APPLIED {
			panic(err)
		}
		if _, err := os.Stdout.Write([]byte{'.'}); err != nil {
			return
		}
	}
}

func open(t *testing.T, path string) *metadata.Local {
	t.Helper()
	s, err := metadata.OpenLocal(path, metadata.LocalOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func edit(t *testing.T, path, bucket string, f func(*bolt.Bucket) error) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(func(tx *bolt.Tx) error { return f(tx.Bucket([]byte(bucket))) }); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}
