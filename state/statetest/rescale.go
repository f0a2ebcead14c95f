package statetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"cutwater/messages"
	"cutwater/protocol/keygroup"
	"cutwater/state"
	"cutwater/state/segment"
)

// rescale: three subtasks restored from the base and the delta of one have its
// entries together, each those of its key groups, whether they read the segments as
// streams or, by their indexes, in parts.
func rescale(t TB, open Open) {
	b := open(t, everything())
	defer closeAll(t, b)
	w := table(t, b, windows)
	for i := range 2000 {
		h, k := textKey(i)
		w.Put(h, k, int64(i%3), fmt.Append(nil, i))
	}
	segments := []*messages.Segment{write(t, seal(t, b, 1, state.SealOptions{Incremental: true}))}
	b.Confirm(1)
	for i := 1900; i < 2100; i++ {
		h, k := textKey(i)
		if i%2 == 0 {
			w.Delete(h, k, int64(i%3))
		} else {
			w.Put(h, k, int64(i%3), fmt.Append(nil, -i))
		}
	}
	segments = append(segments, write(t, seal(t, b, 2, state.SealOptions{Incremental: true})))
	if segments[1].Base {
		t.Fatalf("the second segment is a base, so nothing is proved of deltas")
	}
	for name, as := range map[string]func([]byte) io.Reader{
		"in parts":   func(b []byte) io.Reader { return bytes.NewReader(b) },
		"as streams": func(b []byte) io.Reader { return struct{ io.Reader }{bytes.NewReader(b)} },
	} {
		var union []string
		for subtask := range 3 {
			first, last := keygroup.Range(subtask, 3, maxParallelism)
			part := open(t, state.Groups{MaxParallelism: maxParallelism, First: first, Last: last})
			for _, s := range segments {
				if err := part.Load(context.Background(), as(s.Handle.GetInline())); err != nil {
					t.Fatalf("%s: load: %v", name, err)
				}
			}
			p := table(t, part, windows)
			p.Each(func(hash uint64, _ []byte, _ int64, _ []byte) bool {
				if of := keygroup.Of(hash, maxParallelism); of < first || of > last {
					t.Fatalf("%s: subtask %d has an entry of key group %d", name, subtask, of)
				}
				return true
			})
			union = append(union, content(p)...)
			closeAll(t, part)
		}
		slices.Sort(union)
		same(t, "three subtasks, "+name, union, content(w))
	}
}

// partOfASegment: a subtask that wants one key group of sixteen reads little more
// than that one's bytes, and notices damage there.
func partOfASegment(t TB, open Open) {
	b := open(t, everything())
	defer closeAll(t, b)
	l := table(t, b, lists)
	for i := range 4000 {
		h, k := intKey(i)
		l.Append(h, k, 0, make([]byte, 100))
	}
	file := write(t, seal(t, b, 1, state.SealOptions{})).Handle.GetInline()
	load := func(group int, r io.Reader) (entries int, err error) {
		part := open(t, state.Groups{MaxParallelism: maxParallelism, First: group, Last: group})
		defer closeAll(t, part)
		if err := part.Load(context.Background(), r); err != nil {
			return 0, err
		}
		return table(t, part, lists).Len(), nil
	}
	sum := 0
	for group := range maxParallelism {
		r := &metered{file: bytes.NewReader(file)}
		n, err := load(group, r)
		if err != nil {
			t.Fatalf("key group %d: %v", group, err)
		}
		if sum += n; r.bytes > len(file)/8 {
			t.Errorf("key group %d: %d bytes of %d were read", group, r.bytes, len(file))
		}
	}
	if sum != l.Len() {
		t.Errorf("the key groups have %d entries together, want %d", sum, l.Len())
	}
	noticed := 0
	for i := 0; i < len(file); i += len(file) / 100 {
		bad := bytes.Clone(file)
		bad[i] ^= 0x41
		n, err := load(maxParallelism/2, bytes.NewReader(bad))
		switch {
		case errors.Is(err, segment.ErrCorrupt):
			noticed++
		case err != nil:
			t.Errorf("byte %d changed: %v", i, err)
		case n == 0:
			t.Errorf("byte %d changed: nothing was loaded", i)
		}
	}
	if noticed < 5 || noticed > 20 {
		t.Errorf("damage was noticed at %d of 100 places, want about one of sixteen", noticed)
	}
}

// metered counts what is read.
type metered struct {
	file  *bytes.Reader
	bytes int
}

func (m *metered) Read(p []byte) (int, error) {
	n, err := m.file.Read(p)
	m.bytes += n
	return n, err
}

func (m *metered) ReadAt(p []byte, offset int64) (int, error) {
	n, err := m.file.ReadAt(p, offset)
	m.bytes += n
	return n, err
}

func (m *metered) Size() int64 { return m.file.Size() }
