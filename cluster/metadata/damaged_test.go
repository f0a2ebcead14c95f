//go:build !race

package metadata_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"cutwater/cluster/metadata"
	"cutwater/cluster/metadata/metadatatest"
	"cutwater/messages"
)

// The pointer checks of race builds end the process where bbolt follows a damaged
// offset, before the fault that the store turns into an error.

// TestDamaged: whatever byte of a record is flipped, the store opens with what
// was written, or says that it is corrupt. It never opens with something else.
func TestDamaged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "metadata.db")
	s := open(t, path)
	for _, c := range []*messages.MetadataCommand{
		metadatatest.Register(metadatatest.Job), metadatatest.StartEpoch(metadatatest.Job),
		metadatatest.Allocate(metadatatest.Job, 1), metadatatest.Complete(metadatatest.Job, 1, 1),
	} {
		if _, err := s.Propose(context.Background(), c); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	refused := 0
	for at := 0; at < len(whole); at += 7 {
		if whole[at] == 0 && at%4096 > 512 {
			continue // unused space, mostly
		}
		content := append([]byte(nil), whole...)
		content[at] ^= 0x41
		damaged := filepath.Join(dir, strconv.Itoa(at))
		if err := os.WriteFile(damaged, content, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := metadata.OpenLocal(damaged, metadata.LocalOptions{})
		switch {
		case err == nil:
			r, err := s.Job(context.Background(), metadatatest.Job)
			if err != nil || r.Epoch > 1 || len(r.Completed) > 1 || len(r.Completed) == 1 && r.Completed[0].Checkpoint != 1 {
				t.Fatalf("with byte %d flipped the record is %v, %v", at, r, err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		case errors.Is(err, metadata.ErrCorrupt), errors.Is(err, metadata.ErrNewerFormat):
			refused++
		default:
			t.Fatalf("with byte %d flipped: %v", at, err)
		}
		if err := os.Remove(damaged); err != nil {
			t.Fatal(err)
		}
	}
	if refused == 0 {
		t.Fatal("no flipped byte was noticed")
	}
	for _, size := range []int{1, 100, 4096, 8192, 8192 + 17} {
		damaged := filepath.Join(dir, "cut"+strconv.Itoa(size))
		if err := os.WriteFile(damaged, whole[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := metadata.OpenLocal(damaged, metadata.LocalOptions{}); !errors.Is(err, metadata.ErrCorrupt) {
			t.Fatalf("cut to %d bytes: %v", size, err)
		}
	}
}

// TestDamagedWhileOpen: a file that loses its pages under an open store does not end
// the process. What was asked has an unknown outcome, the error names the file and
// what to do, and the store can be closed.
func TestDamagedWhileOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "metadata.db")
	s, err := metadata.OpenLocal(path, metadata.LocalOptions{SnapshotEvery: 8})
	if err != nil {
		t.Fatal(err)
	}
	propose := func(c *messages.MetadataCommand) *messages.MetadataResult {
		t.Helper()
		r, err := s.Propose(context.Background(), c)
		if err != nil && !errors.Is(err, metadata.ErrCorrupt) {
			t.Fatal(err)
		}
		return r
	}
	propose(metadatatest.Register(metadatatest.Job))
	for range 20 {
		propose(metadatatest.StartEpoch(metadatatest.Job))
	}
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	if r := propose(metadatatest.StartEpoch(metadatatest.Job)); r.GetOutcome() != messages.MetadataOutcome_UNKNOWN || !strings.Contains(r.Failure, path) {
		t.Errorf("a command on a file without pages: %v", r)
	}
	for _, use := range []func() error{
		func() error { _, err := s.Job(context.Background(), metadatatest.Job); return err },
		func() error { _, err := s.Jobs(context.Background()); return err },
		func() error {
			_, err := s.Propose(context.Background(), metadatatest.StartEpoch(metadatatest.Job))
			return err
		},
	} {
		if err := use(); !errors.Is(err, metadata.ErrCorrupt) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "--restore PATH") {
			t.Errorf("after it: %v", err)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
