//go:build !race

package replicated

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"cutwater/cluster/metadata"
)

// The pointer checks of race builds end the process where bbolt follows a damaged
// offset, before the fault that the store turns into an error.

// TestLogDamaged: whatever byte of a log is flipped, it opens with what was written,
// or says that it is corrupt.
func TestLogDamaged(t *testing.T) {
	dir := t.TempDir()
	l := openTestLog(t, dir)
	body := bytes.Repeat([]byte("entry"), 20)
	for i := uint64(1); i <= 5; i++ {
		if err := l.StoreLog(rawEntry(i, body)); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.SetUint64([]byte("CurrentTerm"), 1); err != nil {
		t.Fatal(err)
	}
	closeTestLog(t, l)
	whole, err := os.ReadFile(filepath.Join(dir, "raft.db"))
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for at := 0; at < len(whole); at += 5 {
		if whole[at] == 0 {
			continue // unused space, mostly
		}
		content := bytes.Clone(whole)
		content[at] ^= 0x41
		damaged := filepath.Join(dir, strconv.Itoa(at))
		if err := errors.Join(os.Mkdir(damaged, 0o700), os.WriteFile(filepath.Join(damaged, "raft.db"), content, 0o600)); err != nil {
			t.Fatal(err)
		}
		l, err := openLog(damaged, hclog.NewNullLogger())
		switch {
		case err == nil:
			last, err := l.LastIndex()
			if err != nil || last > 5 {
				t.Fatalf("with byte %d flipped the log ends at %d, %v", at, last, err)
			}
			for i := uint64(1); i <= last; i++ {
				got := &raft.Log{}
				if err := l.GetLog(i, got); err != nil || !bytes.Equal(got.Data, body) {
					t.Fatalf("with byte %d flipped entry %d is %q, %v", at, i, got.Data, err)
				}
			}
			closeTestLog(t, l)
		case errors.Is(err, metadata.ErrCorrupt), errors.Is(err, metadata.ErrNewerFormat):
			refused++
		default:
			t.Fatalf("with byte %d flipped: %v", at, err)
		}
		if err := os.RemoveAll(damaged); err != nil {
			t.Fatal(err)
		}
	}
	if refused == 0 {
		t.Fatal("no flipped byte was noticed")
	}
}
