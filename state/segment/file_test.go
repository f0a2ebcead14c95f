package segment

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"slices"
	"testing"

	"cutwater/protocol/keygroup"
)

const groups = 8

func header(first, last int, states ...State) Header {
	return Header{MaxParallelism: groups, FirstGroup: first, LastGroup: last, States: states}
}

// written is a segment of these entries, which it puts in order.
func written(t *testing.T, h Header, entries []Entry) []byte {
	t.Helper()
	slices.SortFunc(entries, func(a, b Entry) int {
		return cmp.Or(a.group(&h)-b.group(&h), a.State-b.State, compareWithin(&h.States[a.State], &a, &b))
	})
	var b bytes.Buffer
	w, err := NewWriter(&b, h)
	if err != nil {
		t.Fatal(err)
	}
	for i := range entries {
		if err := w.Write(&entries[i]); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// count reads to the end.
func count(r *Reader) (entries int, err error) {
	var e Entry
	for {
		if err := r.Next(&e); err == io.EOF {
			return entries, nil
		} else if err != nil {
			return entries, err
		}
		entries++
	}
}

// Key groups are read by the index: every range of them gives its entries, and
// together they give the file.
func TestGroups(t *testing.T) {
	h := header(2, 6, State{Name: "a", KeyWidth: 8}, State{Name: "b", KeyWidth: 8})
	var entries []Entry
	perGroup := make([]int, groups)
	for i := range 6000 {
		key := keygroup.AppendInt(nil, int64(i))
		g := keygroup.Of(keygroup.Hash(key), groups)
		if g < 2 || g > 6 || g == 4 {
			continue
		}
		perGroup[g]++
		entries = append(entries, Entry{State: i % 2, Hash: keygroup.Hash(key), Key: key, Value: make([]byte, 100)})
	}
	file := written(t, h, entries)
	f, err := Open(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	if f.Entries != uint64(len(entries)) {
		t.Errorf("the file says %d entries, want %d", f.Entries, len(entries))
	}
	for first := range groups {
		for last := first; last < groups; last++ {
			want := 0
			for _, n := range perGroup[first : last+1] {
				want += n
			}
			if got, err := count(f.Groups(first, last)); got != want || err != nil {
				t.Errorf("key groups %d to %d have %d entries, want %d: %v", first, last, got, want, err)
			}
		}
	}
	if _, err := Open(bytes.NewReader(file[:len(file)-1])); err == nil {
		t.Error("a file that was cut off was opened")
	}
}

// Whatever byte of a file is changed, one who reads all its key groups by the index
// notices; one who reads some of them may not notice what is wrong with others.
func TestGroupsDamaged(t *testing.T) {
	file := sample(t)
	for i := range file {
		bad := bytes.Clone(file)
		bad[i] ^= 0x41
		f, err := Open(bytes.NewReader(bad))
		if err == nil {
			_, err = count(f.Groups(0, f.Header.LastGroup))
		}
		if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNewerFormat) {
			t.Errorf("byte %d changed: %v", i, err)
		}
		if _, err := Open(bytes.NewReader(file[:i])); !errors.Is(err, ErrCorrupt) {
			t.Errorf("cut at byte %d: %v", i, err)
		}
	}
}

// A writer refuses what would make a file that nobody can read: entries out of
// order, of another width, of other key groups.
func TestWriterRefuses(t *testing.T) {
	h := header(0, 0, State{Name: "a", KeyWidth: 1, ValueWidth: 1})
	for name, entries := range map[string][]Entry{
		"order":     {{Hash: 2, Key: []byte("k"), Value: []byte("v")}, {Hash: 1, Key: []byte("k"), Value: []byte("v")}},
		"repeated":  {{Hash: 1, Key: []byte("k"), Value: []byte("v")}, {Hash: 1, Key: []byte("k"), Value: []byte("v")}},
		"key width": {{Hash: 1, Key: []byte("kk"), Value: []byte("v")}},
		"width":     {{Hash: 1, Key: []byte("k")}},
		"group":     {{Hash: 1 << 63, Key: []byte("k"), Value: []byte("v")}},
		"state":     {{State: 1, Hash: 1, Key: []byte("k"), Value: []byte("v")}},
	} {
		w, err := NewWriter(io.Discard, h)
		if err != nil {
			t.Fatal(err)
		}
		for i := range entries {
			err = w.Write(&entries[i])
		}
		if err == nil {
			t.Errorf("%s: written", name)
		}
	}
	if _, err := NewWriter(io.Discard, header(0, groups)); err == nil {
		t.Error("a header with key groups out of range was written")
	}
}
