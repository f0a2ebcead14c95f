package segment

import (
	"bytes"
	"errors"
	"hash/crc32"
	"testing"

	"cutwater/protocol/keygroup"
)

// No bytes make a reader panic, or end without one of its errors, whether it reads
// from the front or by the index; and both read the same.
func FuzzRead(f *testing.F) {
	file := sample(f)
	f.Add(file)
	f.Add(file[:len(file)-1])
	f.Add(mended(bytes.Replace(file, []byte("value"), []byte("VALUE"), 1)))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, b := range [][]byte{b, mended(b)} {
			inOrder, err := readAll(b)
			check(t, err)
			byIndex, indexErr := readGroups(b)
			check(t, indexErr)
			if err == nil != (indexErr == nil) || err == nil && inOrder != byIndex {
				t.Errorf("%d entries from the front: %v; %d by the index: %v", inOrder, err, byIndex, indexErr)
			}
		}
	})
}

func check(t *testing.T, err error) {
	if err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNewerFormat) {
		t.Error(err)
	}
}

func readGroups(b []byte) (entries int, err error) {
	f, err := Open(bytes.NewReader(b))
	if err != nil {
		return 0, err
	}
	return count(f.Groups(f.Header.FirstGroup, f.Header.LastGroup))
}

// mended is b with the checksums of what looks like a file made right, so that the
// fuzzer gets past them.
func mended(b []byte) []byte {
	b = bytes.Clone(b)
	seal := func(from, to int) bool {
		if to < from || to+4 > len(b) {
			return false
		}
		le.PutUint32(b[to:], crc32.Checksum(b[from:to], castagnoli))
		return true
	}
	at := 0
	next := func(head, length int) bool {
		if at+head > len(b) {
			return false
		}
		end := at + head + int(le.Uint32(b[at+length:]))
		if !seal(at, end) {
			return false
		}
		at = end + 4
		return true
	}
	if next(fixedHeader, len(magic)+4) {
		for at < len(b)-trailerSize && next(blockHead, blockHead-4) {
		}
	}
	if at := len(b) - trailerSize; at >= 0 {
		seal(at, at+16)
	}
	return b
}

// Whatever entries are written come back the same, in the file's order.
func FuzzWrite(f *testing.F) {
	f.Add([]byte("k"), []byte("v"), int64(-1), []byte(""), []byte("w"))
	f.Fuzz(func(t *testing.T, key, value []byte, namespace int64, other, otherValue []byte) {
		h := header(0, groups-1, State{Name: "a", Namespaced: true}, State{Name: "b"})
		entries := []Entry{
			{State: 0, Hash: keygroup.Hash(key), Key: key, Namespace: namespace, Value: value},
			{State: 1, Hash: keygroup.Hash(other), Key: other, Value: otherValue},
			{State: 0, Hash: keygroup.Hash(key), Key: key, Namespace: namespace ^ 1, Delete: true},
		}
		r, err := NewReader(bytes.NewReader(written(t, h, entries)))
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range entries {
			var e Entry
			if err := r.Next(&e); err != nil {
				t.Fatal(err)
			}
			if e.State != want.State || e.Hash != want.Hash || !bytes.Equal(e.Key, want.Key) ||
				e.Namespace != want.Namespace || !bytes.Equal(e.Value, want.Value) || e.Delete != want.Delete {
				t.Errorf("entry %d is %+v, want %+v", i, e, want)
			}
		}
		if n, err := count(r); n != 0 || err != nil {
			t.Errorf("%d entries more: %v", n, err)
		}
	})
}
