package state

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"

	"cutwater/protocol/keygroup"
	"cutwater/state/segment"
)

// write streams the view as a segment: key group by key group, in each the
// tables by name, in each the entries by placement. It runs on another goroutine
// than the tables' and reads nothing that they change.
func (v *view) write(ctx context.Context, w io.Writer) (entries uint64, err error) {
	g := v.backend.groups
	h := segment.Header{MaxParallelism: g.MaxParallelism, FirstGroup: g.First, LastGroup: g.Last}
	scans := make([]scan, len(v.tables))
	for i, t := range v.tables {
		h.States = append(h.States, t.layout.Descriptor.segment())
		scans[i] = scan{view: v, table: t, more: true}
	}
	out, err := segment.NewWriter(w, h)
	if err != nil {
		return 0, err
	}
	for group := g.First; group <= g.Last; group++ {
		for i := range scans {
			if err := scans[i].write(ctx, out, i, group); err != nil {
				return 0, err
			}
		}
	}
	return out.Close()
}

// scan walks one table of a view in order.
type scan struct {
	view  *view
	table tableView
	place uint64 // of the next chunk
	more  bool   // there is a next chunk
	slots []byte
	arena []byte
	order []placed // entries of the chunk that are left, in order
	spare []placed
}

type placed struct {
	place uint64
	at    int
}

// write writes the entries of one key group.
func (s *scan) write(ctx context.Context, out *segment.Writer, state, group int) error {
	l := s.table.layout
	for {
		for len(s.order) == 0 {
			if !s.more {
				return nil
			}
			if err := ctx.Err(); err != nil {
				return context.Cause(ctx)
			}
			if err := s.load(); err != nil {
				return err
			}
		}
		first := s.order[0]
		slot, hash := s.slots[first.at:][:l.stride], first.place
		if l.Namespaced {
			hash = l.hashOf(slot)
		}
		of := keygroup.Of(hash, s.view.backend.groups.MaxParallelism)
		if of > group {
			return nil
		}
		if of < group {
			return fmt.Errorf("state %s: an entry of key group %d, but this subtask's first is %d; "+
				"its records went to the wrong subtask", l.Name, of, group)
		}
		e := segment.Entry{
			State: state, Hash: hash, Key: l.keyOf(slot, s.arena), Namespace: l.namespaceOf(slot),
			Delete: le.Uint32(slot)&dead != 0,
		}
		if !e.Delete {
			e.Value = l.valueOf(slot, s.arena)
		}
		if err := out.Write(&e); err != nil {
			return err
		}
		s.order = s.order[1:]
	}
}

// load puts the next chunk's entries in order.
func (s *scan) load() (err error) {
	l, c := s.table.layout, s.table.root.find(s.place)
	s.place = c.after(s.place)
	s.more = s.place != 0
	s.order = s.spare[:0]
	if v := s.view; v.delta && c.changed <= v.since || !v.delta && c.live == 0 {
		return nil
	}
	if s.slots, s.arena, err = s.view.backend.read(l, c); err != nil {
		return err
	}
	s.table.stock.fill(sizeClass(len(s.slots)/l.stride), len(s.slots))
	for at := 0; at < len(s.slots); at += l.stride {
		slot := s.slots[at : at+l.stride]
		if s.view.wants(le.Uint32(slot)) {
			s.order = append(s.order, placed{l.placeOf(slot), at})
		}
	}
	s.sort(l)
	s.spare = s.order
	return nil
}

// sort puts the entries of a chunk in order. Without namespaces they are nearly
// so: see homes.
func (s *scan) sort(l *layout) {
	if l.Namespaced {
		slices.SortFunc(s.order, func(a, b placed) int { return s.compare(l, a, b) })
		return
	}
	for i, e := range s.order {
		for ; i > 0 && s.compare(l, s.order[i-1], e) > 0; i-- {
			s.order[i] = s.order[i-1]
		}
		s.order[i] = e
	}
}

func (s *scan) compare(l *layout, a, b placed) int {
	if a.place != b.place {
		return cmp.Compare(a.place, b.place)
	}
	return l.compare(s.slots[a.at:][:l.stride], s.slots[b.at:][:l.stride], s.arena)
}

// wants says whether a slot of that generation belongs into the segment.
func (v *view) wants(gen uint32) bool {
	if v.delta {
		return gen&^dead > v.since
	}
	return gen != 0 && gen&dead == 0
}

// segment is the descriptor as the file format has it.
func (d *Descriptor) segment() segment.State {
	return segment.State{
		Name: d.Name, Kind: uint8(d.Kind), KeyWidth: d.KeyWidth, ValueWidth: d.ValueWidth,
		Namespaced: d.Namespaced, Schema: d.Schema,
	}
}

func described(s segment.State) Descriptor {
	return Descriptor{
		Name: s.Name, Kind: Kind(s.Kind), KeyWidth: s.KeyWidth, ValueWidth: s.ValueWidth,
		Namespaced: s.Namespaced, Schema: s.Schema,
	}
}
