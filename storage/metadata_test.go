package storage_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"testing"

	"cutwater/messages"
	"cutwater/storage"
)

// Whatever bytes stand in a `_metadata` file, they are decoded to what was encoded
// or refused with a sentinel; nothing panics.
func FuzzDecodeMetadata(f *testing.F) {
	whole, err := storage.EncodeMetadata(&messages.CheckpointMetadata{Job: "0123", Epoch: 2, Checkpoint: 7,
		Operators: []*messages.OperatorState{{Uid: "counts", Subtasks: []*messages.SubtaskEntry{{Subtask: 1}}}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(whole[:len(whole)-1])
	f.Add(whole[:24])
	f.Add([]byte{})
	f.Add([]byte("\n\x040123\x10\x02"))
	f.Fuzz(func(t *testing.T, b []byte) {
		decodes(t, b)
		decodes(t, enveloped(b))
	})
}

func decodes(t *testing.T, b []byte) {
	m, err := storage.DecodeMetadata(b, "x")
	if err != nil {
		if m != nil || !errors.Is(err, storage.ErrCorrupt) && !errors.Is(err, storage.ErrNewerFormat) {
			t.Fatalf("refused with %v", err)
		}
		return
	}
	again, err := storage.EncodeMetadata(m)
	if err != nil {
		t.Fatal(err)
	}
	back, err := storage.DecodeMetadata(again, "x")
	if err != nil {
		t.Fatal(err)
	}
	if third, err := storage.EncodeMetadata(back); err != nil || !bytes.Equal(again, third) {
		t.Fatalf("encoding it again gives other bytes, %v", err)
	}
}

// enveloped is a file with this body, whose header and checksums are right.
func enveloped(body []byte) []byte {
	sum := func(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }
	b := append([]byte("cutwater"), 1, 0, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(body)))
	b = binary.LittleEndian.AppendUint32(b, sum(b))
	return binary.LittleEndian.AppendUint32(append(b, body...), sum(body))
}
