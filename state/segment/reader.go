package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
)

// Reader reads a file from its first byte to its last.
type Reader struct {
	// Header is the file's.
	Header Header

	r       io.Reader
	offset  int64 // of what r gives next
	blockAt int64
	block   bytes.Buffer
	left    []byte // payload of the block that was not read yet
	state   int
	group   int
	last    int // key group * number of states + state of the block before
	count   uint64
	ended   bool
	// seen is what the index must say of the blocks so far.
	seen []groupIndex
	// part is set while reading key groups of a File: there is no index to come,
	// but it said already what is seen.
	part bool
	want []groupIndex
}

// NewReader reads the header. Errors: ErrCorrupt, ErrNewerFormat, and those of
// reading.
func NewReader(r io.Reader) (*Reader, error) {
	in := &Reader{r: r, last: -1}
	return in, in.readHeader()
}

func (r *Reader) readHeader() error {
	if err := r.fill(uint64(fixedHeader)); err != nil {
		return err
	}
	b := r.block.Bytes()
	if string(b[:len(magic)]) != magic {
		return corrupt(0, "this is no segment")
	}
	if v := le.Uint32(b[len(magic):]); v > Version {
		return newer(v)
	} else if v == 0 {
		return corrupt(int64(len(magic)), "format version 0")
	}
	rest := uint64(le.Uint32(b[len(magic)+4:])) + 4
	if err := r.more(rest); err != nil {
		return err
	}
	b = r.block.Bytes()
	body := b[:len(b)-4]
	if crc32.Checksum(body, castagnoli) != le.Uint32(b[len(body):]) {
		return corrupt(0, "the header's checksum is wrong")
	}
	h, ok := parseHeader(body[fixedHeader:])
	if !ok {
		return corrupt(0, "the header is malformed")
	}
	if err := h.check(); err != nil {
		return corrupt(0, "%v", err)
	}
	r.Header = h
	r.block = bytes.Buffer{}
	return nil
}

func parseHeader(b []byte) (h Header, ok bool) {
	p := parser{b}
	h.MaxParallelism, h.FirstGroup, h.LastGroup = int(p.uint32()), int(p.uint32()), int(p.uint32())
	n := p.uint32()
	for range n {
		var s State
		s.Kind = p.byte()
		s.Namespaced = p.byte() == 1
		s.KeyWidth, s.ValueWidth = int(p.uint32()), int(p.uint32())
		s.Name, s.Schema = string(p.sized()), string(p.sized())
		if p.b == nil {
			return h, false
		}
		h.States = append(h.States, s)
	}
	return h, p.b != nil && len(p.b) == 0
}

// Next sets *e to the next entry; its slices are views, valid until the next
// call. It returns io.EOF after the last one, once the file's end was verified.
// Errors: ErrCorrupt, and those of reading.
func (r *Reader) Next(e *Entry) error {
	for len(r.left) == 0 {
		if r.ended {
			return io.EOF
		}
		if err := r.readBlock(); err != nil {
			return err
		}
	}
	s := &r.Header.States[r.state]
	p := parser{r.left}
	op := p.byte()
	*e = Entry{State: r.state, Delete: op == opDelete, Hash: p.uint64()}
	if s.Namespaced {
		e.Namespace = int64(p.uint64())
	}
	e.Key = p.field(s.KeyWidth)
	if !e.Delete {
		e.Value = p.field(s.ValueWidth)
	}
	if p.b == nil || op != opPut && op != opDelete {
		return corrupt(r.blockAt, "state %s: an entry is malformed", s.Name)
	}
	if e.group(&r.Header) != r.group {
		return corrupt(r.blockAt, "state %s: an entry is not of key group %d", s.Name, r.group)
	}
	r.left = p.b
	r.count++
	r.seen[len(r.seen)-1].entries++
	return nil
}

// raw reads a block and verifies its checksum; errNothing at the end of a part.
func (r *Reader) raw() (body []byte, err error) {
	r.blockAt = r.offset
	if err := r.fill(uint64(blockHead)); err != nil {
		return nil, err
	}
	if err := r.more(uint64(le.Uint32(r.block.Bytes()[blockHead-4:])) + 4); err != nil {
		return nil, err
	}
	b := r.block.Bytes()
	body = b[:len(b)-4]
	if crc32.Checksum(body, castagnoli) != le.Uint32(b[len(body):]) {
		return nil, corrupt(r.blockAt, "a block's checksum is wrong")
	}
	return body, nil
}

