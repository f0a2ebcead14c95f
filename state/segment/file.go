package segment

import (
	"io"
	"slices"
)

// File reads key groups out of a file that can be read at any offset.
type File struct {
	// Header is the file's.
	Header Header
	// Entries is the number of entries.
	Entries uint64

	r      io.ReaderAt
	groups []groupIndex
}

// ReaderAt is a file that can be read at any offset.
type ReaderAt interface {
	io.ReaderAt
	// Size is its length in bytes.
	Size() int64
}

// Open reads the header and the index. Errors: ErrCorrupt, ErrNewerFormat, and
// those of reading.
func Open(r ReaderAt) (*File, error) {
	size := r.Size()
	in, err := NewReader(io.NewSectionReader(r, 0, size))
	if err != nil {
		return nil, err
	}
	at := size - int64(trailerSize)
	if at < in.offset {
		return nil, corrupt(size, "the file is cut off")
	}
	trailer := make([]byte, trailerSize)
	if _, err := r.ReadAt(trailer, at); err != nil && err != io.EOF {
		return nil, err
	}
	indexAt, count, err := parseTrailer(trailer, at)
	if err != nil {
		return nil, err
	}
	if indexAt < in.offset || indexAt > at {
		return nil, corrupt(at, "the index is said to be at byte %d", indexAt)
	}
	// The index is a block, read as such.
	index := &Reader{Header: in.Header, r: io.NewSectionReader(r, indexAt, at-indexAt), offset: indexAt}
	body, err := index.raw()
	if err != nil {
		return nil, err
	}
	if body[0] != indexBlock || index.offset != at {
		return nil, corrupt(indexAt, "a block of kind %d, up to byte %d, in place of the index", body[0], index.offset)
	}
	f := &File{Header: in.Header, Entries: count, r: r}
	if f.groups, err = parseIndex(body[blockHead:], indexAt); err != nil {
		return nil, err
	}
	if err := f.check(in.offset, indexAt); err != nil {
		return nil, err
	}
	return f, nil
}

// check verifies that the groups of the index are the header's, that their blocks
// are all that lies between two offsets, and that they have all the entries.
func (f *File) check(from, to int64) error {
	sum, end := uint64(0), uint64(from)
	for _, g := range f.groups {
		if g.group < f.Header.FirstGroup || g.group > f.Header.LastGroup || g.offset != end {
			return corrupt(to, "the index of key group %d is out of range", g.group)
		}
		sum, end = sum+g.entries, g.offset+g.length
	}
	if sum != f.Entries || end != uint64(to) {
		return corrupt(to, "the index says %d entries up to byte %d, there are %d up to byte %d", sum, end, f.Entries, to)
	}
	return nil
}

// Groups reads the entries of the key groups from first to last, both included,
// in the file's order.
func (f *File) Groups(first, last int) *Reader {
	from, _ := slices.BinarySearchFunc(f.groups, first, byGroup)
	to, _ := slices.BinarySearchFunc(f.groups, last+1, byGroup)
	want := f.groups[from:max(from, to)]
	if len(want) == 0 {
		return &Reader{Header: f.Header, r: io.NewSectionReader(f.r, 0, 0), part: true}
	}
	start, end := int64(want[0].offset), want[len(want)-1]
	return &Reader{
		Header: f.Header, r: io.NewSectionReader(f.r, start, int64(end.offset+end.length)-start), offset: start,
		last: -1, part: true, want: want,
	}
}

func byGroup(g groupIndex, group int) int { return g.group - group }
