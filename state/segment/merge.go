package segment

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Merge writes one segment that holds what a base and the deltas on it hold
// together; of entries for the same key the newest wins. Segments are given
// oldest first. If the oldest is a base, so is the result, and deletes are left
// out; otherwise the result is a delta and keeps them. It returns the number of
// entries. Only key groups of h are taken; h's states are ignored.
func Merge(w io.Writer, h Header, base bool, segments []*Reader) (entries uint64, err error) {
	sources := make([]*source, len(segments))
	states := map[string]State{}
	for i, r := range segments {
		for _, s := range r.Header.States {
			if old, ok := states[s.Name]; ok && old != s {
				return 0, fmt.Errorf("state %s was written as %s and as %s; these segments do not belong together",
					s.Name, old.Schema, s.Schema)
			}
			states[s.Name] = s
		}
		sources[i] = &source{reader: r, age: i}
	}
	h.States = h.States[:0:0]
	for _, s := range states {
		h.States = append(h.States, s)
	}
	slices.SortFunc(h.States, func(a, b State) int { return strings.Compare(a.Name, b.Name) })
	out, err := NewWriter(w, h)
	if err != nil {
		return 0, err
	}
	m := merger{header: &h}
	for _, s := range sources {
		for _, state := range s.reader.Header.States {
			i, _ := slices.BinarySearchFunc(h.States, state.Name, func(a State, name string) int {
				return strings.Compare(a.Name, name)
			})
			s.states = append(s.states, i)
		}
		if err := m.advance(s); err != nil {
			return 0, err
		}
	}
	for len(m.heads) > 0 {
		first := m.heads[0]
		if !(base && first.entry.Delete) {
			if err := out.Write(&first.entry); err != nil {
				return 0, err
			}
		}
		// Older entries of the same key are passed over, the newest last: it owns
		// the bytes that they are compared with.
		for len(m.heads) > 1 && m.compare(&m.heads[1].entry, &first.entry) == 0 {
			if err := m.next(1); err != nil {
				return 0, err
			}
		}
		if err := m.next(0); err != nil {
			return 0, err
		}
	}
	return out.Close()
}

type source struct {
	reader *Reader
	age    int // larger is newer
	states []int
	entry  Entry
}

// merger keeps the sources by their next entries, the newest of equal ones
// first. There are few of them, so they stand in a sorted slice.
type merger struct {
	header *Header
	heads  []*source
}

// next replaces the i-th source's entry by the one behind it.
func (m *merger) next(i int) error {
	s := m.heads[i]
	m.heads = slices.Delete(m.heads, i, i+1)
	return m.advance(s)
}

// advance reads a source's next entry and puts the source in its place.
func (m *merger) advance(s *source) error {
	for {
		if err := s.reader.Next(&s.entry); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		s.entry.State = s.states[s.entry.State]
		if g := s.entry.group(m.header); g >= m.header.FirstGroup && g <= m.header.LastGroup {
			break
		}
	}
	i, _ := slices.BinarySearchFunc(m.heads, s, func(a, b *source) int {
		return cmp.Or(m.compare(&a.entry, &b.entry), b.age-a.age)
	})
	m.heads = slices.Insert(m.heads, i, s)
	return nil
}

func (m *merger) compare(a, b *Entry) int {
	return cmp.Or(
		a.group(m.header)-b.group(m.header),
		a.State-b.State,
		compareWithin(&m.header.States[a.State], a, b),
	)
}
