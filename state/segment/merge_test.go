package segment

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
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
	slices.SortFunc(entries, func(a, b Entry) int { return (&merger{header: &h}).compare(&a, &b) })
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

func reader(t *testing.T, b []byte) *Reader {
	t.Helper()
	r, err := NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// apply reads a segment into a map, as a restore does.
func apply(t *testing.T, r *Reader, into map[string]string) (entries int) {
	t.Helper()
	var e Entry
	for {
		if err := r.Next(&e); err == io.EOF {
			return entries
		} else if err != nil {
			t.Fatal(err)
		}
		entries++
		name := fmt.Sprint(r.Header.States[e.State].Name, e.Key, e.Namespace)
		if e.Delete {
			delete(into, name)
		} else {
			into[name] = string(e.Value)
		}
	}
}

// A base merged from segments restores to the same as the segments one after
// another and holds no deletes; a delta merged from deltas does so too on the
// base. States that only some segments know are no obstacle.
func TestMerge(t *testing.T) {
	a := State{Name: "a", Kind: 1, KeyWidth: 8, Namespaced: true}
	b := State{Name: "b", Kind: 1, KeyWidth: 8, ValueWidth: 1}
	c := State{Name: "c", Kind: 1, KeyWidth: 8}
	headers := []Header{header(0, groups-1, b), header(0, groups-1, a, b), header(0, groups-1, a, c), header(0, groups-1, a, b, c)}
	random := rand.New(rand.NewPCG(1, 1))
	var files [][]byte
	want := map[string]string{}
	for age, h := range headers {
		var entries []Entry
		for i := range 400 {
			for s := range h.States {
				if random.IntN(3) == 0 {
					key := keygroup.AppendInt(nil, int64(i))
					e := Entry{State: s, Hash: keygroup.Hash(key), Key: key, Value: []byte{byte(age)}}
					if h.States[s].Namespaced {
						e.Namespace = int64(i % 3)
					}
					if age > 0 && random.IntN(3) == 0 {
						e.Delete, e.Value = true, nil
					}
					entries = append(entries, e)
				}
			}
		}
		files = append(files, written(t, h, entries))
		apply(t, reader(t, files[age]), want)
	}
	merged := func(base bool, files ...[]byte) []byte {
		var readers []*Reader
		for _, f := range files {
			readers = append(readers, reader(t, f))
		}
		var out bytes.Buffer
		if _, err := Merge(&out, header(0, groups-1), base, readers); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	got := map[string]string{}
	if n := apply(t, reader(t, merged(true, files...)), got); n != len(want) {
		t.Errorf("the merged base has %d entries, want %d", n, len(want))
	}
	equal(t, got, want)
	got = map[string]string{}
	apply(t, reader(t, files[0]), got)
	apply(t, reader(t, merged(false, files[1:]...)), got)
	equal(t, got, want)
}

func equal(t *testing.T, got, want map[string]string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%d entries, want %d", len(got), len(want))
	}
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s is %q, want %q", name, got[name], value)
		}
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
	f, err := Open(bytes.NewReader(file), int64(len(file)))
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
			if got := apply(t, f.Groups(first, last), map[string]string{}); got != want {
				t.Errorf("key groups %d to %d have %d entries, want %d", first, last, got, want)
			}
		}
	}
	if _, err := Open(bytes.NewReader(file[:len(file)-1]), int64(len(file)-1)); err == nil {
		t.Error("a file that was cut off was opened")
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
