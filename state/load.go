package state

import (
	"context"
	"fmt"
	"io"

	"cutwater/protocol/keygroup"
	"cutwater/state/segment"
)

// Load reads one restored segment; see Backend.
func (b *Tables) Load(ctx context.Context, r io.Reader) error {
	in, err := b.groups.reader(r)
	if err != nil {
		return err
	}
	tables := make([]*Table, len(in.Header.States))
	for i, s := range in.Header.States {
		d := described(s)
		if err := check(d); err != nil {
			return fmt.Errorf("%w: %v", segment.ErrCorrupt, err)
		}
		t := b.lookup(d.Name)
		if t == nil {
			t = b.add(d)
		} else if t.Descriptor != d {
			return &SchemaError{State: d.Name, Restored: d.String(), Declared: t.Descriptor.String()}
		}
		t.restored = true
		tables[i] = t
	}
	var e segment.Entry
	for n := 0; ; n++ {
		if n%1024 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		switch err := in.Next(&e); {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
		g := keygroup.Of(e.Hash, b.groups.MaxParallelism)
		if g < b.groups.First || g > b.groups.Last {
			continue
		}
		t := tables[e.State]
		if t.key8 && keygroup.Hash(e.Key) != e.Hash {
			return fmt.Errorf("%w: state %s: the hash of an entry is not that of its key; restore from another checkpoint or savepoint",
				segment.ErrCorrupt, t.Name)
		}
		if e.Delete {
			t.Delete(e.Hash, e.Key, e.Namespace)
			continue
		}
		if !t.Namespaced {
			t.foresee(e.Hash)
		}
		t.Put(e.Hash, e.Key, e.Namespace, e.Value)
	}
}

// reader reads the segment's entries of these key groups. Those of others come too
// where r is nothing but a stream. After a rescale a subtask wants a part only: then
// the blocks of that part are read, by the index at the segment's end.
func (g Groups) reader(r io.Reader) (*segment.Reader, error) {
	in, err := segment.NewReader(r)
	if err != nil {
		return nil, err
	}
	h := &in.Header
	at, ok := r.(segment.ReaderAt)
	if !ok || h.MaxParallelism != g.MaxParallelism || h.FirstGroup >= g.First && h.LastGroup <= g.Last {
		return in, nil
	}
	f, err := segment.Open(at)
	if err != nil {
		return nil, err
	}
	return f.Groups(g.First, g.Last), nil
}
