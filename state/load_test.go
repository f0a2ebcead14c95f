package state

import (
	"bytes"
	"errors"
	"testing"

	"cutwater/protocol/keygroup"
	"cutwater/state/segment"
)

// A segment whose checksums are right and whose hashes are not is refused: its entries
// would never be found again.
func TestLoadRefusesForeignHashes(t *testing.T) {
	d := Descriptor{Name: "s", Kind: ValueKind, KeyWidth: 8, ValueWidth: 8, Schema: "int64 -> int64"}
	key := keygroup.AppendInt(nil, 1)
	for hash, want := range map[uint64]error{keygroup.Hash(key): nil, keygroup.Hash(key) ^ 1: segment.ErrCorrupt} {
		for _, deleted := range []bool{false, true} {
			var file bytes.Buffer
			w, err := segment.NewWriter(&file, segment.Header{MaxParallelism: 1, States: []segment.State{d.segment()}})
			if err != nil {
				t.Fatal(err)
			}
			e := segment.Entry{Hash: hash, Key: key, Delete: deleted}
			if !deleted {
				e.Value = make([]byte, 8)
			}
			if err := w.Write(&e); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Close(); err != nil {
				t.Fatal(err)
			}
			b := NewTables(Groups{MaxParallelism: 1}, nil, 0)
			if err := b.Load(t.Context(), &file); !errors.Is(err, want) {
				t.Errorf("hash %#x, deleted %v: %v, want %v", hash, deleted, err, want)
			}
		}
	}
}
