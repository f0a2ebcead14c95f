package segment

import (
	"io"
	"math"
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
	if body[0] != indexBlock {
		return nil, corrupt(indexAt, "a block of kind %d in place of the index", body[0])
	}
	f := &File{Header: in.Header, Entries: count, r: r}
	if f.groups, err = parseIndex(body[blockHead:], indexAt, count); err != nil {
		return nil, err
	}
	return f, nil
}

// Groups reads the entries of the key groups from first to last, both included,
// in the file's order.
func (f *File) Groups(first, last int) *Reader {
	from, to := int64(math.MaxInt64), int64(0)
	want := uint64(0)
	for _, g := range f.groups {
		if g.group >= first && g.group <= last {
			from, to = min(from, int64(g.offset)), max(to, int64(g.offset+g.length))
			want += g.entries
		}
	}
	from = min(from, to)
	return &Reader{
		Header: f.Header, r: io.NewSectionReader(f.r, from, to-from), offset: from,
		last: -1, part: true, want: want,
	}
}
