package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
)

var le = binary.LittleEndian

// Writer writes a file from its first byte to its last. It keeps one block in
// memory.
type Writer struct {
	w      io.Writer
	header Header
	offset int64
	block  []byte // head and payload so far
	group  int
	state  int
	last   Entry // for the order
	some   bool  // last is set
	index  []groupIndex
	count  uint64
}

type groupIndex struct {
	group                   int
	offset, length, entries uint64
}

// NewWriter writes the header. It fails if the header is not valid, or if
// writing does.
func NewWriter(w io.Writer, h Header) (*Writer, error) {
	if err := h.check(); err != nil {
		return nil, err
	}
	out := &Writer{w: w, header: h}
	return out, out.emit(appendHeader(nil, &h))
}

func (h *Header) check() error {
	if h.MaxParallelism < 1 || h.FirstGroup < 0 || h.LastGroup < h.FirstGroup || h.LastGroup >= h.MaxParallelism {
		return fmt.Errorf("segment: key groups %d to %d of %d are no range", h.FirstGroup, h.LastGroup, h.MaxParallelism)
	}
	for i := range h.States {
		s := &h.States[i]
		if i > 0 && h.States[i-1].Name >= s.Name {
			return fmt.Errorf("segment: state %q is out of order", s.Name)
		}
		if s.KeyWidth < 0 || s.ValueWidth < 0 || s.KeyWidth > math.MaxInt32 || s.ValueWidth > math.MaxInt32 {
			return fmt.Errorf("segment: state %q has a width out of range", s.Name)
		}
	}
	return nil
}

func appendHeader(b []byte, h *Header) []byte {
	b = append(b, magic...)
	b = le.AppendUint32(b, Version)
	b = le.AppendUint32(b, 0) // length of the rest, set below
	from := len(b)
	b = le.AppendUint32(b, uint32(h.MaxParallelism))
	b = le.AppendUint32(b, uint32(h.FirstGroup))
	b = le.AppendUint32(b, uint32(h.LastGroup))
	b = le.AppendUint32(b, uint32(len(h.States)))
	for i := range h.States {
		s := &h.States[i]
		flags := byte(0)
		if s.Namespaced {
			flags = 1
		}
		b = append(b, s.Kind, flags)
		b = le.AppendUint32(b, uint32(s.KeyWidth))
		b = le.AppendUint32(b, uint32(s.ValueWidth))
		b = appendString(b, s.Name)
		b = appendString(b, s.Schema)
	}
	le.PutUint32(b[from-4:], uint32(len(b)-from))
	return le.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// Write appends one entry. It fails if the entry is out of order, of another
// width than its state declares, or in no key group of the header, or if writing
// does.
func (w *Writer) Write(e *Entry) error {
	if e.State < 0 || e.State >= len(w.header.States) {
		return fmt.Errorf("segment: entry of state %d of %d", e.State, len(w.header.States))
	}
	s, group := &w.header.States[e.State], e.group(&w.header)
	if group < w.header.FirstGroup || group > w.header.LastGroup {
		return fmt.Errorf("segment: state %s: an entry of key group %d, outside %d to %d",
			s.Name, group, w.header.FirstGroup, w.header.LastGroup)
	}
	if s.KeyWidth > 0 && len(e.Key) != s.KeyWidth || !e.Delete && s.ValueWidth > 0 && len(e.Value) != s.ValueWidth {
		return fmt.Errorf("segment: state %s: an entry of %d and %d bytes, declared %d and %d",
			s.Name, len(e.Key), len(e.Value), s.KeyWidth, s.ValueWidth)
	}
	if w.some {
		if c := w.compare(s, group, e); c >= 0 {
			return fmt.Errorf("segment: state %s: an entry of key group %d is out of order", s.Name, group)
		}
	}
	if len(w.block) >= blockSize || w.some && (group != w.group || e.State != w.state) {
		if err := w.flush(); err != nil {
			return err
		}
	}
	if len(w.block) == 0 {
		w.group, w.state = group, e.State
		w.block = append(w.block, entriesBlock)
		w.block = le.AppendUint32(w.block, uint32(group))
		w.block = le.AppendUint32(w.block, uint32(e.State))
		w.block = le.AppendUint32(w.block, 0)
	}
	w.block = appendEntry(w.block, s, e)
	w.count++
	if n := len(w.index); n == 0 || w.index[n-1].group != group {
		w.index = append(w.index, groupIndex{group: group, offset: uint64(w.offset)})
	}
	w.index[len(w.index)-1].entries++
	w.last.Hash, w.last.Namespace, w.some = e.Hash, e.Namespace, true
	w.last.Key = append(w.last.Key[:0], e.Key...)
	return nil
}

// compare orders the last entry and e.
func (w *Writer) compare(s *State, group int, e *Entry) int {
	switch {
	case group != w.group:
		return w.group - group
	case e.State != w.state:
		return w.state - e.State
	}
	return compareWithin(s, &w.last, e)
}

func appendEntry(b []byte, s *State, e *Entry) []byte {
	op := byte(opPut)
	if e.Delete {
		op = opDelete
	}
	b = append(b, op)
	b = le.AppendUint64(b, e.Hash)
	if s.Namespaced {
		b = le.AppendUint64(b, uint64(e.Namespace))
	}
	if s.KeyWidth == 0 {
		b = binary.AppendUvarint(b, uint64(len(e.Key)))
	}
	b = append(b, e.Key...)
	if e.Delete {
		return b
	}
	if s.ValueWidth == 0 {
		b = binary.AppendUvarint(b, uint64(len(e.Value)))
	}
	return append(b, e.Value...)
}

// flush closes the block.
func (w *Writer) flush() error {
	if len(w.block) == 0 {
		return nil
	}
	payload := len(w.block) - blockHead
	if payload > math.MaxUint32-blockSize {
		return errors.New("segment: an entry of 4 GiB or more; use a map state, whose entries are stored one by one")
	}
	le.PutUint32(w.block[blockHead-4:], uint32(payload))
	w.block = le.AppendUint32(w.block, crc32.Checksum(w.block, castagnoli))
	err := w.emit(w.block)
	w.block = w.block[:0]
	i := &w.index[len(w.index)-1]
	i.length = uint64(w.offset) - i.offset
	return err
}

func (w *Writer) emit(b []byte) error {
	n, err := w.w.Write(b)
	w.offset += int64(n)
	return err
}

// Close writes the index and the trailer and returns the number of entries. It
// does not close the io.Writer.
func (w *Writer) Close() (entries uint64, err error) {
	if err := w.flush(); err != nil {
		return 0, err
	}
	at := w.offset
	b := append(w.block, indexBlock)
	b = le.AppendUint32(b, 0)
	b = le.AppendUint32(b, 0)
	b = le.AppendUint32(b, uint32(len(w.index)*indexEntry))
	for _, i := range w.index {
		b = le.AppendUint32(b, uint32(i.group))
		b = le.AppendUint64(b, i.offset)
		b = le.AppendUint64(b, i.length)
		b = le.AppendUint64(b, i.entries)
	}
	b = le.AppendUint32(b, crc32.Checksum(b, castagnoli))
	trailer := len(b)
	b = le.AppendUint64(b, uint64(at))
	b = le.AppendUint64(b, w.count)
	b = le.AppendUint32(b, crc32.Checksum(b[trailer:], castagnoli))
	b = append(b, magic...)
	return w.count, w.emit(b)
}