// readBlock reads a block of entries, or the end of the file.
func (r *Reader) readBlock() error {
	body, err := r.raw()
	if errors.Is(err, errNothing) {
		r.ended = true
		return r.compare(r.want)
	}
	if err != nil {
		return err
	}
	kind := body[0]
	if kind == indexBlock && !r.part {
		return r.readEnd(body[blockHead:])
	}
	group, state := uint64(le.Uint32(body[1:])), uint64(le.Uint32(body[5:]))
	if kind != entriesBlock || state >= uint64(len(r.Header.States)) ||
		group < uint64(r.Header.FirstGroup) || group > uint64(r.Header.LastGroup) {
		return corrupt(r.blockAt, "a block of kind %d for key group %d, state %d", kind, group, state)
	}
	r.group, r.state = int(group), int(state)
	order := r.group*len(r.Header.States) + r.state
	if order < r.last {
		return corrupt(r.blockAt, "key group %d, state %d are out of order", group, state)
	}
	r.last, r.left = order, body[blockHead:]
	if n := len(r.seen); n == 0 || r.seen[n-1].group != r.group {
		r.seen = append(r.seen, groupIndex{group: r.group, offset: uint64(r.blockAt)})
	}
	g := &r.seen[len(r.seen)-1]
	g.length = uint64(r.offset) - g.offset
	return nil
}

// compare verifies that the index says what was read.
func (r *Reader) compare(index []groupIndex) error {
	if !slices.Equal(index, r.seen) {
		return corrupt(r.blockAt, "the index of %d key groups does not say what is there, of %d", len(index), len(r.seen))
	}
	return nil
}

// readEnd verifies the index and the trailer.
func (r *Reader) readEnd(index []byte) error {
	at := r.blockAt
	groups, err := parseIndex(index, at)
	if err != nil {
		return err
	}
	if err := r.compare(groups); err != nil {
		return err
	}
	trailerAt := r.offset
	if err := r.fill(uint64(trailerSize)); err != nil {
		return err
	}
	indexAt, count, err := parseTrailer(r.block.Bytes(), trailerAt)
	if err != nil {
		return err
	}
	if indexAt != at || count != r.count {
		return corrupt(trailerAt, "%d entries were read, the file says %d", r.count, count)
	}
	if n, err := io.ReadFull(r.r, make([]byte, 1)); n != 0 || err != io.EOF {
		if err != nil {
			return err
		}
		return corrupt(r.offset, "the file goes on behind its end")
	}
	r.ended = true
	return nil
}

func parseTrailer(b []byte, at int64) (indexAt int64, count uint64, err error) {
	if string(b[20:]) != magic || crc32.Checksum(b[:16], castagnoli) != le.Uint32(b[16:]) {
		return 0, 0, corrupt(at, "the trailer is malformed, the file is cut off or damaged")
	}
	return int64(le.Uint64(b)), le.Uint64(b[8:]), nil
}

// parseIndex reads the index that stands at an offset.
func parseIndex(b []byte, at int64) ([]groupIndex, error) {
	if len(b)%indexEntry != 0 {
		return nil, corrupt(at, "an index of %d bytes", len(b))
	}
	var groups []groupIndex
	p := parser{b}
	for len(p.b) > 0 {
		g := groupIndex{group: int(p.uint32()), offset: p.uint64(), length: p.uint64(), entries: p.uint64()}
		if n := len(groups); n > 0 && groups[n-1].group >= g.group || g.offset > uint64(at) || g.length > uint64(at)-g.offset {
			return nil, corrupt(at, "the index of key group %d is out of range", g.group)
		}
		groups = append(groups, g)
	}
	return groups, nil
}

var errNothing = errors.New("nothing to read")

// fill makes the buffer the next n bytes of the file.
func (r *Reader) fill(n uint64) error {
	r.block.Reset()
	return r.more(n)
}

// more appends n bytes to the buffer. Memory grows with what is there, not with
// what a damaged length says.
func (r *Reader) more(n uint64) error {
	got, err := io.CopyN(&r.block, r.r, int64(n))
	r.offset += got
	if err == io.EOF {
		if r.part && got == 0 && uint64(r.block.Len()) == 0 {
			return errNothing
		}
		return corrupt(r.offset, "the file is cut off")
	}
	return err
}

func newer(version uint32) error {
	return fmt.Errorf("%w: version %d, this program reads up to %d; use the program that wrote it, or a newer one",
		ErrNewerFormat, version, Version)
}

// parser takes bytes from the front of b; after an error b is nil.
type parser struct{ b []byte }

func (p *parser) take(n uint64) []byte {
	if p.b == nil || n > uint64(len(p.b)) {
		p.b = nil
		return nil
	}
	b := p.b[:n:n]
	p.b = p.b[n:]
	return b
}

func (p *parser) byte() byte {
	if b := p.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (p *parser) uint32() uint32 {
	if b := p.take(4); b != nil {
		return le.Uint32(b)
	}
	return 0
}

func (p *parser) uint64() uint64 {
	if b := p.take(8); b != nil {
		return le.Uint64(b)
	}
	return 0
}

func (p *parser) sized() []byte {
	n, used := binary.Uvarint(p.b)
	if used <= 0 {
		p.b = nil
		return nil
	}
	p.b = p.b[used:]
	return p.take(n)
}

// field takes bytes of a fixed width, or preceded by their length if it is 0.
func (p *parser) field(width int) []byte {
	if width > 0 {
		return p.take(uint64(width))
	}
	return p.sized()
}
